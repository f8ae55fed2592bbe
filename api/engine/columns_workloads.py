"""Workloads, budgets and autoscalers as kubectl shows them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from api.engine.autoscaling import V1, V2, converted
from fleet.values.durations import age
from fleet.values.untyped import at, mapping, rows

Body = dict[str, Any]
NONE = "<none>"
_SHOWN_METRICS = 2
_UNKNOWN = "<unknown>"
_METRIC_FIELDS = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}


def labels_text(labels: Any) -> str:
    """A map of labels, or of a node selector."""
    return ",".join(f"{key}={value}" for key, value in sorted(mapping(labels).items())) or NONE


def selector_text(selector: Any) -> str:
    """A label selector with matchLabels and matchExpressions."""
    found = mapping(selector)
    terms = [(key, f"{key}={value}") for key, value in mapping(found.get("matchLabels")).items()]
    for term in rows(found.get("matchExpressions")):
        key, values = str(term.get("key")), f"({','.join(sorted(term.get('values') or []))})"
        words = {"In": f"{key} in {values}", "NotIn": f"{key} notin {values}", "Exists": key, "DoesNotExist": f"!{key}"}
        terms.append((key, words.get(str(term.get("operator")), "<error>")))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or NONE


def selector(body: Body, now: float) -> str:
    """`spec.selector`: of labels alone in Services and ReplicationControllers."""
    found = at(body, "spec", "selector")
    if (body.get("apiVersion"), body.get("kind")) in (("v1", "Service"), ("v1", "ReplicationController")):
        return labels_text(found)
    return selector_text(found)


def _containers(*path: str) -> Callable[[str], Callable[[Body, float], str]]:
    """A field of all containers of the pod template at `path`."""

    def of(field: str) -> Callable[[Body, float], str]:
        def values(body: Body, now: float) -> str:
            return ",".join(str(c.get(field) or "") for c in rows(at(body, *path, "spec", "containers")))

        return values

    return of


def revision_controller(body: Body, now: float) -> str:
    for owner in rows(at(body, "metadata", "ownerReferences")):
        if owner.get("controller"):
            group = str(owner["apiVersion"]).rpartition("/")[0]
            return f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"
    return NONE


def cronjob_suspend(body: Body, now: float) -> str:
    return {True: "True", False: "False"}.get(at(body, "spec", "suspend"), "<unset>")


def cronjob_last_schedule(body: Body, now: float) -> str:
    last = at(body, "status", "lastScheduleTime")
    return age(last, now) if last else NONE


def hpa_reference(body: Body, now: float) -> str:
    target = mapping(at(body, "spec", "scaleTargetRef"))
    return f"{target.get('kind') or ''}/{target.get('name') or ''}"


def hpa_targets(body: Body, now: float) -> str:
    if body.get("apiVersion") == V1:
        body = converted(V2, copy.deepcopy(body))
    metrics, current = rows(at(body, "spec", "metrics")), rows(at(body, "status", "currentMetrics"))
    shown = [
        _metric(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(metrics[:_SHOWN_METRICS])
    ]
    more = len(metrics) - _SHOWN_METRICS
    return ", ".join(shown) + (f" + {more} more..." if more > 0 else "") if metrics else NONE


def _metric(metric: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    type_ = str(metric.get("type"))
    field = _METRIC_FIELDS.get(type_)
    if field is None:
        return "<unknown type>"
    target, now = mapping(at(metric, field, "target")), mapping(at(current, field, "current"))
    if type_ in ("Resource", "ContainerResource"):
        name = at(metric, field, "name")
        if "averageValue" in target:
            return f"{name}: {now.get('averageValue', _UNKNOWN)}/{target['averageValue']}"
        used, wanted = now.get("averageUtilization"), target.get("averageUtilization")
        share = _UNKNOWN if used is None else f"{used}%"
        return f"{name}: {share}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if type_ == "Pods":
        return f"{now.get('averageValue', _UNKNOWN)}/{target.get('averageValue')}"
    if "averageValue" in target:
        return f"{now.get('averageValue', _UNKNOWN)}/{target['averageValue']} (avg)"
    return f"{now.get('value', _UNKNOWN)}/{target.get('value')}"


_TEMPLATE = _containers("template")
_JOB = _containers("spec", "template")
_CRON_JOB = _containers("spec", "jobTemplate", "spec", "template")

WORKLOADS: dict[str, Callable[[Body, float], Any]] = {
    "selector": selector,
    "job_containers": _JOB("name"),
    "job_images": _JOB("image"),
    "template_containers": _TEMPLATE("name"),
    "template_images": _TEMPLATE("image"),
    "template_labels": lambda body, now: labels_text(at(body, "template", "metadata", "labels")),
    "node_selector": lambda body, now: labels_text(at(body, "spec", "template", "spec", "nodeSelector")),
    "revision_controller": revision_controller,
    "cronjob_suspend": cronjob_suspend,
    "cronjob_active": lambda body, now: len(rows(at(body, "status", "active"))),
    "cronjob_last_schedule": cronjob_last_schedule,
    "cronjob_containers": _CRON_JOB("name"),
    "cronjob_images": _CRON_JOB("image"),
    "cronjob_selector": lambda body, now: selector_text(at(body, "spec", "jobTemplate", "spec", "selector")),
    "hpa_reference": hpa_reference,
    "hpa_targets": hpa_targets,
}
