"""A hub before a member that runs Volcano beside its own scheduler: gangs, which the hub marks for it, and its Jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.hub import World
from tests.e2e.manifests import leaf
from tests.operators.hub import RealJobs, add_kinds, crds, hub_before, member_of, starts_whole_when_there_is_room
from tests.operators.jobs import PODS, Body
from tests.operators.kinds import VOLCANOJOB

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
ANNOTATION = "scheduling.k8s.io/group-name"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hub_before(tmp_path_factory.mktemp("volcano"), "volcano", leaves=[leaf("volcano", "job")]) as world:
        add_kinds(
            world.kubectl, [crd for crd in crds(["volcano"]) if crd["metadata"]["name"] == "jobs.batch.volcano.sh"]
        )
        world.kubectl.run("create", "namespace", "job")
        yield world


def test_a_gang_starts_whole_when_there_is_room_and_its_group_goes_with_it(world: World) -> None:
    member = member_of(world)

    def is_marked(pods: list[Body]) -> None:
        (group,) = member.get(GROUPS)["items"]
        assert group["spec"]["minMember"] == 3
        assert {pod["metadata"]["annotations"][ANNOTATION] for pod in pods} == {group["metadata"]["name"]}
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}

    world.until("the hub knows the kind", lambda: "scheduling.volcano.sh" in str(world.kubectl.get("cluster", "cfa")))
    starts_whole_when_there_is_room(world, is_marked)
    world.until("no group is left", lambda: not member.names(GROUPS))
    assert member.names(PODS) == []


def test_a_job_of_volcano_runs_with_all_pods_and_leaves_nothing_when_it_is_deleted(world: World) -> None:
    jobs = RealJobs(world, VOLCANOJOB)
    jobs.submit("runs")
    jobs.until("runs", "Running")
    world.until("all its pods run", lambda: list(jobs.pods().values()) == ["Running"] * VOLCANOJOB.pods)
    world.until("the hub shows that it runs", lambda: VOLCANOJOB.running(jobs.status("runs")))
    jobs.delete("runs")
    jobs.leave_nothing()


def test_a_job_of_volcano_that_succeeds_and_one_that_fails_say_so(world: World) -> None:
    jobs = RealJobs(world, VOLCANOJOB)
    jobs.submit("good", run_for="3s")
    jobs.submit("bad", run_for="1s", exit_code=1)
    jobs.until("good", "Succeed")
    jobs.until("bad", "Failed")
    assert VOLCANOJOB.succeeded(jobs.status("good")) and VOLCANOJOB.failed(jobs.status("bad"))
    jobs.delete("good", "bad")
    jobs.leave_nothing()
