"""What every job controller does with a small job of its kind. A controller's file says what is to be seen."""

from __future__ import annotations

from typing import ClassVar

from tests.operators.jobs import Body, pods_of, soon, stays
from tests.operators.kinds import Kind, prepare
from tests.testbed.member import RealMember


class JobCases:
    kind: ClassVar[Kind]
    operators: ClassVar[tuple[str, ...]]

    def test_it_runs_with_all_pods_and_is_suspended_and_resumed(self, member: RealMember) -> None:
        kind = self.kind
        self._post(member, "runs")
        soon("the job runs", lambda: kind.running(self._status(member, "runs")))
        soon("all pods run", lambda: self._running(member, "runs") == kind.pods)
        for pod in self._pods(member, "runs"):
            assert kind.labels <= set(pod["metadata"]["labels"])
        self._suspend(member, "runs", True)
        soon("the job is suspended", lambda: kind.suspended(self._status(member, "runs")))
        soon("no pod is left", lambda: not self._pods(member, "runs"))
        self._suspend(member, "runs", False)
        soon("all pods run again", lambda: self._running(member, "runs") == kind.pods)
        soon("the job runs again", lambda: kind.running(self._status(member, "runs")))

    def test_made_suspended_it_has_no_pods_until_it_is_resumed(self, member: RealMember) -> None:
        kind = self.kind
        self._post(member, "waits", suspended=True)
        soon("the job is suspended", lambda: kind.suspended(self._status(member, "waits")))
        stays("a suspended job has no pods", lambda: not self._pods(member, "waits"))
        self._suspend(member, "waits", False)
        soon("all pods run", lambda: self._running(member, "waits") == kind.pods)

    def test_it_says_that_it_succeeded(self, member: RealMember) -> None:
        self._post(member, "ends", "1s")
        soon("the job succeeded", lambda: self.kind.succeeded(self._status(member, "ends")))
        assert not self.kind.failed(self._status(member, "ends"))

    def test_it_says_that_it_failed(self, member: RealMember) -> None:
        self._post(member, "fails", "1s", exit_code=1)
        soon("the job failed", lambda: self.kind.failed(self._status(member, "fails")))
        assert not self.kind.succeeded(self._status(member, "fails"))

    def test_its_pods_go_with_it(self, member: RealMember) -> None:
        self._post(member, "goes")
        soon("all pods run", lambda: self._running(member, "goes") == self.kind.pods)
        member.delete(f"{self.kind.path}/goes")
        soon("no pod is left", lambda: not self._pods(member, "goes"))

    def _post(
        self, member: RealMember, name: str, run_for: str = "", exit_code: int = 0, *, suspended: bool = False
    ) -> None:
        kind = self.kind
        prepare(kind, member, name, run_for, exit_code)
        body = kind.job(name, run_for=run_for, exit_code=exit_code)
        body = _merged(body, kind.suspension(True)) if suspended else body
        # A TrainJob is refused until the webhook has heard of its runtime.
        soon("the job is made", lambda: member.post(kind.path, body))

    def _suspend(self, member: RealMember, name: str, value: bool) -> None:
        member.patch(f"{self.kind.path}/{name}", self.kind.suspension(value))

    def _status(self, member: RealMember, name: str) -> Body:
        status: Body = member.get(f"{self.kind.path}/{name}").get("status", {})
        return status

    def _pods(self, member: RealMember, name: str) -> list[Body]:
        return pods_of(member, self.kind.selector.format(name=name))

    def _running(self, member: RealMember, name: str) -> int:
        return sum(1 for pod in self._pods(member, name) if pod["status"].get("phase") == "Running")


def _merged(body: Body, more: Body) -> Body:
    """`body` with the leaves of `more`."""
    both = {key: _merged(body.get(key, {}), value) if isinstance(value, dict) else value for key, value in more.items()}
    return {**body, **both}
