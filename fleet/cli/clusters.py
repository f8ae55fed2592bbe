"""`fleet clusters`: the members and their room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import lists
from fleet.cli.colors import Color
from fleet.cli.options import (
    ColorOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    SelectorOption,
    WatchOption,
)

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

GPU = "nvidia.com/gpu"
STATES = ("ready", "not ready", "cordoned", "draining", "drained")
LIST = lists.Listing(
    columns=("name", "state", "nodes", "gpus", "gpus_used", "taints", "message"),
    wide=("name", "state", "mode", "version", "nodes", "gpus", "gpus_used", "taints", "endpoint", "message"),
    sorts={
        "name": lambda line: line["name"],
        "state": lambda line: line["state"],
        "gpus": lambda line: int(line["gpus"]),
        "used": lambda line: int(line["gpus_used"]),
        "free": lambda line: int(line["gpus"]) - int(line["gpus_used"]),
    },
    word=lambda line: str(line["name"]),
    down=("gpus", "used", "free"),
)


def clusters(
    state: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only {', '.join(STATES)}; may be repeated.",
            autocompletion=lambda: [state.replace(" ", "-") for state in STATES],
        ),
    ] = None,
    selector: SelectorOption = None,
    topology: Annotated[
        bool, typer.Option("--topology", help="Show the racks and blocks of their nodes, and the room in each.")
    ] = False,
    sort: Annotated[str, lists.sort_option(LIST)] = "",
    watch: WatchOption = False,
    output: ListOutputOption = ListOutput.table,
    color: ColorOption = Color.auto,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the members: ready, cordoned or why not, nodes, GPUs."""
    from fleet.cli.hub import connect

    how = lists.options(LIST, output, sort, watch, color)
    states = set(lists.spelt("--state", state, STATES))
    hub = connect(kubeconfig, data_dir, context)
    some = "No such members" if states or selector else "No members: fleet join NAME --kubeconfig FILE"
    if topology:
        from fleet.cli.placetrees import show_trees

        show_trees(hub, how, [one["name"] for one in _records(hub, selector, states, record)], nothing=some)
        return
    record_of = record if output in (ListOutput.json, ListOutput.yaml) else line

    def fetch() -> Iterator[list[lists.Record]]:
        yield _records(hub, selector, states, record_of)

    lists.show(how, fetch, nothing=some)


def _records(
    hub: HubClient, selector: str | None, states: set[str], record_of: Callable[[dict[str, Any]], lists.Record]
) -> list[lists.Record]:
    """The members that are asked for."""
    from fleet.amc.get import CLUSTERS

    found = [record_of(cluster) for cluster in hub.list(CLUSTERS, **({"labelSelector": selector} if selector else {}))]
    return [one for one in found if not states or states.intersection(one["state"].split(", "))]


def record(cluster: dict[str, Any]) -> dict[str, Any]:
    """One member, for programs."""
    from fleet.cli.cordon import has
    from fleet.core.model.matching import taints_text
    from fleet.core.model.member import TAINT_CORDON, TAINT_DRAIN

    status, taints = cluster.get("status") or {}, (cluster.get("spec") or {}).get("taints") or []
    ready, drain = _condition(status, "Ready"), _condition(status, "Draining")
    nodes, resources = status.get("nodeSummary") or {}, status.get("resourceSummary") or {}
    is_ready, cordoned, drains = ready.get("status") == "True", has(taints, TAINT_CORDON), has(taints, TAINT_DRAIN)
    drained = drains and (drain.get("status"), drain.get("reason")) == ("False", "Drained")
    out = "drained" if drained else "draining" if drains else "cordoned" if cordoned else ""
    if not is_ready:
        message = ready.get("message") or ready.get("reason") or "not looked at yet"
    else:
        going = drain.get("message", "") if drains and not drained else ""
        avoided = _avoided(status, "avoidedNodes", "name"), _avoided(status, "avoidedKinds", "kind")
        message = "; ".join(filter(None, (going, *avoided)))
    return {
        "name": cluster["metadata"]["name"],
        "state": ", ".join(filter(None, ("ready" if is_ready else "not ready", out))),
        "ready": is_ready,
        "mode": (cluster.get("spec") or {}).get("syncMode") or "Push",
        "cordoned": cordoned,
        "draining": drains and not drained,
        "drained": drained,
        "version": status.get("kubernetesVersion"),
        "nodes": f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}",
        "gpus": (resources.get("allocatable") or {}).get(GPU, "0"),
        "gpus_used": (resources.get("allocated") or {}).get(GPU, "0"),
        "taints": taints_text(taints),
        "endpoint": (cluster.get("spec") or {}).get("apiEndpoint"),
        "message": message,
    }


def line(cluster: dict[str, Any]) -> dict[str, Any]:
    """The same for people: the state says already what cordon and drain have put there."""
    from fleet.cli.cordon import own
    from fleet.core.model.matching import taints_text

    taints = (cluster.get("spec") or {}).get("taints") or []
    return record(cluster) | {"taints": taints_text([taint for taint in taints if not own(taint)])}


def _condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    return next((found for found in status.get("conditions") or [] if found.get("type") == type_), {})


def _avoided(status: dict[str, Any], field: str, name: str) -> str:
    """The nodes, or the kinds of jobs, that the hub counts out there for a time."""
    found: list[str] = [entry[name] for entry in status.get(field) or []]
    return f"avoids {', '.join(found[:3])}{', …' * (len(found) > 3)}" if found else ""
