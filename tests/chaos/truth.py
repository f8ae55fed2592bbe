"""What really is in the members: an oracle that watches their own APIs, past the proxies, and knows nothing of the hub.

Copies and pods come in over watches; a thread looks at the whole several times a second. The watches of two members are
not in step to the millisecond, so what one look shows is a suspicion: it counts when lists that are asked for there and
then show it too (I2), or when it stays for longer than a watch can lag (the rest).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx

from fleet.wellknown import ATTEMPT, LABEL_BINDING, LABEL_HUB
from tests.chaos.books import GPU, Limits, Paths
from tests.chaos.client import JOBS, Body, Client, Refused
from tests.chaos.findings import Findings
from tests.chaos.witness import Witness
from tests.chaos.work import COPIES, PODS, name_of, state_of

EVERY_S = 0.25
LAG_S = 2.0  # a watch may be so far behind
GANG_S = 90.0  # the hub withdraws a gang that is not whole after 60 s
ORPHAN_S = 60.0
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Copy:
    """A job object in a member."""

    uid: str
    binding: str
    attempt: str
    pods: int
    live: bool


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a copy."""

    job: str
    gpus: int
    placed: bool
    live: bool


def copy_of(body: Body) -> Copy:
    meta = body["metadata"]
    labels = meta.get("labels") or {}
    pods = sum(int(replica.get("replicas", 1)) for replica in body["spec"]["pytorchReplicaSpecs"].values())
    live = state_of(body) not in ENDED and "deletionTimestamp" not in meta
    return Copy(meta["uid"], labels.get(LABEL_BINDING, ""), labels.get(ATTEMPT, ""), pods, live)


def pod_of(body: Body) -> Pod:
    meta, spec = body["metadata"], body["spec"]
    owner = next((ref["name"] for ref in meta.get("ownerReferences") or []), meta["name"])
    limits = (container.get("resources", {}).get("limits") or {} for container in spec["containers"])
    live = (body.get("status") or {}).get("phase") not in ENDED
    return Pod(
        f"{meta['namespace']}/{owner}",
        sum(int(limit.get(GPU, 0)) for limit in limits),
        bool(spec.get("nodeName")),
        live,
    )


@dataclass
class Wanted:
    """What the hub's bindings want, as a watch of the hub last said: members by the uid of the binding."""

    members: dict[str, set[str]]

    def see(self, type_: str, binding: Body) -> None:
        uid, spec = binding["metadata"]["uid"], binding["spec"]
        if type_ == "DELETED":
            self.members.pop(uid, None)
            return
        leaving = {task["fromCluster"] for task in spec.get("gracefulEvictionTasks") or []}
        self.members[uid] = {cluster["name"] for cluster in spec.get("clusters") or []} | leaving


class Truth:
    """`start`, then `stop`; what it finds goes to `findings`."""

    def __init__(
        self, members: dict[str, Path], findings: Findings, wanted: Wanted, limits: Limits, paths: Paths
    ) -> None:
        self._findings, self._wanted, self._limits, self._paths = findings, wanted, limits, paths
        self._lock = threading.Lock()
        self._copies: dict[tuple[str, str], Copy] = {}  # (member, job)
        self._pods: dict[tuple[str, str], Pod] = {}  # (member, pod)
        self._attempts: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        self._since: dict[tuple[str, str], float] = {}  # (rule, object) -> when it was first suspected
        self._clients = {name: Client(path, timeout_s=5) for name, path in members.items()}
        self._witnesses = [
            Witness(path, collection, self._seer(name, see))
            for name, path in members.items()
            for collection, see in ((COPIES, self.see_copy), (PODS, self.see_pod))
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="truth", daemon=True)
        self.looks = 0
        self.copies_seen = 0
        self.gpus_most = 0

    def start(self) -> None:
        for witness in self._witnesses:
            witness.start()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        for witness in self._witnesses:
            witness.stop()
            if witness.problem:
                self._findings.add("harness", "members", witness.problem)
        for client in self._clients.values():
            client.close()

    def copies(self, member: str) -> list[Body]:
        """The jobs of a member, from its own API."""
        return self._clients[member].items(COPIES)

    def has(self, member: str, job: str) -> bool:
        """Whether the member has the job, as its watch says."""
        return (member, job) in self._copies

    def left(self) -> list[str]:
        """Everything of a hub that the members still have."""
        return [
            f"{name_of(body)} in {member}"
            for member, client in self._clients.items()
            for path in (COPIES, PODS)
            for body in client.items(path)
            if LABEL_HUB in (body["metadata"].get("labels") or {})
        ]

    # -- what the watches say --------------------------------------------------------------------------------------

    @staticmethod
    def _seer(member: str, see: Callable[[str, str, Body], None]) -> Callable[[str, Body], None]:
        return lambda type_, body: see(member, type_, body)

    def see_copy(self, member: str, type_: str, body: Body) -> None:
        job, copy = name_of(body), copy_of(body)
        self._findings.note(job, f"{member} {type_} copy {copy.uid[:8]} attempt {copy.attempt} {state_of(body)}")
        with self._lock:
            if type_ == "DELETED":
                self._copies.pop((member, job), None)
                return
            self._copies[member, job] = copy
            same = self._attempts[copy.binding, copy.attempt]
            self.copies_seen += (member, copy.uid) not in same
            same.add((member, copy.uid))
        if copy.binding and len(same) > 1:
            self._findings.add("I2", job, f"attempt {copy.attempt} has more than one copy: {sorted(same)}")

    def see_pod(self, member: str, type_: str, body: Body) -> None:
        pod, name = pod_of(body), name_of(body)
        phase = (body.get("status") or {}).get("phase", "")
        self._findings.note(pod.job, f"{member} {type_} pod {name} {phase} on {body['spec'].get('nodeName', '-')}")
        with self._lock:
            if type_ == "DELETED":
                self._pods.pop((member, name), None)
            else:
                self._pods[member, name] = pod

    # -- looking at the whole --------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.look()

    def look(self) -> None:
        """One look for each rule."""
        with self._lock:
            copies, pods = dict(self._copies), dict(self._pods)
        self._look_for_doubles(copies, pods)
        self._look_for_parts(copies, pods)
        self._look_at_quota(pods)
        self._look_for_orphans(copies)
        self.looks += 1

    def _look_for_doubles(self, copies: dict[tuple[str, str], Copy], pods: dict[tuple[str, str], Pod]) -> None:
        for job, members in _places(copies, pods.values(), pods).items():
            if len(members) > 1 and self._confirmed(job, members):
                self._findings.add("I2", job, f"live in {sorted(members)} at once")

    def _confirmed(self, job: str, members: Iterable[str]) -> bool:
        namespace, _, name = job.partition("/")
        live = 0
        for member in members:
            try:
                bodies = self._clients[member].items(JOBS.format(namespace))
                pods = self._clients[member].items(f"/api/v1/namespaces/{namespace}/pods")
            except (httpx.HTTPError, Refused, ValueError):
                return False  # the next look asks again
            found = any(body["metadata"]["name"] == name and copy_of(body).live for body in bodies)
            live += found or any((pod := pod_of(body)).job == job and pod.live for body in pods)
        return live > 1

    def _look_for_parts(self, copies: dict[tuple[str, str], Copy], pods: dict[tuple[str, str], Pod]) -> None:
        placed: dict[tuple[str, str], int] = defaultdict(int)
        for (member, _), pod in pods.items():
            placed[member, pod.job] += pod.placed
        for (member, job), copy in copies.items():
            part = copy.live and 0 < placed[member, job] < copy.pods
            if self._stays("I1", f"{job} {copy.uid}", part, GANG_S):
                self._findings.add("I1", job, f"{placed[member, job]} of {copy.pods} pods in {member} for {GANG_S:g} s")

    def _look_at_quota(self, pods: dict[tuple[str, str], Pod]) -> None:
        used: dict[str, int] = defaultdict(int)
        for pod in pods.values():
            if pod.live and pod.placed:
                for node in self._paths.get(pod.job.partition("/")[0], ()):
                    used[node] += pod.gpus
        self.gpus_most = max([self.gpus_most, *used.values()])
        for node, limits in self._limits.items():
            limit = limits.get(GPU)
            above = limit is not None and used[node] > limit
            if self._stays("I3", node, above, LAG_S):
                self._findings.add("I3", node, f"pods in the members use {used[node]} GPUs of {limit}")

    def _look_for_orphans(self, copies: dict[tuple[str, str], Copy]) -> None:
        for (member, job), copy in copies.items():
            unwanted = bool(copy.binding) and member not in self._wanted.members.get(copy.binding, ())
            if self._stays("I6", f"{member} {job} {copy.uid}", unwanted, ORPHAN_S):
                self._findings.add("I6", job, f"a copy in {member} that no binding has wanted for {ORPHAN_S:g} s")

    def _stays(self, rule: str, about: str, suspected: bool, for_s: float) -> bool:
        """Whether the suspicion has held at each look for so long."""
        if not suspected:
            self._since.pop((rule, about), None)
            return False
        return self._findings.now - self._since.setdefault((rule, about), self._findings.now) > for_s


def _places(
    copies: dict[tuple[str, str], Copy], pods: Iterable[Pod], where: Iterable[tuple[str, str]]
) -> dict[str, set[str]]:
    """The members in which each job lives, by a copy or by a pod."""
    found: dict[str, set[str]] = defaultdict(set)
    for (member, job), copy in copies.items():
        if copy.live:
            found[job].add(member)
    for (member, _), pod in zip(where, pods, strict=True):
        if pod.live:
            found[pod.job].add(member)
    return found
