"""`fleet jobs`: every job with its state, its place in its queue, where it is, and the one reason why it waits."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fleet.cli.failure import Failure
from fleet.cli.options import (
    AllNamespacesOption,
    ContextOption,
    DataDirOption,
    KubeconfigOption,
    NamespaceOption,
    Output,
    OutputOption,
)
from fleet.engine.durations import human
from fleet.model.times import seconds

if TYPE_CHECKING:
    from fleet.cli.hub import Hub

COLUMNS = ("name", "kind", "state", "position", "member", "age", "reason")
JOBS = "/fleet/v1/jobs"
ELSEWHERE = " (fleet jobs -A lists what you may list)"
PAGE = 5_000
PAGES_MAX = 1_000


def jobs(
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List jobs: state, place in the queue, member, why one waits."""
    from fleet.cli.hub import Refused, connect
    from fleet.cli.output import show

    hub = connect(kubeconfig, data_dir, context)
    now = time.time()
    where = None if all_namespaces else namespace or hub.namespace
    try:
        found, partial = listed(hub, where)
    except Refused as refused:
        raise Failure(f"{refused}{ELSEWHERE}" if where and refused.status == 403 else str(refused)) from refused
    if partial:
        print("jobs that you may not list are left out", file=sys.stderr)
    records = [record(job, now) for job in found]
    columns = ("namespace", *COLUMNS) if all_namespaces else COLUMNS
    nothing = "No jobs" if all_namespaces else f"No jobs in {where} namespace"
    show(records, columns, output, nothing=nothing)


def listed(hub: Hub, namespace: str | None, **which: str) -> tuple[list[dict[str, Any]], bool]:
    """All jobs of a namespace, or of all, as /fleet/v1 describes them, and whether that is a part. Raises Failure."""
    found: list[dict[str, Any]] = []
    query = {"limit": str(PAGE), **({"namespace": namespace} if namespace else {}), **which}
    for _ in range(PAGES_MAX):
        page = hub.request("GET", f"{JOBS}?{urlencode(query)}").body
        if page.get("notice") and "continue" not in query:
            print(f"fleet: {page['notice']}", file=sys.stderr)
        found += page["items"]
        if page["continue"] is None:
            return found, bool(page["partial"])
        query["continue"] = page["continue"]
    raise Failure(f"more than {PAGE * PAGES_MAX} jobs")


def record(job: dict[str, Any], now: float) -> dict[str, Any]:
    """One job as a line, from what /fleet/v1 says of it; `now` in epoch seconds."""
    reason = job["reason"] or {}
    return {
        "namespace": job["namespace"],
        "name": job["name"],
        "kind": job["kind"],
        "state": job["state"],
        "queue": job["queue"],
        "position": job["position"],
        "tier": job["tier"],
        "member": job["member"] or "",
        "age": since(job["created"], now),
        "reason": reason.get("text") or reason.get("code") or "",
        "code": reason.get("code"),
        "numbers": reason.get("numbers"),
    }


def age(lasted_s: float) -> str:
    """Return a time span as kubectl prints ages: 8s, 3m44s, 15m, 2h5m, 15d; "0s" for less than none."""
    return human(max(0.0, lasted_s))


def since(time: str | None, now: float, missing: str = "") -> str:
    """Return the age of what happened at `time`, or `missing` without a time. This machine's clock may be behind."""
    at = seconds(time)
    return missing if at is None else age(now - at)
