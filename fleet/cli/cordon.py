"""`fleet cordon` and `fleet uncordon`: whether new jobs start in a member.

A cordon is a taint on the Cluster, in Karmada's own key, so that every client of the hub sees it and may write it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.nearest import suggestion
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, MembersArgument
from fleet.core.model.member import TAINT_CORDON, TAINT_DRAIN

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

Taints = list[dict[str, Any]]
TRIES_MAX = 5  # where somebody else writes the Cluster at the same time
CORDON = {"key": TAINT_CORDON, "effect": "NoSchedule"}


def cordon(
    members: MembersArgument,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Let no new job start in a member.

    Jobs that run there stay. A policy that tolerates the taint still lets its jobs in.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)

    def one(name: str) -> str:
        before, _ = edit_taints(hub, name, with_cordon)
        return f"{name} was cordoned already" if has(before, TAINT_CORDON) else f"{name} cordoned"

    each(members, one)


def uncordon(
    members: MembersArgument,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Let new jobs start in a member again, and end its drain.

    Takes back what `fleet cordon` and `fleet drain` put there. Other taints stay.
    """
    from fleet.cli.hub import connect
    from fleet.core.model.matching import taints_text

    hub = connect(kubeconfig, data_dir, context)

    def one(name: str) -> str:
        before, after = edit_taints(hub, name, _without)
        said = f"{name} uncordoned" if before != after else f"{name} was not cordoned"
        said += ", its drain has ended" if has(before, TAINT_DRAIN) else ""
        kept = [taint for taint in after if taint.get("effect") in ("NoSchedule", "NoExecute")]
        return said + (f"; still tainted: {taints_text(kept)}" if kept else "")

    each(members, one)


def each(members: Sequence[str], act: Callable[[str], str]) -> None:
    """Print what `act` says of each member, once. A member that is refused does not stop the others."""
    from fleet.cli.hub import HubRefusal

    failed = False
    for name in dict.fromkeys(members):
        try:
            print(act(name))
        except (HubRefusal, NoMember) as failure:
            failed = True
            print(f"fleet: {failure}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


class NoMember(Failure):
    """The hub has no member of that name."""


def cluster_named(hub: HubClient, name: str) -> dict[str, Any]:
    """The Cluster. Raises NoMember, which names the nearest member."""
    from urllib.parse import quote

    from fleet.amc.get import CLUSTERS

    cluster = hub.find(f"{CLUSTERS}/{quote(name, safe='')}") if name else None
    if cluster is None or "metadata" not in cluster:
        names = [one["metadata"]["name"] for one in hub.list(CLUSTERS)]
        raise NoMember(f'no member "{name}"{suggestion(name, names)} (fleet clusters lists them)')
    return cluster


def edit_taints(hub: HubClient, name: str, change: Callable[[Taints], Taints]) -> tuple[Taints, Taints]:
    """Store what `change` makes of the member's taints; the taints before and after. Taints are one list, so the write
    is refused where another came between, and is tried again."""
    from fleet.amc.get import CLUSTERS
    from fleet.cli.hub import HubRefusal

    for tries_left in reversed(range(TRIES_MAX)):
        cluster = cluster_named(hub, name)
        before = (cluster.get("spec") or {}).get("taints") or []
        after = change(before)
        if after == before:
            break
        version = {"resourceVersion": cluster["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "spec": {"taints": after}}
        try:
            hub.request("PATCH", f"{CLUSTERS}/{name}", patch, content_type="application/merge-patch+json")
            break
        except HubRefusal as refused:
            if refused.status != 409 or not tries_left:
                raise
    return before, after


def with_cordon(taints: Taints) -> Taints:
    return taints if has(taints, TAINT_CORDON) else [*taints, CORDON]


def has(taints: Taints, key: str) -> bool:
    """Whether cordon or drain put this key there."""
    return any(own(taint) and taint.get("key") == key for taint in taints)


def _without(taints: Taints) -> Taints:
    return [taint for taint in taints if not own(taint)]


def own(taint: dict[str, Any]) -> bool:
    """Whether cordon or drain wrote it. The same key with another effect is somebody else's."""
    return (taint.get("key"), taint.get("effect")) in ((TAINT_CORDON, "NoSchedule"), (TAINT_DRAIN, "NoExecute"))
