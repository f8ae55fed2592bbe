"""A member that shows rubbish costs itself the rubbish: what else it shows counts, and no task of it ends."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from fleet.core.model.member import Member
from fleet.core.model.pod import PodView
from fleet.core.notation.codec import encode_one
from fleet.members.allowance import MemberMemory
from fleet.members.connection import HttpAnswer
from fleet.members.discovery import Catalogue, ServedResource, _aggregated
from fleet.members.dispatchedobjects import DispatchedObjects, KindSink
from fleet.members.follow import Follower
from fleet.members.index import ByBinding
from fleet.members.inventory import NodeSink, PodSink
from fleet.members.members import MemberChange
from fleet.members.nodes import MemberNodes
from fleet.members.placesources import HYPERNODE, TOPOLOGIES, PlaceSources
from fleet.values.ports import Body, Key
from tests.security.loops.malformed import MISSING, WRONG, changed, paths
from tests.security.member_objects import HYPERNODE_BODY, NODE, POD, TOPOLOGY_BODY

QUANTITIES = ("abc", "1e999999999", "-5", "9" * 60, "1" * 200, "", " ", "0x10", "1E400")


def rubbish(body: Body) -> list[Any]:
    """Every field gone or of another type, every quantity none; and what is no object at all."""
    found: list[Any] = [None, 5, "x", [], {}, {"metadata": None}, {"metadata": []}]
    everywhere = [*paths(body), ("metadata", "name"), ("metadata", "uid"), ("metadata", "namespace"), ("metadata",)]
    for number, path in enumerate(everywhere):
        other = copy.deepcopy(body)
        other["metadata"].update(name=f"bad-{number}", uid=f"bad-{number}")
        if path != ("metadata", "namespace") or "namespace" in other["metadata"]:
            found += [changed(other, path, value) for value in (*WRONG, *QUANTITIES, MISSING)]
    return found


class OneList:
    """A connection that answers every list with these items."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    async def request(self, *_: Any, **__: Any) -> HttpAnswer:
        return HttpAnswer(200, orjson.loads(orjson.dumps({"items": self._items, "metadata": {"resourceVersion": "7"}})))


async def listed(items: list[Any], sink: Any) -> Follower:
    follower = Follower(OneList(items), "/x", sink, contact=lambda: None)  # type: ignore[arg-type]
    await follower._list()
    assert follower.synced
    for kind in ("MODIFIED", "DELETED"):  # a watch shows the same
        for item in items:
            follower._take({"type": kind, "object": item})
    await follower._list()
    return follower


def quiet(_: MemberChange) -> None: ...


async def test_nodes() -> None:
    nodes = MemberNodes()
    await listed([*rubbish(NODE), NODE], NodeSink("cfa", nodes, quiet))
    assert "good" in nodes.names() and all(isinstance(name, str) for name in nodes.names())
    orjson.dumps(encode_one(Member("cfa", ready=True, pools=nodes.pools())))  # a decision on it can be recorded
    whole = {"cpu": 8000, "memory": 64 * 2**30, "nvidia.com/gpu": 8}
    alike = [p for p in nodes.pools() if dict(p.labels) == {"zone": "a"} and [t.value for t in p.taints] == ["yes"]]
    assert any(dict(free) == whole for pool in alike for free, _ in pool.free)


async def test_sources_of_place_trees() -> None:
    nodes, sources = MemberNodes(), PlaceSources(MemberMemory(), lambda: None)
    await listed([NODE], NodeSink("cfa", nodes, quiet))
    for kind, body in ((HYPERNODE, HYPERNODE_BODY), (TOPOLOGIES[0], TOPOLOGY_BODY)):
        await listed([*rubbish(body), body], sources.sink(kind))
    assert "good" in {one.name for one in sources.hypernodes} and ("zone", "kubernetes.io/hostname") in sources.trees
    for _ in nodes.planting(sources.trees, sources.hypernodes, frozenset()):
        pass
    [pool] = nodes.pools()
    assert ("zone", "/a") in pool.places and any(level == "rack" for level, _ in pool.places)
    assert all(isinstance(text, str) for text in nodes.trees.hypernodes.faults())
    orjson.dumps(encode_one(Member("cfa", ready=True, pools=nodes.pools())))


async def test_pods() -> None:
    nodes, index = MemberNodes(), ByBinding[PodView]()
    await listed([NODE], NodeSink("cfa", nodes, quiet))
    await listed([*rubbish(POD), POD], PodSink("cfa", "hub", nodes, index, quiet))
    good = [pod for pod in index.values("b") if pod.name == "good"]
    assert [(pod.node, pod.phase, pod.attempt, pod.requests["nvidia.com/gpu"]) for pod in good] == [
        ("good", "Running", 1, 1)
    ]
    orjson.dumps(encode_one(Member("cfa", ready=True, pools=nodes.pools())))


async def test_copies_of_jobs() -> None:
    served = ServedResource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", True, frozenset({"list", "watch"}))
    copies = ByBinding[Body]()
    dispatched = DispatchedObjects("cfa", "hub", copies, ByBinding(), quiet)
    job = {**copy.deepcopy(POD), "kind": "PyTorchJob", "apiVersion": "kubeflow.org/v1"}
    await listed([*rubbish(job), job], KindSink(dispatched, served))
    assert dispatched.find(Key("kubeflow.org", "pytorchjobs", "default", "good")) is not None
    assert any(body["metadata"]["name"] == "good" for _, body in copies.items("b"))


GROUPS: Body = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": "apps"},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "deployments",
                            "responseKind": {"kind": "Deployment"},
                            "scope": "Namespaced",
                            "verbs": ["list"],
                        }
                    ],
                }
            ],
        }
    ],
}


@pytest.mark.parametrize("value", [*WRONG, MISSING], ids=[*map(repr, WRONG), "missing"])
def test_discovery(value: Any) -> None:
    for path in paths(GROUPS):
        broken = changed(GROUPS, path, value)
        if not isinstance(broken.get("items"), list):
            broken["items"] = []
        broken["items"].append(copy.deepcopy(GROUPS["items"][0]))
        catalogue = Catalogue(_aggregated(broken))
        assert "apps/Deployment" in catalogue.kinds
        assert catalogue.kind("apps/v1", "Deployment") is not None
