"""A hub before a member whose scheduler is kube-scheduler with the plugin Coscheduling of scheduler-plugins."""

from __future__ import annotations

from pathlib import Path

from tests.operators.hub import hub_before, member_of, starts_whole_when_there_is_room
from tests.operators.jobs import PODS, Body

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
LABEL = "scheduling.x-k8s.io/pod-group"
CHOICE = "fleet.io/gang-scheduler=Coscheduling/default-scheduler"


def test_a_gang_starts_whole_when_there_is_room_and_its_group_goes_with_it(tmp_path: Path) -> None:
    with hub_before(tmp_path, "coscheduling", CHOICE) as world:
        member = member_of(world)

        def is_marked(pods: list[Body]) -> None:
            (group,) = member.get(GROUPS)["items"]
            assert group["spec"]["minMember"] == 3
            assert {pod["metadata"]["labels"][LABEL] for pod in pods} == {group["metadata"]["name"]}

        starts_whole_when_there_is_room(world, is_marked)
        world.until("no group is left", lambda: not member.names(GROUPS))
        assert member.names(PODS) == []
