"""Users of the hub while it is hurt: jobs of random shapes are submitted, edited, suspended, resumed and deleted.

Every write that the hub acknowledged is kept in the ledger, and looked for afterwards (I4).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.books import GPU
from tests.chaos.client import ALL_JOBS, JOBS, POLICIES, TREES, Body, Client, Refused
from tests.chaos.findings import Findings
from tests.chaos.work import name_of, namespace_of, state_of, until_answered
from tests.e2e.manifests import ROOT, gang_policy, pytorchjob

NAMESPACES = ("vision", "language", "production")
LIMITS: dict[str, dict[str, int]] = {
    "research": {GPU: 56},
    "vision": {GPU: 32},
    "language": {GPU: 40},
    "production": {GPU: 64},
}
PROMISES = {"research": 24, "vision": 8, "language": 16, "production": 32}
PATHS = {"vision": ["vision", "research"], "language": ["language", "research"], "production": ["production"]}
UNFINISHED_MAX = 50
FINISHED_MAX = 120  # then the oldest are deleted
NOTE = "example.com/note"


def set_up(client: Client, probes: dict[str, str]) -> None:
    """Namespaces, policies and a tree that lends and takes back. `probes`: namespaces of probes, each for a member."""
    for namespace in NAMESPACES:
        client.post("/api/v1/namespaces", namespace_of(namespace))
        client.post(POLICIES.format(namespace), gang_policy(queue=True))
    for namespace, member in probes.items():
        client.post("/api/v1/namespaces", namespace_of(namespace))
        placement = {"clusterAffinity": {"clusterNames": [member]}}
        client.post(POLICIES.format(namespace), gang_policy(queue=True, placement=placement))
    research = _node("research", children=[_node(name, namespaces=[name]) for name in ("vision", "language")])
    probing = {"name": "probes", "namespaces": list(probes)}
    root = {"name": "root", "max": ROOT, "min": ROOT}
    children = [research, _node("production", namespaces=["production"]), probing]
    client.post(
        TREES,
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
            "kind": "ElasticQuotaTree",
            "metadata": {"name": "elasticquotatree", "namespace": "kube-system"},
            "spec": {"root": {**root, "children": children}},
        },
    )


def _node(name: str, **more: Any) -> Body:
    return {"name": name, "max": LIMITS[name], "min": {GPU: PROMISES[name]}, **more}


@dataclass
class Ledger:
    """Acknowledged writes. `asked`: deletions that were asked for, so that a job may be missing."""

    created: dict[str, str] = field(default_factory=dict)  # job -> uid, "" where the answer was lost
    asked: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    notes: dict[str, tuple[int, int]] = field(default_factory=dict)  # job -> acknowledged, and last asked for

    def judge(self, found: dict[str, Body], findings: Findings, *, final: bool) -> None:
        """Compare with a list of the hub that is younger than the ledger's copy (`copy()` it first)."""
        for job, uid in self.created.items():
            body = found.get(job)
            if body is None:
                if job not in self.asked:
                    findings.add("I4", job, "its create was acknowledged, nobody deleted it, and it is gone")
                continue
            if uid and body["metadata"]["uid"] != uid:
                findings.add("I4", job, f"it has uid {body['metadata']['uid']}, and was created with {uid}")
            if job in self.deleted and (final or "deletionTimestamp" not in body["metadata"]):
                findings.add("I4", job, "its deletion was acknowledged, and it is there")
            known, asked = self.notes.get(job, (0, 0))
            note = int((body["metadata"].get("annotations") or {}).get(NOTE, 0))
            if not known <= note and job not in self.asked:
                findings.add("I4", job, f"edit {known} was acknowledged, and the job has {note} (asked: {asked})")

    def copy(self) -> Ledger:
        return Ledger(dict(self.created), set(self.asked), set(self.deleted), dict(self.notes))


class Load:
    """Submits `jobs` jobs from a thread. `due()`: how many should have been submitted by now."""

    def __init__(
        self,
        apis: Sequence[Path],
        seed: int,
        jobs: int,
        due: Callable[[], float],
        findings: Findings,
        state: Callable[[], dict[str, Body]],
    ) -> None:
        self._clients = [Client(path, timeout_s=5) for path in apis]
        self._dice, self._jobs, self._due = random.Random(f"load {seed}"), jobs, due
        self._findings, self._state = findings, state
        self.ledger = Ledger()
        self.suspended: set[str] = set()
        self.refused: list[str] = []
        self.acts = dict.fromkeys(("create", "delete", "suspend", "resume", "edit"), 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Submit and change no more; what was suspended is resumed."""
        self._stop.set()
        self._thread.join(60)
        self._stop = threading.Event()
        for job in sorted(self.suspended):
            self._suspend(job, False)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._act()
            except Refused as refused:
                self.refused.append(str(refused)[:300])
            except Exception as error:  # a bug of the harness: it must not look like a quiet user
                self._findings.add("harness", "load", repr(error))
                return
            self._stop.wait(self._dice.uniform(0.01, 0.2))

    def _act(self) -> None:
        mine = {job: body for job, body in self._state().items() if job in self.ledger.created}
        open_ = sorted(job for job, body in mine.items() if state_of(body) not in ("Succeeded", "Failed"))
        over = sorted(job for job, body in mine.items() if state_of(body) == "Succeeded")
        submitted = self.acts["create"]
        if submitted < min(self._jobs, self._due()) and len(open_) < UNFINISHED_MAX:
            self._create(submitted)
        elif len(over) > FINISHED_MAX:
            self._delete(over[0])
        if not open_ or self._dice.random() < 0.5:
            return
        job, chance = self._dice.choice(open_), self._dice.random()
        if job in self.ledger.asked:
            return
        if chance < 0.05:
            self._delete(job)
        elif chance < 0.15 and len(self.suspended) < 5:
            self._suspend(job, True)
        elif chance < 0.35 and self.suspended:
            self._suspend(self._dice.choice(sorted(self.suspended)), False)
        elif chance < 0.6:
            self._edit(job)

    def _client(self) -> Client:
        return self._dice.choice(self._clients)

    def _path(self, job: str) -> str:
        namespace, _, name = job.partition("/")
        return f"{JOBS.format(namespace)}/{name}"

    def _create(self, number: int) -> None:
        dice, namespace = self._dice, self._dice.choice(NAMESPACES)
        gpus = dice.choice((1, 1, 1, 2, 2, 4, 8))
        workers = min(dice.choice((0, 1, 1, 2, 3, 5)), 16 // gpus - 1)
        body = pytorchjob(f"job-{number:05}", workers=workers, gpus=gpus, run_for=f"{dice.choice((1, 2, 4, 8, 15))}s")
        job = f"{namespace}/job-{number:05}"
        answer = until_answered(lambda: self._client().post(JOBS.format(namespace), body), self._stop, fine=(409,))
        self._done("create", job, answer)
        if answer is not None:
            self.ledger.created[job] = (answer.get("metadata") or {}).get("uid", "")

    def _delete(self, job: str) -> None:
        self.ledger.asked.add(job)
        self.suspended.discard(job)
        answer = until_answered(lambda: self._client().delete(self._path(job)), self._stop, fine=(404,))
        self._done("delete", job, answer)
        if answer is not None:
            self.ledger.deleted.add(job)

    def _suspend(self, job: str, suspend: bool) -> None:
        change = {"spec": {"runPolicy": {"suspend": suspend}}}
        # 422: it has ended meanwhile
        answer = until_answered(lambda: self._client().patch(self._path(job), change), self._stop, fine=(404, 422))
        self._done("suspend" if suspend else "resume", job, answer)
        # A request that nobody answered may have been carried out or not: the job is resumed at the end in either case.
        if answer is None or (suspend and answer["kind"] != "Status"):
            self.suspended.add(job)
        else:
            self.suspended.discard(job)

    def _edit(self, job: str) -> None:
        known, asked = self.ledger.notes.get(job, (0, 0))
        self.ledger.notes[job] = (known, asked + 1)
        change = {"metadata": {"annotations": {NOTE: str(asked + 1)}}}
        answer = until_answered(lambda: self._client().patch(self._path(job), change), self._stop, fine=(404,))
        self._done("edit", job, answer)
        if answer is not None and answer["kind"] != "Status":
            self.ledger.notes[job] = (asked + 1, asked + 1)

    def _done(self, act: str, job: str, answer: Body | None) -> None:
        if answer is not None:
            self.acts[act] += 1
        self._findings.note(job, f"user: {act} {'acknowledged' if answer is not None else 'given up'}")


def jobs_of(client: Client) -> dict[str, Body]:
    """Every job of the hub by its name."""
    return {name_of(body): body for body in client.items(ALL_JOBS)}
