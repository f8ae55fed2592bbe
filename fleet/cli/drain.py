"""`fleet drain`: a member's jobs leave it. The hub does it; the command asks for it, and watches.

A command that is interrupted, killed or out of time changes nothing about the drain: the taint stays, and so the hub
goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure, TimeIsOver
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, MembersArgument, Output, OutputOption
from fleet.cli.when import timeout_option

if TYPE_CHECKING:
    from fleet.bindings.draining import Drain, DrainProgress
    from fleet.cli.cordon import Taints
    from fleet.cli.hub import HubClient

BINDINGS = "/apis/work.karmada.io/v1alpha2/resourcebindings"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/queueunits"
COLUMNS = ("member", "job", "priority", "does", "why")
POLL_S = 0.5
NAMED_MAX = 5


def drain(
    members: MembersArgument,
    per_minute: Annotated[int, typer.Option(min=1, max=6000, help="Jobs that leave each member in a minute.")] = 60,
    force: Annotated[
        bool, typer.Option("--force", help="Jobs leave, too, that are not preemptible or whose policy says Never.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the jobs in the order in which they leave.")] = False,
    timeout: Annotated[float, timeout_option("until the members are empty", "1h")] = 3600.0,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Cordon a member, and have its jobs leave it.

    The jobs queue again with their old place, lowest priority first. The hub goes on when the command ends before;
    `fleet uncordon` ends a drain. The exit status is 1 while jobs stay there.
    """
    from fleet.bindings.draining import drain_taint
    from fleet.cli.cordon import cluster_named, edit_taints
    from fleet.cli.hub import connect
    from fleet.cli.output import show

    hub, names = connect(kubeconfig, data_dir, context), list(dict.fromkeys(members))
    for name in names:
        cluster_named(hub, name)  # a wrong name is said before anything is changed
    taint = drain_taint(per_minute, force=force)
    if dry_run:
        records = [record for name in names for record in _planned(hub, name, taint)]
        show(records, COLUMNS, output, nothing="No jobs there")
        return
    for name in names:
        edit_taints(hub, name, lambda taints: _with_drain(taints, taint))
        print(f"{name} cordoned; its jobs leave, at most {per_minute} a minute", file=sys.stderr)
    try:
        _wait(hub, names, time.monotonic() + timeout, timeout)
    except KeyboardInterrupt:
        print(f"fleet: {_goes_on(names)}", file=sys.stderr)
        raise
    records = [record for name in names for record in _planned(hub, name, taint)]
    staying = [record for record in records if record["does"] == "stays"]
    if output is not Output.table:
        show([_summary(name, records) for name in names], (), output)
    for name in names:
        if not any(record["member"] == name for record in staying) and output is Output.table:
            print(f"{name} is drained")
    if staying:
        named = ", ".join(f"{one['job']} in {one['member']} ({one['why']})" for one in staying[:NAMED_MAX])
        more = f" and {len(staying) - NAMED_MAX} more" if len(staying) > NAMED_MAX else ""
        raise Failure(f"drained of all but {len(staying)}: {named}{more}")


def _with_drain(taints: Taints, taint: dict[str, str]) -> Taints:
    """With the cordon, and this drain instead of another. A drain that says the same keeps its time."""
    from fleet.cli.cordon import with_cordon

    def same(one: dict[str, Any]) -> bool:
        return all(one.get(field) == value for field, value in taint.items())

    if any(map(same, taints)):
        return with_cordon(taints)
    key = (taint["key"], taint["effect"])
    return [*with_cordon([one for one in taints if (one.get("key"), one.get("effect")) != key]), taint]


def _wait(hub: HubClient, names: Sequence[str], deadline: float, limit_s: float) -> None:
    """Return when no more jobs leave any of the members, and print each change meanwhile. Raises Failure at the limit,
    and where a drain is ended by somebody else."""
    from fleet.bindings.draining import drain_of
    from fleet.cli.cordon import cluster_named

    messages: dict[str, str] = {}
    waiting = list(names)
    while True:
        for name in tuple(waiting):
            cluster = cluster_named(hub, name)
            drain = drain_of(cluster)
            if drain is None:
                raise Failure(f"the drain of {name} was ended meanwhile")
            status, message = _told(cluster)
            over = status == "False"
            if over and _busy(_emptying(hub, name, drain)):
                continue  # the condition is of an earlier drain still
            if message and messages.get(name) != message:
                messages[name] = message
                print(f"{name}: {message}", file=sys.stderr)
            if over:
                waiting.remove(name)
        if not waiting:
            return
        if time.monotonic() > deadline:
            held = messages.get(waiting[0]) or "the controllers have not looked at it yet"
            raise TimeIsOver(f"{waiting[0]} is not drained after {limit_s:.0f} s: {held}. {_goes_on(waiting)}")
        time.sleep(POLL_S)


def _told(cluster: dict[str, Any]) -> tuple[str, str]:
    for condition in (cluster.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Draining":
            return str(condition.get("status")), str(condition.get("message"))
    return "", ""


def _goes_on(names: Sequence[str]) -> str:
    which = " ".join(names)
    stays = "stays" if len(names) == 1 else "stay"
    return f"{', '.join(names)} {stays} cordoned, and the hub goes on draining; fleet uncordon {which} ends that"


def _busy(found: DrainProgress) -> bool:
    return bool(found.going or found.leaving)


def _emptying(hub: HubClient, name: str, drain: Drain) -> DrainProgress:
    from fleet.bindings.draining import emptying
    from fleet.wellknown import unit_name

    bindings = hub.list(BINDINGS)
    units = {(unit["metadata"]["namespace"], unit["metadata"]["name"]): unit for unit in hub.list(UNITS)}

    def unit_of(binding: dict[str, Any]) -> dict[str, Any] | None:
        meta = binding["metadata"]
        return units.get((meta["namespace"], unit_name(meta["name"])))

    return emptying(name, drain, bindings, unit_of, time.time())


def _planned(hub: HubClient, name: str, taint: dict[str, str]) -> list[dict[str, Any]]:
    """Each job in the member: whether it leaves, in that order, is leaving, or stays."""
    from fleet.bindings import binding as b
    from fleet.bindings.draining import drain_of

    drain = drain_of({"spec": {"taints": [taint]}})
    assert drain is not None
    state, now = _emptying(hub, name, drain), time.time()

    def record(binding: dict[str, Any], does: str, why: str = "", priority: int | None = None) -> dict[str, Any]:
        return {"member": name, "job": b.job_name(binding), "priority": priority, "does": does, "why": why}

    return [
        *(record(binding, "is leaving") for binding in state.leaving),
        *(record(one.binding, "leaves", _later(one.at - now), one.priority) for one in state.going),
        *(record(binding, "stays", why) for binding, why in state.staying),
    ]


def _later(seconds: float) -> str:
    return f"its policy tolerates the drain for {seconds:.0f} s" if seconds > 1 else ""


def _summary(name: str, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    staying = [{"job": one["job"], "why": one["why"]} for one in records if one["member"] == name]
    return {"member": name, "drained": not staying, "staying": staying}
