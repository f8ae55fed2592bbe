"""Changes by users under waiting and running work: policies, the tree, jobs, and what jobs name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.chaos.client import JOBS, POLICIES, TREES, Body, Client, Refused
from tests.chaos.work import delete_all, expect_all, namespace_of, states
from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree

pytestmark = pytest.mark.xdist_group("chaos")

_numbers = itertools.count(1)
GPU = "nvidia.com/gpu"


@dataclass
class Desk:
    """A namespace with a leaf of its own name on the shared hub, and the verbs of a user who edits."""

    world: World
    client: Client
    namespace: str
    extra: list[str] = field(default_factory=list)

    def submit(self, name: str, **more: Any) -> None:
        self.client.post(JOBS.format(self.namespace), pytorchjob(name, **{"workers": 1, **more}))

    def tree(self, *leaves: Body) -> None:
        """Replace the tree, or make it."""
        tree = quota_tree(*leaves)
        try:
            self.client.patch(f"{TREES}/elasticquotatree", {"spec": tree["spec"]})
        except Refused as refused:
            if refused.code != 404:
                raise
            self.client.post(TREES, tree)

    def no_tree(self) -> None:
        self.client.delete(f"{TREES}/elasticquotatree")

    def policy(self, **spec: Any) -> None:
        self.client.patch(f"{POLICIES.format(self.namespace)}/gang", {"spec": spec})

    def job(self, name: str) -> str:
        return f"{JOBS.format(self.namespace)}/{name}"

    def expect(self, name: str, state: str, within_s: float = 120) -> None:
        """Fails unless the job comes into this state in time."""
        expect_all(self.world, self.client, [f"{self.namespace}/{name}"], state, within_s)

    def placed(self, name: str) -> str:
        return self.world.placed(name, self.namespace)

    def expect_waits(self, name: str, words: str) -> None:
        """Fails unless the job comes to wait in no member, with these words as its reason."""
        self.world.until(f"{name} waits: {words}", lambda: words in self.world.message(name, self.namespace))
        assert self.placed(name) == ""

    def copies(self) -> list[tuple[str, str]]:
        return [
            (member, body["metadata"]["name"])
            for member in self.world.members
            for body in self.client.in_member(member, JOBS.format(self.namespace))
        ]


@pytest.fixture
def desk(shared: World) -> Iterator[Desk]:
    client = Client(shared.hub.kubeconfig)
    name = f"desk-{next(_numbers)}"
    client.post("/api/v1/namespaces", namespace_of(name))
    client.post(POLICIES.format(name), gang_policy(queue=True))
    desk = Desk(shared, client, name)
    desk.tree(leaf(name, name))
    yield desk
    delete_all(shared, client)
    for namespace in (name, *desk.extra):
        client.delete(f"/api/v1/namespaces/{namespace}")
    desk.no_tree()
    client.close()


def test_a_placement_that_excludes_the_current_member_moves_the_job(desk: Desk) -> None:
    desk.submit("moves")
    desk.expect("moves", "Running")
    first = desk.placed("moves")
    others = [member for member in desk.world.members if member != first]
    desk.policy(placement={"clusterAffinity": {"clusterNames": others}})
    desk.world.until("it is elsewhere", lambda: desk.placed("moves") in others)
    desk.expect("moves", "Running")
    desk.world.until("one copy", lambda: desk.copies() == [(desk.placed("moves"), "moves")])


def test_switching_suspension_off_lets_the_waiting_go_and_on_again_queues_the_next(desk: Desk) -> None:
    desk.tree(leaf(desk.namespace, desk.namespace, **{"kube-queue/max-jobs": 0}))
    desk.submit("first")
    desk.expect_waits("first", "no jobs at all")
    desk.policy(suspension=None)
    desk.expect("first", "Running")
    desk.policy(suspension={"scheduling": True})
    desk.submit("second")
    desk.expect_waits("second", "no jobs at all")
    assert states(desk.client)[f"{desk.namespace}/first"] == "Running"


def test_a_policy_deleted_while_its_job_waits_leaves_the_job_and_a_new_one_takes_it(desk: Desk) -> None:
    desk.tree(leaf(desk.namespace, desk.namespace, **{"kube-queue/max-jobs": 0}))
    desk.submit("waits")
    desk.expect_waits("waits", "no jobs at all")
    desk.client.delete(f"{POLICIES.format(desk.namespace)}/gang")
    desk.client.post(POLICIES.format(desk.namespace), gang_policy(queue=True))
    desk.tree(leaf(desk.namespace, desk.namespace))
    desk.expect("waits", "Running")


def test_a_lazy_policy_changed_while_its_job_waits_does_not_hold_the_job_for_ever(desk: Desk) -> None:
    desk.policy(activationPreference="Lazy")
    desk.tree(leaf(desk.namespace, desk.namespace, **{"kube-queue/max-jobs": 0}))
    desk.submit("lazy")
    desk.expect_waits("lazy", "no jobs at all")
    desk.policy(placement={"clusterAffinity": {"clusterNames": [desk.world.members[1]]}})
    desk.tree(leaf(desk.namespace, desk.namespace))
    desk.expect("lazy", "Running")


def test_a_leaf_shrunk_below_its_usage_starts_nothing_new_and_stops_nothing(desk: Desk) -> None:
    desk.submit("runs", workers=3)
    desk.expect("runs", "Running")
    desk.tree(leaf(desk.namespace, desk.namespace, **{GPU: 2}))
    desk.submit("small", workers=0)
    desk.expect_waits("small", GPU)
    assert states(desk.client)[f"{desk.namespace}/runs"] == "Running"
    desk.client.delete(desk.job("runs"))
    desk.expect("small", "Running")


def test_a_namespace_that_moves_to_another_leaf_takes_its_waiting_jobs_along(desk: Desk) -> None:
    name = desk.namespace
    desk.tree(leaf("tight", name, **{"kube-queue/max-jobs": 0}), leaf("wide"))
    desk.submit("moves")
    desk.expect_waits("moves", "no jobs at all")
    desk.tree(leaf("tight", **{"kube-queue/max-jobs": 0}), leaf("wide", name))
    desk.expect("moves", "Running")


def test_a_tree_deleted_and_made_again_finds_waiting_and_running_jobs_where_they_were(desk: Desk) -> None:
    limits = {"kube-queue/max-jobs": 1}
    desk.tree(leaf(desk.namespace, desk.namespace, **limits))
    desk.submit("runs")
    desk.expect("runs", "Running")
    desk.submit("waits")
    desk.expect_waits("waits", "at most 1")
    for _ in range(3):
        desk.no_tree()
        desk.tree(leaf(desk.namespace, desk.namespace, **limits))
    desk.no_tree()
    desk.expect_waits("waits", "quota")  # no leaf, no start
    desk.tree(leaf(desk.namespace, desk.namespace, **limits))
    desk.expect_waits("waits", "at most 1")
    assert states(desk.client)[f"{desk.namespace}/runs"] == "Running"
    desk.client.delete(desk.job("runs"))
    desk.expect("waits", "Running")


def test_a_waiting_job_that_grows_is_decided_by_its_new_size(desk: Desk) -> None:
    desk.tree(leaf(desk.namespace, desk.namespace, **{GPU: 4}))
    desk.submit("grows", workers=7)
    desk.expect_waits("grows", GPU)
    job = desk.client.get(desk.job("grows"))
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 3
    desk.client.put(desk.job("grows"), job)
    desk.expect("grows", "Running")
    unit = desk.world.unit("grows", desk.namespace)
    assert [entry["count"] for entry in unit["spec"]["podSet"]] == [1, 3]


def test_a_running_job_that_is_edited_is_edited_in_its_member(desk: Desk) -> None:
    desk.submit("edited", workers=2)
    desk.expect("edited", "Running")
    path = f"/api/v1/namespaces/{desk.namespace}/pods"

    def workers(count: int) -> None:
        specs = {"Worker": {"replicas": count}}
        desk.client.patch(desk.job("edited"), {"spec": {"pytorchReplicaSpecs": specs}})

    def pods() -> int:
        return len(desk.client.in_member(desk.placed("edited"), path))

    with pytest.raises(Refused, match="10000 replicas of worker, 2 admitted: asks for"):
        workers(10_000)
    workers(3)
    desk.world.until("four pods", lambda: pods() == 4)
    workers(1)
    desk.world.until("two pods", lambda: pods() == 2)
    desk.expect("edited", "Running")


def test_a_config_map_that_changes_while_its_job_runs_changes_in_the_member(desk: Desk) -> None:
    maps = f"/api/v1/namespaces/{desk.namespace}/configmaps"
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"lr": "0.1"}}
    desk.client.post(maps, made)
    pod = {"volumes": [{"name": "config", "configMap": {"name": "settings"}}]}
    desk.submit("reads", pod=pod)
    desk.expect("reads", "Running")

    def value() -> str:
        found = desk.client.in_member(desk.placed("reads"), maps)
        return next((m["data"]["lr"] for m in found if m["metadata"]["name"] == "settings"), "")

    assert value() == "0.1"
    desk.client.patch(f"{maps}/settings", {"data": {"lr": "0.2"}})
    desk.world.until("the copy changes", lambda: value() == "0.2")


def test_higher_priority_starts_first(desk: Desk) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in (("low", 1), ("high", 1000)):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        desk.client.post(classes, {**body, "metadata": {"name": f"{desk.namespace}-{name}"}})
    try:
        desk.tree(leaf(desk.namespace, desk.namespace, **{"kube-queue/max-jobs": 1}))
        desk.submit("first")
        desk.expect("first", "Running")
        for name in ("low", "high"):
            desk.submit(name, pod={"priorityClassName": f"{desk.namespace}-{name}"})
            desk.world.until(f"{name} waits", lambda name=name: desk.world.message(name, desk.namespace) != "")
        desk.client.delete(desk.job("first"))
        desk.expect("high", "Running")
        assert desk.placed("low") == ""
    finally:
        for name in ("low", "high"):
            desk.client.delete(f"{classes}/{desk.namespace}-{name}")


def test_a_unit_that_is_held_starts_when_it_is_let_go_and_one_that_is_deleted_comes_back_with_its_reason(
    desk: Desk,
) -> None:
    units = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{desk.namespace}/queueunits"
    desk.tree(leaf(desk.namespace, desk.namespace, **{"kube-queue/max-jobs": 0}))
    desk.submit("held")
    desk.expect_waits("held", "no jobs at all")
    unit = desk.world.unit("held", desk.namespace)["metadata"]
    desk.client.delete(f"{units}/{unit['name']}")
    desk.world.until(
        "a new unit",
        lambda: desk.world.unit("held", desk.namespace).get("metadata", unit)["uid"] != unit["uid"],
        20,
    )
    desk.expect_waits("held", "no jobs at all")
    desk.client.patch(f"{units}/{unit['name']}", {"spec": {"active": False}})
    desk.tree(leaf(desk.namespace, desk.namespace))
    desk.expect_waits("held", "held")
    desk.client.patch(f"{units}/{unit['name']}", {"spec": {"active": True}})
    desk.expect("held", "Running")


def test_a_quota_label_takes_the_waiting_job_to_another_leaf(desk: Desk) -> None:
    desk.tree(leaf("tight", desk.namespace, **{"kube-queue/max-jobs": 0}), leaf("wide"))
    desk.submit("labelled")
    desk.expect_waits("labelled", "no jobs at all")
    label = {"metadata": {"labels": {"quota.scheduling.alibabacloud.com/name": "wide"}}}
    desk.client.patch(desk.job("labelled"), label)
    desk.expect("labelled", "Running")
