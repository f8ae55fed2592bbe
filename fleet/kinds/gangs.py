"""Gang schedulers of members: how each is told which pods start together, as data.

A member that serves the kind of a gang scheduler is taken to run it. The hub marks the pod templates of a job with the
labels, annotations and scheduler name that this scheduler reads, and creates the object that some of them need. In all
texts `{gang}` stands for the name of the gang, `{pods}` for the number of its pods, and `{queue}` for the name that the
Cluster says behind that of the gang scheduler.

Sources, each read at the version that the test bed builds: koordinator 1.8.0 (docs of gang scheduling), volcano 1.14.1
(pkg/controllers/podgroup), scheduler-plugins 0.34.7 (pkg/coscheduling), kueue 0.19.2 (pod groups), Kubernetes 1.36
(scheduling.k8s.io/v1alpha2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.kinds.interpreter import Body, Interpreter, Template
from fleet.kinds.paths import with_part
from fleet.values.untyped import at
from fleet.wellknown import LABEL_GANG

NONE = "None"  # in place of a scheduler: nothing is marked, whatever the member serves


@dataclass(frozen=True, slots=True)
class GangScheduler:
    """One gang scheduler. `served`: the kind, as group/Kind, that tells of it; "" where only the Cluster can say so.
    `scheduler`: the `schedulerName` of its pods, "" for the member's default. `group`: the object that it wants for
    each gang, without metadata. `queues`: what the Cluster says behind its name is a queue, and no `schedulerName`."""

    name: str
    served: str
    scheduler: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    group: Mapping[str, Any] | None = None
    queues: bool = False


def _group(api_version: str, **spec: Any) -> Body:
    return {"apiVersion": api_version, "kind": "PodGroup", "spec": spec}


_KOORDINATOR, _KUEUE = "gang.scheduling.koordinator.sh", "kueue.x-k8s.io"
_QUEUE = "default"  # the LocalQueue that Kueue itself takes where nothing is said
GANG_SCHEDULERS = (
    GangScheduler(
        "Koordinator",
        "scheduling.koordinator.sh/Reservation",
        "koord-scheduler",
        annotations={f"{_KOORDINATOR}/name": "{gang}", f"{_KOORDINATOR}/min-available": "{pods}"},
    ),
    GangScheduler(
        "Volcano",
        "scheduling.volcano.sh/PodGroup",
        "volcano",
        annotations={"scheduling.k8s.io/group-name": "{gang}"},
        group=_group("scheduling.volcano.sh/v1beta1", minMember="{pods}"),
    ),
    GangScheduler(
        "Coscheduling",
        "scheduling.x-k8s.io/PodGroup",
        "scheduler-plugins-scheduler",
        labels={"scheduling.x-k8s.io/pod-group": "{gang}"},
        group=_group("scheduling.x-k8s.io/v1alpha1", minMember="{pods}"),
    ),
    GangScheduler(
        # Its mutating admission policy puts the gang's name into the pods: operators prune the field from templates.
        "Kubernetes",
        "scheduling.k8s.io/PodGroup",
        labels={LABEL_GANG: "{gang}"},
        group=_group("scheduling.k8s.io/v1alpha2", schedulingPolicy={"gang": {"minCount": "{pods}"}}),
    ),
    GangScheduler(
        "Kueue",
        "",
        labels={f"{_KUEUE}/queue-name": "{queue}", f"{_KUEUE}/pod-group-name": "{gang}"},
        # Not retriable: else Kueue keeps the finalizers of pods that ended otherwise than well, and waits for others.
        annotations={f"{_KUEUE}/pod-group-total-count": "{pods}", f"{_KUEUE}/retriable-in-group": "false"},
        queues=True,
    ),
)
_GANGS_OF_THEIR_OWN = frozenset({("batch.volcano.sh", "Job")})
BY_NAME = {scheduler.name: scheduler for scheduler in GANG_SCHEDULERS}


def scheduler_of(said: str, kinds: Collection[str]) -> str:
    """The gang scheduler of a member, as `marked` takes it. `said`: what its Cluster says (NAME, NAME/schedulerName,
    Kueue/QUEUE, or None); `kinds`: those that the member serves, as group/Kind. "" for no gang scheduler."""
    if said:
        return said if said.partition("/")[0] in BY_NAME else ""
    return next((scheduler.name for scheduler in GANG_SCHEDULERS if scheduler.served in kinds), "")


def unknown(said: str) -> bool:
    """Whether a Cluster names a gang scheduler that is none."""
    return bool(said) and said.partition("/")[0] not in (NONE, *BY_NAME)


def at_once(interpreter: Interpreter, body: Body) -> tuple[Template, ...]:
    """The templates of the pods that are one gang for a member's scheduler. Pods that come later (the pod that submits
    a RayJob) would keep the gang from its start."""
    if interpreter.in_turn(body):
        return ()
    return tuple(template for template in interpreter.templates(body) if interpreter.together(template.name))


def marked(body: Body, templates: Iterable[Template], choice: str, gang: str) -> Body:
    """A copy of the body whose pods are one gang for this scheduler. A template that names a scheduler keeps it."""
    name, _, other = choice.partition("/")
    scheduler, templates = BY_NAME[name], tuple(templates)
    if not _takes_marks(body, templates):
        return body
    words = {**_words(gang, templates), "{queue}": other or _QUEUE}
    other = "" if scheduler.queues else other
    for template in templates:
        meta = (*template.steps, "metadata")
        for part, marks in (("labels", scheduler.labels), ("annotations", scheduler.annotations)):
            for key, value in marks.items():
                body = with_part(body, (*meta, part, key), str(_filled(value, words)))
        if not at(template.template.get("spec"), "schedulerName") and (other or scheduler.scheduler):
            body = with_part(body, (*template.steps, "spec", "schedulerName"), other or scheduler.scheduler)
    return body


def unmarked(templates: Iterable[Template], gang: str) -> str:
    """Undo `marked` in templates, in place; returns the gang scheduler that they were marked for, with its queue, or
    "" for none."""
    own = [template.template for template in templates if template.own]
    for scheduler in GANG_SCHEDULERS:
        marks = [("labels", key, value) for key, value in scheduler.labels.items()]
        marks += [("annotations", key, value) for key, value in scheduler.annotations.items()]
        told = [(part, key) for part, key, value in marks if value == "{gang}"]
        if not own or any(at(template, "metadata", part, key) != gang for template in own for part, key in told):
            continue
        queue = next((at(own[0], "metadata", part, key) for part, key, value in marks if value == "{queue}"), "")
        for template in own:
            for part, key, _ in marks:
                template["metadata"][part].pop(key, None)
            if scheduler.scheduler and at(template, "spec", "schedulerName") == scheduler.scheduler:
                del template["spec"]["schedulerName"]
        return f"{scheduler.name}/{queue}" if queue else scheduler.name
    return ""


def group_of(body: Body, templates: Iterable[Template], choice: str, gang: str) -> Body | None:
    """The object that the scheduler wants for the gang, without marks; None when it wants none."""
    scheduler, templates = BY_NAME[choice.partition("/")[0]], tuple(templates)
    if scheduler.group is None or not _takes_marks(body, templates):
        return None
    metadata = {"name": gang, "namespace": body["metadata"]["namespace"], "labels": {}, "annotations": {}}
    filled: Body = _filled(scheduler.group, _words(gang, templates))
    return {**filled, "metadata": metadata}


def _takes_marks(body: Body, templates: Collection[Template]) -> bool:
    """Whether every pod of the gang comes of a template that stands in the job (a gang that is marked in part never
    starts), and its own controller makes no gang of them."""
    own_gang = (body["apiVersion"].partition("/")[0], body["kind"]) in _GANGS_OF_THEIR_OWN
    return not own_gang and bool(templates) and all(template.own for template in templates)


def _words(gang: str, templates: Iterable[Template]) -> dict[str, Any]:
    return {"{gang}": gang, "{pods}": sum(template.replicas for template in templates)}


def _filled(value: Any, words: Mapping[str, Any]) -> Any:
    """With the words put in: numbers as numbers in objects, as text in labels and annotations."""
    if isinstance(value, Mapping):
        return {key: _filled(inner, words) for key, inner in value.items()}
    return words.get(value, value) if isinstance(value, str) else value
