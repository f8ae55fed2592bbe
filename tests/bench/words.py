"""What jobs cost a decision that are as large as admission lets them be, each with words of its own.

    python -m tests.bench.run words

Three members of 50 nodes that all differ by a label; no solver. Processor time of the deciding thread, by kind of job,
beside as many plain jobs. The last row of a kind is the decision after the costliest were left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fleet.controllers.decide.decider import Decider
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.model.unit import Component, NodeClaim, Requirement, Toleration, Unit
from fleet.core.snapshot import Snapshot
from tests.bench.report import Figure, Report
from tests.builders import GIB, NOW, amounts

JOBS = 1_000
WHOLE = amounts(gpu=8, cpu=64, memory=256, pods=110)
ONE = amounts(gpu=1, cpu=1, memory=1, pods=1)


def measure(report: Report, folder: Path, rounds: int) -> None:
    """Adds a figure for each way in which a manifest can be large."""
    for text, make in KINDS.items():
        first: list[float] = []
        later: list[float] = []
        for _ in range(rounds):
            decider = Decider(time.monotonic)
            for took in (first, later):
                units = [Unit(f"u{n:05}", f"ns/u{n}", make(n), enqueued_at=float(n)) for n in range(JOBS)]
                heard = decider.without_aside(Snapshot.of(units, members()), NOW)
                began = time.thread_time()
                decider.decide(heard, now=NOW, solver=None, mark=lambda part: None)
                took.append(time.thread_time() - began)
        name = f"a decision about {JOBS:,} jobs with {text}"
        report.add(Figure(name, "s", tuple(first), "< 2 s"))
        report.add(Figure(f"{name}, the next one", "s", tuple(later), "< 1 s"))


def members() -> list[Member]:
    return [
        Member(name, pools=tuple(_node(f"{name}-n{number}", number) for number in range(50)))
        for name in ("m0", "m1", "m2")
    ]


def _node(name: str, number: int) -> Pool:
    labels = (("kubernetes.io/hostname", name), ("zone", f"z{number % 5}"))
    return Pool(labels, free=((WHOLE, 1),), allocatable=WHOLE)


def _claimed(claim: NodeClaim) -> tuple[Component, ...]:
    return (Component("worker", 1, ONE, claim),)


def _resources(n: int) -> tuple[Component, ...]:
    return (Component("worker", 1, ONE.plus(amounts(**{f"example.com/r{n}-{k}": 1 for k in range(64)}))),)


def _terms(n: int) -> tuple[Component, ...]:
    return _claimed(NodeClaim(affinity=tuple((Requirement("zone", "In", (f"{n}-{k}",)),) for k in range(64))))


def _expressions(n: int) -> tuple[Component, ...]:
    return _claimed(NodeClaim(affinity=(tuple(Requirement(f"k{n}-{k}", "DoesNotExist") for k in range(256)),)))


def _values(n: int) -> tuple[Component, ...]:
    hosts = tuple(f"{n}-{k}" for k in range(2_000))
    return _claimed(NodeClaim(affinity=((Requirement("kubernetes.io/hostname", "NotIn", hosts),),)))


def _tolerations(n: int) -> tuple[Component, ...]:
    return _claimed(NodeClaim(tolerations=tuple(Toleration(f"k{n}-{k}", "Exists") for k in range(64))))


def _selectors(n: int) -> tuple[Component, ...]:
    return _claimed(NodeClaim(node_selector=tuple((f"k{n}-{k}", "v") for k in range(64))))


def _odd(n: int) -> tuple[Component, ...]:
    sizes = (Amounts.of({**ONE, "cpu": 7_919 + n * 131 + k * 37, "memory": GIB + n * 7_919 + k}) for k in range(8))
    return tuple(Component(f"w{k}", 3 + k, size) for k, size in enumerate(sizes))


def _replicas(n: int) -> tuple[Component, ...]:
    return (Component("worker", 100 + n, ONE),)


KINDS: dict[str, Callable[[int], tuple[Component, ...]]] = {
    "one GPU each": lambda n: (Component("worker", 1, ONE),),
    "64 resources of their own": _resources,
    "64 terms of node affinity": _terms,
    "256 expressions": _expressions,
    "2,000 values": _values,
    "64 tolerations": _tolerations,
    "64 selectors": _selectors,
    "eight kinds of pods of odd sizes": _odd,
    "100 to 1,100 replicas": _replicas,
}
