"""A hub before a member that schedules gangs by Kubernetes' own means, with the policy that the how-to page names."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.hub import Kubectl
from tests.operators.hub import hub_before, member_of, starts_whole_when_there_is_room
from tests.operators.jobs import PODS

POLICY = Path(__file__).parents[2] / "docs/how-to/gang-policy.yaml"
PROBE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe", "labels": {"fleet.io/gang": "probe"}},
    "spec": {"containers": [{"name": "main", "image": "probe"}]},
}
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/podgroups"


def test_a_gang_starts_whole_when_there_is_room_and_its_group_goes_with_it(tmp_path: Path) -> None:
    with hub_before(tmp_path, "kubernetes-gangs") as world:
        member = member_of(world)
        Kubectl(member.kubeconfig).run("apply", "-f", str(POLICY))
        world.until("the policy is active", lambda: member.post(f"{PODS}?dryRun=All", PROBE)["spec"]["schedulingGroup"])
        world.until(
            "the hub knows what the member serves", lambda: "PodGroup" in str(world.kubectl.get("cluster", "cfa"))
        )
        starts_whole_when_there_is_room(world)
        world.until("no group is left", lambda: not member.get(GROUPS)["items"])
