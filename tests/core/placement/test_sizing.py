"""Elastic units have what is left once all that wait have been served."""

from __future__ import annotations

import pytest

from fleet.core.model.reason import Code
from fleet.core.snapshot import Config
from tests.builders import NOW, tree
from tests.core.placement.elasticfleet import LEAVING_S, Fleet, Job

GPU = "nvidia.com/gpu"


def sizes(fleet: Fleet) -> dict[str, int]:
    return {name: job.has for name, job in fleet.jobs.items()}


def test_alone_it_starts_whole() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("e", 8, 2))
    plan = fleet.decide()
    assert plan.placements[0].sizes == (("worker", 8),)
    assert sizes(fleet) == {"e": 8}


def test_it_starts_with_as_many_replicas_as_there_is_room_for() -> None:
    fleet = Fleet({"x": {"n": 5}}, Job("e", 8, 2))
    fleet.decide()
    assert sizes(fleet) == {"e": 5}


def test_it_changes_by_whole_steps() -> None:
    fleet = Fleet({"x": {"n": 7}}, Job("e", 8, 2, step=2))
    fleet.decide()
    assert sizes(fleet) == {"e": 6}


def test_what_waits_starts_before_it_grows() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("e", 8, 2), Job("later", 4, since=NOW + 5))
    fleet.decide()
    assert sizes(fleet) == {"e": 4, "later": 4}


def test_it_grows_beside_a_job_that_never_fits() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("huge", 9), Job("e", 8, 2))
    plan = fleet.decide()
    assert sizes(fleet) == {"huge": 0, "e": 8} and plan.reasons["huge"].code is Code.TOO_LARGE


def test_it_grows_beside_a_job_for_which_there_is_no_room_yet() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("runs", 4, runs_s=1000), Job("e", 8, 1), Job("waits", 4, since=NOW + 5))
    fleet.jobs["runs"].since = NOW - 5
    fleet.decide()
    assert sizes(fleet) == {"runs": 4, "e": 4, "waits": 0}


def test_it_gives_up_what_a_job_that_waits_needs_and_the_job_starts_once_the_pods_are_gone() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("e", 8, 2))
    fleet.decide()
    fleet.jobs["new"] = Job("new", 3, since=NOW + 1)
    plan = fleet.decide()
    assert (plan.placements, sizes(fleet)) == ((), {"e": 5, "new": 0})
    assert plan.resizes[0].serves == "new"
    assert plan.reasons["new"].text == "starts in member x once elastic jobs have given up pods for it"
    again = fleet.decide()
    assert (again.placements, sizes(fleet)) == ((), {"e": 5, "new": 0})
    fleet.passes(LEAVING_S)
    fleet.decide()
    assert sizes(fleet) == {"e": 5, "new": 3}


def test_it_does_not_grow_again_for_the_protection_time() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("e", 8, 2), config=Config(reclaim=True, protection_s=300))
    fleet.decide()
    fleet.jobs["short"] = Job("short", 3, runs_s=60)
    for _ in range(3):
        fleet.decide()
        fleet.passes(LEAVING_S)
    fleet.passes(100)
    assert "short" not in fleet.jobs
    fleet.decide()
    assert sizes(fleet) == {"e": 5}
    fleet.passes(300)
    fleet.decide()
    assert sizes(fleet) == {"e": 8}


def test_of_two_the_older_keeps_more() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("old", 4, 1), Job("young", 4, 1, since=NOW + 1))
    fleet.decide()
    fleet.jobs["young"].placed_at += 1
    fleet.jobs["new"] = Job("new", 4, since=NOW + 5)
    fleet.decide()
    assert sizes(fleet) == {"old": 3, "young": 1, "new": 0}


def test_the_pods_that_go_are_those_whose_nodes_the_job_needs() -> None:
    fleet = Fleet({"x": {"a": 4, "b": 4}}, Job("e", 8, 2))
    fleet.decide()
    fleet.jobs["new"] = Job("new", 1, gpus=4, since=NOW + 1)
    fleet.decide()
    assert sizes(fleet) == {"e": 4, "new": 0}
    fleet.passes(LEAVING_S)
    fleet.decide()
    assert sizes(fleet) == {"e": 4, "new": 1}


def test_a_job_that_finds_room_elsewhere_takes_nothing() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("e", 8, 2))
    fleet.decide()
    fleet.nodes = {**fleet.nodes, "y": {"m": 8}}
    fleet.jobs["new"] = Job("new", 6, since=NOW + 1)
    fleet.decide()
    assert sizes(fleet) == {"e": 8, "new": 6} and fleet.jobs["new"].member == "y"


def test_quota_goes_first_to_what_waits() -> None:
    quota = tree(a={"max": {GPU: 6}})
    fleet = Fleet({"x": {"n": 16}}, Job("e", 8, 2, leaf="root/a"), tree=quota)
    fleet.decide()
    assert sizes(fleet) == {"e": 6}
    fleet.jobs["new"] = Job("new", 3, leaf="root/a", since=NOW + 1)
    fleet.decide()
    assert sizes(fleet) == {"e": 3, "new": 0}
    fleet.passes(LEAVING_S)
    fleet.decide()
    assert sizes(fleet) == {"e": 3, "new": 3}


def test_nothing_is_given_up_where_plans_may_take_nothing_back() -> None:
    fleet = Fleet({"x": {"n": 8}}, Job("e", 8, 2), config=Config(reclaim=False))
    fleet.decide()
    fleet.jobs["new"] = Job("new", 3, since=NOW + 1)
    plan = fleet.decide()
    assert sizes(fleet) == {"e": 8, "new": 0} and plan.reasons["new"].code is Code.NO_MEMBER_FITS


@pytest.mark.parametrize("policy", ["Priority", "Block"])
def test_behind_a_job_that_waits_for_pods_a_strict_queue_starts_nothing(policy: str) -> None:
    quota = tree(a={"policy": policy}, b={})
    fleet = Fleet({"x": {"n": 9}}, Job("e", 8, 2, leaf="root/b"), tree=quota)
    fleet.decide()
    fleet.jobs["first"] = Job("first", 3, leaf="root/a", since=NOW + 1)
    fleet.jobs["second"] = Job("second", 1, leaf="root/a", since=NOW + 2)
    fleet.decide()
    assert sizes(fleet)["second"] == (policy == "Priority")
    fleet.passes(LEAVING_S)
    fleet.decide()
    assert sizes(fleet) == {"e": 5, "first": 3, "second": 1}
