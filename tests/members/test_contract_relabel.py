"""Letting go of an object in a member: it stays, and is nobody's. On simulated members and on a real kube-apiserver."""

from __future__ import annotations

from fleet.members.clusters import ClusterMembers
from fleet.members.members import Did
from fleet.ports import Key
from fleet.wellknown import ATTEMPT, LABEL_BINDING, LABEL_HUB
from tests.members.builders import config_map, ours
from tests.members.conftest import Target, eventually

OFF = dict.fromkeys((LABEL_HUB, LABEL_BINDING, ATTEMPT))


async def test_an_object_that_is_let_go_stays_and_is_known_as_ours_no_more(
    joined: ClusterMembers, target: Target
) -> None:
    meta = ours(target.namespace, "settings")
    meta["labels"]["team"] = "a"
    body = config_map(meta, color="blue")
    assert (await joined.apply("cfa", body)).did is Did.DONE
    assert (await joined.relabel("cfa", body, OFF, {"fleet.io/job": None})).did is Did.DONE
    path = f"/api/v1/namespaces/{target.namespace}/configmaps/settings"
    stored = await target.get(path)
    assert stored is not None and stored["data"] == {"color": "blue"}
    assert stored["metadata"]["labels"] == {"team": "a"}
    key = Key("", "configmaps", target.namespace, "settings")
    await eventually(lambda: joined.find("cfa", key) is None)


async def test_what_is_not_this_bindings_is_not_let_go(joined: ClusterMembers, target: Target) -> None:
    theirs = config_map(ours(target.namespace, "settings", binding="b-2"), color="blue")
    assert (await joined.apply("cfa", theirs)).did is Did.DONE
    mine = config_map(ours(target.namespace, "settings", binding="b-1"), color="red")
    assert (await joined.relabel("cfa", mine, OFF, {})).did is Did.CONFLICT
    nothing = config_map(ours(target.namespace, "nothing"), color="red")
    assert (await joined.relabel("cfa", nothing, OFF, {})).did is Did.NOT_FOUND
    stored = await target.get(f"/api/v1/namespaces/{target.namespace}/configmaps/settings")
    assert stored is not None and stored["metadata"]["labels"][LABEL_BINDING] == "b-2"
