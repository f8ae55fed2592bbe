"""The exchange of placeholders for the pods of the job: no seat is unguarded at any moment, wherever it is cut off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.controllers.room.placeholders import placeholders
from fleet.controllers.room.swap import exchange
from fleet.core.model.amounts import Amounts
from fleet.core.model.pod import PodView
from fleet.kinds import interpreter_of
from fleet.wellknown import ATTEMPT, LABEL_BINDING, LABEL_COMPONENT, LABEL_HUB


def pod(name: str, node: str = "", *, component: str = "worker", placeholder: bool = False, **how: Any) -> PodView:
    view = PodView(
        member="cfa",
        namespace="default",
        name=name,
        uid=name,
        node=node,
        phase="Pending",
        ready=False,
        terminating=False,
        binding="b1",
        component=component,
        attempt=1,
        requests=Amounts.of({"pods": 1}),
        placeholder=placeholder,
        gated=not placeholder,
    )
    return replace(view, **how)


def held(name: str, node: str, component: str = "worker") -> PodView:
    return pod(name, node, component=component, placeholder=True)


def test_each_gated_pod_gets_the_place_of_a_placeholder_of_its_component() -> None:
    pods = [held("h-0", "n0"), held("h-1", "n1", "master"), pod("w-0"), pod("m-0", component="master")]
    pairs = {(pair.pod.name, pair.placeholder.node) for pair in exchange(pods).pairs}
    assert pairs == {("w-0", "n0"), ("m-0", "n1")}


def test_a_pod_that_comes_later_finds_its_placeholder_still_there() -> None:
    pods = [held("h-0", "n0", "launcher"), pod("w-0", "n1", gated=False), pod("l-0", component="launcher")]
    assert [pair.pod.name for pair in exchange(pods).pairs] == ["l-0"]


def test_a_pod_that_its_operator_makes_again_has_no_placeholder_and_may_go() -> None:
    due = exchange([pod("w-0", "n0", gated=False), pod("w-1")])
    assert ([p.name for p in due.free], list(due.pairs)) == (["w-1"], [])


def test_a_pod_that_leaves_takes_nobodys_place() -> None:
    due = exchange([held("h-0", "n0"), pod("w-old", terminating=True), pod("w-new")])
    assert [pair.pod.name for pair in due.pairs] == ["w-new"]


def test_after_a_cut_a_pod_whose_placeholder_went_is_let_go_and_takes_no_second_place() -> None:
    pods = [held("h-1", "n0"), pod("w-0", takes="h-0"), pod("w-1", takes="h-1"), pod("w-2")]
    due = exchange(pods)
    assert ([pair.pod.name for pair in due.pairs], [p.name for p in due.free]) == (["w-1"], ["w-0", "w-2"])


@given(
    seats=st.lists(st.sampled_from(["n0", "n1", "n2"]), min_size=1, max_size=6),
    late=st.integers(0, 5),
    cuts=st.lists(st.integers(0, 12), max_size=8),
)
def test_every_seat_is_guarded_at_every_line_and_all_pods_are_let_go_in_the_end(
    seats: list[str], late: int, cuts: list[int]
) -> None:
    """`cuts`: how many acts each run makes before it is killed; the last run is not. `late`: pods that come after."""
    count = len(seats)
    placeholders = {f"h-{i}": held(f"h-{i}", node) for i, node in enumerate(seats)}
    waiting = [pod(f"w-{i}") for i in range(count)]
    pods = {p.name: p for p in waiting[: max(1, count - late)]}
    at: dict[str, str] = {}  # nominations
    for run, acts in enumerate([*cuts, 100, 100]):
        if run >= len(cuts):
            pods.update({p.name: p for p in waiting if p.name not in pods})
        due = exchange([*placeholders.values(), *pods.values()])
        steps: list[tuple[str, str, PodView | None]] = []
        steps += [("nominate", pair.pod.name, pair.placeholder) for pair in due.pairs]
        steps += [("delete", pair.placeholder.name, pair.placeholder) for pair in due.pairs]
        steps += [("open", name, None) for name in [p.pod.name for p in due.pairs] + [p.name for p in due.free]]
        for what, name, placeholder in steps[:acts]:
            if what == "nominate" and placeholder is not None:
                pods[name], at[name] = replace(pods[name], takes=placeholder.name), placeholder.node
            elif what == "delete":
                del placeholders[name]
            else:
                pods[name] = replace(pods[name], gated=False, node=at[name])
            for node in set(seats):
                guards = sum(1 for p in placeholders.values() if p.node == node)
                guards += sum(1 for found in at.values() if found == node)
                assert guards >= seats.count(node), f"a seat on {node} is anybody's after {what} {name}"
    assert not placeholders
    assert sorted(p.node for p in pods.values()) == sorted(seats)


@pytest.mark.parametrize(("group", "part"), [("gpus", "gpus"), ("gpu_group", "part1")])
def test_a_placeholder_has_a_name_that_a_pod_may_have(group: str, part: str) -> None:
    interpreter = interpreter_of("ray.io/v1", "RayCluster")
    assert interpreter is not None
    template = {"spec": {"containers": [{"name": "ray", "image": "x"}]}}
    groups = [{"groupName": group, "replicas": 1, "template": template}]
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "r", "namespace": "default", "labels": {}},
        "spec": {"headGroupSpec": {"template": template}, "workerGroupSpecs": groups},
    }
    marks = {LABEL_HUB: "hub", LABEL_BINDING: "0123456789", ATTEMPT: "1"}
    pods = placeholders(interpreter.stamp(job, marks, {}), interpreter, 60, "pause")
    assert [pod["metadata"]["name"] for pod in pods] == ["fleet-01234567-1-head-0", f"fleet-01234567-1-{part}-0"]
    assert [pod["metadata"]["labels"][LABEL_COMPONENT] for pod in pods] == ["head", group]
