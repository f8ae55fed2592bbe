"""Deleting a job at any point of its life leaves nothing behind; what it needs travels and leaves with it."""

from __future__ import annotations

from fleet.controllers.dispatch.manifests import users_of
from fleet.values.ports import Key
from fleet.wellknown import LABEL_CODE
from tests.controllers.dispatch.configmaps import configmap, with_config
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import cluster, hub, member, policy, pytorchjob, tree


async def test_deleted_while_it_waits() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: world.message("one"))
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)


async def test_deleted_while_it_is_being_placed() -> None:
    async with hub(member("cfa", slow_s=0.5)) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: world.members.by_name["cfa"].calls_at_once)
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)
        await settle()
        assert world.nothing_left()


async def test_deleted_while_it_runs() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)
        await world.apply(pytorchjob("one"))
        assert await world.running("one") == "cfa"


async def test_deleted_after_it_succeeded() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)


async def test_an_answer_that_got_lost_leaves_no_copy_behind() -> None:
    async with hub(member("cfa", lose_answers=True, slow_s=0.2)) as world:
        await world.apply(policy(), pytorchjob("one"))
        await eventually(lambda: world.members.where("one"))
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)


async def test_a_job_deleted_while_its_member_is_away_leaves_when_the_member_is_back() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(policy(), pytorchjob("one"))
        where = await world.running("one")
        world.members.set_down(where, True)
        await world.delete("PyTorchJob", "one")
        await settle(60)
        assert "deletionTimestamp" in (world.binding("one") or {"metadata": {}})["metadata"]
        world.members.set_down(where, False)
        await eventually(world.nothing_left)


async def test_a_member_given_up_by_its_annotation_holds_nothing_back() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(cluster("cfa"))
        await world.edit("Cluster", "cfa", lambda c: c["metadata"].update(finalizers=["fleet.io/cluster"]))
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        world.members.set_down("cfa", True)
        await world.delete("Cluster", "cfa")
        await world.delete("PyTorchJob", "one")
        await settle(10)
        assert world.binding("one") is not None
        await world.edit(
            "Cluster", "cfa", lambda c: c["metadata"].update(annotations={"fleet.io/force-removal": "true"})
        )
        await eventually(lambda: world.binding("one") is None, within_s=40)


async def test_the_code_of_a_job_travels_whatever_its_policy_says_of_dependencies() -> None:
    alone = policy(propagateDeps=False, failover={})
    async with hub(member("cfa")) as world:
        code, other = configmap("one-code", a="1"), configmap("settings", depth="3")
        code["metadata"]["labels"] = {LABEL_CODE: "one"}
        volumes = [{"name": name, "configMap": {"name": name}} for name in ("one-code", "settings")]
        await world.apply(code, other, alone, pytorchjob("one", volumes=volumes), pytorchjob("two", volumes=volumes))
        await world.running("one")
        await world.running("two")
        applies = world.members.by_name["cfa"].applies
        assert [body["metadata"]["name"] for body in applies if body["kind"] == "ConfigMap"] == ["one-code"]
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.members.find("cfa", Key("", "configmaps", "default", "one-code")) is None)


async def test_config_travels_first_and_leaves_with_the_last_that_needs_it() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(configmap("settings", depth="3"), policy(), with_config("one", "settings"))
        await world.running("one")
        kinds = [body["kind"] for body in world.members.by_name["cfa"].applies]
        assert kinds.index("ConfigMap") < kinds.index("PyTorchJob")
        await world.apply(with_config("two", "settings"))
        await world.running("two")
        key = Key("", "configmaps", "default", "settings")
        assert len(users_of(world.members.find("cfa", key) or {"metadata": {}})) == 2
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.members.where("one") == [])
        await eventually(lambda: len(users_of(world.members.find("cfa", key) or {"metadata": {}})) == 1)
        await world.delete("PyTorchJob", "two")
        await eventually(world.nothing_left)
        assert world.members.find("cfa", key) is None


async def test_config_that_changes_on_the_hub_changes_in_the_member() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(configmap("settings", depth="3"), policy(), with_config("one", "settings"))
        await world.running("one")
        await world.apply(configmap("settings", depth="4"))
        key = Key("", "configmaps", "default", "settings")
        await eventually(lambda: (world.members.find("cfa", key) or {}).get("data") == {"depth": "4"})


async def test_config_that_the_hub_does_not_have_is_a_reason_and_comes_when_it_is_there() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), with_config("one", "settings"))
        await eventually(
            lambda: world.condition(world.binding("one"), "FullyApplied").get("reason") == "DependencyMissing"
        )
        assert "ConfigMap default/settings" in world.condition(world.binding("one"), "FullyApplied")["message"]
        await world.apply(configmap("settings", depth="3"))
        await eventually(lambda: world.condition(world.binding("one"), "FullyApplied").get("status") == "True")


async def test_without_propagate_deps_config_stays_on_the_hub() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(configmap("settings"), policy(propagateDeps=False), with_config("one", "settings"))
        await world.running("one")
        assert world.members.find("cfa", Key("", "configmaps", "default", "settings")) is None


async def test_a_foreign_config_of_that_name_serves_and_stays() -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", configmap("settings", whose="theirs"))
        await world.apply(configmap("settings", whose="ours"), policy(), with_config("one", "settings"))
        await world.running("one")
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)
        kept = world.members.by_name["cfa"].objects[Key("", "configmaps", "default", "settings")]
        assert kept["data"] == {"whose": "theirs"}


async def test_what_nobody_wants_is_found_and_removed() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        orphan = pytorchjob("lost")
        orphan["metadata"]["labels"] = {"fleet.io/hub": "hub", "fleet.io/binding": "nobody", "fleet.io/attempt": "1"}
        world.members.put_foreign("cfa", orphan)
        other = pytorchjob("theirs")
        other["metadata"]["labels"] = {"fleet.io/hub": "another-hub", "fleet.io/binding": "x", "fleet.io/attempt": "1"}
        world.members.put_foreign("cfa", other)
        await eventually(lambda: world.members.where("lost") == [], within_s=60)
        assert world.members.where("theirs") == ["cfa"]
        assert world.state("one") == "Running"
