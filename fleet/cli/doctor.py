"""`fleet doctor`: troubles of a hub, most of which fail nowhere else, and a remedy for each.

Each check is one function from the hub to its findings, and stands in CHECKS. A check asks the hub's API only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, Output, OutputOption
from fleet.model.times import rfc3339

if TYPE_CHECKING:
    from fleet.cli.hub import Hub
    from fleet.quota.tree import QuotaTree

POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
HUB_CONFIG = "/api/v1/namespaces/fleet-system/configmaps/hub"


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that is not as it should be. `check`: the name of the check that found it."""

    check: str
    kind: str
    namespace: str
    name: str
    why: str
    what_to_do: str


def doctor(
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List what is wrong on the hub, and what to do. The exit status is 1 when there is something."""
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    hub = connect(kubeconfig, data_dir, context)
    found = [finding for check in CHECKS for finding in check(hub)]
    if found and output is Output.table:
        print("\n\n".join(map(told, found)))
    else:
        show([asdict(finding) for finding in found], (), output, nothing="Nothing is wrong")
    if found:
        raise typer.Exit(1)


def told(finding: Finding) -> str:
    """One finding for people: its sentences are too long for a table."""
    name = f"{finding.namespace}/{finding.name}" if finding.namespace else finding.name
    return f"{finding.kind} {name}  ({finding.check})\n  Why:  {finding.why}\n  Do:   {finding.what_to_do}"


def passing_policies(hub: Hub) -> Iterator[Finding]:
    """Policies that take gangs past a queue although no user with the right to it wrote them, or no user may."""
    from fleet.admission.passing import bypass_of, passed_leaves, passing_kinds, required_by
    from fleet.wellknown import REQUIRE_QUEUE

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
            "passes-a-queue", kind, meta.get("namespace", ""), meta["name"],
            f"{passes}: {required or right}", mend if required else f"{mend}, {may}",
        )  # fmt: skip


def _tree(hub: Hub) -> QuotaTree | None:
    """The hub's quota tree; None without one. Raises Failure when it cannot be read."""
    from fleet.quota.parse import BadTree, parse_tree

    trees: list[dict[str, Any]] = hub.list(TREES)
    try:
        return parse_tree(trees[0].get("spec")) if trees else None
    except BadTree as error:
        raise Failure(f"the quota tree cannot be read: {error}") from error


def _some(leaves: tuple[str, ...]) -> str:
    return ", ".join(leaves[:3]) + (f" and {len(leaves) - 3} more" if len(leaves) > 3 else "")


def unknown_copies(hub: Hub) -> Iterator[Finding]:
    """Copies in members that were sent after the backup which the database was restored from."""
    from fleet.cli.orphans import WAY_OUT, unknown

    copies, more = unknown(hub)
    stay = "until it is adopted or gone, orphans of this member stay"
    for copy in copies:
        why = f"runs in {copy['member']}, and the hub's database went back to before it (since {copy['since']}); {stay}"
        yield Finding("unknown-copy", copy["kind"], copy["namespace"], copy["name"], why, WAY_OUT)
    if more:
        yield Finding("unknown-copy", "ConfigMap", "fleet-system", "unknown-copies", f"{more} more are there", WAY_OUT)


def failing_nodes(hub: Hub) -> Iterator[Finding]:
    """Nodes on which the attempts of several jobs failed, and that the hub counts out for a time."""
    from fleet.amc.get import CLUSTERS
    from fleet.controllers.cluster.failing import still_avoided

    for cluster in hub.list(CLUSTERS):
        name = cluster["metadata"]["name"]
        for one in still_avoided(cluster, 0.0):
            what = (
                f"cordon the node in the member, and mend it: kubectl cordon {one.node} (with a kubeconfig of {name})"
            )
            yield Finding("failing-node", "Cluster", "", name, one.text, what)


def idle_kinds(hub: Hub) -> Iterator[Finding]:
    """Kinds that a member serves and no controller there acts on."""
    from fleet.amc.get import CLUSTERS
    from fleet.controllers.cluster import idle

    for cluster in hub.list(CLUSTERS):
        name = cluster["metadata"]["name"]
        for kind, until in idle.idle_kinds(cluster, 0.0).items():
            why = f"a job of kind {kind} got no pods and no status; the kind is kept from it until {rfc3339(until)}"
            yield Finding("idle-kind", "Cluster", "", name, why, f"start the controller of {kind} in {name}")


def silent_members(hub: Hub) -> Iterator[Finding]:
    """Members that are not ready."""
    from fleet.cli.status import STATUS

    for member in hub.request("GET", STATUS).body["members"]:
        if not member["ready"]:
            name = member["name"]
            mend = (
                f"mend it, give it new credentials (fleet join {name} --kubeconfig FILE), or let it go (fleet unjoin)"
            )
            yield Finding("member-not-ready", "Cluster", "", name, f"is not ready: {member['message']}", mend)


def set_aside(hub: Hub) -> Iterator[Finding]:
    """Objects that a loop of the controllers cannot handle."""
    from fleet.cli.status import STATUS

    aside = hub.request("GET", STATUS).body["aside"]
    if aside["count"]:
        why = f"{aside['count']} objects cannot be handled: {', '.join(aside['first'])}"
        mend = "correct them: their condition HandlingFailed says why"
        yield Finding("set-aside", "Hub", "", "controllers", why, mend)


CHECKS: tuple[Callable[[Hub], Iterator[Finding]], ...] = (
    passing_policies,
    unknown_copies,
    failing_nodes,
    idle_kinds,
    silent_members,
    set_aside,
)
