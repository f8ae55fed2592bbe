"""Gauges that are read out of a snapshot: quota of queues and GPUs of members, within the rows that the page states."""

from __future__ import annotations

from typing import Any

from prometheus_client.metrics_core import Metric

from fleet.controllers.runtime import gauges
from fleet.controllers.runtime.metrics import size_of
from fleet.core.snapshot import Snapshot
from fleet.members.nodes import MemberNodes, read_node
from fleet.values.boundedvalues import BoundedValues
from tests.builders import GIB, GPU, MemberBuilder, amounts, member, snapshot, tree, unit
from tests.controllers.runtime.large import large_fleet
from tests.controllers.runtime.metrics_page import PAGE, stated_rows

H100 = {"nvidia.com/gpu.product": "H100"}
Rows = dict[tuple[str, ...], float]


def rows(metric: Metric) -> Rows:
    return {tuple(one.labels.values()): one.value for one in metric.samples}


def quota(found: Snapshot) -> dict[str, Rows]:
    return {
        metric.name.removeprefix("fleet_quota_"): rows(metric)
        for metric in gauges.of_quota(found, gauges.Shares(patience_s=60))
    }


def gpus(found: Snapshot, closed: dict[str, Any]) -> tuple[Rows, Rows]:
    states, fragmented = gauges.of_gpus(found.members, closed)
    return rows(states), rows(fragmented)


def test_quota_of_a_queue_is_used_promised_shared_and_limited() -> None:
    found = quota(
        snapshot(
            tree(
                ml={"min": {GPU: 4}, "max": {GPU: 16, "cpu": 32_500}},
                web={"max": {GPU: 16}},
                idle={},
            ),
            member("cfa").nodes(2, gpu=8, cpu=64),
            unit("runs").gpus(6).queue("root/ml").runs_in("cfa"),
            unit("waits").gpus(16).queue("root/web"),
            unit("held").gpus(8).queue("root/idle").having(held=True),
        )
    )
    assert (found["used"]["root/ml", GPU], found["used"]["root", GPU], found["used"]["root/web", GPU]) == (6, 6, 0)
    assert found["min"] == {("root/ml", GPU): 4}
    assert found["max"] == {("root/ml", GPU): 16, ("root/ml", "cpu"): 32.5, ("root/web", GPU): 16}
    shares = found["fair_share"]
    assert shares["root/ml", GPU] == 6 and shares["root/web", GPU] == 10, "ml asks for no more than 6"
    assert shares["root/idle", GPU] == 0, "a job that a person holds asks for nothing"
    assert found["queues_left_out"] == {(): 0}


def test_memory_is_told_in_bytes_and_jobs_are_no_resource() -> None:
    found = quota(snapshot(tree(ml={"max": {"memory": 3 * GIB}, "jobs": 5})))
    assert found["max"] == {("root/ml", "memory"): 3 * GIB}


def test_without_a_tree_there_are_no_rows() -> None:
    found = quota(snapshot(member("cfa").nodes(1, gpu=8)))
    assert found == {"used": {}, "min": {}, "fair_share": {}, "max": {}, "queues_left_out": {(): 0}}


def test_gpus_are_free_on_whole_nodes_or_fragmented() -> None:
    pool = member("cfa").nodes(2, gpu=8, labels=H100).value.pools[0]
    taken = pool.__class__(pool.labels, free=((amounts(gpu=3), 1), (amounts(gpu=8), 1)), allocatable=pool.allocatable)
    found = Snapshot.of(members=[member("cfa").having(pools=(taken,)).value])
    states, fragmented = gpus(found, {})
    model = "H100"
    assert states == {
        ("cfa", model, "allocated"): 5,
        ("cfa", model, "free"): 11,
        ("cfa", model, "cordoned"): 0,
    }
    assert fragmented == {("cfa", model): 3}


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": H100},
        "spec": spec,
        "status": {"allocatable": {GPU: "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_nodes_that_take_no_pods_are_cordoned_until_they_take_some_again() -> None:
    nodes = MemberNodes()
    nodes.put(read_node(node("a")))
    nodes.put(read_node(node("b", unschedulable=True)))
    nodes.put(read_node(node("c", unschedulable=True)))

    def cordoned() -> float:
        found = Snapshot.of(members=[MemberBuilder(member("cfa").value).having(pools=nodes.pools()).value])
        states, _ = gpus(found, {"cfa": nodes.closed()})
        assert states["cfa", "H100", "free"] + states["cfa", "H100", "cordoned"] == 8 * len(nodes)
        return states["cfa", "H100", "cordoned"]

    assert cordoned() == 16
    nodes.put(read_node(node("b")))
    assert cordoned() == 8
    nodes.remove("c")
    assert cordoned() == 0 and nodes.closed() == []


def test_classes_of_sizes_leave_no_gap() -> None:
    assert [size_of(count) for count in (0, 1, 2, 8, 9, 64, 65, 512, 513, 100_000)] == [
        "0",
        "1",
        "2-8",
        "2-8",
        "9-64",
        "9-64",
        "65-512",
        "65-512",
        "513+",
        "513+",
    ]


def test_a_bounded_label_keeps_its_first_values() -> None:
    label = BoundedValues(2, "(others)")
    assert [label(value) for value in "abcacb"] == ["a", "b", "(others)", "a", "(others)", "b"]


def test_a_fleet_of_a_thousand_members_and_ten_thousand_queues_stays_within_the_rows_that_the_page_states() -> None:
    stated, page = stated_rows(), PAGE.read_text()
    found = {
        family.name + ("_total" if family.type == "counter" else ""): len(family.samples)
        for family in large_fleet(members=1_100, models=10).registry.collect()
    }
    fleet = {name: count for name, count in found.items() if name.startswith("fleet_")}
    over = {name: (count, stated[name]) for name, count in fleet.items() if count > stated[name]}
    assert over == {}
    assert fleet["fleet_member_gpus"] == 24_000 and fleet["fleet_member_ready"] == 1_000
    assert fleet["fleet_quota_used"] == 200 and "10,000 queues" in page
    assert fleet["fleet_member_dispatch_seconds"] == stated["fleet_member_dispatch_seconds"]
