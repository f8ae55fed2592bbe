"""Requests as kube-scheduler computes them, and free vectors that stay right whatever the order of events."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.model.amounts import Amounts
from fleet.core.model.leaving import vacated
from fleet.core.model.member import Member, Pool
from fleet.core.model.unit import Component, Unit
from fleet.kinds.requests import pod_requests
from fleet.members.nodes import MemberNode, MemberNodes

GPU = "nvidia.com/gpu"


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def test_limits_stand_in_for_missing_requests() -> None:
    spec = {"containers": [container({"cpu": "500m"}, {"cpu": 2, GPU: 1}), container({}, {"memory": "1Gi"})]}
    assert pod_requests(spec) == Amounts.of({"cpu": 500, GPU: 1, "memory": 1 << 30, "pods": 1})


def test_the_largest_init_container_counts_when_it_asks_for_more() -> None:
    init = [container({"cpu": 3}), container({"cpu": 1, "memory": "2Gi"})]
    spec = {"initContainers": init, "containers": [container({"cpu": 2, "memory": "1Gi"})]}
    assert pod_requests(spec) == Amounts.of({"cpu": 3000, "memory": 2 << 30, "pods": 1})


def test_sidecars_run_beside_what_starts_after_them() -> None:
    init = [container({"cpu": 1}, restartPolicy="Always"), container({"cpu": 5})]
    spec = {"initContainers": init, "containers": [container({"cpu": 2})]}
    assert pod_requests(spec)["cpu"] == 6000
    assert pod_requests({**spec, "initContainers": init[:1]})["cpu"] == 3000


def test_pod_level_resources_and_overhead_count() -> None:
    spec = {
        "containers": [container({"cpu": 1, GPU: 2})],
        "resources": {"requests": {"cpu": 4}},
        "overhead": {"cpu": "250m"},
    }
    assert pod_requests(spec) == Amounts.of({"cpu": 4250, GPU: 2, "pods": 1})


STEP = st.tuples(st.sampled_from(["node", "gone", "use", "free"]), st.integers(0, 3), st.integers(1, 4), st.booleans())


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_free_vectors_are_what_a_fresh_count_gives(steps: list[tuple[str, int, int, bool]]) -> None:
    nodes, there, used = MemberNodes(), dict[str, MemberNode](), Counter[str]()
    for what, number, gpus, flag in steps:
        name = f"n-{number}"
        match what:
            case "node":
                labels = (("pool", "a" if flag else "b"),)
                there[name] = MemberNode(name, (labels, ()), Amounts.of({GPU: gpus * 2}), usable=gpus != 4, ready=True)
                nodes.put(there[name])
            case "gone":
                there.pop(name, None)
                nodes.remove(name)
            case "use":
                used[name] += gpus
                nodes.use(name, Amounts.of({GPU: gpus}), 1)
            case "free" if used[name] >= gpus:
                used[name] -= gpus
                nodes.use(name, Amounts.of({GPU: gpus}), -1)
        nodes.pools()
    expected: dict[Any, Counter[int]] = {}
    for name, node in there.items():
        if node.usable:
            expected.setdefault(node.pool[0], Counter())[max(0, node.allocatable[GPU] - used[name])] += 1
    shown = {pool.labels: Counter({vector[GPU]: count for vector, count in pool.free}) for pool in nodes.pools()}
    assert shown == expected
    assert len(nodes) == len(there)
    assert nodes.unschedulable_count == sum(not node.usable for node in there.values())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(1, 3)), max_size=14))
def test_seats_say_what_is_free_once_some_have_left(pods: list[tuple[str, int, int]]) -> None:
    """Nodes n-0 … n-3 of 8, 8, 4 and 8 GPUs, the last one cordoned; whose pods do not fit overcommits its node."""
    nodes, held = MemberNodes(), dict[str, dict[str, Amounts]]()
    for number, gpus in enumerate((8, 8, 4, 8)):
        labels = (("pool", "a" if number else "b"),)
        nodes.put(MemberNode(f"n-{number}", (labels, ()), Amounts.of({GPU: gpus}), usable=number != 3, ready=True))
    for owner, number, gpus in pods:
        request, name = Amounts.of({GPU: gpus}), f"n-{number}"
        nodes.use(name, request, 1)
        held.setdefault(owner, {})[name] = held.get(owner, {}).get(name, Amounts()).plus(request)
    shown = Member("m", pools=nodes.pools())
    leaving = [
        Unit(owner, owner, (Component("worker", 1, Amounts.of({GPU: 1})),), visible=(("worker", 1),), seats=seats)
        for owner in "ab"
        if (seats := nodes.seats(held.get(owner, {})))
    ]
    used = [sum(gpus for _, at, gpus in pods if at == number) for number in range(3)]
    overcommitted = any(amount > limit for amount, limit in zip(used, (8, 8, 4), strict=True))
    expected = vacated(shown, leaving)
    for unit in leaving:
        for name, amounts in held[unit.id].items():
            nodes.use(name, amounts, -1)
    after = Member("m", pools=nodes.pools())
    if overcommitted:
        assert _free(expected) <= _free(after)
    else:
        assert _by_vector(expected.pools) == _by_vector(after.pools)


def _by_vector(pools: tuple[Pool, ...]) -> list[tuple[object, Counter[Amounts]]]:
    return [(pool.labels, Counter(dict(pool.free))) for pool in pools]


def _free(member: Member) -> int:
    return sum(vector[GPU] * count for pool in member.pools for vector, count in pool.free)
