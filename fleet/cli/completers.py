"""The words that a shell completes: asked of the hub for a short time, and none where it is away."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

TIMEOUT_S = 2.0  # of each request
MOST = 500  # names that are asked for


def jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """NAME, or KIND/NAME once there is a slash."""

    def named(hub: HubClient) -> Iterable[str]:
        for job in _jobs(hub, ctx.params.get("namespace") or hub.namespace):
            yield f"{job['kind'].lower()}/{job['name']}" if "/" in incomplete else job["name"]

    return _asked(ctx, named)


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    def paths(hub: HubClient) -> Iterable[str]:
        from fleet.cli.queues import QUEUES

        return (node["path"] for node in hub.request("GET", QUEUES).body["items"])

    return _asked(ctx, paths)


def jobs_or_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """Jobs, or queues once the word begins as one of theirs."""
    if incomplete.startswith("queue/"):
        return [f"queue/{path}" for path in queues(ctx, incomplete)]
    return jobs(ctx, incomplete)


def members(ctx: typer.Context, incomplete: str) -> list[str]:
    def names(hub: HubClient) -> Iterable[str]:
        from fleet.amc.get import CLUSTERS

        return (cluster["metadata"]["name"] for cluster in hub.list(CLUSTERS))

    return _asked(ctx, names)


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Those of the jobs that the user sees, for a user who may not list all."""

    def names(hub: HubClient) -> Iterable[str]:
        from fleet.cli.hub import HubRefusal

        try:
            return [space["metadata"]["name"] for space in hub.list("/api/v1/namespaces")]
        except HubRefusal:
            return {job["namespace"] for job in _jobs(hub, None)}

    return _asked(ctx, names)


def contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    from fleet.client.config import kubeconfig_files
    from fleet.values.kubeconfig.document import BadKubeconfig, parse

    names: set[str] = set()
    for path in kubeconfig_files(_path(ctx, "kubeconfig"), _path(ctx, "data_dir"), "any", os.environ)[0]:
        try:
            names |= {str(entry["name"]) for entry in parse(path.read_text()).get("contexts") or ()}
        except (OSError, ValueError, BadKubeconfig, KeyError, TypeError):
            continue
    return sorted(names)


def states(ctx: typer.Context, incomplete: str) -> list[str]:
    from fleet.cli.jobs import STATES

    return [state.lower() if incomplete.islower() else state for state in STATES]


def kinds(ctx: typer.Context, incomplete: str) -> list[str]:
    from fleet.kinds.lookup import INTERPRETERS

    return sorted({name for _, name in INTERPRETERS})


def _jobs(hub: HubClient, namespace: str | None) -> list[dict[str, Any]]:
    from urllib.parse import urlencode

    from fleet.cli.joblist import JOBS

    query = {"limit": str(MOST)} | ({"namespace": namespace} if namespace else {})
    return list(hub.request("GET", f"{JOBS}?{urlencode(query)}").body["items"])


def _asked(ctx: typer.Context, ask: Callable[[HubClient], Iterable[str]]) -> list[str]:
    """The answer, or nothing where there is none: a message would stand in the middle of a line that people type."""
    from fleet.cli.failure import Failure
    from fleet.cli.hub import connect

    try:
        hub = connect(_path(ctx, "kubeconfig"), _path(ctx, "data_dir"), ctx.params.get("context"), timeout_s=TIMEOUT_S)
        return sorted(set(ask(hub)))
    except Failure:
        return []


def _path(ctx: typer.Context, name: str) -> Path | None:
    value = ctx.params.get(name)
    return Path(str(value)).expanduser() if value else None
