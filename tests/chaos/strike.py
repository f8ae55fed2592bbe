"""Carries out the faults of a plan, and measures how long the hub takes to be in step again.

In step: directly before a fault a probe job that runs in one member is deleted, and directly after it another is
created, through the process that was hit if that is an API. The hub is in step when that member's own API shows the new
one, and the old one no more: then writes, watches, the leader, decisions and dispatch all work again.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.chaos.client import JOBS, Client
from tests.chaos.findings import Findings
from tests.chaos.plan import LONG_S, Kind, NetworkFault, Step, network
from tests.chaos.proxy import Mode
from tests.chaos.rig import CONTROLLERS, Rig
from tests.chaos.skewed import hold_file
from tests.chaos.truth import Truth
from tests.chaos.work import until_answered
from tests.e2e.manifests import pytorchjob
from tests.testbed.processes import wait_for

IN_STEP_MAX_S = 60.0
FAULTY_MAX = 2  # members with a faulty network at once
CALM_S = 12.0  # a member whose network failed so lately is no place for a probe, if there is another


@dataclass
class Struck:
    """One fault. `hit`: it met a process. `in_step_s`: from its end; None: not within IN_STEP_MAX_S."""

    step: Step
    hit: bool
    in_step_s: float | None


class Network:
    """Strikes the members' networks from a thread of its own, and leaves alone the member that holds a probe."""

    def __init__(self, rig: Rig, seed: int, findings: Findings) -> None:
        self._rig, self._findings = rig, findings
        self._faults = network(seed)
        self._lock = threading.Lock()
        self._ended: dict[str, float] = dict.fromkeys(rig.members, float("-inf"))
        self._faulty: dict[str, float] = {}  # member -> when its fault ends
        self._probed = ""
        self._paused = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)
        self.struck: dict[Mode, int] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self.calm()

    def calm(self) -> None:
        """End every fault, and begin none until `go_on`."""
        self._paused.set()
        with self._lock:
            for member in list(self._faulty):
                self._end(member)

    def go_on(self) -> None:
        self._paused.clear()

    def place_for_probe(self, dice: random.Random) -> str:
        """A member whose network has worked for a while, and will until the next call."""
        with self._lock:
            now = time.monotonic()
            sound = [member for member in self._ended if member not in self._faulty]
            calm = [member for member in sound if now - self._ended[member] > CALM_S]
            self._probed = dice.choice(calm) if calm else min(sound, key=lambda member: self._ended[member])
            return self._probed

    def _run(self) -> None:
        fault, due = next(self._faults), 0.0
        while not self._stop.wait(0.05):
            now = time.monotonic()
            with self._lock:
                for member, until in list(self._faulty.items()):
                    if now >= until:
                        self._end(member)
                due = due or now + fault.gap_s
                if now >= due and not self._paused.is_set() and self._begin(fault):
                    fault, due = next(self._faults), 0.0

    def _begin(self, fault: NetworkFault) -> bool:
        free = [member for member in self._ended if member not in self._faulty and member != self._probed]
        if not free or len(self._faulty) >= FAULTY_MAX:
            return False
        member = free[int(fault.pick * len(free))]
        self._rig.network.proxies[member].set_mode(fault.mode)
        self._faulty[member] = time.monotonic() + fault.seconds
        self.struck[fault.mode] = self.struck.get(fault.mode, 0) + 1
        self._findings.note("faults", f"network of {member}: {fault.mode} for {fault.seconds:.1f} s")
        return True

    def _end(self, member: str) -> None:
        self._rig.network.proxies[member].set_mode(Mode.PASS)
        del self._faulty[member]
        self._ended[member] = time.monotonic()


@dataclass
class Striker:
    """`strike(step)` for each step of a plan."""

    rig: Rig
    network: Network
    truth: Truth
    findings: Findings
    seed: int
    struck: list[Struck] = field(default_factory=list)
    _probes: dict[str, str] = field(default_factory=dict)  # member -> the probe that runs there
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._dice = random.Random(f"strike {self.seed}")
        self._clients = {
            name: Client(path, timeout_s=3) for name, path in zip(self.rig.api_names, self.rig.apis, strict=True)
        }
        self._never = threading.Event()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def begin(self) -> None:
        """A probe in each member."""
        for member in self.rig.members:
            self._probes[member] = self._create(member, self._any_client())
        for member, job in self._probes.items():
            wait_for(f"a probe in {member}", lambda member=member, job=job: self.truth.has(member, job))

    def strike(self, step: Step) -> Struck:
        """One fault, and back in step after it."""
        time.sleep(step.pause_s)
        member = self.network.place_for_probe(self._dice)
        old = self._probes[member]
        self._delete(old)
        name, hit = "", True
        try:
            name = self.rig.named(step.target, self._dice)
            self.findings.note("faults", f"{step.name} {name} for {step.seconds:.1f} s, probes in {member}")
            self._carry_out(step, name)
        except (ProcessLookupError, TimeoutError) as error:
            hit = False
            self.findings.note("faults", f"{step.name}: {error!r}")
        began = time.monotonic()
        new = self._create(member, self._clients.get(name) or self._any_client())
        took = self._in_step(member, old, new, began)
        self._probes[member] = new
        struck = Struck(step, hit, took)
        self.struck.append(struck)
        if took is None:
            text = f"not in step {IN_STEP_MAX_S:g} s after {step.name}: {old} must leave {member}, {new} come"
            self.findings.add("in step", new, text)
        return struck

    def _in_step(self, member: str, old: str, new: str, began: float) -> float | None:
        while time.monotonic() < began + IN_STEP_MAX_S:
            if self.truth.has(member, new) and not self.truth.has(member, old):
                return time.monotonic() - began
            time.sleep(0.02)
        return None

    # -- faults ----------------------------------------------------------------------------------------------------

    def _carry_out(self, step: Step, name: str) -> None:
        if step.kind is Kind.DISK:
            self.rig.disk.fill()
            time.sleep(step.seconds)
            self.rig.disk.free()
        elif step.kind is Kind.CLOCK:
            self._jump(name, step.jump_s)
            time.sleep(step.seconds)
            self._jump(name, 0.0)
        elif step.kind in LONG_S:
            self._stop_and_wake(step, name)
        else:
            pids = self.rig.processes(step.target, name, self._dice)
            if name:
                self.rig.keeper.expect_end(name)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    def _jump(self, name: str, ahead_s: float) -> None:
        self.rig.clock_file(name).write_text(str(ahead_s))
        os.kill(self.rig.keeper.pid(name), signal.SIGUSR1)

    def _stop_and_wake(self, step: Step, name: str) -> None:
        deposed = step.target == "leader" and step.seconds >= LONG_S[step.kind]
        follower, log = "", ""
        with self._held(name) if step.kind is Kind.HOLD else self._stopped(step.target, name):
            time.sleep(step.seconds)
            if deposed:
                follower = next(other for other in CONTROLLERS if other != name)
                wait_for("another leads", lambda: self.rig.leader() == follower, 30)
                log = self.rig.keeper.log(name)
        if deposed:
            self._judge_woken(name, follower, log)

    @contextmanager
    def _held(self, name: str) -> Iterator[None]:
        file = hold_file(self.rig.clock_file(name))
        file.touch()
        try:
            os.kill(self.rig.keeper.pid(name), signal.SIGUSR2)
            yield
        finally:
            file.unlink()

    @contextmanager
    def _stopped(self, target: str, name: str) -> Iterator[None]:
        pids = self.rig.processes(target, name, self._dice)
        if target == "postgres":
            pids = self.rig.with_children(pids[0])
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _judge_woken(self, name: str, follower: str, log: str) -> None:
        """I11: the woken leader notices, and the Lease stays with the other. The rest shows in the members."""
        told = "stands for election again"
        before = log.count(told)
        try:
            wait_for("the old leader stands by", lambda: self.rig.keeper.log(name).count(told) != before, 30)
        except TimeoutError:
            self.findings.add("I11", name, "a leader that was halted, deposed and woken does not stand for election")
        end = time.monotonic() + 3
        while time.monotonic() < end:
            if self.rig.leader() == name:
                self.findings.add("I11", name, f"a woken leader took the Lease, and {follower} leads")
            time.sleep(0.2)

    # -- probes ----------------------------------------------------------------------------------------------------

    def _any_client(self) -> Client:
        return self._dice.choice(list(self._clients.values()))

    def _create(self, member: str, client: Client) -> str:
        namespace, name = probe_namespace(member), f"probe-{next(self._numbers)}"
        body = pytorchjob(name, workers=0, gpus=0)
        until_answered(lambda: client.post(JOBS.format(namespace), body), self._never, fine=(409,))
        return f"{namespace}/{name}"

    def _delete(self, job: str) -> None:
        namespace, _, name = job.partition("/")
        client = self._any_client()
        until_answered(lambda: client.delete(f"{JOBS.format(namespace)}/{name}"), self._never, fine=(404,))


def probe_namespace(member: str) -> str:
    return f"probe-{member}"
