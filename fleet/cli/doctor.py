"""`fleet doctor`: troubles of a hub, most of which fail nowhere else, and a remedy for each.

Each check is one function from the hub to its findings, and stands in CHECKS. A check asks the hub's API only, and this
machine for its clock and its kubectl.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.bindings.finding import Finding
from fleet.cli.doctor_hub import (
    certificates,
    clocks,
    database,
    disk,
    failing_loops,
    given_up,
    history,
    nobody_decides,
    receivers,
    set_aside,
    troubles,
    versions,
)
from fleet.cli.doctor_members import credentials, failing_nodes, idle_kinds, member_clocks, old_members, silent_members
from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, OutputOption
from fleet.cli.ownerless import ownerless_copies
from fleet.cli.patient import PatientHub

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient
    from fleet.core.quota.tree import QuotaTree

POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
NOTHING, IN_SIGHT = "Nothing is wrong", " in what you may see"
HUB_CONFIG = "/api/v1/namespaces/fleet-system/configmaps/hub"


def doctor(
    member: Annotated[str | None, typer.Option(metavar="NAME", help="Only what is wrong with this member.")] = None,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List what is wrong with hub and members, and what to do. The exit status is 1 when there is something.

    Checks: decisions, database, history, disk, certificates, credentials, clocks, versions, loops, refused jobs,
    webhooks, users, policies, notifications and members.
    """
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    patient = PatientHub(connect(kubeconfig, data_dir, context), time.time)
    if member is not None and all(one["name"] != member for one in patient.status["members"]):
        raise Failure(f'no member is called "{member}": fleet clusters lists them')
    findings = [one for check in CHECKS for one in looked(check, patient) if member in (None, one.member)]
    for refusal, checks in patient.unseen.items():
        print(f"not looked at: {', '.join(checks)}: {refusal}", file=sys.stderr)
    if findings and output is Output.table:
        print("\n\n".join(map(finding_text, findings)))
    else:
        show(
            [asdict(finding) for finding in findings],
            (),
            output,
            nothing=NOTHING + (IN_SIGHT if patient.unseen else ""),
        )
    if findings:
        raise typer.Exit(1)


def looked(check: Callable[[PatientHub], Iterator[Finding]], patient: PatientHub) -> list[Finding]:
    """The findings of a check. One that the user has no right to is left out, and counts as unseen. The first that the
    hub cannot answer, since its database is away, is the last that is asked: each such answer takes seconds."""
    from fleet.cli.hub import HubRefusal

    if patient.away:
        return []
    try:
        return list(check(patient))
    except HubRefusal as refused:
        if refused.status not in (403, 404, 503):
            raise
        patient.away = refused.status == 503
        what = check.__name__.replace("_", " ") + (" and the checks after it" if patient.away else "")
        patient.unseen.setdefault(str(refused), []).append(what)
        return []


def finding_text(finding: Finding) -> str:
    """One finding for people: its sentences are too long for a table."""
    name = f"{finding.namespace}/{finding.name}" if finding.namespace else finding.name
    return f"{finding.kind} {name}  ({finding.check})\n  Why:  {finding.why}\n  Do:   {finding.what_to_do}"


def passing_policies(patient: PatientHub) -> Iterator[Finding]:
    """Policies that take gangs past a queue although no user with the right to it wrote them, or no user may."""
    from fleet.bindings.passing import bypass_of, passed_leaves, passing_kinds, required_by
    from fleet.wellknown import REQUIRE_QUEUE

    hub = patient.hub
    tree = _tree(hub)
    if tree is None:
        return
    config = ((hub.find(HUB_CONFIG) or {}).get("data") or {}).get(REQUIRE_QUEUE) == "true"
    for policy in [
        *hub.list(f"{POLICIES}/propagationpolicies"),
        *hub.list(f"{POLICIES}/clusterpropagationpolicies"),
    ]:
        kinds, leaves = passing_kinds(policy), passed_leaves(policy, tree)
        required = required_by(tree, leaves, hub=config) if kinds else ""
        if not required and (not leaves or bypass_of(policy).covers(leaves)):
            continue
        meta = policy["metadata"]
        kind = "PropagationPolicy" if meta.get("namespace") else "ClusterPropagationPolicy"
        where = f" -n {meta['namespace']}" if meta.get("namespace") else ""
        resource = f"{kind.lower()}.policy.one.alibabacloud.com/{meta['name']}"
        passes = f"does not suspend {', '.join(kinds)}, whose objects wait in their queue all the same"
        right = f'nobody with the verb "bypass" on the queue of {_some(leaves)} has written it'
        mend = "set spec.suspension.scheduling: true"
        may = f"or, with that verb, write it: kubectl label {resource}{where} passes-queue=yes"
        yield Finding(
            "passes-a-queue",
            kind,
            meta.get("namespace", ""),
            meta["name"],
            f"{passes}: {required or right}",
            mend if required else f"{mend}, {may}",
        )


def _tree(hub: HubClient) -> QuotaTree | None:
    """The hub's quota tree; None without one. Raises Failure when it cannot be read."""
    from fleet.core.quota.parse import BadTree, parse_tree

    trees: list[dict[str, Any]] = hub.list(TREES)
    try:
        return parse_tree(trees[0].get("spec")) if trees else None
    except BadTree as error:
        raise Failure(f"the quota tree cannot be read: {error}") from error


def _some(leaves: tuple[str, ...]) -> str:
    return ", ".join(leaves[:3]) + (f" and {len(leaves) - 3} more" if len(leaves) > 3 else "")


def unknown_copies(patient: PatientHub) -> Iterator[Finding]:
    """Copies in members that were sent after the backup which the database was restored from."""
    from fleet.cli.orphans import WAY_OUT, unknown

    copies, more = unknown(patient.hub)
    stay = "until it is adopted or gone, orphans of this member stay"
    for copy in copies:
        why = f"runs in {copy['member']}, and the hub's database went back to before it (since {copy['since']}); {stay}"
        where = f" -n {copy['namespace']}" if copy["namespace"] else ""
        named = f"{copy['kind'].lower()}/{copy['name']}{where} --member {copy['member']}"
        mend = f"take it for a job of the hub: fleet orphans adopt {named}; or remove it: fleet orphans remove {named}"
        yield Finding("unknown-copy", copy["kind"], copy["namespace"], copy["name"], why, mend, copy["member"])
    if more:
        yield Finding("unknown-copy", "ConfigMap", "fleet-system", "unknown-copies", f"{more} more are there", WAY_OUT)


CHECKS: tuple[Callable[[PatientHub], Iterator[Finding]], ...] = (
    nobody_decides,
    database,
    history,
    disk,
    certificates,
    clocks,
    versions,
    failing_loops,
    set_aside,
    troubles,
    receivers,
    given_up,
    passing_policies,
    unknown_copies,
    ownerless_copies,
    silent_members,
    credentials,
    old_members,
    member_clocks,
    failing_nodes,
    idle_kinds,
)
