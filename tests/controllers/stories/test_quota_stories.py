"""Quota on a whole hub: limits per user, names and namespaces of a leaf, trees that change while work runs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from api.engine.status import StatusError
from api.objects.writing import Options, User
from fleet.admission import rules
from fleet.bindings.leaf import leaf_for
from fleet.core.quota.parse import parse_tree
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_CREATOR, QUOTA, QUOTA_NAME_LABELS, TREE_NAMESPACE
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob

GPU = "nvidia.com/gpu"
JOBS = "kube-queue/max-jobs"


def leaves(*nodes: Body) -> Body:
    return {
        "apiVersion": f"{QUOTA}/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "elasticquotatree", "namespace": TREE_NAMESPACE},
        "spec": {"root": {"name": "root", "children": list(nodes)}},
    }


def leaf(name: str, *namespaces: str, **more: Any) -> Body:
    return {"name": name, "namespaces": list(namespaces), **more}


async def submit(world: World, user: str, job: Body) -> None:
    kind = world.registry.need("kubeflow.org", "pytorchjobs")
    options = Options(User(user), "kubectl")
    await world.objects.create(kind, job["metadata"]["namespace"], copy.deepcopy(job), options)


async def test_a_user_at_the_limit_waits_while_another_goes_on() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        capped = leaf("a", "default", attributes={"fleet.io/user-max": '{"kube-queue/max-jobs": 1}'})
        await world.apply(leaves(capped), policy(queue=True))
        await submit(world, "alice", pytorchjob("one"))
        await world.running("one")
        claimed = pytorchjob("two")
        claimed["metadata"]["annotations"] = {ANNOTATION_CREATOR: "bob"}  # nobody is deceived
        await submit(world, "alice", claimed)
        await submit(world, "bob", pytorchjob("three"))
        await world.running("three")
        await eventually(
            lambda: world.message("two").startswith("user alice already runs 1 of at most 1 job in root/a")
        )
        assert (world.unit("two") or {})["status"]["reason"]["code"] == "UserLimitReached"
        assert world.condition(world.binding("two"), "Scheduled")["reason"] == "QuotaExceeded"
        world.members.finish("one")
        await world.running("two")


async def test_a_limit_that_is_raised_for_one_user_lets_that_user_go_on() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        limits = {"fleet.io/user-max": '{"nvidia.com/gpu": 3}'}
        await world.apply(leaves(leaf("a", "default", attributes=limits)), policy(queue=True))
        for user in ("alice", "bob"):
            await submit(world, user, pytorchjob(f"{user}-1"))
            await submit(world, user, pytorchjob(f"{user}-2"))
            await world.running(f"{user}-1")
        await eventually(lambda: "user bob" in world.message("bob-2") and "user alice" in world.message("alice-2"))
        more = limits | {"fleet.io/user-max-by-name": '{"alice": {"nvidia.com/gpu": 6}}'}
        await world.apply(leaves(leaf("a", "default", attributes=more)))
        await world.running("alice-2")
        assert world.placed("bob-2") == ""


async def test_what_a_user_runs_is_charged_to_that_user_after_others_edited_the_job_and_it_moved() -> None:
    async with hub(member("cfa", delete_s=0.5)) as world:
        world.objects.rules.update(rules())
        capped = leaf("a", "default", attributes={"fleet.io/user-max": '{"kube-queue/max-jobs": 1}'})
        await world.apply(leaves(capped), policy(queue=True))
        await submit(world, "bob", pytorchjob("one"))
        await world.running("one")
        await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"suspend": True}))  # by alice
        await eventually(lambda: world.placed("one") == "")
        await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"suspend": False}))
        await world.running("one")
        await submit(world, "bob", pytorchjob("two"))
        await eventually(lambda: "user bob already runs 1" in world.message("two"))


async def test_all_namespaces_of_a_leaf_share_its_quota() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(leaves(leaf("a", "default", "team-b", max={JOBS: 1})), policy(queue=True))
        await world.apply(policy(queue=True, namespace="team-b"), pytorchjob("one"))
        await world.running("one")
        await world.apply(pytorchjob("two", namespace="team-b"))

        def told() -> str:
            return str(((world.unit("two", namespace="team-b") or {}).get("status") or {}).get("message", ""))

        await eventually(lambda: "root/a already runs 1 of at most 1 job" in told())


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        ({}, "root/a"),
        ({QUOTA_NAME_LABELS[0]: "b"}, "root/b"),
        ({QUOTA_NAME_LABELS[1]: "b"}, "root/b"),
        ({QUOTA_NAME_LABELS[0]: "b", QUOTA_NAME_LABELS[1]: "a"}, "root/b"),  # the first of the two names wins
        ({QUOTA_NAME_LABELS[0]: "root"}, "root"),  # no leaf: decided as NoQueue
        ({QUOTA_NAME_LABELS[0]: "gone"}, "gone"),
        ({QUOTA_NAME_LABELS[0]: ""}, "root/a"),
    ],
)
def test_which_leaf_a_job_belongs_to(labels: dict[str, str], path: str) -> None:
    tree = parse_tree(leaves(leaf("a", "default", "other"), leaf("b"))["spec"])
    assert leaf_for(tree, "default", labels) == path
    assert leaf_for(tree, "nowhere", {}) == "namespace nowhere"
    assert leaf_for(tree, "other", {}) == "root/a"


async def test_a_max_that_shrinks_below_what_runs_stops_nothing_and_starts_nothing_until_there_is_room() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(leaves(leaf("a", "default", max={GPU: 9})), policy(queue=True))
        for name in ("one", "two", "three"):
            await world.apply(pytorchjob(name))
            await world.running(name)
        await world.apply(leaves(leaf("a", "default", max={GPU: 6})), pytorchjob("four"))
        await eventually(lambda: "used 9, max 6" in world.message("four"))
        assert [world.state(name) for name in ("one", "two", "three")] == ["Running"] * 3
        world.members.finish("one")
        await eventually(lambda: "used 6, max 6" in world.message("four"))
        world.members.finish("two")
        await world.running("four")


async def test_a_max_that_grows_while_work_runs_lets_more_start() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(leaves(leaf("a", "default", max={GPU: 3})), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "3 more needed" in world.message("two"))
        await world.apply(leaves(leaf("a", "default", max={GPU: 3}, attributes={"fleet.io/oversell-rate": "2"})))
        await world.running("two")


async def test_a_leaf_with_work_stays_until_its_work_is_gone() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(leaves(leaf("a", "default"), leaf("b")), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        for without in (leaves(leaf("b", "default")), leaves(leaf("a", children=[leaf("c", "default")]), leaf("b"))):
            with pytest.raises(StatusError) as refusal:
                await world.apply(without)
            assert refusal.value.code == 422
            assert "leaf root/a cannot go while work waits or runs there" in refusal.value.message
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)
        await world.apply(leaves(leaf("b", "default")))
        await eventually(lambda: set(world.queues()) == {"root", "root/b"})
        await world.apply(pytorchjob("two"))
        await world.running("two")


async def test_a_namespace_that_moves_to_another_leaf_takes_what_waits_along_and_leaves_what_runs() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(leaves(leaf("a", "default", max={JOBS: 1}), leaf("b", max={JOBS: 1})), policy(queue=True))
        await world.apply(pytorchjob("one"))
        await world.running("one")
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "root/a already runs 1" in world.message("two"))
        await world.apply(leaves(leaf("a", max={JOBS: 1}), leaf("b", "default", max={JOBS: 1})))
        await world.running("two")  # one is still charged to a
        await world.apply(pytorchjob("three"))
        await eventually(lambda: "root/b already runs 1" in world.message("three"))
        world.members.finish("one")
        await settle(2)
        assert world.placed("three") == ""


async def test_two_trees_in_a_row_leave_every_queue_right() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(leaves(leaf("a", "default", max={JOBS: 0})), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: "may run no jobs" in world.message("one"))
        for name in ("b", "c", "d"):
            await world.apply(leaves(leaf(name, "default", max={JOBS: 0})))
        await eventually(lambda: "root/d may run no jobs" in world.message("one"))
        assert set(world.queues()) == {"root", "root/d"}
        assert (world.unit("one") or {})["spec"]["queue"] == world.queues()["root/d"]
