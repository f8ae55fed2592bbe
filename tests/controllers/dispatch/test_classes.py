"""PriorityClasses travel with the jobs that name them, as narrowly as objects of a whole member must."""

from __future__ import annotations

import pytest

from fleet.controllers.dispatch.manifests import users_of
from fleet.core.model.reason import Code
from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body
from tests.controllers.dispatch.priority_classes import high, there
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import hub, member, policy, pytorchjob


async def test_a_class_goes_before_the_first_job_that_names_it_and_leaves_with_the_last() -> None:
    async with hub(member("cfa")) as world:
        named = [pytorchjob(name, priorityClassName="high") for name in ("one", "two")]
        await world.apply(high(preemptionPolicy="Never", globalDefault=True), policy(), *named)
        await world.running("one")
        await world.running("two")
        kinds = [body["kind"] for body in world.members.by_name["cfa"].applies]
        assert kinds.index("PriorityClass") < kinds.index("PyTorchJob")
        copy = there(world)
        assert copy is not None and len(users_of(copy)) == 2
        assert (copy["value"], copy["preemptionPolicy"], "globalDefault" in copy) == (10, "Never", False)
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: len(users_of(there(world) or {"metadata": {}})) == 1)
        await world.delete("PyTorchJob", "two")
        await eventually(world.nothing_left)
        assert there(world) is None


@pytest.mark.parametrize("value", [10, 5])
async def test_a_class_that_the_member_has_of_its_own_stays_as_it_is(value: int) -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", high(value))
        await world.apply(high(), policy(), pytorchjob("one", priorityClassName="high"))
        await world.running("one")
        assert world.condition(world.binding("one"), "FullyApplied")["reason"] == "FullyAppliedSuccess"
        warned = [event["message"] for event in world.events("one", "PriorityClassDiffers")]
        own = "PriorityClass high of member cfa is its own and stays as it is: it has value 5, not 10"
        assert warned == ([own] if value == 5 else [])
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.binding("one") is None)
        assert (there(world) or {})["value"] == value


@pytest.mark.parametrize("name", ["system-node-critical", "of-the-member"])
async def test_a_class_that_is_not_the_hubs_or_of_kubernetes_itself_is_not_sent(name: str) -> None:
    async with hub(member("cfa")) as world:
        if name.startswith("system-"):
            await world.apply(high(name=name))
        await world.apply(policy(), pytorchjob("one", priorityClassName=name))
        await world.running("one")
        assert {body["kind"] for body in world.members.by_name["cfa"].applies} == {"PyTorchJob"}
        assert world.condition(world.binding("one"), "FullyApplied")["reason"] == "FullyAppliedSuccess"


async def test_a_class_of_another_value_on_the_hub_is_made_anew_in_the_member() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(high(), policy())
        await world.apply(*(pytorchjob(name, priorityClassName="high") for name in ("one", "two")))
        await world.running("one")
        await world.running("two")
        await world.delete("PriorityClass", "high")
        await settle(5)
        assert (there(world) or {})["value"] == 10
        await world.apply(high(20))
        await eventually(lambda: (there(world) or {}).get("value") == 20)
        await eventually(lambda: len(users_of(there(world) or {"metadata": {}})) == 2)
        assert (world.attempt("one"), world.attempt("two")) == (1, 1)


async def test_a_member_that_gives_no_right_to_classes_gets_its_jobs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hub(member("cfa")) as world:
        apply = world.members.apply

        async def refused(name: str, body: Body, *, overwrite: bool = False) -> ActOutcome:
            if body["kind"] == "PriorityClass":
                return ActOutcome(ActResult.REFUSED, "cannot patch resource", cause=Code.MEMBER_FORBIDS)
            return await apply(name, body, overwrite=overwrite)

        monkeypatch.setattr(world.members, "apply", refused)
        await world.apply(high(), policy(), pytorchjob("one", priorityClassName="high"))
        await world.running("one")
        told = world.condition(world.binding("one"), "FullyApplied")
        assert told["reason"] == "DependencyMissing"
        assert "PriorityClass high (member cfa gives the hub no right to it)" in told["message"]
