"""A member that shows too much, too large or too often costs the others nothing, and the hub a bounded amount."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.slices import SLICE_S
from fleet.members import follow
from fleet.members.allowance import LoopTime, MemberMemory, TooMuch, weight
from fleet.members.clusters import ClusterMembers
from fleet.members.connection import HttpAnswer, TooLarge, Unreachable
from fleet.members.follow import PAGE, PAGES_MAX, Follower
from fleet.members.members import ActResult
from fleet.values.ports import Body
from tests.members.builders import config_map, node, ours
from tests.members.conftest import HUB, LIMITS, SimulatedTarget, eventually, simulated_target
from tests.simulate.faulty import faulty

Sizes = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50) | st.none()), max_size=40)


@given(Sizes)
def test_what_is_kept_is_the_sum_of_what_is_not_dropped(changes: list[tuple[int, int | None]]) -> None:
    kept, model = MemberMemory(10_000, 100), dict[int, int]()
    for of, size in changes:
        if size is None:
            kept.drop(of)
            model.pop(of, None)
        else:
            kept.put(of, size)
            model[of] = size
        assert kept.bytes == sum(model.values())


def test_more_bytes_or_more_objects_than_the_bound_are_too_much() -> None:
    kept = MemberMemory(1 << 20, 2)
    kept.put("a", 1 << 19)
    with pytest.raises(TooMuch, match="more than the 1 MiB that the hub keeps of a member"):
        kept.put("b", (1 << 19) + 1)
    kept.put("b", 1)
    with pytest.raises(TooMuch, match="more than the 2 objects"):
        kept.put("c", 1)


def test_the_weight_of_small_values_counts_the_memory_that_they_take() -> None:
    assert weight([[]] * 1000) > 50_000 and weight({"a": "b" * 1000}) > 1000 and weight((1, 2.0, None)) > 90


# -- the whole member


def too_many(named: list[int]) -> tuple[int, Any]:
    """A page of a list of nodes that never ends."""
    named[0] += 20
    labels = {f"label-{number}": "x" * 60 for number in range(100)}
    items = [node(f"n-{number}", labels=labels) for number in range(named[0] - 20, named[0])]
    return 200, {"kind": "NodeList", "items": items, "metadata": {"continue": f"more-{named[0]}"}}


async def test_a_member_that_shows_too_much_is_unreachable_until_it_shows_less() -> None:
    floods, named = [True], [0]

    def fault(method: str, path: str) -> tuple[int, Any] | None:
        return too_many(named) if floods and path == "/api/v1/nodes" else None

    members = ClusterMembers(limits=replace(LIMITS, kept_bytes=4 << 20, too_much_s=0.1))
    async with simulated_target("cfa") as evil, simulated_target("cfb") as good, faulty(evil.cluster.url, fault) as at:
        try:
            await members.add("cfb", good.kubeconfig, HUB)
            await members.add("cfa", evil.kubeconfig.replace(evil.cluster.url, at.url), HUB)
            await eventually(lambda: (s := members.state("cfa")) and s.reason == "TooManyObjects", what="too much")
            state = members.state("cfa")
            assert state is not None and state.message.endswith("4 MiB that the hub keeps of a member")
            outcome = await members.apply("cfa", config_map(ours("default", "a")))
            assert outcome.did is ActResult.UNREACHABLE and "4 MiB" in outcome.message
            await eventually(lambda: members.ready("cfb"), what="the other member")
            assert not members.ready("cfa") and members.model("cfa") is None
            floods.clear()
            await eventually(lambda: members.ready("cfa"), what="back")
            assert len(members.nodes("cfa")) == 4  # and none of the others
        finally:
            await members.stop()


async def test_a_ready_member_that_begins_to_show_too_much_keeps_nothing() -> None:
    async with simulated_target("cfa") as target:
        members = ClusterMembers(limits=replace(LIMITS, kept_bytes=1 << 20, too_much_s=3600.0))
        try:
            await members.add("cfa", target.kubeconfig, HUB)
            await eventually(lambda: members.ready("cfa"))
            await members.apply("cfa", config_map(ours("default", "small"), code="x"))
            for number in range(8):
                await target.create_node(node(f"large-{number}", labels={f"label-{n}": "x" * 60 for n in range(900)}))
            await eventually(lambda: not members.ready("cfa"), what="too much")
            assert members.owned("cfa") == [] and list(members.nodes("cfa")) == []
            state = members.state("cfa")
            assert state is not None and state.reason == "TooManyObjects"
        finally:
            await members.stop()


# -- lists


class Lists:
    """A connection whose lists are answered by `answer`, of the parameters."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def request(self, *_: Any, params: Body, **__: Any) -> HttpAnswer:
        await asyncio.sleep(0)
        return HttpAnswer(200, self._answer(params))


class Seen:
    def __init__(self) -> None:
        self.bodies: list[Body] = []
        self.complete = 0

    def started(self) -> None: ...

    def seen(self, body: Body) -> None:
        self.bodies.append(body)

    def gone(self, body: Body) -> None:
        self.bodies.append(body)

    def listed(self) -> None:
        self.complete += 1


def follower(answer: Any, sink: Seen, time: LoopTime | None = None) -> Follower:
    return Follower(Lists(answer), "/x", sink, contact=lambda: None, time=time)  # type: ignore[arg-type]


async def test_a_list_without_an_end_is_ended() -> None:
    pages: list[Body] = []

    def answer(params: Body) -> Body:
        pages.append(params)
        return {"items": [], "metadata": {"continue": "more"}}

    with pytest.raises(Unreachable, match=f"more than {PAGES_MAX} pages"):
        await follower(answer, Seen())._list_in_time()
    assert len(pages) == PAGES_MAX


async def test_a_list_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LIST_ALL_S", 0.0)
    with pytest.raises(Unreachable, match="no end within 0 s"):
        await follower(lambda params: {"metadata": {"continue": "more"}}, Seen())._list_in_time()


async def test_pages_that_are_too_large_are_asked_for_smaller() -> None:
    asked: list[str] = []

    def answer(params: Body) -> Body:
        asked.append(params["limit"])
        if int(params["limit"]) > 10:
            raise TooLarge(16 << 20)
        return {"items": [{"metadata": {}}] * int(params["limit"]), "metadata": {"resourceVersion": "1"}}

    sink = Seen()
    running = asyncio.create_task(follower(answer, sink).run())
    await eventually(lambda: sink.complete)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert asked[:3] == [str(PAGE), str(PAGE // 10), str(PAGE // 100)] and len(sink.bodies) == PAGE // 100


# -- time on the event loop


class Clock:
    def __init__(self) -> None:
        self.now, self.sleeps = 0.0, list[float]()

    def time(self) -> LoopTime:
        return LoopTime(share=0.2, burst_s=1.0, now=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


@given(st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 2)), min_size=1, max_size=60))
async def test_a_member_has_its_burst_and_its_share_and_no_more(spent: list[tuple[float, float]]) -> None:
    clock = Clock()
    time, total = clock.time(), 0.0
    for busy, idle in spent:
        clock.now += idle + busy
        total += busy
        await time.spend(busy)
        assert total <= 1.0 + 0.2 * clock.now + 1e-6


class Slow(Seen):
    """Each object costs a slice of the loop's time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def seen(self, body: Body) -> None:
        super().seen(body)
        self._clock.now += 2 * SLICE_S


def change(uid: str, number: int, kind: str = "MODIFIED") -> bytes:
    return orjson.dumps({"type": kind, "object": {"metadata": {"uid": uid, "resourceVersion": str(number)}}})


async def test_others_have_a_turn_after_each_slice_and_a_long_one_beyond_the_share() -> None:
    clock = Clock()
    sink = Slow(clock)
    one = follower(lambda params: {}, sink, clock.time())
    for number in range(20):
        await one._take_all([change(f"u-{number}-{n}", n) for n in range(100)])
    assert len(sink.bodies) == 2000 and len(clock.sleeps) >= 2000
    assert 1.0 + 0.2 * clock.now + 1e-6 >= 2000 * 2 * SLICE_S


async def test_of_changes_of_one_object_that_come_together_the_last_counts() -> None:
    sink = Seen()
    one = follower(lambda params: {}, sink)
    await one._take_all([change("a", 1), change("b", 2), *(change("a", n) for n in range(3, 1000))])
    assert [body["metadata"]["resourceVersion"] for body in sink.bodies] == ["2", "999"]
    await one._take_all([change("a", 1000), change("a", 1001, "DELETED"), change("c", 1002, "ADDED")])
    assert [body["metadata"]["resourceVersion"] for body in sink.bodies[2:]] == ["1001", "1002"]


@asynccontextmanager
async def flooding(target: SimulatedTarget) -> AsyncIterator[None]:
    """One node of the target changes without end."""

    async def flood() -> None:
        number = 0
        while True:
            number += 1
            await target.merge("/api/v1/nodes/node-0", {"metadata": {"labels": {"number": str(number)}}})

    running = asyncio.create_task(flood())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_node_that_changes_without_end_keeps_no_other_member_waiting(members: ClusterMembers) -> None:
    async with simulated_target("cfa") as noisy, simulated_target("cfb") as good, flooding(noisy):
        await members.add("cfa", noisy.kubeconfig, HUB)
        await members.add("cfb", good.kubeconfig, HUB)
        await eventually(lambda: members.ready("cfa") and members.ready("cfb"))
        for number in range(20):
            assert (await members.apply("cfb", config_map(ours("default", f"c-{number}")))).did is ActResult.DONE
