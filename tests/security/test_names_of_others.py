"""Events and reasons name no job of a namespace that is not their reader's."""

from __future__ import annotations

import pytest

from fleet.controllers.runtime.hub import ControllerConfig
from fleet.core.model.reason import Code, Reason, named_to
from tests.controllers.decide.reclaims import borrowed, job, leaves, leaving
from tests.controllers.fastloop import eventually
from tests.controllers.world import hub, member, policy

SECRET = "topsecret-merger"
QUICK = ControllerConfig(protection_s=5.0, claim_s=120.0)


async def test_a_victim_is_not_told_whom_it_makes_room_for() -> None:
    async with hub(member("cfa"), config=QUICK) as world:
        await world.apply(leaves(16, a=0, b=16, c=0))
        await borrowed(world, "a1")
        owner = job(SECRET, "b")
        owner["metadata"]["namespace"] = "team-b"
        await world.apply(policy(queue=True, namespace="team-b"), owner)
        await eventually(lambda: leaving(world), within_s=30)
        told = [event["message"] for event in world.events("a1")]
        shown = repr((world.binding("a1"), world.unit("a1"), world.see("PyTorchJob", "a1"), told))
        assert "makes room for a job of another namespace" in shown and SECRET not in shown
        await eventually(lambda: world.see("QueueUnit", f"{SECRET}-pytorchjob-rb-qu", "team-b"))
        theirs = repr(world.see("QueueUnit", f"{SECRET}-pytorchjob-rb-qu", "team-b"))
        assert "default/a1" not in theirs


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("default/one", "default/one"),
        ("team-b/one", "a job of another namespace"),
        ("default/one and 3 more", "default/one and 3 more"),
        ("team-b/one and 3 more", "a job of another namespace and 3 more"),
        ("defaults/one", "a job of another namespace"),
        ("one", "a job of another namespace"),
    ],
)
def test_a_name_is_for_its_own_namespace(name: str, shown: str) -> None:
    assert named_to("default", name) == shown


def test_a_reason_is_told_without_the_names_of_others() -> None:
    reason = Reason(Code.BEHIND_HEAD, {"head": "team-b/one", "what": "quota is", "at": "then"})
    assert "team-b" not in reason.told_to("default").text and "team-b/one" in reason.told_to("team-b").text
    plain = Reason(Code.HELD)
    assert plain.told_to("default") is plain
