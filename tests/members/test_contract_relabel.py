"""Letting go of an object in a member: it stays, and is nobody's. On simulated members and on a real kube-apiserver."""

from __future__ import annotations

from fleet.members.clusters import ClusterMembers
from fleet.members.members import ActResult
from fleet.values.ports import Body, Key
from fleet.wellknown import ANNOTATION_USERS, ATTEMPT, LABEL_BINDING, LABEL_HUB
from tests.members.builders import config_map, ours
from tests.members.conftest import Target, eventually

OFF = dict.fromkeys((LABEL_HUB, LABEL_BINDING, ATTEMPT))


async def test_an_object_that_is_let_go_stays_and_is_known_as_ours_no_more(
    joined: ClusterMembers, target: Target
) -> None:
    meta = ours(target.namespace, "settings")
    meta["labels"]["team"] = "a"
    body = config_map(meta, color="blue")
    assert (await joined.apply("cfa", body)).did is ActResult.DONE
    assert (await joined.relabel("cfa", body, OFF, {"fleet.io/job": None})).did is ActResult.DONE
    path = f"/api/v1/namespaces/{target.namespace}/configmaps/settings"
    stored = await target.get(path)
    assert stored is not None and stored["data"] == {"color": "blue"}
    assert stored["metadata"]["labels"] == {"team": "a"}
    key = Key("", "configmaps", target.namespace, "settings")
    await eventually(lambda: joined.find("cfa", key) is None)


async def test_what_is_not_this_bindings_is_not_let_go(joined: ClusterMembers, target: Target) -> None:
    theirs = config_map(ours(target.namespace, "settings", binding="b-2"), color="blue")
    assert (await joined.apply("cfa", theirs)).did is ActResult.DONE
    mine = config_map(ours(target.namespace, "settings", binding="b-1"), color="red")
    assert (await joined.relabel("cfa", mine, OFF, {})).did is ActResult.CONFLICT
    nothing = config_map(ours(target.namespace, "nothing"), color="red")
    assert (await joined.relabel("cfa", nothing, OFF, {})).did is ActResult.NOT_FOUND
    stored = await target.get(f"/api/v1/namespaces/{target.namespace}/configmaps/settings")
    assert stored is not None and stored["metadata"]["labels"][LABEL_BINDING] == "b-2"


async def test_a_claim_can_be_shared_and_applied_again_although_its_spec_may_not_change(
    joined: ClusterMembers, target: Target
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = ours(target.namespace, "scratch")
    meta["annotations"] = {ANNOTATION_USERS: '["b-1"]'}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
    assert (await joined.apply("cfa", body)).did is ActResult.DONE
    shared = await joined.relabel("cfa", body, {LABEL_BINDING: "b-2"}, {ANNOTATION_USERS: '["b-2"]'})
    assert shared.did is ActResult.DONE, shared
    again: Body = {**body, "metadata": {**meta, "labels": {**meta["labels"], LABEL_BINDING: "b-2"}}}
    again["metadata"]["annotations"] = {ANNOTATION_USERS: '["b-2", "b-3"]'}
    outcome = await joined.apply("cfa", again)
    assert outcome.did is ActResult.DONE, outcome
    stored = await target.get(f"/api/v1/namespaces/{target.namespace}/persistentvolumeclaims/scratch")
    assert stored is not None and stored["metadata"]["annotations"][ANNOTATION_USERS] == '["b-2", "b-3"]'
    assert (await joined.relabel("cfa", again, OFF, {ANNOTATION_USERS: None})).did is ActResult.DONE
