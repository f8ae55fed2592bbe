"""Amounts of resources: of containers, LimitRanges and ResourceQuotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from api.admission.causes import duplicate, forbidden, invalid, required
from api.admission.kubernetes.language import (
    Check,
    Object,
    amount,
    at,
    every,
    subset_of,
)
from api.engine.status import Cause
from fleet.values.names import qualified_name_problems
from fleet.values.quantity import BadQuantity, canonical, nanos

_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTS = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_OF_QUOTAS = (
    _COUNTS
    | {f"{side}{name}" for side in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")}
    | {"requests.storage"}
)
_STANDARD = _OF_QUOTAS | {"storage"}
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_HUGE = "hugepages-"
_OWN_DOMAIN = "kubernetes.io/"


def _native(name: str) -> bool:
    return "/" not in name or _OWN_DOMAIN in name


def extended(name: str) -> bool:
    """Whether the resource is none of Kubernetes' own, such as nvidia.com/gpu: counted in whole units."""
    return not _native(name) and not name.startswith("requests.") and not qualified_name_problems(f"requests.{name}")


def _overcommitted(name: str) -> bool:
    """Whether requests of the resource may be less than its limits."""
    return _native(name) and not name.startswith(_HUGE)


def _name_problems(name: str) -> list[str]:
    problems = list(qualified_name_problems(name))
    if not problems and "/" not in name and not (name in _STANDARD or name.startswith((_HUGE, f"requests.{_HUGE}"))):
        problems.append("must be a standard resource type or fully qualified")
    return problems


def _of_container(name: str) -> list[str]:
    problems = _name_problems(name)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not name.startswith(_HUGE):
            problems.append("must be a standard resource for containers")
    elif not _native(name) and not extended(name):
        problems.append("doesn't follow extended resource name standard")
    return problems


def _of_quota(name: str) -> list[str]:
    problems = _name_problems(name)
    if "/" not in name and name not in _OF_QUOTAS and not name.startswith((_HUGE, f"requests.{_HUGE}")):
        problems.append("must be a standard resource for quota")
    return problems


def _amounts(given: Object, path: str, names: Callable[[str], list[str]]) -> Iterator[Cause]:
    for name, value in given.items():
        here = f"{path}[{name}]"
        yield from (invalid(here, name, why) for why in names(name))
        yield from amount(value, here, whole=name in _COUNTS or extended(name))


def container_resources(resources: Object, path: str) -> Iterator[Cause]:
    """The limits and the requests of a container, and how they go together."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not limits and not requests:
        return
    yield from _amounts(limits, f"{path}.limits", _of_container)
    yield from _amounts(requests, f"{path}.requests", _of_container)
    for name, value in requests.items():
        if name not in limits:
            if not _overcommitted(name):
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        try:
            need, most = nanos(value), nanos(limits[name])
        except BadQuantity:
            continue  # named above
        limit = f"{name} limit of {canonical(limits[name], milli=True)}"
        if need != most and not _overcommitted(name):
            yield invalid(f"{path}.requests", canonical(value, milli=True), f"must be equal to {limit}")
        elif need > most:
            yield invalid(f"{path}.requests", canonical(value, milli=True), f"must be less than or equal to {limit}")
    named = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")


def _greater(low: object, high: object) -> bool:
    try:
        return nanos(low) > nanos(high)
    except BadQuantity:
        return False


_PAIRS = (
    # the lower, the upper, the field at fault, the field whose value is shown, the text
    ("min", "max", "min", "min", "min value {0} is greater than max value {1}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {0} is greater than default request value {1}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {0} is greater than max value {1}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {0} is greater than default limit value {1}",
    ),
    ("min", "default", "default", "min", "min value {0} is greater than default value {1}"),
    ("default", "max", "default", "max", "default value {0} is greater than max value {1}"),
)


def _limit(item: Object, path: str) -> Iterator[Cause]:
    names = _of_container if item.get("type") in ("Pod", "Container") else _name_problems
    kind = item.get("type") or ""
    if kind not in _LIMIT_TYPES and not ("/" in kind and not qualified_name_problems(kind)):
        problems = qualified_name_problems(kind) or ("must be a standard limit type or fully qualified",)
        yield from (invalid(f"{path}.type", kind, why) for why in problems)
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        for name in item.get(field) or {}:
            yield from (invalid(f"{path}.{field}[{name}]", name, why) for why in names(name))
    if kind == "Pod":
        for field in ("default", "defaultRequest"):
            if item.get(field):
                yield forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
        return
    for low, high, fault, shown, text in _PAIRS:
        lows, highs = item.get(low) or {}, item.get(high) or {}
        for name in lows.keys() & highs.keys():
            if _greater(lows[name], highs[name]):
                yield invalid(f"{path}.{fault}[{name}]", item[shown][name], text.format(lows[name], highs[name]))


def _types_once(spec: Object, path: str) -> Iterator[Cause]:
    seen: set[object] = set()
    for index, item in enumerate(spec.get("limits") or ()):
        if item.get("type") in seen:
            yield duplicate(f"{path}.limits[{index}].type", item.get("type"))
        seen.add(item.get("type"))


LIMIT_RANGE: Check = at("spec", at("limits[]", _limit), _types_once)
RESOURCE_QUOTA: Check = at(
    "spec",
    lambda spec, path: _amounts(spec.get("hard") or {}, f"{path}.hard", _of_quota),
    every(
        subset_of(
            "scopes",
            "BestEffort",
            "CrossNamespacePodAffinity",
            "NotBestEffort",
            "NotTerminating",
            "PriorityClass",
            "Terminating",
            "VolumeAttributesClass",
        )
    ),
)
