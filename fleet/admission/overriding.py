"""The fields that an override policy may touch. Asked when a policy is written, and again when it is applied.

No policy changes the identity of an object: its kind, its name, its namespace, the hub's marks. A tenant's policy (an
OverridePolicy, which every user may write who may write jobs) touches what differs between clusters for honest reasons,
and that list is short: images, commands, arguments, environments, tolerations, node selectors, and labels and
annotations that are not reserved. Everything else is for a ClusterOverridePolicy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleet.values.untyped import digits
from fleet.wellknown.marks import fixed_for_tenants, problem, reserved

OLDER_FORM = ("targetCluster", "overriders")
_MAPS = ("labels", "annotations")
_OF_CONTAINERS = ("image", "command", "args", "env")
_OF_PODS = ("tolerations", "nodeSelector")
_IDENTITY = "it would make another object of it; nobody's override may"
_RESERVED = "the key is reserved"
_NOT_A_TENANTS = (
    "an OverridePolicy may change images, commands, arguments, env, tolerations, node selectors, labels and"
    " annotations; everything else is for a ClusterOverridePolicy"
)


def rules_of(spec: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The rules of an override policy, each with its place. The older form of Karmada, `overriders` and `targetCluster`
    at the top of the spec, is one rule; as in Karmada it counts only without `overrideRules`."""
    rules = spec.get("overrideRules")
    if not rules and spec.get("overriders"):
        return [("spec", {name: spec[name] for name in OLDER_FORM if name in spec})]
    return [(f"spec.overrideRules[{index}]", rule) for index, rule in enumerate(rules or ())]


def wrong_overriders(overriders: Mapping[str, Any], *, tenant: bool) -> Iterator[tuple[str, str]]:
    """Each field below `overriders` that this policy may not use, and why."""
    for index, entry in _entries(overriders, "plaintext"):
        why = _wrong_path(pointer(entry.get("path")), entry.get("value"), tenant=tenant)
        if why:
            yield f"plaintext[{index}].path", why
    for index, entry in _entries(overriders, "imageOverrider"):
        path = (entry.get("predicate") or {}).get("path")
        if path and (pointer(path)[-1:] != ("image",) or (tenant and not _in_a_template(pointer(path)))):
            yield f"imageOverrider[{index}].predicate.path", "must be the path of a container's image"
    for index, entry in _entries(overriders, "fieldOverrider"):
        # The document in a text is the text: whoever may change the one may change the other.
        why = _wrong_path(pointer(entry.get("fieldPath")), None, tenant=tenant)
        if why:
            yield f"fieldOverrider[{index}].fieldPath", why
    for name in _MAPS:
        for index, entry in _entries(overriders, f"{name}Overrider"):
            for key in _keys(entry.get("value")):
                if _fixed(key, tenant=tenant):
                    yield f"{name}Overrider[{index}].value[{key}]", _RESERVED


def pointer(path: object) -> tuple[str, ...]:
    """The parts of a JSON pointer."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in str(path or "").split("/")[1:])


def _wrong_path(parts: Sequence[str], value: object, *, tenant: bool) -> str:
    if not parts or parts == ("metadata",) or parts[0] in ("apiVersion", "kind", "status"):
        return _IDENTITY
    if parts[0] == "metadata" and parts[1] not in _MAPS:
        return _IDENTITY
    if parts[0] == "metadata":
        return _wrong_keys(parts[2:], value, tenant=tenant)
    if not tenant:
        return ""
    return "" if _in_a_template(parts, value) else _NOT_A_TENANTS


def _in_a_template(parts: Sequence[str], value: object = None) -> bool:
    """Whether the path lies where a tenant may change a pod template."""
    if parts[:1] != ("spec",) or "template" not in parts:
        return False
    rest = parts[parts.index("template") + 1 :]
    match rest:
        case ("metadata", name, *keys) if name in _MAPS:
            return not _wrong_keys(keys, value, tenant=True)
        case ("spec", name, *_) if name in _OF_PODS:
            return True
        case ("spec", "containers" | "initContainers", number, name, *_):
            return digits(number) is not None and name in _OF_CONTAINERS
    return False


def _wrong_keys(keys: Sequence[str], value: object, *, tenant: bool) -> str:
    """Of a path below labels or annotations; with no key left, `value` is the whole map."""
    named = keys[:1] or _keys(value)
    return _RESERVED if any(_fixed(key, tenant=tenant) for key in named) else ""


def _fixed(key: str, *, tenant: bool) -> bool:
    return fixed_for_tenants(key) if tenant else reserved(key) and bool(problem(key))


def _keys(value: object) -> list[str]:
    return [str(key) for key in value] if isinstance(value, dict) else []


def _entries(overriders: Mapping[str, Any], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """A stored policy may be older than the schema: an entry of another type is passed over here, and does nothing."""
    listed = overriders.get(name)
    for index, entry in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(entry, dict):
            yield index, entry
