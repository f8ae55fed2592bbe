"""The LeaderWorkerSet controller: two groups of a leader and a worker. They are no job: nothing ends them."""

from __future__ import annotations

from tests.operators.jobs import PODS, Body, pods_of, soon, stays
from tests.operators.kinds import LEADERWORKERSET
from tests.testbed.member import RealMember

SETS = LEADERWORKERSET.path
AVAILABLE = LEADERWORKERSET.running


class TestLeaderWorkerSet:
    operators = (LEADERWORKERSET.operator,)

    def test_its_groups_run_and_at_no_replicas_no_pod_is_left(self, member: RealMember) -> None:
        _post(member, "runs")
        soon("all groups are ready", lambda: AVAILABLE(_status(member, "runs")))
        assert len(_running(member, "runs")) == 4
        assert all(set(pod["metadata"]["labels"]) >= LEADERWORKERSET.labels for pod in _pods(member, "runs"))
        counts = _status(member, "runs")
        assert (counts["replicas"], counts["readyReplicas"], counts["updatedReplicas"]) == (2, 2, 2)
        member.patch(f"{SETS}/runs", {"spec": {"replicas": 0}})
        soon("no pod is left", lambda: not _pods(member, "runs"))
        emptied = soon("no group is counted", lambda: _without(_status(member, "runs"), "readyReplicas"))
        assert AVAILABLE(emptied)  # what a set without groups says of itself
        member.patch(f"{SETS}/runs", {"spec": {"replicas": 2}})
        soon("all pods run again", lambda: len(_running(member, "runs")) == 4)

    def test_made_without_replicas_it_has_no_pods(self, member: RealMember) -> None:
        _post(member, "waits", replicas=0)
        stays("a set of no groups has no pods", lambda: not _pods(member, "waits"))

    def test_a_group_with_a_restarted_container_is_made_anew_whole_and_the_other_stays(
        self, member: RealMember
    ) -> None:
        _post(member, "breaks")
        before = soon("all pods run", lambda: _of(_running(member, "breaks"), 4))
        containers = member.get(f"{PODS}/breaks-0-1")["status"]["containerStatuses"]
        restarted = [{**container, "restartCount": 1} for container in containers]
        member.patch(f"{PODS}/breaks-0-1/status", {"status": {"containerStatuses": restarted}})
        soon("the group has new pods", lambda: not {"breaks-0", "breaks-0-1"} & _kept(member, "breaks", before))
        after = soon("all pods run", lambda: _of(_running(member, "breaks"), 4))
        assert {name for name in before if before[name] == after[name]} == {"breaks-1", "breaks-1-1"}

    def test_its_pods_go_with_it(self, member: RealMember) -> None:
        _post(member, "goes")
        soon("all pods run", lambda: len(_running(member, "goes")) == 4)
        member.delete(f"{SETS}/goes")
        soon("no pod is left", lambda: not _pods(member, "goes"))


def _post(member: RealMember, name: str, replicas: int = 2) -> None:
    body = LEADERWORKERSET.job(name)
    body["spec"]["replicas"] = replicas
    member.post(SETS, body)


def _status(member: RealMember, name: str) -> Body:
    status: Body = member.get(f"{SETS}/{name}").get("status", {})
    return status


def _without(status: Body, count: str) -> Body | None:
    return status if status and not status.get(count) else None


def _pods(member: RealMember, name: str) -> list[Body]:
    return pods_of(member, LEADERWORKERSET.selector.format(name=name))


def _running(member: RealMember, name: str) -> dict[str, str]:
    """The running pods' uids by name."""
    pods = [pod for pod in _pods(member, name) if pod["status"].get("phase") == "Running"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def _of(found: dict[str, str], count: int) -> dict[str, str] | None:
    return found if len(found) == count else None


def _kept(member: RealMember, name: str, before: dict[str, str]) -> set[str]:
    now = {pod["metadata"]["uid"] for pod in _pods(member, name)}
    return {pod for pod, uid in before.items() if uid in now}
