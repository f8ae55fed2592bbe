"""An object that a member's controller makes of a copy is no copy, though the controller gives it the copy's labels."""

from __future__ import annotations

from typing import Any

from fleet.members.discovery import ServedResource
from fleet.members.dispatchedobjects import DispatchedObjects
from fleet.members.index import ByBinding

Body = dict[str, Any]
VERBS = frozenset({"get", "list", "watch", "create", "patch", "delete"})
RAYJOBS = ServedResource("ray.io", "v1", "rayjobs", "RayJob", True, VERBS)
RAYCLUSTERS = ServedResource("ray.io", "v1", "rayclusters", "RayCluster", True, VERBS)


def body(name: str, revision: str = "1", **more: Any) -> Body:
    labels = {"fleet.io/hub": "hub", "fleet.io/binding": "b1", "fleet.io/attempt": "1"}
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}", "resourceVersion": revision, "labels": labels}
    return {"metadata": {**meta, **more}, "spec": {}}


def owned(by: str) -> list[Body]:
    return [{"apiVersion": "ray.io/v1", "kind": "RayJob", "name": by, "uid": f"u-{by}", "controller": True}]


def test_the_cluster_of_a_ray_job_is_no_copy_of_the_jobs_binding() -> None:
    copies: ByBinding[Body] = ByBinding()
    dispatched = DispatchedObjects("cfa", "hub", copies, ByBinding(), lambda change: None)
    dispatched.put(RAYCLUSTERS, body("train-x7", ownerReferences=owned("train")))
    dispatched.put(RAYJOBS, body("train"))
    assert [(copy["kind"], copy["metadata"]["name"]) for copy in copies.values("b1")] == [("RayJob", "train")]
    assert [copy["kind"] for copy in dispatched.all()] == ["RayJob"]
    dispatched.put(RAYJOBS, body("train", "2", ownerReferences=[{**owned("queue")[0], "controller": False}]))
    assert [copy["kind"] for copy in copies.values("b1")] == ["RayJob"], "an owner that does not control it"
