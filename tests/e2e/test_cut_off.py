"""A real member that is cut off: its kube-apiserver is frozen, so connections stay open and nothing answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, pytorchjob

pytestmark = pytest.mark.xdist_group("e2e-real")


@pytest.fixture
def world(real: World) -> World:
    """What `team` works on: here always the real members."""
    return real


def ready(world: World, member: str) -> str:
    cluster = world.kubectl.get("clusters.cluster.karmada.io", member)
    return str(next(c["status"] for c in cluster["status"]["conditions"] if c["type"] == "Ready"))


def test_a_member_that_is_cut_off_keeps_its_job_and_the_others_go_on(world: World, team: Callable[..., str]) -> None:
    namespace = team()
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("stays"), namespace=namespace)
    world.until("it runs", lambda: world.state("stays", namespace) == "Running")
    member, others = world.placed("stays", namespace), set(world.members)
    others.discard(member)
    assert world.bed is not None
    lost = world.bed.members[member]
    lost.cut_off()
    try:
        world.until("the hub says that the member is lost", lambda: ready(world, member) != "True")
        world.kubectl.apply(pytorchjob("next"), namespace=namespace)
        world.until("another job runs elsewhere", lambda: world.state("next", namespace) == "Running")
        assert world.placed("next", namespace) in others
        assert world.placed("stays", namespace) == member
        describe = ("describe", "pytorchjob", "stays", "-n", namespace)
        world.until("the job says why it is quiet", lambda: "MemberUnreachable" in world.kubectl.run(*describe))
    finally:
        lost.reconnect()
    world.until("the member is back", lambda: ready(world, member) == "True")
    world.until("its job is the one that was there", lambda: world.state("stays", namespace) == "Running")
    assert sorted(world.jobs_in_members(namespace)) == sorted(
        [(member, "stays"), (world.placed("next", namespace), "next")]
    )
