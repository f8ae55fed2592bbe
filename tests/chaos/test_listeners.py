"""A listener with a bug must not keep a change from the others: they would wait for what has happened already."""

from __future__ import annotations

import pytest
import yaml

from fleet.members.clusters import ClusterMembers
from fleet.members.members import MemberChange

pytestmark = pytest.mark.xdist_group("chaos")


async def test_a_listener_that_fails_costs_the_others_nothing() -> None:
    told: list[MemberChange] = []

    def broken(changed: MemberChange) -> None:
        raise AttributeError("a bug")

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "users": [{"name": "u", "user": {"token": "t"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    members = ClusterMembers()
    members.subscribe(broken)
    members.subscribe(told.append)
    await members.add("cfa", yaml.safe_dump(config), "hub")
    await members.remove("cfa")
    assert told == [MemberChange("cfa", "ready")]
