"""Pods that carry no label of the hub are known by the labels of their kind's own controller, in whatever order pods
and jobs are seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleet.core.model.pod import PodView
from fleet.members.discovery import ServedResource
from fleet.members.dispatchedobjects import DispatchedObjects
from fleet.members.index import ByBinding
from fleet.members.inventory import PodSink
from fleet.members.nodes import MemberNodes

Body = dict[str, Any]
VERBS = frozenset({"get", "list", "watch", "create", "patch", "delete"})
TRAINJOBS = ServedResource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", True, VERBS)
JOBSET, ROLE = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"


def trainjob(hub: str = "hub", revision: str = "1") -> Body:
    labels = {"fleet.io/hub": hub, "fleet.io/binding": "b1", "fleet.io/attempt": "2"}
    meta = {"name": "train", "namespace": "team", "uid": "t", "resourceVersion": revision, "labels": labels}
    return {"metadata": meta, "spec": {}}


def pod(uid: str, name: str = "train", *, phase: str = "Running", **labels: str) -> Body:
    marks = {JOBSET: name, ROLE: "Node", **labels}
    meta = {"name": f"p-{uid}", "namespace": "team", "uid": uid, "labels": marks}
    return {"metadata": meta, "spec": {"containers": [{"name": "c"}], "nodeName": "n"}, "status": {"phase": phase}}


class Sight:
    def __init__(self) -> None:
        self.index: ByBinding[PodView] = ByBinding()
        self.dispatched = DispatchedObjects("cfa", "hub", ByBinding(), ByBinding(), lambda change: None)
        self.pods = PodSink("cfa", "hub", MemberNodes(), self.index, lambda change: None, self.dispatched.job)
        self.dispatched.listen(self.pods.came)

    def ours(self) -> list[tuple[str, str, int, str]]:
        return [(view.uid, view.component, view.attempt, view.phase) for view in self.index.values("b1")]


@pytest.mark.parametrize("pods_first", [True, False])
def test_pods_and_their_job_are_seen_in_any_order(pods_first: bool) -> None:
    sight = Sight()
    steps: list[Callable[[], object]] = [
        lambda: sight.pods.seen(pod("a")),
        lambda: sight.dispatched.put(TRAINJOBS, trainjob()),
    ]
    for step in steps if pods_first else reversed(steps):
        step()
    assert sight.ours() == [("a", "node", 2, "Running")]


def test_a_pod_stays_its_jobs_until_it_is_gone_though_the_job_went_before() -> None:
    sight = Sight()
    sight.dispatched.put(TRAINJOBS, trainjob())
    sight.pods.seen(pod("a"))
    sight.dispatched.clear()
    sight.pods.seen(pod("a", phase="Succeeded"))
    assert sight.ours() == [("a", "node", 2, "Succeeded")]
    sight.pods.gone(pod("a"))
    assert sight.ours() == []


def test_pods_of_others_stay_foreign() -> None:
    sight = Sight()
    sight.pods.seen(pod("a", "other"))
    sight.pods.seen(pod("b", **{"fleet.io/hub": "another"}))
    sight.dispatched.put(TRAINJOBS, trainjob("another"))
    assert sight.ours() == []
    sight.pods.gone(pod("a", "other"))
    sight.dispatched.put(TRAINJOBS, trainjob())
    assert [uid for uid, *_ in sight.ours()] == []
