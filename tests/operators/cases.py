"""What every job controller does with a small job of its kind. A controller's file says what is to be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tests.operators.jobs import Body, pod_template, pods_of, soon, stays
from tests.testbed.member import RealMember

Seen = tuple[str, str, str]  # type, status and reason of a condition


@dataclass(frozen=True)
class Kind:
    """`body` makes an object of the kind, without its name, from a pod's template. `selector` finds its pods, `{name}`
    standing for its name; `labels` are the keys of further labels on all of them."""

    path: str
    body: Callable[[Body], Body]
    pods: int
    selector: str
    labels: frozenset[str]
    running: Callable[[Body], bool]  # asks the status
    suspend: tuple[str, ...]  # the field
    suspended: Callable[[Body], bool]
    succeeded: Callable[[Body], bool]
    failed: Callable[[Body], bool]
    container: str = "main"
    restart: str = "Never"


def condition(kind: str, status: str, reason: str) -> Callable[[Body], bool]:
    """Whether a status has the condition."""

    def holds(body: Body) -> bool:
        return any(
            (one["type"], one["status"], one.get("reason", "")) == (kind, status, reason)
            for one in body.get("conditions", [])
        )

    return holds


class JobCases:
    kind: ClassVar[Kind]
    operators: ClassVar[tuple[str, ...]]

    def test_it_runs_with_all_pods_and_is_suspended_and_resumed(self, member: RealMember) -> None:
        kind = self.kind
        self._post(member, "runs", self._template(""))
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
        self._post(member, "waits", self._template(""), suspended=True)
        soon("the job is suspended", lambda: kind.suspended(self._status(member, "waits")))
        stays("a suspended job has no pods", lambda: not self._pods(member, "waits"))
        self._suspend(member, "waits", False)
        soon("all pods run", lambda: self._running(member, "waits") == kind.pods)

    def test_it_says_that_it_succeeded(self, member: RealMember) -> None:
        self._post(member, "ends", self._template("1s"))
        soon("the job succeeded", lambda: self.kind.succeeded(self._status(member, "ends")))
        assert not self.kind.failed(self._status(member, "ends"))

    def test_it_says_that_it_failed(self, member: RealMember) -> None:
        self._post(member, "fails", self._template("1s", exit_code=1))
        soon("the job failed", lambda: self.kind.failed(self._status(member, "fails")))
        assert not self.kind.succeeded(self._status(member, "fails"))

    def test_its_pods_go_with_it(self, member: RealMember) -> None:
        self._post(member, "goes", self._template(""))
        soon("all pods run", lambda: self._running(member, "goes") == self.kind.pods)
        member.delete(f"{self.kind.path}/goes")
        soon("no pod is left", lambda: not self._pods(member, "goes"))

    def _template(self, run_for: str, exit_code: int = 0) -> Body:
        template = pod_template(1, name=self.kind.container, run_for=run_for, exit_code=exit_code)
        template["spec"]["restartPolicy"] = self.kind.restart
        return template

    def _post(self, member: RealMember, name: str, template: Body, *, suspended: bool = False) -> None:
        body = self._body(name, template)
        member.post(self.kind.path, _merged(body, self._field(True)) if suspended else body)

    def _body(self, name: str, template: Body) -> Body:
        return {**self.kind.body(template), "metadata": {"name": name}}

    def _suspend(self, member: RealMember, name: str, value: bool) -> None:
        member.patch(f"{self.kind.path}/{name}", self._field(value))

    def _field(self, value: bool) -> Body:
        *outer, last = self.kind.suspend
        patch: Body = {last: value}
        for key in reversed(outer):
            patch = {key: patch}
        return patch

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
