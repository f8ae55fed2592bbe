"""Volumes, claims, classes, budgets, autoscalers, accounts and what else Kubernetes checks."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from api.admission.causes import forbidden, invalid, required, unsupported
from api.admission.kubernetes.language import (
    Check,
    Object,
    amount,
    at,
    at_most_all,
    every,
    immutable,
    label,
    needed,
    number_or_percent,
    of_spec,
    one_of,
    selector_at,
    subdomain,
)
from api.admission.kubernetes.pods import POD, POD_TEMPLATE, volume_sources
from api.admission.kubernetes.resources import LIMIT_RANGE, RESOURCE_QUOTA
from api.engine import autoscaling
from api.engine.status import Cause
from fleet.values.quantity import BadQuantity, nanos

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM = ("Delete", "Recycle", "Retain")
_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS = ("Utilization", "Value", "AverageValue")
# What a claim may change once it is stored.
_CLAIM_FIELDS = frozenset({"resources", "volumeName", "volumeAttributesClassName"})


def _access_modes(spec: Object, path: str, why: str = "") -> Iterator[Cause]:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{path}.accessModes", why)
    for mode in modes:
        if mode not in _MODES:
            yield unsupported(f"{path}.accessModes", mode, _MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        yield forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")


def _more_than_none(value: object, path: str) -> Iterator[Cause]:
    try:
        if nanos(value) <= 0:
            yield invalid(path, value, "must be greater than zero")
    except BadQuantity:
        yield from amount(value, path)


def _claim(spec: Object, path: str) -> Iterator[Cause]:
    yield from _access_modes(spec, path, "at least 1 access mode is required")
    yield from selector_at(spec.get("selector"), f"{path}.selector")
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield required(f"{path}.resources[storage]")
    else:
        yield from _more_than_none(requests["storage"], f"{path}.resources[storage]")


_CLAIM = every(_claim, subdomain("storageClassName"), one_of("volumeMode", "Block", "Filesystem", needed=False))


def _volume(spec: Object, path: str) -> Iterator[Cause]:
    yield from _access_modes(spec, path)
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield required(f"{path}.capacity")
    if set(capacity) != {"storage"}:
        yield unsupported(f"{path}.capacity", spec.get("capacity"), ("storage",))
    for name, value in capacity.items():
        yield from _more_than_none(value, f"{path}.capacity[{name}]")
    yield from volume_sources(spec, path)
    if spec.get("local") is not None and spec.get("nodeAffinity") is None:
        yield required(f"{path}.nodeAffinity", "Local volume requires node affinity")


_VOLUME = every(
    _volume,
    one_of("persistentVolumeReclaimPolicy", *_RECLAIM, needed=False),
    subdomain("storageClassName"),
    one_of("volumeMode", "Block", "Filesystem", needed=False),
)


def _budget(spec: Object, path: str) -> Iterator[Cause]:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid(path, spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from number_or_percent(spec.get(field), f"{path}.{field}")
        yield from at_most_all(spec.get(field), f"{path}.{field}")
    yield from selector_at(spec.get("selector"), f"{path}.selector")


def _autoscaler(spec: Object, path: str) -> Iterator[Cause]:
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if low is not None and low < 1:
        yield invalid(f"{path}.minReplicas", low, "must be greater than or equal to 1")
    if high == 0:
        yield required(f"{path}.maxReplicas", "must be set and greater than 0")
    elif high < 0:
        yield invalid(f"{path}.maxReplicas", high, "must be greater than or equal to 1")
    if low is not None and high < low:
        yield invalid(f"{path}.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    yield from needed("kind", "name")(target, f"{path}.scaleTargetRef")
    version = target.get("apiVersion") or ""
    if "/" not in version and (version, target.get("kind")) != ("v1", "ReplicationController"):
        yield invalid(f"{path}.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")
    types = {metric.get("type") for metric in spec.get("metrics") or ()}
    if low == 0 and not types & {"Object", "External"}:
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden(f"{path}.metrics", why)
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(metric, f"{path}.metrics[{index}]")


def _autoscaler_of(body: Object, path: str) -> Iterator[Cause]:
    """Kubernetes checks v1 in the form of v2, and names the fields of that."""
    if body.get("apiVersion") == autoscaling.V1:
        body = autoscaling.converted(autoscaling.V2, copy.deepcopy(dict(body)))
    yield from of_spec(_autoscaler)(body, path)


def _metric(metric: Object, path: str) -> Iterator[Cause]:
    kind = metric.get("type") or ""
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _METRICS:
        yield unsupported(f"{path}.type", kind, sorted(_METRICS))
    expected = _METRICS.get(kind, "")
    if expected and metric.get(expected) is None:
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    given = [name for name in _METRICS.values() if metric.get(name) is not None]
    if len(given) != 1:
        yield from (
            forbidden(f"{path}.{name}", "must populate the given metric source only")
            for name in given
            if name != expected
        )
    if expected == "resource" and metric.get("resource") is not None:
        yield from _resource_metric(metric["resource"], f"{path}.resource")


def _resource_metric(source: Object, path: str) -> Iterator[Cause]:
    target = source.get("target") or {}
    if not source.get("name"):
        yield required(f"{path}.name", "must specify a resource name")
    if not target.get("type"):
        yield required(f"{path}.target.type", "must specify a metric target type")
    if target.get("type") not in _TARGETS:
        why = "must be either Utilization, Value, or AverageValue"
        yield invalid(f"{path}.target.type", target.get("type") or "", why)
    used, value = target.get("averageUtilization"), target.get("averageValue")
    if used is not None and used < 1:
        yield invalid(f"{path}.target.averageUtilization", used, "must be greater than 0")
    if used is None and value is None:
        why = "must set either a target raw value or a target utilization"
        yield required(f"{path}.target.averageUtilization", why)
    if used is not None and value is not None:
        why = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.target.averageValue", why)


def _storage_class(body: Object, path: str) -> Iterator[Cause]:
    if not body.get("provisioner"):
        yield required("provisioner")
    yield from one_of("reclaimPolicy", "Delete", "Retain")(body, "")
    yield from one_of("volumeBindingMode", "Immediate", "WaitForFirstConsumer")(body, "")


CHECKS: dict[tuple[str, str], Check] = {
    ("", "pods"): POD,
    ("", "podtemplates"): POD_TEMPLATE,
    ("", "limitranges"): LIMIT_RANGE,
    ("", "resourcequotas"): RESOURCE_QUOTA,
    ("", "persistentvolumeclaims"): of_spec(_CLAIM),
    ("", "persistentvolumes"): of_spec(_VOLUME),
    ("policy", "poddisruptionbudgets"): at("spec", _budget),
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler_of,
    ("storage.k8s.io", "storageclasses"): _storage_class,
    ("node.k8s.io", "runtimeclasses"): every(needed("handler"), label("handler")),
}


# -- updates


def class_stays(new: Object, old: Object) -> Iterator[Cause]:
    return immutable(new, old, "", "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def claim_stays(new: Object, old: Object) -> Iterator[Cause]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if any(spec.get(key) != before.get(key) for key in (spec.keys() | before.keys()) - _CLAIM_FIELDS):
        why = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", why)


def handler_stays(new: Object, old: Object) -> Iterator[Cause]:
    return immutable(new, old, "", "handler")
