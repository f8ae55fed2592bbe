"""The bound on the wait of a head that the documentation states, against small jobs that never stop coming.

    head_after + (heads ahead + 1) x (the longest that anything runs + one cycle) + two cycles

Against jobs that pass it by right it is twice `head_after` instead, where nothing runs for longer than the guarantee
delay less a few cycles. The fleet has nodes, the member's scheduler puts pods wherever it likes, and the inventory may
show them late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, tree, unit
from tests.core.placement.reservation.streams import CYCLE_S, Small, Stream, anywhere, pack, spread

SCHEDULERS = {"spreads": spread, "packs": pack, "throws dice": anywhere}
EVEN = tree(a={}, b={}, c={})
PROMISED = tree(a={"min": {GPU: 32}}, b={}, c={})
FLEET = {"x": 4, "y": 3}  # nodes of eight GPUs


def bound(longest_s: float, ahead: int = 0, head_after_s: float = 600.0) -> float:
    return head_after_s + (ahead + 1) * (longest_s + CYCLE_S) + 2 * CYCLE_S


def waits(
    stream: Stream, gpus: int, pods: int, *, leaf: str | None = "root/a", most_s: float, name: str = "gang"
) -> float:
    """How long a gang waits that comes to a fleet full of small jobs."""
    made = unit(name).gpus(gpus, pods=pods).queue(leaf).value
    stream.submit(made, runs_s=1800.0)
    came = stream.now
    while name not in stream.started and stream.now - came <= most_s:
        stream.cycle()
    return stream.started.get(name, float("inf")) - came


def full(small: Sequence[Small], quota: QuotaTree | None = EVEN, config: Config | None = None, **how: Any) -> Stream:
    stream = Stream(FLEET, quota, config or Config(), small, **how)
    for _ in range(4):
        stream.cycle()
    return stream


SIZES = [(8, 4), (8, 3), (8, 1), (4, 8), (3, 8), (5, 4), (1, 32), (2, 9)]


@pytest.mark.parametrize(
    ("quota", "gpus", "pods"), [*((EVEN, *size) for size in SIZES), *((PROMISED, *size) for size in SIZES[:3])]
)
def test_a_gang_of_any_size_starts_within_the_bound(quota: QuotaTree, gpus: int, pods: int) -> None:
    stream = full([Small("root/b")], quota)
    assert waits(stream, gpus, pods, most_s=bound(1200)) <= bound(1200)


def test_without_heads_it_never_starts() -> None:
    stream = full([Small("root/b")], config=Config(head_after_s=0))
    assert waits(stream, 8, 4, most_s=3 * bound(1200)) == float("inf")


STREAMS = {
    "that do not say how long they run": [Small("root/b", says=False)],
    "of every size": [Small("root/b", (1, 2, 4, 3, 5))],
    "of two leaves": [Small("root/b", (1, 2)), Small("root/c", (1,), (60.0, 300.0))],
    "outside quota": [Small(None)],
    "that end soon": [Small("root/b", runs_s=(60.0, 120.0))],
    "of two leaves, one of which says how long": [Small("root/b"), Small("root/c", says=False)],
}


@pytest.mark.parametrize(
    ("jobs", "scheduler"),
    [*((jobs, "throws dice") for jobs in STREAMS), *(("of every size", how) for how in SCHEDULERS)],
)
def test_against_a_stream_of_small_jobs(jobs: str, scheduler: str) -> None:
    longest = max(kind.runs_s[1] for kind in STREAMS[jobs])
    stream = full(STREAMS[jobs], scheduler=SCHEDULERS[scheduler], seen_late=True)
    limit = bound(longest, len(STREAMS[jobs]))  # the largest of the small ones may be heads of their leaves before it
    assert waits(stream, 8, 4, most_s=limit) <= limit


def test_against_small_jobs_of_its_own_leaf_that_use_up_its_share_its_guarantee_and_its_max() -> None:
    for quota in (EVEN, tree(a={"min": {GPU: 40}}, b={}), tree(a={"max": {GPU: 32}}, b={})):
        stream = Stream(FLEET, quota, Config(), [Small("root/a"), Small("root/b")])
        limit = bound(1200, ahead=2)
        assert waits(stream, 8, 4, most_s=limit) <= limit


def test_the_bound_counts_from_when_quota_is_there_where_jobs_of_its_leaf_do_not_say_how_long_they_run() -> None:
    """Until then nothing is kept for the gang but its turn and the quota; the jobs that run take 1200 s to end."""
    stream = Stream(FLEET, tree(a={"max": {GPU: 32}}, b={}), Config(), [Small("root/a", says=False), Small("root/b")])
    for _ in range(4):
        stream.cycle()
    limit = 1200 + CYCLE_S + bound(1200, ahead=1)
    assert waits(stream, 8, 4, most_s=limit) <= limit


OWN = {
    "half of the fleet is promised to each": (tree(a={"min": {GPU: 28}}, b={"min": {GPU: 28}}), 2),
    "half of the fleet is promised to it": (tree(a={"min": {GPU: 28}}, b={}), 4),
    "nothing is promised": (EVEN, 4),
    "another counts for three": (tree(a={}, b={"attributes": {"shared-weight": "3"}}), 4),
}


@pytest.mark.parametrize("reclaim", [False, True])
@pytest.mark.parametrize("quota", OWN)
def test_against_small_jobs_of_its_own_leaf_that_came_later_and_use_up_what_it_counts_on(
    quota: str, reclaim: bool
) -> None:
    """Jobs that came before the gang end first. The gang counts as within its share for as long as it had waited.
    Where others may take the excess back then, it returns to the front of its queue, and its next run is longer."""
    made, pods = OWN[quota]
    stream = full([Small("root/a"), Small("root/b")], made, Config(reclaim=reclaim))
    for _ in range(16):
        stream.cycle()
    limit = bound(1200, head_after_s=1200)
    assert waits(stream, 8, pods, most_s=limit) <= limit
    evicted = 0
    while "gang" in stream.units:
        stream.cycle()
        evicted += any(eviction.unit == "gang" for eviction in stream.plan.evictions)
        assert evicted <= int(reclaim)


FIRM = {
    "a fifth of the fleet, and others fill the rest": (12, 4, Small("root/b")),
    "all of the other member": (24, 3, Small("root/b", (1, 2))),
    "as many that do not say how long they run": (24, 2, Small("root/b", says=False)),
}


DELAY = Config(guarantee_delay_s=1200 + 4 * CYCLE_S)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("jobs", FIRM)
def test_against_guaranteed_jobs_of_another_leaf(jobs: str, scheduler: str) -> None:
    """They pass it until it is overdue; then they wait, too, and may be heads before it."""
    gpus, pods, others = FIRM[jobs]
    promised = tree(a={}, b={}, c={"min": {GPU: gpus}, "max": {GPU: gpus}})
    stream = full([Small("root/c", says=others.says), others], promised, DELAY, scheduler=SCHEDULERS[scheduler])
    limit = bound(1200, ahead=2, head_after_s=1200.0)
    assert waits(stream, 8, pods, most_s=limit) <= limit


@pytest.mark.parametrize("gpus", [2, 12])
def test_in_one_member_too(gpus: int) -> None:
    promised = tree(a={}, b={}, c={"min": {GPU: gpus}, "max": {GPU: gpus}})
    stream = Stream({"x": 4}, promised, DELAY, [Small("root/c"), Small("root/b")])
    for _ in range(4):
        stream.cycle()
    limit = bound(1200, ahead=1, head_after_s=1200.0)
    assert waits(stream, 8, 2, most_s=limit) <= limit


def test_against_small_jobs_of_higher_priority() -> None:
    stream = full([Small("root/b", priority=9)], config=DELAY)
    limit = bound(1200, ahead=1, head_after_s=1200.0)
    assert waits(stream, 8, 4, most_s=limit) <= limit


def test_where_the_inventory_does_not_say_who_shares_a_node() -> None:
    stream = full([Small("root/b")], seats=False)
    assert waits(stream, 8, 4, most_s=bound(1200)) <= bound(1200)


def test_where_room_may_be_taken_back() -> None:
    stream = full([Small("root/b", says=False, runs_s=(6000.0, 9000.0))], PROMISED, Config(reclaim=True))
    assert waits(stream, 8, 4, most_s=bound(300)) <= bound(300)


def test_with_the_solver_too() -> None:
    stream = full([Small("root/b", (1, 2, 4))], solver=CpSat())
    assert waits(stream, 8, 4, most_s=bound(1200, 1)) <= bound(1200, 1)


def test_heads_of_several_leaves_start_one_after_the_other() -> None:
    stream = full([Small(None)])
    came = stream.now
    for number, leaf in enumerate(("root/a", "root/b", "root/c")):
        made = unit(f"gang-{leaf}").gpus(8, pods=4).queue(leaf).value
        stream.submit(replace(made, walltime_s=1800.0), runs_s=1800.0 - number)
    for ahead in range(3):
        while len([key for key in stream.started if key.startswith("gang")]) <= ahead:
            stream.cycle()
            assert stream.now - came <= bound(1800, ahead)


@pytest.mark.parametrize("small", [(Small(None), Small("root/b")), (Small(None, (1, 2), says=False),)])
def test_gangs_outside_quota_start_one_after_the_other(small: Sequence[Small]) -> None:
    stream = full(small)
    came = stream.now
    for number, pods in enumerate((4, 3, 2)):
        stream.submit(unit(f"gang-{number}").gpus(8, pods=pods).queue(None).value, runs_s=1800.0)
    others = sum(kind.leaf is not None for kind in small)
    for number in range(3):
        while f"gang-{number}" not in stream.started:
            stream.cycle()
            assert stream.now - came <= bound(1800, number + others)


def test_small_jobs_go_on_beside_a_head_where_they_do_not_delay_it() -> None:
    """Short ones use the room until shortly before it starts, and the other member is used by all."""
    short = Small("root/c", (1,), (60.0, 120.0), waiting=40)
    stream = full([Small("root/b"), short])
    stream.submit(unit("gang").gpus(8, pods=4).queue("root/a").value, runs_s=1800.0)
    idle: list[int] = []
    late_start: list[str] = []
    while "gang" not in stream.started:
        stream.cycle()
        head = stream.units["gang"].head
        if head is not None:
            idle.append(sum(8 * nodes - stream.busy(name) for name, nodes in FLEET.items()))
            late_start += [p.unit for p in stream.plan.placements if p.member == head.member]
    assert len([name for name in late_start if name.startswith("small-root/c")]) > 20
    assert max(idle[:-3]) == 0, "nothing stands idle until the end is near"


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_bound_holds_whatever_comes(data: st.DataObject) -> None:
    members = data.draw(st.dictionaries(st.sampled_from("xyz"), st.integers(1, 4), min_size=1))
    gpus = data.draw(st.integers(1, 8))
    pods = data.draw(st.integers(1, 8 // gpus * max(members.values())))
    runs = data.draw(st.sampled_from(((60.0, 120.0), (300.0, 900.0), (60.0, 1800.0))))
    sizes = data.draw(st.sampled_from(((1,), (1, 2), (1, 2, 4, 8), (1, 3, 5))))
    small = [Small("root/b", sizes, runs, data.draw(st.booleans()), 15, data.draw(st.sampled_from((0, 5))))]
    quota = data.draw(st.sampled_from((EVEN, tree(a={"max": {GPU: gpus * pods}}, b={}))))
    how: dict[str, Any] = {
        "scheduler": data.draw(st.sampled_from((spread, pack, anywhere))),
        "seen_late": data.draw(st.booleans()),
        "seats": data.draw(st.booleans()),
        "seed": data.draw(st.integers(0, 99)),
    }
    config = Config(guarantee_delay_s=runs[1] + 4 * CYCLE_S)
    stream = Stream(members, quota, config, small, **how)
    for _ in range(data.draw(st.integers(1, 12))):
        stream.cycle()
    limit = bound(runs[1], ahead=1, head_after_s=1200.0)  # one of the small ones may be the head of its leaf
    assert waits(stream, gpus, pods, most_s=limit) <= limit
