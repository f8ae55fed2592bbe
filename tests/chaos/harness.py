"""One run of the fault harness: a hub, members, users, faults, an oracle, and a verdict on each invariant."""

from __future__ import annotations

import math
import shutil
import statistics
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.bench.report import percentile
from tests.chaos import load
from tests.chaos.books import Bookkeeper
from tests.chaos.client import ALL_JOBS, BINDINGS, CLUSTERS, JOBS, UNITS, Body, Client, Refused
from tests.chaos.findings import Findings
from tests.chaos.load import Load, jobs_of
from tests.chaos.plan import Kind, steps
from tests.chaos.rig import Rig
from tests.chaos.strike import Network, Striker, probe_namespace
from tests.chaos.truth import Truth, Wanted
from tests.chaos.witness import Witness
from tests.chaos.work import name_of, state_of, until_answered
from tests.e2e.manifests import pytorchjob

CHECK_EVERY = 40  # faults; and
CHECK_EVERY_S = 240.0  # a check of the watches comes before the log is compacted
SETTLE_S = 300.0
IDLE_S = 10.0
CALM_WITHIN_S = 60.0  # after the last job has ended; the status of a Queue follows within 15 s
WATCHED = (ALL_JOBS, BINDINGS, UNITS)
QUEUES = "/apis/scheduling.x-k8s.io/v1alpha1/queues"


@dataclass
class Result:
    """The figures of a run."""

    seed: int
    members: int
    real: int
    asked: dict[str, float]
    figures: dict[str, Any] = field(default_factory=dict)
    in_step_s: dict[str, list[float]] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def after_kills(self) -> tuple[float, ...]:
        return tuple(s for name, each in self.in_step_s.items() if name.startswith(Kind.KILL) for s in each)

    def p95(self, values: tuple[float, ...]) -> float:
        return percentile(values, 0.95) if values else math.nan

    def median(self, values: tuple[float, ...]) -> float:
        return statistics.median(values) if values else math.nan


class Harness:
    """`run()` is the whole story. Files go to `folder`, which is emptied first."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        jobs: int,
        kills: int,
        members: int,
        minutes: float,
        real: int = 0,
        only: Collection[str] = (),
        idle_s: float = IDLE_S,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`minutes`: no fault begins later. `only`: as of `steps`. `idle_s`: how long an idle hub must stand still."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.findings = Findings(folder, seed)
        self.rig = Rig(folder, seed=seed, members=members, real=real)
        self._say, self._idle_s = say, idle_s
        self._minutes, self._jobs = minutes, jobs
        self._steps = steps(seed, kills, only)
        self._done = 0
        self.result = Result(seed, members, real, {"jobs": jobs, "kills": kills, "minutes": minutes})

    def run(self) -> Result:
        began = time.monotonic()
        try:
            self.rig.start()
            self._say(f"hub and {len(self.rig.members)} members run after {time.monotonic() - began:.0f} s")
            self._run()
        except Exception:  # what was found before is told all the same
            self.findings.add("harness", "run", traceback.format_exc())
        finally:
            self.rig.stop()
        self.result.findings = self.findings.found
        self.result.figures["seconds"] = round(time.monotonic() - began)
        return self.result

    def _run(self) -> None:
        self._client = Client(self.rig.apis[0], timeout_s=10)
        load.set_up(self._client, {probe_namespace(member): member for member in self.rig.members})
        self._books, self._wanted = Bookkeeper(load.LIMITS, load.PATHS), Wanted({})
        self._witnesses = [
            Witness(api, path, self._seer(path) if number == 0 else None)
            for number, api in enumerate(self.rig.apis)
            for path in WATCHED
        ]
        self._truth = Truth(self.rig.members, self.findings, self._wanted, load.LIMITS, load.PATHS)
        for witness in self._witnesses:
            witness.start()
        self._truth.start()
        state = self._witnesses[0].state
        self._load = Load(self.rig.apis, self.findings.seed, self._jobs, self._due, self.findings, lambda: dict(state))
        self._network = Network(self.rig, self.findings.seed, self.findings)
        self._striker = Striker(self.rig, self._network, self._truth, self.findings, self.findings.seed)
        with ExitStack() as end:  # from below; each happens, whatever the others raise
            end.callback(self._client.close)
            end.callback(self._striker.close)
            end.callback(self._note_figures)
            for witness in self._witnesses:
                end.callback(witness.stop)
            end.callback(self._truth.stop)
            end.callback(self._load.stop)
            end.callback(self._network.stop)
            self._striker.begin()
            self._load.start()
            self._network.start()
            self._strike_all()
            self._network.stop()
            self._finish()

    def _due(self) -> float:
        """Jobs that should have been submitted: as large a part of all as of the faults, and a few to begin with."""
        return 10 + self._jobs * self._done / len(self._steps)

    def _seer(self, path: str) -> Callable[[str, Body], None]:
        def see(type_: str, body: Body) -> None:
            spec, name = body["spec"], name_of(body)
            if path == BINDINGS:
                self._books.see(type_, body)
                self._wanted.see(type_, body)
                where = [cluster["name"] for cluster in spec.get("clusters") or []]
                leaving = [task["fromCluster"] for task in spec.get("gracefulEvictionTasks") or []]
                name = f"{name.partition('/')[0]}/{spec['resource']['name']}"
                text = f"binding at {where}, leaving {leaving}"
            elif path == ALL_JOBS:
                text = f"job {state_of(body)}"
            else:
                status = body.get("status") or {}
                name, text = name.removesuffix("-pytorchjob-rb-qu"), f"unit {status.get('phase')}"
            self.findings.note(name, f"hub {body['metadata']['resourceVersion']} {type_} {text}")

        return see

    # -- the faults ------------------------------------------------------------------------------------------------

    def _strike_all(self) -> None:
        self._checked_at = end = time.monotonic()
        end += 60 * self._minutes
        for step in self._steps:
            if time.monotonic() > end:
                break
            struck = self._striker.strike(step)
            self._done += 1
            took = struck.in_step_s
            if struck.hit and took is not None:
                self.result.in_step_s.setdefault(step.name, []).append(took)
            if self._done % CHECK_EVERY == 0 or time.monotonic() > self._checked_at + CHECK_EVERY_S:
                self._check()
            if self._done % 20 == 0:
                acts = self._load.acts
                self._say(f"{self._done} faults, {acts['create']} jobs, {len(self.findings.found)} findings")

    def _check(self) -> None:
        """Watches (I5), acknowledged writes (I4), quota (I3), while the users go on and no fault is under way."""
        self._network.calm()
        ledger = self._load.ledger.copy()
        found = until_answered(lambda: {"jobs": jobs_of(self._client)}, self._load._stop)
        if found is not None:
            # Objects that users deleted meanwhile may be missing, and objects that they edited may be newer.
            ledger.asked |= self._load.ledger.asked
            ledger.judge(found["jobs"], self.findings, final=False)
        self._ask_witnesses(lambda witness: witness.check(self._client))
        self._checked_at = time.monotonic()
        self._judge_rest()
        self._network.go_on()

    def _ask_witnesses(self, question: Callable[[Witness], object]) -> None:
        """All at once: each answers when a stream has been silent for seconds."""
        with ThreadPoolExecutor(len(self._witnesses)) as threads:
            asked = [(witness, threads.submit(question, witness)) for witness in self._witnesses]
        for witness, answer in asked:
            try:
                answer.result()
            except (AssertionError, httpx.HTTPError, Refused) as error:
                self.findings.add("I5", witness.path, str(error))

    def _judge_rest(self) -> None:
        for text in self._books.above:
            self.findings.add("I3", text.partition(":")[0], f"by the bindings: {text}")
        for text in self.rig.keeper.unasked:
            self.findings.add("I13", text.partition(":")[0], f"a process ended by itself: {text}")
        for text in self._load.refused:
            self.findings.add("I10", text[:60], f"a user's write was refused: {text}")

    # -- the end ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """All jobs end; then nothing moves; then all is deleted, and nothing is left."""
        self._load.stop()
        self._say("faults are over; all jobs must end")
        self._until("lost", self._unfinished)
        found = jobs_of(self._client)
        self._load.ledger.judge(found, self.findings, final=True)
        self._judge_idle()
        self._ask_witnesses(Witness.judge)
        self._say("deleting everything")
        for job in jobs_of(self._client):
            namespace, _, name = job.partition("/")
            self._client.delete(f"{JOBS.format(namespace)}/{name}")
        self._until("I6", lambda: {name_of(body): "is left on the hub" for body in self._client.items(BINDINGS)})
        self._until("I6", lambda: dict.fromkeys(self._truth.left(), "though no job is left on the hub"))

    def _unfinished(self) -> dict[str, str]:
        """Jobs of users that have neither succeeded nor been deleted."""
        found = {job: body for job, body in jobs_of(self._client).items() if not job.startswith("probe-")}
        return {job: f"it ends {state_of(body) or '-'}" for job, body in found.items() if state_of(body) != "Succeeded"}

    def _until(self, rule: str, left: Callable[[], dict[str, str]]) -> None:
        """Wait until nothing is left; a finding for each thing that stays."""
        end, last = time.monotonic() + SETTLE_S, {"the hub": "it does not answer"}
        while last and time.monotonic() < end:
            try:
                last = left()
            except (httpx.HTTPError, Refused, ValueError):
                pass
            time.sleep(0.5)
        for about, text in last.items():
            self.findings.add(rule, about, f"{text} {SETTLE_S:g} s after the last fault")

    def _judge_idle(self) -> None:
        """I7: with jobs that run and a job that cannot start, no object changes any more but signs of life."""
        large = pytorchjob("waits", workers=7, gpus=8)
        self._client.post(JOBS.format("vision"), large)
        before, since = self._revisions(), time.monotonic()
        end = since + CALM_WITHIN_S
        while time.monotonic() < since + self._idle_s:
            time.sleep(1)
            after = self._revisions()
            if after != before and time.monotonic() > end:
                changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
                self.findings.add("I7", changed[0], f"changes on an idle hub, with {len(changed) - 1} others")
                return
            if after != before:
                before, since = after, time.monotonic()

    def _revisions(self) -> dict[str, str]:
        found = {}
        for path in (*WATCHED, QUEUES, CLUSTERS):
            for body in self._client.items(path):
                meta = body["metadata"]
                found[f"{path.rsplit('/', 1)[1]} {meta.get('namespace')}/{meta['name']}"] = meta["resourceVersion"]
        return found

    def _note_figures(self) -> None:
        self._judge_rest()
        struck = [each for each in self._striker.struck if each.hit]
        self.result.faults = dict(Counter(each.step.name for each in struck))
        self.result.faults |= {f"network {mode}": count for mode, count in self._network.struck.items()}
        self.result.figures |= {
            "kills": sum(each.step.kind is Kind.KILL for each in struck),
            "faults of processes": len(struck),
            "faults of networks": sum(self._network.struck.values()),
            "connections struck": sum(proxy.struck for proxy in self.rig.network.proxies.values()),
            "jobs": self._load.acts["create"],
            "acts": self._load.acts,
            "copies": self._truth.copies_seen,
            "looks": self._truth.looks,
            "GPUs used at most": self._truth.gpus_most,
            "watch events": sum(len(witness.lines) for witness in self._witnesses),
            "watches resumed": sum(witness.resumed for witness in self._witnesses),
        }
