"""Gangs in members that have a gang scheduler, and room that Koordinator holds there."""

from __future__ import annotations

from typing import Any

from api.engine.patch import MERGE
from fleet.kinds import interpreter_of
from fleet.values.ports import Body
from tests.controllers.decide.checks import states
from tests.controllers.fastloop import eventually, settle
from tests.controllers.room.placeholders import ROOM, enable, placeholders
from tests.controllers.world import ALICE, World, hub, member, policy, pytorchjob, tree

VOLCANO = ("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups")
KOORDINATOR = ("scheduling.koordinator.sh/v1alpha1", "Reservation", "reservations")


async def serves(world: World, name: str, api: str, kind: str, resource: str) -> None:
    """The member's discovery, as its Cluster shows it."""
    clusters = world.registry.need("cluster.karmada.io", "clusters")
    said = {"groupVersion": api, "resources": [{"name": resource, "kind": kind}]}
    await world.objects.patch(clusters, "", name, {"status": {"apiEnablements": [said]}}, MERGE, ALICE, "status")


def of_kind(world: World, kind: str, name: str = "cfa") -> list[Body]:
    return [body for body in world.members.by_name[name].objects.values() if body["kind"] == kind]


def templates(world: World) -> list[Body]:
    job = world.members.job("cfa", "default", "one")
    assert job is not None
    interpreter = interpreter_of(job["apiVersion"], job["kind"])
    assert interpreter is not None
    return [template.template for template in interpreter.templates(job)]


async def test_a_job_in_a_member_with_volcano_is_a_gang_there_and_its_group_goes_with_it() -> None:
    async with hub(member("cfa")) as world:
        await serves(world, "cfa", *VOLCANO)
        await world.apply(tree(max_jobs=5), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        (group,) = of_kind(world, "PodGroup")
        assert (group["metadata"]["name"], group["spec"]) == ("one-pytorchjob", {"minMember": 3})
        kinds = [body["kind"] for body in world.members.by_name["cfa"].applies]
        assert kinds.index("PodGroup") < kinds.index("PyTorchJob")
        for template in templates(world):
            assert template["spec"]["schedulerName"] == "volcano"
            assert template["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "one-pytorchjob"
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)


async def test_a_cluster_that_says_none_gets_jobs_as_they_are() -> None:
    async with hub(member("cfa")) as world:
        await serves(world, "cfa", *VOLCANO)
        annotations = {"fleet.io/gang-scheduler": "None"}
        await world.edit("Cluster", "cfa", lambda body: body["metadata"].update(annotations=annotations))
        await world.apply(tree(max_jobs=5), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        assert of_kind(world, "PodGroup") == []
        assert not any(template["spec"].get("schedulerName") for template in templates(world))


async def test_a_gang_that_its_member_holds_together_is_not_withdrawn_after_a_minute() -> None:
    async with hub(member("cfa", no_pods=True)) as world:
        await serves(world, "cfa", *VOLCANO)
        await world.apply(tree(max_jobs=5), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: of_kind(world, "PyTorchJob"))
        await settle(300)
        assert (world.attempt("one"), world.members.where("one")) == (1, ["cfa"])
        await eventually(lambda: world.attempt("one") > 1 or world.phase("one") == "TimeoutBackoff", within_s=900)


async def test_room_in_a_member_with_koordinator_is_held_by_its_reservations() -> None:
    async with hub(member("cfa")) as world:
        cfa = world.members.by_name["cfa"]
        await enable(world, "cfa")
        await serves(world, "cfa", *KOORDINATOR)
        await world.apply(tree(max_jobs=5), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: len(of_kind(world, "Reservation")) == 3)
        first = of_kind(world, "Reservation")[0]
        spec = first["spec"]
        assert (spec["allocateOnce"], spec["template"]["spec"]["schedulerName"]) == (True, "koord-scheduler")
        assert spec["owners"][0]["labelSelector"]["matchLabels"]["fleet.io/attempt"] == "1"
        assert (states(world), placeholders(cfa)) == ([(ROOM, "Pending")], [])
        await available(world)
        assert await world.running("one") == "cfa"
        for template in templates(world):
            assert not template["spec"].get("schedulingGates")
            assert template["spec"]["schedulerName"] == "koord-scheduler"
        await eventually(lambda: not of_kind(world, "Reservation"))


async def test_reservations_that_koordinator_cannot_place_are_given_up() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await enable(world, "cfa", "cfb")
        for name in ("cfa", "cfb"):
            await serves(world, name, *KOORDINATOR)
        await world.apply(tree(max_jobs=5), policy(queue=True), pytorchjob("one"))

        def held(name: str) -> list[Body]:
            return of_kind(world, "Reservation", name)

        await eventually(lambda: len(held("cfa")) == 3 or len(held("cfb")) == 3)
        first, other = ("cfa", "cfb") if held("cfa") else ("cfb", "cfa")
        unschedulable = {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
        await told(world, first, {"phase": "Pending", "conditions": [unschedulable]})
        await eventually(lambda: world.events("one", "ScheduleBindingFailed") != [])
        (failed,) = world.events("one", "ScheduleBindingFailed")
        assert failed["message"].startswith(f"member {first} does not hold its room: ")
        assert failed["message"].endswith("0/2 nodes")
        await eventually(lambda: not held(first) and len(held(other)) == 3)
        await available(world, other)
        assert await world.running("one") == other


async def available(world: World, name: str = "cfa") -> None:
    await told(world, name, {"phase": "Available", "nodeName": "n0"})


async def told(world: World, name: str, status: dict[str, Any]) -> None:
    """Koordinator writes this status into every Reservation of the member."""
    one = world.members.by_name[name]
    for key, body in list(one.objects.items()):
        if body["kind"] == "Reservation":
            one.objects[key] = {**body, "status": status}
            world.members._tell(name, "job", body)
