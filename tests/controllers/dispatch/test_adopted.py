"""Unknown copies become jobs of the hub again, without a pod that is started anew; until then nothing runs twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from fleet.controllers.dispatch.adopting import job_of
from fleet.core.model.rule import PlacementRule
from fleet.kinds import interpreter_of
from fleet.kinds.gangs import BY_NAME, marked
from fleet.kinds.gates import gated
from fleet.kinds.pins import pinned
from fleet.wellknown import ANNOTATION_JOB, LABEL_BINDING, LABEL_HUB
from tests.controllers.decide.checks import answer, reserves
from tests.controllers.dispatch.backup import CONFIG, RECORD, backup, names, record, restore, went_back
from tests.controllers.fakemember import FakeMember
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, cluster_policy, hub, member, policy, pytorchjob, tree


async def adopt(world: World, *uids: str, record_of: str = RECORD) -> None:
    text = orjson.dumps(uids).decode()
    await world.edit("ConfigMap", record_of, lambda body: body["data"].update(adopt=text), namespace="fleet-system")


def problem(world: World, uid: str) -> str:
    found = world.see("ConfigMap", RECORD, "fleet-system")
    return str(orjson.loads(((found or {}).get("data") or {}).get("problems", "{}")).get(uid, ""))


def pods(one: FakeMember) -> set[str]:
    return set(one.pods)


async def named(world: World, job: str) -> str:
    """The uid of the unknown copy of the job, once it is named."""
    await eventually(lambda: any(entry["name"] == job for entry in record(world)), what=f"{job} is named")
    return next(str(entry["uid"]) for entry in record(world) if entry["name"] == job)


async def test_an_adopted_copy_is_a_job_again_and_its_pods_run_on() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        copy = await went_back(world)
        before, applied = pods(cfa), len(cfa.applies)
        assert world.see("PyTorchJob", "b") is None
        await adopt(world, await named(world, "b"))
        await eventually(lambda: world.state("b") == "Running")
        await eventually(lambda: world.see("ConfigMap", RECORD, "fleet-system") is None)
        binding = world.binding("b")
        assert binding is not None and binding["metadata"]["uid"] == copy["metadata"]["labels"][LABEL_BINDING]
        assert (world.placed("b"), world.attempt("b")) == ("cfa", 1)
        await settle(120)
        assert pods(cfa) == before and world.state("b") == "Running" and not world.events("b", "Evicted")
        assert len(cfa.applies) <= applied + 1, "its marks at most are sent again"
        await world.delete("PyTorchJob", "b")
        await eventually(lambda: "b" not in names(cfa), what="it is deleted as any other job")


async def test_an_adopted_job_is_charged_over_its_quota_and_moves_as_any_other() -> None:
    cfa, cfb = member("cfa"), member("cfb")
    async with hub(cfa, cfb, config=CONFIG) as world:
        await world.apply(tree(max_jobs=2), policy(queue=True), pytorchjob("a"))
        await world.running("a")
        old = backup(world)
        await world.apply(pytorchjob("b"))
        where = await world.running("b")
        await world.kill()
        restore(world, old)
        await world.apply(tree(max_jobs=1))
        world.start()
        uid = await named_in(world, where, "b")
        await adopt(world, uid, record_of=f"unknown-copies-{where}")
        await eventually(lambda: world.state("b") == "Running")
        await eventually(lambda: world.phase("b") in ("Running", "Dequeued"), what=world.phase("b"))
        await world.apply(pytorchjob("c"))
        await eventually(lambda: "already runs 2 of at most 1 job" in world.message("c"), what=world.message("c"))
        await settle(60)
        assert world.placed("c") == "" and world.state("a") == world.state("b") == "Running"


async def named_in(world: World, where: str, job: str) -> str:
    def found() -> list[Any]:
        one = world.see("ConfigMap", f"unknown-copies-{where}", "fleet-system")
        return [e for e in orjson.loads(one["data"]["copies"]) if e["name"] == job] if one is not None else []

    await eventually(found)
    return str(found()[0]["uid"])


async def test_a_job_that_waited_at_the_backup_and_runs_since_does_not_start_twice() -> None:
    cfa, cfb = member("cfa"), member("cfb")
    async with hub(cfa, cfb, config=CONFIG) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True), pytorchjob("a"))
        first = await world.running("a")
        await world.apply(pytorchjob("b"))
        await eventually(lambda: world.message("b"))
        old = backup(world)
        world.members.finish("a")
        where = await world.running("b")
        await world.kill()
        restore(world, old)
        world.start()
        other = "cfb" if where == "cfa" else "cfa"
        before = pods(world.members.by_name[where])
        await eventually(lambda: "does not know is in" in world.message("b"), what=world.message("b"))
        await settle(60)
        assert world.members.where("b") == [where] and world.attempt("b") == 0, (first, other)
        uid = await named_in(world, where, "b")
        await adopt(world, uid, record_of=f"unknown-copies-{where}")
        await eventually(lambda: world.state("b") == "Running" and world.placed("b") == where)
        await settle(60)
        assert world.attempt("b") == 1 and pods(world.members.by_name[where]) == before
        assert world.members.where("b") == [where] and not world.events("b", "Evicted")


async def test_a_job_that_was_reserved_at_the_backup_and_runs_since_does_not_start_twice() -> None:
    async with hub(member("cfa"), member("cfb"), config=CONFIG) as world:
        await reserves(world, "budget")
        old = backup(world)
        await answer(world, "Ready")
        where = await world.running("one")
        await world.kill()
        restore(world, old)
        world.start()
        await eventually(lambda: "does not know is in" in world.message("one"), what=world.message("one"))
        uid = await named_in(world, where, "one")
        assert world.members.where("one") == [where] and world.placed("one") == ""
        await adopt(world, uid, record_of=f"unknown-copies-{where}")
        await eventually(lambda: world.state("one") == "Running" and world.placed("one") == where)


async def test_a_job_that_moved_since_the_backup_is_not_sent_to_its_old_member() -> None:
    cfa, cfb = member("cfa"), member("cfb")
    async with hub(cfa, cfb, config=CONFIG) as world:
        await world.apply(policy(), pytorchjob("a"))
        first = await world.running("a")
        old = backup(world)
        second = "cfb" if first == "cfa" else "cfa"
        world.members.finish("a", "Failed")  # its policy moves it then
        await eventually(lambda: world.placed("a") == second and world.state("a") == "Running", within_s=120)
        await world.kill()
        restore(world, old)
        world.start()
        uid = await named_in(world, second, "a")
        await settle(40)
        assert world.members.where("a") == [second]
        before = pods(world.members.by_name[second])
        await adopt(world, uid, record_of=f"unknown-copies-{second}")
        await eventually(lambda: world.placed("a") == second and world.attempt("a") == 2)
        await settle(60)
        assert world.state("a") == "Running" and pods(world.members.by_name[second]) == before


async def test_a_job_that_is_submitted_again_waits_beside_its_unknown_copy() -> None:
    cfa, cfb = member("cfa"), member("cfb")
    async with hub(cfa, cfb, config=CONFIG) as world:
        await world.apply(policy(), pytorchjob("a"))
        await world.running("a")
        old = backup(world)
        await world.apply(pytorchjob("b"))
        where = await world.running("b")
        await world.kill()
        restore(world, old)
        world.start()
        uid = await named_in(world, where, "b")
        await world.apply(pytorchjob("b"))
        await settle(60)
        assert world.placed("b") == "" and world.members.where("b") == [where]
        await adopt(world, uid, record_of=f"unknown-copies-{where}")
        path = f"unknown-copies-{where}"

        def told() -> str:
            found = world.see("ConfigMap", path, "fleet-system")
            return str(orjson.loads(((found or {}).get("data") or {}).get("problems", "{}")).get(uid, ""))

        await eventually(lambda: "another job of this name" in told(), what=told())
        await world.delete("PyTorchJob", "b")
        await eventually(lambda: world.binding("b") is None)
        await adopt(world, uid, record_of=path)
        await eventually(lambda: world.state("b") == "Running" and world.placed("b") == where)


async def drop_policy(world: World, cfa: FakeMember) -> None:
    await world.delete("PropagationPolicy", "example-policy")


async def drop_mark(world: World, cfa: FakeMember) -> None:
    body = next(body for key, body in cfa.objects.items() if key.name == "b")
    body["metadata"]["labels"]["fleet.io/attempt"] = "none"


async def drop_copy(world: World, cfa: FakeMember) -> None:
    frozen = dict(cfa.objects)
    cfa.frozen = (frozen, dict(cfa.pods))
    del cfa.objects[next(key for key in frozen if key.name == "b")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (drop_policy, "no policy selects it: apply the policy that it followed"),
        (drop_mark, "it does not carry the marks of a copy of this hub"),
        (drop_copy, "the member does not show it"),
    ],
)
async def test_what_cannot_be_adopted_stays_and_says_why(change: Callable[..., Any], why: str) -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        await went_back(world)
        uid = await named(world, "b")
        await change(world, cfa)
        await adopt(world, uid)
        await eventually(lambda: why in problem(world, uid), what=problem(world, uid))
        assert world.see("PyTorchJob", "b") is None


async def test_what_is_no_job_is_not_adopted() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        await world.apply(cluster_policy(resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}]))
        old = backup(world)
        await world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}})
        await eventually(lambda: "m" in names(cfa))
        await world.kill()
        restore(world, old)
        world.start()
        uid = await named(world, "m")
        await adopt(world, uid)
        await eventually(lambda: "only jobs are adopted" in problem(world, uid))


@pytest.mark.parametrize("scheduler", [f"{name}/team" if gang.queues else name for name, gang in BY_NAME.items()])
def test_the_job_of_a_copy_has_no_marks_and_no_topology_that_the_hub_wrote(scheduler: str) -> None:
    labels = {LABEL_HUB: "hub", LABEL_BINDING: "u", "fleet.io/attempt": "2"}
    job = pytorchjob("a")
    job["metadata"] |= {
        "labels": {**labels, "team": "a"},
        "uid": "m",
        "resourceVersion": "9",
        "annotations": {ANNOTATION_JOB: "default/a", "fleet.io/required-topology": "rack", "note": "n"},
    }
    template = next(iter(job["spec"]["pytorchReplicaSpecs"].values()))["template"]
    plain = interpreter_of(job["apiVersion"], job["kind"])
    assert plain is not None
    rules = (PlacementRule("rack"), PlacementRule("host", ("worker",)), PlacementRule("block", hard=False))
    sent = pinned(plain.stamp(job, labels, {}), plain, rules, {"rack": "r1"}, {LABEL_BINDING: "u"})
    sent = marked(gated(sent, plain.templates(sent)), plain.templates(sent), scheduler, "a-pytorchjob")
    found, way = job_of({**sent, "status": {}}, plain)
    assert way == ("r1", "Placeholders", scheduler) and found["metadata"] == {
        "name": "a",
        "namespace": "default",
        "labels": {"team": "a"},
        "annotations": {"fleet.io/required-topology": "rack", "note": "n"},
    }
    back = next(iter(found["spec"]["pytorchReplicaSpecs"].values()))["template"]
    assert back["spec"] == template["spec"] and not back["metadata"]["labels"] and "status" not in found
