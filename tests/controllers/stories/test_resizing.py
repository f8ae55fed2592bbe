"""A job that runs is changed: smaller at once, larger within its quota and the room of its member, else refused."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from api.engine import patch as patches
from api.engine.status import StatusError
from fleet.admission import rules
from fleet.controllers.decide.growing import JobGrower
from fleet.controllers.decide.snapshot import SnapshotBuilder
from fleet.controllers.runtime.events import EventRecorder
from fleet.values.ports import Body
from fleet.wellknown import GANG_WHOLE, RESIZED
from tests.controllers.fakemember import FakeMember
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import ALICE, World, member, policy, pytorchjob, tree
from tests.controllers.world import hub as running_hub

GPU = "nvidia.com/gpu"


@asynccontextmanager
async def asked(*members: FakeMember, max_gpus: int = 8, **how: Any) -> AsyncIterator[World]:
    """A hub with a queue, whose users are asked by admission, and whose controllers show that they live."""
    async with running_hub(*members, **how) as world, world.beating():
        quota = tree(max_jobs=10)
        quota["spec"]["root"]["children"][0]["max"][GPU] = max_gpus
        await world.apply(quota, policy(queue=True))
        world.objects.rules = rules()
        yield world


def replicas(count: int) -> Callable[[Body], None]:
    def change(job: Body) -> None:
        job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = count

    return change


def gpus(amount: int) -> Callable[[Body], None]:
    def change(job: Body) -> None:
        container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        container["resources"]["limits"][GPU] = str(amount)

    return change


async def runs(world: World, name: str, **how: Any) -> None:
    """The job runs, and the newest snapshot shows it."""
    await world.apply(pytorchjob(name, **how))
    await world.running(name)
    await settle(2)


async def resize(world: World, name: str, change: Callable[[Body], None]) -> None:
    await world.edit("PyTorchJob", name, change)


async def refused(world: World, name: str, change: Callable[[Body], None]) -> str:
    """The refusal of a change, which leaves the job as it is."""
    before = copy.deepcopy((world.see("PyTorchJob", name) or {})["spec"])
    with pytest.raises(StatusError) as found:
        await world.edit("PyTorchJob", name, change)
    assert found.value.code == 422
    assert (world.see("PyTorchJob", name) or {})["spec"] == before
    return found.value.causes[0].message


def sent(world: World, name: str, where: str = "cfa") -> int:
    copy_ = world.members.job(where, "default", name) or {}
    return int(copy_["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"])


def charged(world: World, name: str) -> str:
    return str((world.unit(name) or {})["spec"]["resource"][GPU])


def resized(world: World, name: str) -> tuple[str, str]:
    told = world.condition(world.binding(name), RESIZED)
    return str(told.get("status", "")), str(told.get("reason", ""))


def shown(world: World, name: str) -> str:
    """The condition as the job of the user shows it."""
    return str(world.condition(world.see("PyTorchJob", name), RESIZED).get("message", ""))


async def test_a_job_grows_within_quota_and_room_in_its_member_and_is_charged_at_once() -> None:
    async with asked(member("cfa"), max_gpus=8) as world:
        await runs(world, "one", workers=2)
        await resize(world, "one", replicas(5))
        await eventually(lambda: charged(world, "one") == "6" and sent(world, "one") == 5)
        await eventually(lambda: resized(world, "one") == ("True", "Resized"))
        assert world.attempt("one") == 1 and world.state("one") == "Running" and shown(world, "one") == ""
        assert len(world.members.by_name["cfa"].pods) == 6
        assert "worker 2 -> 5" in world.events("one", RESIZED)[0]["message"]


async def test_every_verb_that_changes_a_job_may_make_it_larger() -> None:
    async with asked(member("cfa")) as world:
        await runs(world, "one", workers=1)
        kind = next(k for k in world.registry if k.kind == "PyTorchJob")
        for number, (way, how) in enumerate(((patches.MERGE, ""), (patches.MERGE, "scale")), start=2):
            change = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": number}}}}
            await world.objects.patch(kind, "default", "one", change, way, ALICE, how)
            await eventually(lambda number=number: sent(world, "one") == number)
            await eventually(lambda: resized(world, "one")[0] == "True")


async def test_more_than_the_quota_has_left_is_refused_with_numbers() -> None:
    async with asked(member("cfa"), max_gpus=8) as world:
        await runs(world, "one", workers=2)
        await runs(world, "two", workers=2)
        said = await refused(world, "one", replicas(5))
        assert "5 replicas of worker, 2 admitted" in said
        assert said.endswith("asks for 3 more nvidia.com/gpu; root/child-2 has 2 of its max 8 left")
        await resize(world, "one", replicas(4))
        await eventually(lambda: charged(world, "one") == "5")


async def test_more_than_its_member_has_free_is_refused_although_another_member_has_it() -> None:
    async with asked(member("cfa", 1), member("cfb", 4), max_gpus=100) as world:
        await world.edit("PropagationPolicy", "example-policy", _only_cfa)
        await runs(world, "one", workers=2, gpus=2)
        said = await refused(world, "one", replicas(4))
        assert "asks for 2 more pods with 2 nvidia.com/gpu; member cfa has room for 1 of them" in said
        await resize(world, "one", replicas(3))
        await eventually(lambda: sent(world, "one") == 3)


def _only_cfa(body: Body) -> None:
    body["spec"]["placement"]["clusterAffinity"] = {"clusterNames": ["cfa"]}


async def test_pods_may_ask_for_more_where_they_would_fit_in_the_place_of_the_old_ones() -> None:
    async with asked(member("cfa", 2), max_gpus=16) as world:
        await runs(world, "one", workers=1, gpus=4)
        assert "root/child-2 has 8 of its max 16 left" in await refused(world, "one", gpus(16))
        await resize(world, "one", gpus(8))
        await eventually(lambda: charged(world, "one") == "12")


async def test_a_job_that_shrinks_needs_no_answer_and_what_it_gives_up_is_free_for_others() -> None:
    async with asked(member("cfa"), max_gpus=4) as world:
        await runs(world, "one", workers=3)
        await resize(world, "one", replicas(1))
        await eventually(lambda: charged(world, "one") == "2" and sent(world, "one") == 1)
        await world.apply(pytorchjob("two", workers=1))
        await settle(2)
        assert world.state("two") == "Queuing"  # the pods of the first run on
        leave(world, "one-worker-1", "one-worker-2")
        await world.running("two")


def leave(world: World, *names: str) -> None:
    """The pods of job one leave the member, as its operator has them do."""
    pods = world.members.by_name["cfa"].pods
    for uid in [uid for uid, pod in pods.items() if pod.name in names]:
        del pods[uid]
    job = world.members.job("cfa", "default", "one")
    assert job is not None
    world.members._tell("cfa", "pod", job)


async def test_without_a_living_decider_no_job_is_made_larger() -> None:
    async with running_hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=10), policy(queue=True))
        await runs(world, "one")
        world.objects.rules = rules()
        assert "nobody decides" in await refused(world, "one", replicas(3))


# -- changes that come together


async def test_of_two_jobs_that_ask_for_the_same_room_at_once_one_waits_and_says_so() -> None:
    """Both were accepted on the same snapshot. The decider gives what there is to one after the other."""
    async with asked(member("cfa"), max_gpus=8) as world:
        await runs(world, "one", workers=2)
        await runs(world, "two", workers=2)
        await world.kill()
        world.objects.rules = {}
        await resize(world, "one", replicas(4))
        await resize(world, "two", replicas(4))
        world.start()
        await eventually(lambda: charged(world, "one") == "5")
        await eventually(lambda: resized(world, "two") == ("False", "QuotaExceeded"))
        await eventually(lambda: "asks for 2 more nvidia.com/gpu" in shown(world, "two"))
        assert (world.state("two"), charged(world, "two"), sent(world, "two")) == ("Running", "3", 2)
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: charged(world, "two") == "5" and sent(world, "two") == 4)
        await eventually(lambda: resized(world, "two")[0] == "True" and shown(world, "two") == "")


async def test_a_job_that_grows_and_a_job_that_waits_never_use_the_same_quota() -> None:
    async with asked(member("cfa"), max_gpus=6) as world:
        await runs(world, "one", workers=2)
        world.objects.rules = {}
        await world.apply(*(pytorchjob(f"job-{number}", workers=1) for number in range(4)))
        await resize(world, "one", replicas(4))
        used = []
        for _ in range(400):
            units = [u for u in world.all("QueueUnit") if u["status"].get("phase") in ("Dequeued", "Running")]
            used.append(sum(int(unit["spec"]["resource"][GPU]) for unit in units))
            await settle(0.01)
        assert 3 < max(used) <= 6


async def test_a_job_withdraws_its_wish() -> None:
    async with asked(member("cfa"), max_gpus=4) as world:
        await runs(world, "one", workers=2)
        world.objects.rules = {}
        await resize(world, "one", replicas(9))
        await eventually(lambda: shown(world, "one") != "")
        await resize(world, "one", replicas(2))
        await eventually(lambda: shown(world, "one") == "" and resized(world, "one") == ("", ""))
        assert "wantedComponents" not in (world.binding("one") or {})["spec"]


async def test_a_job_that_is_evicted_waits_with_all_that_it_asks_for() -> None:
    async with asked(member("cfa"), max_gpus=8) as world:
        await runs(world, "one", workers=2)
        world.objects.rules = {}
        await resize(world, "one", replicas(9))
        await eventually(lambda: resized(world, "one")[0] == "False")
        world.members.finish("one", "Failed", reason="Evicted")
        await eventually(lambda: charged(world, "one") == "10", within_s=60, what="the policy moves it after 30 s")
        assert world.phase("one") in ("Enqueued", "TimeoutBackoff")
        assert resized(world, "one") == ("", "")


async def test_new_pods_that_find_no_node_leave_the_others_running() -> None:
    """The member's scheduler has the last word: a node that is full of other work in the meantime."""
    async with asked(member("cfa", 2), max_gpus=100) as world:
        await runs(world, "one", workers=3, gpus=2)
        there = world.members.by_name["cfa"]
        await resize(world, "one", replicas(4))
        await eventually(lambda: sent(world, "one") == 4)
        del there.nodes["n1"]
        await eventually(lambda: "4 of 5 pods have a node in member cfa" in shown(world, "one"))
        await settle(120)
        assert resized(world, "one") == ("False", "PodsPending")
        assert (world.state("one"), world.attempt("one")) == ("Running", 1)
        assert world.condition(world.binding("one"), GANG_WHOLE)["status"] == "True"


async def test_the_room_of_pods_that_are_still_to_come_is_kept_from_others() -> None:
    async with asked(member("cfa", 1), max_gpus=100) as world:
        await runs(world, "one", workers=1, gpus=2)
        world.members.by_name["cfa"].no_pods = True
        await resize(world, "one", replicas(3))
        await eventually(lambda: sent(world, "one") == 3)
        await world.apply(pytorchjob("two", workers=0, gpus=2))
        await settle(3)
        assert world.state("two") == "Queuing"


async def test_a_job_outside_quota_grows_where_there_is_room() -> None:
    async with running_hub(member("cfa", 1)) as world, world.beating():
        await world.apply(policy())
        world.objects.rules = rules()
        await runs(world, "one", workers=2)
        assert "member cfa has room for 5 of them" in await refused(world, "one", replicas(9))
        await resize(world, "one", replicas(7))
        await eventually(lambda: sent(world, "one") == 7)


async def test_a_member_that_is_away_gives_nothing() -> None:
    async with asked(member("cfa"), member("cfb")) as world:
        await runs(world, "one")
        world.members.set_down(world.placed("one"), True)
        await settle(3)
        assert "is not ready" in await refused(world, "one", replicas(3))


async def test_other_changes_of_a_job_go_to_its_member_while_more_replicas_wait() -> None:
    async with asked(member("cfa"), max_gpus=4) as world:
        await runs(world, "one", workers=2)
        world.objects.rules = {}

        def image(job: Body) -> None:
            replicas(9)(job)
            job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"] = "other"

        await resize(world, "one", image)
        await eventually(lambda: resized(world, "one") == ("False", "QuotaExceeded"))
        await eventually(lambda: "'image': 'other'" in str(world.members.job("cfa", "default", "one")))
        assert sent(world, "one") == 2 and not world.events("one", "SyncFailed")


async def test_a_job_that_grows_before_it_is_sent_starts_as_it_was_placed() -> None:
    async with asked(member("cfa"), max_gpus=6) as world:
        world.objects.rules = {}
        world.members.by_name["cfa"].slow_s = 1.0
        await world.apply(pytorchjob("one", workers=2))
        await eventually(lambda: world.placed("one") == "cfa")
        await resize(world, "one", replicas(9))
        await world.running("one")
        assert (sent(world, "one"), world.attempt("one"), charged(world, "one")) == (2, 1, "3")
        await eventually(lambda: resized(world, "one") == ("False", "QuotaExceeded"))


async def test_a_job_that_has_just_started_waits_for_the_snapshot_that_shows_it() -> None:
    async with asked(member("cfa")) as world:
        await world.apply(pytorchjob("one", workers=1))
        await world.running("one")
        await resize(world, "one", replicas(2))
        await eventually(lambda: sent(world, "one") == 2)


async def test_the_new_pods_of_a_job_whose_room_was_held_pass_their_gate() -> None:
    async with asked(member("cfa"), max_gpus=8) as world:
        await world.edit("Cluster", "cfa", lambda body: body["spec"].update(enableReservation=True))
        await runs(world, "one", workers=2)
        await resize(world, "one", replicas(4))
        await eventually(lambda: resized(world, "one")[0] == "True")
        assert not any(pod.gated or pod.placeholder for pod in world.members.by_name["cfa"].pods.values())


async def test_a_growth_that_was_judged_by_another_tree_or_another_size_is_not_committed() -> None:
    async with asked(member("cfa"), max_gpus=8) as world:
        await runs(world, "one", workers=2)
        await world.kill()
        world.objects.rules = {}
        changes: tuple[Callable[[], Awaitable[None]], ...] = (
            lambda: world.edit("ElasticQuotaTree", "elasticquotatree", _tight, "kube-system"),
            lambda: world.edit("ResourceBinding", "one-pytorchjob", _asks_for_less),
        )
        for change in changes:
            await world.edit("ResourceBinding", "one-pytorchjob", _asks_for_more)
            picture = SnapshotBuilder(world.store, world.members).build(world.clock.now())
            await change()
            assert picture.growing
            assert not await JobGrower(world.hub, EventRecorder(world.hub)).grow(picture, world.clock.now())
            counts = [c["replicas"] for c in (world.binding("one") or {})["spec"]["components"]]
            assert counts == [1, 2]


def _asks_for_more(binding: Body) -> None:
    wanted = copy.deepcopy(binding["spec"]["components"])
    wanted[1]["replicas"] = 4
    binding["spec"]["wantedComponents"] = wanted


def _asks_for_less(binding: Body) -> None:
    del binding["spec"]["wantedComponents"]


def _tight(body: Body) -> None:
    body["spec"]["root"]["children"][0]["max"][GPU] = 7


async def test_a_growth_beside_a_shrink_names_the_way_out() -> None:
    async with asked(member("cfa")) as world:
        await runs(world, "one", workers=6)

        def moved(job: Body) -> None:
            master, worker = (job["spec"]["pytorchReplicaSpecs"][name] for name in ("Master", "Worker"))
            worker["replicas"] = 2
            master["template"]["spec"]["containers"][0]["resources"]["limits"][GPU] = "4"

        said = await refused(world, "one", moved)
        assert "What worker gives back counts once its pods are gone: make it smaller first, alone" in said
        await world.edit("PyTorchJob", "one", replicas(2))
        leave(world, "one-worker-2", "one-worker-3", "one-worker-4", "one-worker-5")
        await settle(5)
        await world.edit("PyTorchJob", "one", moved)


async def test_a_job_without_a_policy_is_not_made_larger() -> None:
    async with asked(member("cfa")) as world:
        await runs(world, "one", workers=1)
        await world.delete("PropagationPolicy", "example-policy")
        await settle(1)
        assert "no policy takes it any more" in await refused(world, "one", replicas(2))
