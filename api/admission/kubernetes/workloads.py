"""Deployments, StatefulSets, DaemonSets, ReplicaSets, ReplicationControllers, Jobs and CronJobs."""

from __future__ import annotations

from collections.abc import Iterator

from api.admission.causes import forbidden, invalid, required, unsupported
from api.admission.kubernetes.cron import schedule_problem
from api.admission.kubernetes.language import (
    Check,
    Object,
    at_most_all,
    every,
    immutable,
    label,
    matches,
    metadata_name,
    natural,
    number_or_percent,
    of_spec,
    one_of,
    readable,
    selector_at,
)
from api.admission.kubernetes.pods import template
from api.engine.status import Cause
from fleet.values.names import label_problems, subdomain_problems

_NO_MATCH = "`selector` does not match template `labels`"
_SET_FIELDS = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_INDEXED_MAX = 100_000  # pods of an indexed Job
_CRON_NAME_MAX = 52  # the names of its Jobs have eleven characters more
# What a suspended Job's scheduler may change in its template.
_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


def _long_running(spec: Object, what: str) -> Iterator[Cause]:
    """The pod template of a workload that never ends."""
    pod = (spec.get("template") or {}).get("spec") or {}
    if pod.get("restartPolicy") != "Always":
        yield unsupported("spec.template.spec.restartPolicy", pod.get("restartPolicy") or "", ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {what} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", why)


def _selecting(spec: Object, what: str) -> Iterator[Cause]:
    """The selector is there, is not empty, and takes the template's labels; the template is sound. Where the selector
    cannot be read, a kube-apiserver looks no further (but for DaemonSets)."""
    selector, labels = spec.get("selector"), _labels(spec)
    if selector is None:
        if what != "daemonset":
            yield required("spec.selector")
        yield invalid("spec.template.metadata.labels", labels, _NO_MATCH)
    else:
        yield from selector_at(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield invalid("spec.selector", selector, f"empty selector is invalid for {what}")
        elif readable(selector):
            if not matches(selector, labels):
                yield invalid("spec.template.metadata.labels", labels, _NO_MATCH)
        elif what != "daemonset":
            yield invalid("spec.selector", selector, "" if what == "statefulset" else "invalid label selector")
            return
    yield from template(spec.get("template") or {}, "spec.template", _claims(spec))


def _claims(spec: Object) -> Object:
    """The volumes that a StatefulSet adds to its pods."""
    claims = spec.get("volumeClaimTemplates") or ()
    return {claim["metadata"]["name"]: claim for claim in claims if (claim.get("metadata") or {}).get("name")}


def _labels(spec: Object) -> Object | None:
    found: Object | None = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    return found


def _none(value: object) -> bool:
    return value in (None, 0) or (isinstance(value, str) and not value.rstrip("%").strip("0"))


def _rolling_deployment(rolling: Object, path: str) -> Iterator[Cause]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from number_or_percent(unavailable, f"{path}.maxUnavailable")
    yield from number_or_percent(surge, f"{path}.maxSurge")
    if _none(unavailable) and _none(surge):
        yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_all(unavailable, f"{path}.maxUnavailable")


def _rolling_daemon(rolling: Object, path: str) -> Iterator[Cause]:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from number_or_percent(unavailable, f"{path}.maxUnavailable")
    yield from number_or_percent(surge, f"{path}.maxSurge")
    yield from at_most_all(unavailable, f"{path}.maxUnavailable")
    if not _none(unavailable) and not _none(surge):
        yield invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    elif _none(unavailable) and _none(surge):
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


_COUNTS = natural("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")


def _deployment(spec: Object, path: str) -> Iterator[Cause]:
    yield from _selecting(spec, "deployment")
    yield from _long_running(spec, "ReplicaSet")
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "RollingUpdate":
        yield from _rolling_deployment(strategy.get("rollingUpdate") or {}, "spec.strategy.rollingUpdate")
    elif strategy.get("type") != "Recreate":
        yield unsupported("spec.strategy", strategy, ("Recreate", "RollingUpdate"))
    elif strategy.get("rollingUpdate") is not None:
        why = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", why)
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _replica_set(spec: Object, path: str) -> Iterator[Cause]:
    yield from _selecting(spec, "deployment")  # Kubernetes says so here, too
    yield from _long_running(spec, "ReplicaSet")


def _daemon_set(spec: Object, path: str) -> Iterator[Cause]:
    yield from _selecting(spec, "daemonset")
    yield from _long_running(spec, "DaemonSet")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        yield from _rolling_daemon(strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate")
    elif strategy.get("type") != "OnDelete":
        yield unsupported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete"))


def _stateful_set(spec: Object, path: str) -> Iterator[Cause]:
    yield from _selecting(spec, "statefulset")
    yield from _long_running(spec, "StatefulSet")
    policy, strategy = spec.get("podManagementPolicy"), spec.get("updateStrategy") or {}
    if policy not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        yield invalid("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif strategy["type"] == "OnDelete" and strategy.get("rollingUpdate") is not None:
        why = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid("spec.updateStrategy.rollingUpdate", strategy["rollingUpdate"], why)


def _controller(spec: Object, path: str) -> Iterator[Cause]:
    selector = spec.get("selector")
    if not selector:
        yield required("spec.selector")
    if spec.get("template") is None:
        yield required("spec.template")
        return
    labels = _labels(spec) or {}
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        yield invalid("spec.template.metadata.labels", labels, _NO_MATCH)
    yield from template(spec["template"], "spec.template")
    yield from _long_running(spec, "ReplicationController")


def _job_spec(spec: Object, path: str) -> Iterator[Cause]:
    yield from _JOB_COUNTS(spec, path)
    indexed, completions = spec.get("completionMode") == "Indexed", spec.get("completions")
    if spec.get("completionMode") not in (None, "NonIndexed", "Indexed"):
        yield unsupported(f"{path}.completionMode", spec["completionMode"], ("NonIndexed", "Indexed"))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if indexed:
        if completions is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        if (spec.get("parallelism") or 0) > _INDEXED_MAX:
            why = f"must be less than or equal to {_INDEXED_MAX} when completion mode is Indexed"
            yield invalid(f"{path}.parallelism", spec["parallelism"], why)
        if completions is not None and (spec.get("maxFailedIndexes") or 0) > completions:
            why = "must be less than or equal to completions"
            yield invalid(f"{path}.maxFailedIndexes", spec["maxFailedIndexes"], why)
    elif spec.get("completionMode") in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                yield invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
        if spec.get("successPolicy") is not None:
            yield invalid(f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if spec.get("podReplacementPolicy") not in (None, *allowed):
        yield unsupported(f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], allowed)
    yield from template(spec.get("template") or {}, f"{path}.template")
    yield from _ends(spec, f"{path}.template.spec.restartPolicy")


def _ends(spec: Object, path: str) -> Iterator[Cause]:
    restart = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if restart in (None, "", "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif restart not in ("OnFailure", "Never"):
        yield unsupported(path, restart, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and restart != "Never":
        yield invalid(path, restart, 'only "Never" is supported when podFailurePolicy is specified')


_JOB_COUNTS = natural(
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


def _hostnames(job: Object, path: str) -> Iterator[Cause]:
    """The name of an indexed Job is part of the hostnames of its pods."""
    spec, name = job.get("spec") or {}, job["metadata"].get("name") or ""
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        last = f"{name}-{spec['completions'] - 1}"
        if label_problems(last):
            yield invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {last}")


def _cron_job(spec: Object, path: str) -> Iterator[Cause]:
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield required(f"{path}.schedule")
    else:
        problem = schedule_problem(schedule)
        if problem:
            yield invalid(f"{path}.schedule", schedule, problem)
        if "TZ" in schedule:
            why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            yield invalid(f"{path}.schedule", schedule, why)
    yield from _CRON_FIELDS(spec, path)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    yield from _job_spec(job, f"{path}.jobTemplate.spec")
    if job.get("selector") is not None:
        yield invalid(f"{path}.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated")
    if job.get("manualSelector"):
        yield unsupported(f"{path}.jobTemplate.spec.manualSelector", True, ("nil", "false"))


_CRON_FIELDS = every(
    natural("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
    one_of("concurrencyPolicy", "Allow", "Forbid", "Replace"),
)


def _cron_name(name: str) -> Iterator[str]:
    if len(name) > _CRON_NAME_MAX and not subdomain_problems(name):
        yield f"must be no more than {_CRON_NAME_MAX} characters"


CHECKS: dict[tuple[str, str], Check] = {
    ("apps", "deployments"): of_spec(_COUNTS, _deployment),
    ("apps", "replicasets"): of_spec(_COUNTS, _replica_set),
    ("apps", "daemonsets"): of_spec(_COUNTS, _daemon_set),
    ("apps", "statefulsets"): of_spec(_COUNTS, label("serviceName"), _stateful_set),
    ("", "replicationcontrollers"): of_spec(_COUNTS, _controller),
    ("batch", "jobs"): every(of_spec(_job_spec), _hostnames),
    ("batch", "cronjobs"): every(metadata_name(_cron_name), of_spec(_cron_job)),
}


# -- updates


def selector_stays(new: Object, old: Object) -> Iterator[Cause]:
    return immutable(new.get("spec") or {}, old.get("spec") or {}, "spec", "selector")


def job_stays(new: Object, old: Object) -> Iterator[Cause]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec.get("completionMode") != "Indexed":
        yield from immutable(spec, before, "spec", "completions")
    elif spec.get("completions") not in (before.get("completions"), None, spec.get("parallelism")):
        yield invalid("spec.completions", spec["completions"], "can only be modified in tandem with spec.parallelism")
    yield from immutable(spec, before, "spec", "selector")
    template, kept = spec.get("template") or {}, before.get("template") or {}
    if before.get("suspend"):
        template, kept = _fixed(template), _fixed(kept)
    if template != kept:
        yield invalid("spec.template", spec.get("template"), "field is immutable")
    yield from immutable(
        spec, before, "spec", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"
    )


def _fixed(template: Object) -> Object:
    """What may not change while a Job is suspended: all but scheduling directives, labels, annotations and amounts."""
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in _DIRECTIVES}
    affinity = {key: value for key, value in (spec.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [{k: v for k, v in c.items() if k != "resources"} for c in spec[field]]
    return {"spec": spec, "affinity": affinity}


def set_stays(new: Object, old: Object) -> Iterator[Cause]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if any(spec.get(key) != before.get(key) for key in (spec.keys() | before.keys()) - set(_SET_FIELDS)):
        *first, last = [f"'{field}'" for field in _SET_FIELDS]
        named = f"{', '.join(first)} and {last}"
        yield forbidden("spec", f"updates to statefulset spec for fields other than {named} are forbidden")
