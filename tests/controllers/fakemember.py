"""One member in memory: what is in it, and the faults that a test forces."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool, Taint
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Component
from fleet.kinds import interpreter_of
from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body, Key
from fleet.wellknown import ATTEMPT, GATE, KUBEFLOW, LABEL_BINDING

PLURALS = {
    "PyTorchJob": "pytorchjobs",
    "Job": "jobs",
    "TFJob": "tfjobs",
    "MPIJob": "mpijobs",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Namespace": "namespaces",
    "Service": "services",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RayJob": "rayjobs",
    "PodGroup": "podgroups",
    "Reservation": "reservations",
    "RayService": "rayservices",
    "RayCluster": "rayclusters",
    "Deployment": "deployments",
    "PriorityClass": "priorityclasses",
    "JobSet": "jobsets",
    "NetworkPolicy": "networkpolicies",
    "Ingress": "ingresses",
    "PodDisruptionBudget": "poddisruptionbudgets",
}


def key_of(body: Body) -> Key:
    group = body["apiVersion"].rsplit("/", 1)[0] if "/" in body["apiVersion"] else ""
    return Key(group, PLURALS[body["kind"]], body["metadata"].get("namespace", ""), body["metadata"]["name"])


def gated_in(body: Body) -> frozenset[str]:
    """The components of a job whose pods wait for the hub."""
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    found = interpreter.templates(body) if interpreter is not None else ()
    return frozenset(t.name for t in found if {"name": GATE} in (t.template["spec"].get("schedulingGates") or []))


@dataclass
class FakeMember:
    """One cluster: nodes with GPUs, what was applied to it, and the pods that came of it."""

    name: str
    nodes: dict[str, Amounts]
    objects: dict[Key, Body] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    nominated: dict[str, str] = field(default_factory=dict)  # by uid of the pod: the node whose room is kept for it
    down: bool = False  # answers nothing
    potential: tuple[Pool, ...] = ()
    taints: tuple[Taint, ...] = ()  # as its Cluster object has them
    refuse: str = ""  # refuses every apply of a job with this message
    refuse_pods: str = ""  # refuses every placeholder with this message
    slow_s: float = 0.0  # every act takes this long
    no_pods: bool = False  # its operator makes no pods
    in_turn_s: float = 0.0  # its operator goes on to the next component so long after it made the pods of one
    idle: bool = False  # nothing acts on its jobs
    warns: str = ""  # the newest warning about every job
    start_s: float = 0.1  # from a pod's node until it runs
    runtime_s: float | None = None  # jobs succeed by themselves after this
    delete_s: float = 0.05  # from an accepted delete until nothing is left
    stuck: bool = False  # its pods stay Terminating: their node is dead
    told: dict[str, dict[str, str | None]] = field(default_factory=dict)  # pod -> annotations that were patched
    graces: dict[str, int] = field(default_factory=dict)  # pod -> grace of its deletion by the hub
    broken: set[str] = field(default_factory=set)  # nodes that are not ready
    avoided: frozenset[str] = frozenset()  # nodes that the hub counts out
    pods_refused: str = ""  # refuses patches and graceful deletions of pods with this message
    lose_answers: bool = False  # applies happen, but nobody hears of it
    applies: list[Body] = field(default_factory=list)
    frozen: tuple[dict[Key, Body], dict[str, PodView]] | None = None  # what was seen last, while it is down
    calls_at_once: int = 0
    calls_at_once_max: int = 0

    @property
    def seen(self) -> tuple[dict[Key, Body], dict[str, PodView]]:
        """Objects and pods as the hub's caches show them."""
        return self.frozen or (self.objects, self.pods)

    def free(self, node: str) -> Amounts:
        room = self.nodes[node]
        for pod in self.pods.values():
            if pod.node == node and pod.phase in ("Pending", "Running"):
                room = room.minus(pod.requests)
        return room

    def room_for(self, node: str, pod: PodView) -> Amounts:
        """The free room beside the pods that are nominated to the node."""
        room = self.free(node)
        for other in self.pods.values():
            if other.uid != pod.uid and not other.node and self.nominated.get(other.uid) == node:
                room = room.minus(other.requests)
        return room

    def model(self, hosts: Sequence[tuple[str, str]]) -> Member:
        """As its inventory shows it; the nodes of these label pairs are pools of their own."""
        largest = max(self.nodes.values(), key=lambda amounts: amounts["nvidia.com/gpu"])
        alone = [Pool((pair,), free=((self.free(pair[1]), 1),), allocatable=largest) for pair in hosts]
        told_apart = {node for _, node in hosts}
        free = Counter(self.free(node) for node in self.nodes if node not in told_apart | self.avoided)
        pools = (Pool(free=tuple(free.items()), allocatable=largest), *alone)
        why = "down" if self.down else ""
        return Member(
            self.name,
            ready=not self.down,
            pools=pools,
            taints=self.taints,
            not_ready_reason=why,
            potential=self.potential,
        )

    def tell_pod(self, name: str, annotations: Mapping[str, str | None]) -> ActOutcome:
        """A patch of a pod's annotations."""
        if self.pods_refused:
            return ActOutcome(ActResult.REFUSED, self.pods_refused)
        self.told.setdefault(name, {}).update(annotations)
        return ActOutcome(ActResult.DONE)

    def end_pod(self, uid: str, grace_s: int, now: float) -> ActOutcome:
        """The pod terminates for as long as it may."""
        pod = self.pods.get(uid)
        if self.pods_refused or pod is None:
            return (
                ActOutcome(ActResult.REFUSED, self.pods_refused)
                if self.pods_refused
                else ActOutcome(ActResult.NOT_FOUND)
            )
        self.graces[pod.name] = grace_s
        self.pods[uid] = replace(pod, terminating=True, gone_by=now + grace_s)
        return ActOutcome(ActResult.DONE)


def with_condition(body: Body, type_: str, message: str, at: str) -> Body:
    """A copy of the job that stands so, as its operator writes it."""
    changed = copy.deepcopy(body)
    conditions = changed.setdefault("status", {}).setdefault("conditions", [])
    for entry in conditions:
        entry["status"] = "False" if entry["type"] == "Running" else entry["status"]
    updated = {"lastUpdateTime": at} if body["apiVersion"].startswith(KUBEFLOW) else {}
    conditions.append(
        {
            "type": type_,
            "status": "True",
            "reason": f"Job{type_}",
            "message": message,
            "lastTransitionTime": at,
            **updated,
        }
    )
    return changed


def pod_of(member: FakeMember, body: Body, component: Component, number: int, uid: str, now: float) -> PodView:
    """A pod of a job, without a node."""
    labels = body["metadata"]["labels"]
    return PodView(
        member=member.name,
        namespace=body["metadata"]["namespace"],
        name=f"{body['metadata']['name']}-{component.name}-{number}",
        uid=uid,
        node="",
        phase="Pending",
        ready=False,
        terminating=False,
        binding=labels[LABEL_BINDING],
        component=component.name,
        attempt=int(labels[ATTEMPT]),
        requests=component.requests,
        since=now,
        gated=component.name in gated_in(body),
    )
