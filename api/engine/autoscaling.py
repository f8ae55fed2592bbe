"""HorizontalPodAutoscalers in autoscaling/v1 and v2: the one built-in kind whose two versions have other fields.

v1 knows a target of CPU alone. What v2 says beyond it stands in annotations of the v1 form, in the words of a
kube-apiserver: metrics and their states under the names of v1, and the behaviour under the names of Go's own type.
Source: k8s.io/kubernetes v1.36.3, pkg/apis/autoscaling/v1/conversion.go.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import orjson

from api.engine.filling import fill
from api.engine.kind import Body
from fleet.values.untyped import mapping, rows, text

V1, V2 = "autoscaling/v1", "autoscaling/v2"
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
_CPU_TARGET = {"type": "Utilization", "averageUtilization": 80}
_CPU_METRIC = [{"type": "Resource", "resource": {"name": "cpu", "target": _CPU_TARGET}}]
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _STATES, _CONDITIONS = f"{_PREFIX}metrics", f"{_PREFIX}current-metrics", f"{_PREFIX}conditions"
_BEHAVIOR = f"{_PREFIX}behavior"
_ANNOTATIONS = (
    _METRICS,
    _STATES,
    _CONDITIONS,
    _BEHAVIOR,
    f"{_PREFIX}scale-down-tolerance",
    f"{_PREFIX}scale-up-tolerance",
)
_FIELDS = {
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "External": "external",
}
_Path = tuple[str, ...]
_METRIC, _SELECTOR = ("metric", "name"), ("metric", "selector")
_TARGET = {name: ("target", name) for name in ("value", "averageValue", "averageUtilization")}
_CURRENT = {name: ("current", name) for name in ("value", "averageValue", "averageUtilization")}


def _forms(at: Mapping[str, _Path], amount: str) -> dict[str, tuple[tuple[str, _Path, Any], ...]]:
    """By type of a metric: the name of each field in v1, its path in v2, and the value that v1 has without one (None:
    no field). `amount`: "target" or "current", before the names of amounts in v1."""
    average, utilization = f"{amount}AverageValue", f"{amount}AverageUtilization"
    of_resource = (utilization, at["averageUtilization"], None)
    whole = None if amount == "target" else "0"
    return {
        "Object": (
            ("target", ("describedObject",), None),
            ("metricName", _METRIC, None),
            (f"{amount}Value", at["value"], "0"),
            ("selector", _SELECTOR, None),
            ("averageValue", at["averageValue"], None),
        ),
        "Pods": (("metricName", _METRIC, None), (average, at["averageValue"], "0"), ("selector", _SELECTOR, None)),
        "Resource": (("name", ("name",), None), of_resource, (average, at["averageValue"], whole)),
        "ContainerResource": (
            ("name", ("name",), None),
            of_resource,
            (average, at["averageValue"], whole),
            ("container", ("container",), None),
        ),
        "External": (
            ("metricName", _METRIC, None),
            ("metricSelector", _SELECTOR, None),
            (f"{amount}Value", at["value"], whole),
            (average, at["averageValue"], None),
        ),
    }


_SPEC, _STATUS = _forms(_TARGET, "target"), _forms(_CURRENT, "current")


def complete(spec: Body) -> None:
    """The defaults of v2, in place."""
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        spec["metrics"] = copy.deepcopy(_CPU_METRIC)
    behavior = spec.get("behavior")
    if behavior.__class__ is dict:
        fill("scaleUp+", _UP)(behavior)
        fill("scaleDown+", _DOWN)(behavior)


def converted(version: str, body: Body) -> Body:
    """The body in this version; the caller gives `body` away."""
    if body["apiVersion"] != version:
        (_to_v1 if version == V1 else _to_v2)(body)
        body["apiVersion"] = version
    return body


def _to_v1(body: Body) -> None:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    notes = _without_notes(body)
    metrics = rows(spec.pop("metrics", None))
    cpu = [metric for metric in metrics if _of_cpu(metric)]
    if cpu:
        spec["targetCPUUtilizationPercentage"] = cpu[0]["resource"]["target"]["averageUtilization"]
    others = [_named(metric, _SPEC) for metric in metrics if metric not in cpu]
    if others:
        notes[_METRICS] = _text(others)
    states = rows(status.pop("currentMetrics", None))
    for state in states:
        resource = mapping(state.get("resource"))
        used = mapping(resource.get("current")).get("averageUtilization")
        if state.get("type") == "Resource" and resource.get("name") == "cpu" and used is not None:
            status["currentCPUUtilizationPercentage"] = used
    if states:
        notes[_STATES] = _text([_named(state, _STATUS) for state in states])
    behavior = spec.pop("behavior", None)
    if behavior is not None:
        notes[_BEHAVIOR] = _text(_of_go(behavior))
    conditions = rows(status.pop("conditions", None))
    if conditions:
        notes[_CONDITIONS] = _text(conditions)
    if "status" in body:
        status.setdefault("currentReplicas", 0)
        body["status"] = status
    if notes:
        body["metadata"]["annotations"] = notes


def _to_v2(body: Body) -> None:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    notes = mapping(body["metadata"].get("annotations"))
    other_annotations = _without_notes(body)
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [_unnamed(metric, _SPEC) for metric in _read(notes.get(_METRICS))]
    if percentage is not None:
        target = {"type": "Utilization", "averageUtilization": percentage}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    spec["metrics"] = metrics
    behavior = _of_json(_parsed(notes.get(_BEHAVIOR)))
    if behavior:
        spec["behavior"] = behavior
    complete(spec)
    used = status.pop("currentCPUUtilizationPercentage", None)
    states = [_unnamed(state, _STATUS) for state in _read(notes.get(_STATES))]
    if not states and used is not None:
        states = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}]
    conditions = _read(notes.get(_CONDITIONS))
    for name, value in (("currentMetrics", states), ("conditions", conditions)):
        if value:
            status[name] = value
    if status.get("currentReplicas") == 0:
        del status["currentReplicas"]
    body["spec"] = spec
    if "status" in body:
        body["status"] = status
    if other_annotations:
        body["metadata"]["annotations"] = other_annotations


def _of_cpu(metric: Body) -> bool:
    resource = mapping(metric.get("resource"))
    used = mapping(resource.get("target")).get("averageUtilization")
    return metric.get("type") == "Resource" and resource.get("name") == "cpu" and used is not None


def _without_notes(body: Body) -> Body:
    """Take the annotations of the body away; those that are no notes of a conversion are given back."""
    given = mapping(body["metadata"].pop("annotations", None))
    return {name: value for name, value in given.items() if name not in _ANNOTATIONS}


def _named(metric: Body, forms: Mapping[str, tuple[tuple[str, _Path, Any], ...]]) -> Body:
    """A metric of v2, or its state, as v1 writes it."""
    kind = text(metric.get("type"))
    given, result = mapping(metric.get(_FIELDS.get(kind, ""))), {}
    for name, path, otherwise in forms.get(kind, ()):
        value: Any = given
        for step in path:
            value = mapping(value).get(step)
        if value is not None or otherwise is not None:
            result[name] = otherwise if value is None else value
    return {"type": kind, _FIELDS[kind]: result} if kind in _FIELDS else {"type": kind}


def _unnamed(metric: Body, forms: Mapping[str, tuple[tuple[str, _Path, Any], ...]]) -> Body:
    """The other way round. A target gets the type that its amounts imply."""
    kind = text(metric.get("type"))
    if kind not in _FIELDS:
        return {"type": kind}
    given = mapping(metric.get(_FIELDS[kind]))
    result: Body = {}
    for name, path, otherwise in forms[kind]:
        value = given.get(name, otherwise)
        if value is None:
            continue
        inside = result
        for step in path[:-1]:
            inside = inside.setdefault(step, {})
        inside[path[-1]] = value
    if forms is _SPEC:
        target = result.setdefault("target", {})
        if kind == "Object" and "averageValue" in target:
            target.pop("value", None)
        result["target"] = {"type": _type_of(kind, target), **target}
    return {"type": kind, _FIELDS[kind]: result}


def _type_of(kind: str, target: Body) -> str:
    if "averageUtilization" in target:
        return "Utilization"
    if kind == "Object":
        return "AverageValue" if "averageValue" in target else "Value"
    return "Value" if kind == "External" and "value" in target else "AverageValue"


def _of_go(value: Any) -> Any:
    """Go writes a type without names for JSON under the names of its fields, and fields that are not set as null."""
    return {
        name: None
        if part is None
        else {
            "StabilizationWindowSeconds": part.get("stabilizationWindowSeconds"),
            "SelectPolicy": part.get("selectPolicy"),
            "Policies": [
                {"Type": one.get("type"), "Value": one.get("value"), "PeriodSeconds": one.get("periodSeconds")}
                for one in rows(part.get("policies"))
            ]
            or None,
            "Tolerance": part.get("tolerance"),
        }
        for name, part in (("ScaleUp", value.get("scaleUp")), ("ScaleDown", value.get("scaleDown")))
    }


def _of_json(value: Any) -> Any:
    """The other way round."""
    if isinstance(value, list):
        return [_of_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name[:1].lower() + name[1:]: _of_json(one) for name, one in value.items() if one is not None}


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _parsed(said: Any) -> Any:
    try:
        return orjson.loads(text(said)) if said else None
    except orjson.JSONDecodeError:
        return None


def _read(said: Any) -> list[Body]:
    return rows(_parsed(said))
