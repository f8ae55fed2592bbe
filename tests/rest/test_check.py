"""POST /fleet/v1/check: what would become of a job that were submitted now."""

from __future__ import annotations

from typing import Any

from tests.controllers.world import member, policy, pytorchjob, tree
from tests.rest.rest import Rest, rest


async def checked(hub: Rest, body: dict[str, Any], status: int = 200) -> dict[str, Any]:
    answer = await hub.client().post("/fleet/v1/check", json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_job_is_told_its_policy_its_queue_its_members_and_its_start() -> None:
    objects = [tree(max_jobs=1), policy(queue=True), pytorchjob("one")]
    async with rest(member("cfa"), member("cfb", count=1), objects=objects) as hub:
        await hub.world.running("one")
        await hub.seen(one="cfa")
        before = await hub.jobs()
        found = await checked(hub, pytorchjob("next", workers=9))
        assert (found["policy"], found["queue"]) == ("PropagationPolicy default/example-policy", "root/child-2")
        assert (found["verdict"], found["reason"]["code"]) == ("waits", "MaxJobsReached")
        assert [(one["name"], one["fits"]) for one in found["members"]] == [("cfa", True), ("cfb", False)]
        assert "find no node" in found["members"][1]["reason"]["text"]
        large = await checked(hub, pytorchjob("large", gpus=9))
        assert (large["verdict"], large["reason"]["code"]) == ("never", "LargerThanAnyNode")
        assert await hub.jobs() == before, "a question makes no job"


async def test_a_job_that_no_policy_takes_never_starts() -> None:
    async with rest(member("cfa"), objects=[policy(), pytorchjob("one")]) as hub:
        await hub.seen(one="cfa")
        found = await checked(hub, pytorchjob("other", namespace="team-b"))
        assert (found["verdict"], found["policy"], found["members"]) == ("never", None, [])
        assert found["why"] == "no policy selects PyTorchJob team-b/other"
        starts = await checked(hub, pytorchjob("next"))
        assert (starts["verdict"], starts["member"], starts["reason"]) == ("starts", "cfa", None)


async def test_a_manifest_that_would_be_refused_is_refused() -> None:
    async with rest(member("cfa"), objects=[policy()]) as hub:
        bad = pytorchjob("bad")
        bad["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = -1
        bad["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = -2
        refused = await checked(hub, bad, 422)
        fields = {f"spec.pytorchReplicaSpecs.{role}.replicas" for role in ("Master", "Worker")}
        assert set(causes_of(refused)) == fields, refused
        assert causes_of(await checked(hub, {"apiVersion": "v1", "kind": "Secret", "metadata": {}}, 422)) == ["kind"]


def causes_of(status: dict[str, Any]) -> list[str]:
    return [cause["field"] for cause in status["details"]["causes"]]
