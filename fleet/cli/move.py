"""`fleet move`: one job leaves its member for another. The hub does it; the command asks for it, and watches.

Before anything is changed, the command asks the decider whether the job would start there now. So no running job is
stopped for a place that it does not get.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import completers
from fleet.cli.failure import Failure, TimeIsOver
from fleet.cli.options import ContextOption, DataDirOption, JobArgument, KubeconfigOption, NamespaceOption
from fleet.cli.when import timeout_option

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

UNBOUND = " follows no policy, so it goes to no member (fleet explain {})"
POLL_S = 0.5
MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class _Job:
    """A job and where it is on the hub. `path`: of its object."""

    hub: HubClient
    namespace: str
    name: str
    binding: str
    path: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def bound(self) -> dict[str, Any]:
        """Its binding. Raises Failure."""
        found = self.hub.find(self.binding)
        if found is None:
            raise Failure(f"{self}{UNBOUND.format(self.name)}")
        return found

    def mark(self, member: str | None) -> None:
        from fleet.wellknown import ANNOTATION_MOVE

        body = {"metadata": {"annotations": {ANNOTATION_MOVE: member}}}
        self.hub.request("PATCH", self.path, body, content_type=MERGE)

    def marked(self) -> str:
        from fleet.bindings import binding as b
        from fleet.wellknown import ANNOTATION_MOVE

        found = self.hub.find(self.path)
        if found is None:
            raise Failure(f"{self} was deleted meanwhile")
        return b.annotation(found, ANNOTATION_MOVE)


def move(
    job: JobArgument,
    to: Annotated[str, typer.Option("--to", metavar="MEMBER", help="The member.", autocompletion=completers.members)],
    namespace: NamespaceOption = None,
    kind: Annotated[str, typer.Option("--kind", help="Kind of the job.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Move a job that is not preemptible, too.")] = False,
    wait_for_room: Annotated[
        bool, typer.Option("--wait-for-room", help="Stop the job though it cannot start there now.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the job is there.")] = True,
    timeout: Annotated[float, timeout_option("until the job is there", "10m")] = 600.0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Move one job to a member.

    A job that runs elsewhere is evicted, and queues with its old place; a job that waits starts there alone. The wish
    holds for the next placement. The hub goes on when the command ends before.
    """
    from fleet.bindings import binding as b
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    bound_job = _found(hub, namespace or hub.namespace, f"{kind}/{job}" if kind else job)
    binding = bound_job.bound()
    member = b.member_of(binding) or ""
    if b.finished(binding):
        raise Failure(f"{bound_job} is over")
    if member == to and not b.tasks_of(binding):
        print(f"{bound_job} is in {to}")
        return
    _check(hub, bound_job, binding, to, member, force=force)
    why = _why_not_now(hub, binding, to)
    if why and not wait_for_room:
        raise Failure(
            f"{bound_job} would not start in {to} now: {why.rstrip('.')}. --wait-for-room moves it all the same"
        )
    does = f"leaves {member} for {to}" if member else f"starts in {to} and nowhere else"
    if dry_run:
        print(f"{bound_job} {does}" + (f", and waits there: {why}" if why else ""))
        return
    bound_job.mark(to)
    print(f"{bound_job} {does}", file=sys.stderr)
    if not wait:
        return
    try:
        _wait(bound_job, to, timeout)
    except KeyboardInterrupt:
        print(f"fleet: {_goes_on(bound_job)}", file=sys.stderr)
        raise
    print(f"{bound_job} is in {to}")


def _found(hub: HubClient, namespace: str, job: str) -> _Job:
    """The one job of this name. Raises Failure."""
    from fleet.cli.joblist import JOBS
    from fleet.cli.jobselection import job_of

    one = job_of(hub, namespace, job)
    bound = hub.request("GET", f"{JOBS}/{namespace}/{one.kind}/{one.name}").body["binding"]
    if bound is None:
        raise Failure(f"{namespace}/{one.name}{UNBOUND.format(one.name)}")
    return _Job(hub, namespace, one.name, bound, one.path)


def _check(hub: HubClient, job: _Job, binding: dict[str, Any], to: str, member: str, *, force: bool) -> None:
    """Raises Failure for a member that the job may not go to, and a job that is not to be stopped."""
    from fleet.bindings import binding as b
    from fleet.bindings.draining import cordoned, why_stays
    from fleet.bindings.matching import allows, candidate, repels
    from fleet.cli.cordon import cluster_named

    cluster = cluster_named(hub, to)
    placement = b.spec_of(binding).get("placement") or {}
    if not allows(placement, candidate(cluster)):
        raise Failure(f"{job} may not go to {to}: its policy excludes that member")
    if repels(placement, candidate(cluster)):
        taints = "cordoned" if cordoned(cluster) else "tainted"
        raise Failure(f"{job} may not go to {to}: the member is {taints}, and its policy does not tolerate that")
    stays = why_stays(binding, force=force) if member else ""
    if stays:
        raise Failure(f"{job} stays in {member}: {stays} (--force moves it)")


def _why_not_now(hub: HubClient, binding: dict[str, Any], to: str) -> str:
    """Why the decider would not start the job in the member now; "" when it would. Raises Failure where it never would,
    and where nobody may be asked."""
    from fleet.cli import optional
    from fleet.core.model.reason import Severity

    if not optional.hub_is_installed():
        return f"whether there is room is worked out here: {optional.INSTALL}"
    reason = optional.hub_module("move_here", "move").reason_to_wait(hub, binding["metadata"]["uid"], to)
    if reason is not None and not isinstance(reason, str) and reason.severity is Severity.ERROR:
        raise Failure(f"the job cannot run in {to}: {reason.text}")
    return "" if reason is None else reason if isinstance(reason, str) else reason.text


def _wait(job: _Job, to: str, limit_s: float) -> None:
    """Return when the job is there, and print each change meanwhile. Raises Failure."""
    from fleet.bindings import binding as b

    deadline, message = time.monotonic() + limit_s, ""
    while True:
        binding = job.bound()
        there = b.clusters_of(binding) == (to,)
        if there:
            return
        if not job.marked() and b.clusters_of(job.bound()) != (to,):
            raise Failure(f"the hub, or a person, has given up moving {job}: kubectl get events says why")
        told = _told(binding)
        if told and told != message:
            message = told
            print(f"{job}: {told}", file=sys.stderr)
        if time.monotonic() > deadline:
            raise TimeIsOver(f"{job} is not in {to} after {limit_s:.0f} s: {message or 'it waits'}. {_goes_on(job)}")
        time.sleep(POLL_S)


def _told(binding: dict[str, Any]) -> str:
    from fleet.bindings import binding as b
    from fleet.bindings.conditions import condition
    from fleet.wellknown import SCHEDULED

    if b.tasks_of(binding):
        obstacle = str((condition(binding, b.WITHDRAWN) or {}).get("message") or "")
        return f"leaves {b.member_of(binding)}" + (f": {obstacle}" if obstacle else "")
    if b.clusters_of(binding):
        return ""  # the controllers have not looked at it yet
    return f"waits: {(condition(binding, SCHEDULED) or {}).get('message') or 'nothing is decided yet'}"


def _goes_on(one: _Job) -> str:
    from fleet.wellknown import ANNOTATION_MOVE

    return f"The hub goes on; kubectl annotate -n {one.namespace} … {one.name} {ANNOTATION_MOVE}- ends that"
