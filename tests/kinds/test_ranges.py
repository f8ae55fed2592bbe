"""Jobs that may run with fewer pods: the range that a job says of itself, and the job at such a size."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kinds import Interpreter
from fleet.kinds.declaration import flaws_of, read_declaration
from fleet.kinds.declared import DeclaredKind
from fleet.kinds.interpreter import Range
from tests.kinds.bodies import CASES, Body, kind_of, pods

LEAST = "fleet.io/min-replicas"
BY_ANNOTATION = {"batch/v1 Job", "apps/v1 Deployment", "apps/v1 StatefulSet"}


TORCH, RAY = kind_of("kubeflow.org/v1", "PyTorchJob"), kind_of("ray.io/v1", "RayCluster")
VOLCANO, DEPLOYMENT = kind_of("batch.volcano.sh/v1alpha1", "Job"), kind_of("apps/v1", "Deployment")


def torch(**spec: Any) -> Body:
    replicas = {"Master": {"template": pods()}, "Worker": {"replicas": 4, "template": pods()}}
    return {"metadata": {}, "spec": {"pytorchReplicaSpecs": replicas, **spec}}


def group(name: str = "a", **said: Any) -> Body:
    return {"groupName": name, "replicas": 4, "maxReplicas": 8, "template": pods(), **said}


def ray(*groups: Body, **spec: Any) -> Body:
    return {"metadata": {}, "spec": {"headGroupSpec": {"template": pods(0)}, "workerGroupSpecs": list(groups), **spec}}


def volcano(*tasks: Body, **spec: Any) -> Body:
    return {"metadata": {}, "spec": {"tasks": [{"template": pods(), **task} for task in tasks], **spec}}


def available(least: Any) -> Body:
    return {"schedulingPolicy": {"minAvailable": least}}


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        ({"elasticPolicy": {"minReplicas": 2}}, 2),
        ({"elasticPolicy": {}, "runPolicy": available(3)}, 2),
        ({"elasticPolicy": {}, "runPolicy": available(1)}, 1),
        ({"elasticPolicy": {"minReplicas": 1}, "runPolicy": available(4)}, 3),
        ({"elasticPolicy": {"minReplicas": 2}, "runPolicy": available(5)}, None),
        ({"elasticPolicy": {"minReplicas": 4}}, None),
        ({"elasticPolicy": {"minReplicas": 0}}, None),
        ({"elasticPolicy": {"minReplicas": True}}, None),
        ({"elasticPolicy": {}}, None),
        ({"elasticPolicy": None, "runPolicy": available(3)}, None),
        ({"runPolicy": available(3)}, None),
        ({}, None),
    ],
)
def test_a_pytorchjob_is_as_elastic_as_its_policy_says(spec: Body, least: int | None) -> None:
    assert TORCH.ranges(torch(**spec)) == ({"worker": Range(least)} if least else {})


@pytest.mark.parametrize(
    ("said", "spec", "found"),
    [
        ({"minReplicas": 1}, {}, {"a": (1, 1)}),
        ({"minReplicas": 2, "numOfHosts": 4}, {}, {"a": (8, 4)}),
        ({"minReplicas": 0}, {}, {}),  # the default of KubeRay
        ({"minReplicas": 4}, {}, {}),
        ({"minReplicas": 6}, {}, {}),  # then it has six
        ({"minReplicas": 1, "maxReplicas": 1}, {}, {}),
        ({"minReplicas": 1, "suspend": True}, {}, {}),
        ({"minReplicas": 1}, {"enableInTreeAutoscaling": True}, {}),
        ({"minReplicas": 1}, {"enableInTreeAutoscaling": False}, {"a": (1, 1)}),
        ({}, {}, {}),
    ],
)
def test_a_worker_group_of_ray_is_elastic_above_its_min_replicas(said: Body, spec: Body, found: Body) -> None:
    assert RAY.ranges(ray(group(**said), **spec)) == found


def test_a_worker_group_has_no_more_than_its_max_replicas() -> None:
    assert sizes(RAY, ray(group(replicas=9, numOfHosts=2))) == {"head": 1, "a": 16}


@pytest.mark.parametrize(
    ("tasks", "least", "found"),
    [
        ([{"name": "ps", "replicas": 1}, {"name": "w", "replicas": 6, "minAvailable": 2}], None, {"w": (2, 1)}),
        ([{"name": "ps", "replicas": 1}, {"name": "w", "replicas": 6, "minAvailable": 2}], 5, {"w": (4, 1)}),
        ([{"name": "ps", "replicas": 1}, {"name": "w", "replicas": 6, "minAvailable": 2}], 7, {}),
        ([{"name": "w", "replicas": 6}], 2, {}),  # Volcano then wants all replicas of the task
        ([{"name": "w", "replicas": 6, "minAvailable": 0}], 2, {}),
        (
            [{"name": "a", "replicas": 3, "minAvailable": 1}, {"name": "b", "replicas": 3, "minAvailable": 1}],
            5,
            {"b": (2, 1)},
        ),
        ([{"name": "w", "replicas": 6, "minAvailable": 3, "partitionPolicy": {"totalPartitions": 2}}], None, {}),
        ([{"name": "w", "replicas": 6, "minAvailable": 3}, {"name": "w", "replicas": 2}], None, {}),
    ],
)
def test_a_task_of_volcano_is_elastic_above_what_task_and_job_say(
    tasks: list[Body], least: int | None, found: Body
) -> None:
    job = {} if least is None else {"minAvailable": least}
    assert VOLCANO.ranges(volcano(*tasks, **job)) == found


def test_kinds_without_such_a_field_take_the_annotation_of_fleet() -> None:
    taken = {
        f"{case.api_version} {case.kind}" for case in CASES if kind_of(case.api_version, case.kind).takes_min_replicas
    }
    assert taken == BY_ANNOTATION
    for case in CASES:
        body = copy.deepcopy(case.body)
        body["metadata"]["annotations"][LEAST] = "2"
        expected = {"main": Range(2)} if f"{case.api_version} {case.kind}" in BY_ANNOTATION else {}
        found = kind_of(case.api_version, case.kind).ranges(body)
        assert {name: r for name, r in found.items() if case.kind != "RayCluster"} == expected


@pytest.mark.parametrize("said", ["0", "3", "12", "-1", "1.5", "two", ""])
def test_an_annotation_that_names_no_fewer_replicas_says_nothing(said: str) -> None:
    body = {"metadata": {"annotations": {LEAST: said}}, "spec": {"replicas": 3, "template": pods()}}
    assert DEPLOYMENT.ranges(body) == {}


# -- the body at a size

HOSTS = st.integers(1, 4)
TASKS = st.lists(st.tuples(st.integers(0, 8), st.none() | st.integers(0, 9)), min_size=1, max_size=4)
GROUPS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 9), st.integers(0, 9), HOSTS), min_size=1, max_size=3
)  # replicas, minReplicas, maxReplicas, numOfHosts
BODIES = st.one_of(
    st.builds(
        lambda tasks, least: (
            VOLCANO,
            volcano(
                *(
                    {"name": f"t{i}", "replicas": n, **({} if m is None else {"minAvailable": m})}
                    for i, (n, m) in enumerate(tasks)
                ),
                **({} if least is None else {"minAvailable": least}),
            ),
        ),
        TASKS,
        st.none() | st.integers(0, 20),
    ),
    st.builds(
        lambda groups: (
            RAY,
            ray(
                *(
                    group(f"g{i}", replicas=n, minReplicas=low, maxReplicas=high, numOfHosts=hosts)
                    for i, (n, low, high, hosts) in enumerate(groups)
                )
            ),
        ),
        GROUPS,
    ),
)


def sizes(kind: Interpreter, body: Body) -> dict[str, int]:
    return {part.name: part.replicas for part in kind.components(body)}


@given(BODIES, st.data())
def test_a_job_has_the_size_that_is_asked_for_anywhere_in_its_range(
    made: tuple[Interpreter, Body], data: st.DataObject
) -> None:
    kind, body = made
    before, has, ranges = copy.deepcopy(body), sizes(kind, body), kind.ranges(body)
    assert all(0 < found.least < has[name] for name, found in ranges.items())
    wanted = {
        name: found.least + found.step * data.draw(st.integers(0, (has[name] - found.least) // found.step))
        for name, found in ranges.items()
    }
    assert sizes(kind, kind.sized(body, wanted)) == {**has, **wanted} and body == before
    assert kind.sized(body, has) is body


@given(BODIES)
def test_a_job_at_its_least_has_as_many_pods_as_it_says_for_all_components(made: tuple[Interpreter, Body]) -> None:
    kind, body = made
    least, has = {name: found.least for name, found in kind.ranges(body).items()}, sizes(kind, body)
    smallest = sum({**has, **least}.values())
    for_all = body["spec"].get("minAvailable") or 0
    assert smallest >= min(for_all, sum(has.values()))
    for task in body["spec"].get("tasks") or ():
        if task["name"] in least:
            assert task["minAvailable"] <= least[task["name"]] < task["replicas"]


@given(BODIES, st.integers(0, 40))
def test_a_job_has_never_more_than_it_may(made: tuple[Interpreter, Body], most: int) -> None:
    kind, body = made
    has = sizes(kind, body)
    found = sizes(kind, kind.sized(body, dict.fromkeys(has, most)))
    if kind is RAY:  # its operator makes minReplicas all the same: the last look at the manifest refuses it
        lows = {g["groupName"]: g["minReplicas"] * g["numOfHosts"] for g in body["spec"]["workerGroupSpecs"]}
        assert all(count <= max(most, lows.get(name, 1)) for name, count in found.items())
    else:
        assert all(count <= most for count in found.values())


# -- declarations


def widget(**component: Any) -> Body:
    main = {"name": "main", "template": "object.spec.pod", **component}
    return {"target": {"group": "example.com", "kind": "Widget"}, "components": [main]}


def test_a_minimum_needs_a_field_for_the_replicas() -> None:
    [flaw] = flaws_of(widget(replicas="object.spec.a * 2", minimum="2"))
    assert (flaw.field, flaw.why) == ("spec.components[0].minimum", "needs replicasPath, the field for its replicas")
    assert flaws_of(widget(replicas="object.spec.a", minimum="2")) == []
    assert flaws_of(widget(replicas="object.spec.a * 2", minimum="2", replicasPath="object.spec.a")) == []
    wrong = flaws_of(widget(minimum="2", replicas="object.spec.a", replicasPath="status.a"))
    assert wrong[0].field == "spec.components[0].replicasPath"


def test_a_widget_changes_by_whole_replicas_of_several_pods() -> None:
    spec = widget(
        replicas="object.spec.n * object.spec.hosts",
        minimum="3",
        replicasPath="object.spec.n",
        podsPerReplica="object.spec.hosts",
    )
    kind = DeclaredKind(read_declaration(spec))
    body = {"metadata": {}, "spec": {"n": 4, "hosts": 2, "pod": pods()}}
    assert kind.ranges(body) == {"main": Range(4, 2)}, "half a replica is none"
    assert kind.sized(body, {"main": 5})["spec"]["n"] == 2
    assert kind.sized({**body, "spec": {**body["spec"], "hosts": 0}}, {"main": 0})["spec"]["n"] == 4


def test_pods_that_come_and_go_have_no_range() -> None:
    kind = DeclaredKind(read_declaration(widget(replicas="object.spec.n", minimum="1", atOnce=False)))
    assert kind.ranges({"metadata": {}, "spec": {"n": 4, "pod": pods()}}) == {}


@pytest.mark.parametrize(
    ("policy", "warned"),
    [
        ({"minReplicas": 6, "maxReplicas": 4}, ["has no effect, since it is above maxReplicas"]),
        ({"minReplicas": 4, "maxReplicas": 4}, []),
        ({"minReplicas": 6}, []),
    ],
)
def test_a_least_size_above_the_largest_is_warned_of(policy: Body, warned: list[str]) -> None:
    faults = list(TORCH.faults(torch(elasticPolicy=policy)))
    assert [fault.message for fault in faults] == warned and all(fault.warns for fault in faults)
