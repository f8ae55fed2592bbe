"""Where a gang goes, and where it does not."""

from __future__ import annotations

from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body
from fleet.wellknown import QUEUE, WORK
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import cluster, cluster_policy, hub, member, passing, policy, pytorchjob, tree


async def test_without_suspension_a_job_is_placed_without_queueing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), passing(policy()), pytorchjob("one"), pytorchjob("two"))
        await world.running("one")
        await world.running("two")
        assert world.unit("one") is None
        assert world.condition(world.see("PyTorchJob", "one"), "Queuing") == {}


async def test_a_gang_larger_than_every_members_room_creates_nothing_and_names_the_closest() -> None:
    async with hub(member("small", 1), member("large", 2)) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("big", workers=19))
        await eventually(lambda: "Closest is large: 4 pods find" in world.message("big"), what=world.message("big"))
        assert world.members.where("big") == []
        assert world.phase("big") == "Enqueued"


async def test_a_gang_whose_sum_fits_but_whose_pods_do_not_is_not_sent() -> None:
    async with hub(member("cfa", 4, gpus=2)) as world:
        await world.apply(policy(), pytorchjob("fat", workers=0, gpus=4))
        await eventually(lambda: world.condition(world.binding("fat"), "Scheduled").get("status") == "False")
        assert world.condition(world.binding("fat"), "Scheduled")["reason"] == "NoClusterFit"
        await eventually(lambda: world.state("fat") == "Pending")
        assert world.members.where("fat") == []
        assert len(world.events("fat", "ScheduleBindingFailed")) == 1


async def test_room_that_is_promised_is_not_given_twice() -> None:
    async with hub(member("cfa", 1), member("cfb", 1)) as world:
        await world.apply(policy(), *(pytorchjob(f"j{n}", workers=7) for n in range(3)))
        await eventually(lambda: sum(bool(world.placed(f"j{n}")) for n in range(3)) == 2)
        await settle()
        placed = [world.placed(f"j{n}") for n in range(3)]
        assert sorted(p for p in placed if p) == ["cfa", "cfb"]


async def test_affinity_by_label_decides_and_a_member_relabelled_counts_at_once() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        placement = policy()["spec"]["placement"]
        affinity = {"labelSelector": {"matchLabels": {"tier": "gold"}}}
        await world.apply(policy(placement={**placement, "clusterAffinity": affinity}), pytorchjob("one"))
        await eventually(lambda: world.condition(world.binding("one"), "Scheduled").get("status") == "False")
        await world.apply(cluster("cfb", {"tier": "gold"}))
        assert await world.running("one") == "cfb"


async def test_ordered_affinities_fall_through_to_the_next_group() -> None:
    async with hub(member("cfa", 1, gpus=1), member("cfb", 2)) as world:
        placement = policy()["spec"]["placement"]
        groups = [{"affinityName": "first", "clusterNames": ["cfa"]}, {"affinityName": "then", "clusterNames": ["cfb"]}]
        await world.apply(policy(placement={**placement, "clusterAffinities": groups}), pytorchjob("one"))
        assert await world.running("one") == "cfb"


async def test_a_gang_that_does_not_become_whole_is_withdrawn_and_tried_elsewhere() -> None:
    async with hub(member("cfa", 4), member("cfb", 3)) as world:
        world.members.by_name["cfa"].no_pods = True
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        first = await eventually(lambda: world.placed("one"))
        world.members.by_name[first].no_pods = True
        other = "cfb" if first == "cfa" else "cfa"
        world.members.by_name[other].no_pods = False
        enqueued = (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"]
        await eventually(lambda: world.state("one") == "Running", within_s=120)
        assert world.placed("one") == other
        assert world.members.where("one") == [other]
        assert (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"] == enqueued
        (event,) = world.events("one", "EvictWorkloadFromClusterSucceed")
        assert "only 0 of 3 pods found a node" in event["message"]


async def test_a_member_that_refuses_is_left_with_a_reason_and_a_growing_pause() -> None:
    async with hub(member("cfa", refuse="admission webhook said no")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: world.events("one", "SyncFailed"))
        assert "admission webhook said no" in world.events("one", "SyncFailed")[0]["message"]
        await eventually(lambda: world.phase("one") == "TimeoutBackoff")
        await settle(60)
        assert 5 <= world.attempt("one") <= 8  # 1 + 2 + 4 + 8 + 16 + 32 seconds, and the way there and back
        world.members.by_name["cfa"].refuse = ""
        await eventually(lambda: world.state("one") == "Running", within_s=90)


async def test_a_foreign_job_of_the_same_name_is_never_touched() -> None:
    async with hub(member("cfa")) as world:
        foreign = pytorchjob("one", workers=1)
        world.members.put_foreign("cfa", foreign)
        await world.apply(policy(), pytorchjob("one"))
        await eventually(lambda: world.events("one", "SyncFailed"))
        assert "was not created by Fleet" in world.events("one", "SyncFailed")[0]["message"]
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.binding("one") is None)
        assert (world.members.job("cfa", "default", "one") or {})["metadata"]["uid"] == "foreign"


async def test_a_cluster_policy_that_says_overwrite_takes_a_foreign_job_over() -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", pytorchjob("one", workers=1))
        await world.apply(cluster_policy(conflictResolution="Overwrite"), pytorchjob("one"))
        await eventually(
            lambda: world.members.copies((world.binding("one") or {"metadata": {"uid": "?"}})["metadata"]["uid"])
        )


async def test_a_slow_member_costs_the_others_nothing() -> None:
    async with hub(
        member("slow", 40, slow_s=5.0), member("fast", 4), config=ControllerConfig(calls_per_member_max=4)
    ) as world:
        placement = policy()["spec"]["placement"]
        to_slow = {**placement, "clusterAffinity": {"clusterNames": ["slow"]}}
        to_fast = {**placement, "clusterAffinity": {"clusterNames": ["fast"]}}
        selector = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
        slow = policy(
            "s", placement=to_slow, resourceSelectors=[{**selector, "labelSelector": {"matchLabels": {"to": "slow"}}}]
        )
        fast = policy("f", placement=to_fast, resourceSelectors=[{**selector, "name": "quick"}])
        jobs = [pytorchjob(f"s{n}") for n in range(80)]
        for job in jobs:
            job["metadata"]["labels"] = {"to": "slow"}
        await world.apply(slow, fast, *jobs)
        await eventually(lambda: world.members.by_name["slow"].calls_at_once > 0)
        await world.apply(pytorchjob("quick"))
        await eventually(lambda: world.members.where("quick") == ["fast"], within_s=1.0)
        assert world.members.by_name["slow"].calls_at_once_max <= 4


async def test_from_submission_to_bound_a_job_costs_at_most_eight_hub_writes() -> None:
    async with hub(member("cfa", 40)) as world:
        await world.apply(tree(max_jobs=1000), policy(queue=True))
        await eventually(lambda: len(world.queues()) == 2)
        resources = [("kubeflow.org", "pytorchjobs"), (WORK, "resourcebindings"), (QUEUE, "queueunits"), ("", "events")]
        since = await world.store.revision()
        names = [f"j{number}" for number in range(50)]
        await world.apply(*(pytorchjob(name) for name in names))
        await eventually(lambda: all(world.placed(name) for name in names))
        writes: dict[str, list[tuple[int, Body]]] = {name: [] for name in names}
        for group, resource in resources:
            watch = await world.store.watch(group, resource, since=since)
            while (event := await watch.next(timeout=0.01)) is not None:
                body = event.stored.body
                about = (body.get("involvedObject") or body["metadata"])["name"].split("-")[0]
                writes[about].append((event.revision, body))
            await watch.aclose()
        for name, written in writes.items():
            bound = next(
                rev for rev, body in written if body["kind"] == "ResourceBinding" and body["spec"].get("clusters")
            )
            # the commit that binds: the binding, its unit and the event stand next to each other
            assert sum(revision <= bound + 2 for revision, _ in written) <= 8, name
