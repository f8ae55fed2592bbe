"""`fleet jobs`: every job with its state, its place in its queue, where it is, and the one reason why it waits."""

from __future__ import annotations

import difflib
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
    ListOutput,
    ListOutputOption,
    NamespaceOption,
)
from fleet.engine.durations import human
from fleet.model.times import seconds

if TYPE_CHECKING:
    from fleet.cli.hub import Hub

COLUMNS = ("name", "kind", "state", "position", "member", "age", "reason")
WIDE = (
    "name", "kind", "state", "queue", "position", "priority", "member", "attempt", "gpus", "pods", "age", "reason",
)  # fmt: skip
JOBS = "/fleet/v1/jobs"
ELSEWHERE = " (fleet jobs -A lists what you may list)"
NEAR_MOST = 3  # names that are suggested
PAGE = 5_000
PAGES_MAX = 1_000


def jobs(
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    output: ListOutputOption = ListOutput.table,
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
    columns = WIDE if output is ListOutput.wide else COLUMNS
    columns = ("namespace", *columns) if all_namespaces else columns
    nothing = "No jobs" if all_namespaces else f"No jobs in {where} namespace"
    show(records, columns, output.form, nothing=nothing)


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


def named(hub: Hub, namespace: str, job: str) -> dict[str, Any]:
    """The one job that is called NAME, or KIND/NAME. Raises Failure, which names the job that the user may have
    meant."""
    from fleet.cli.hub import Refused

    kind, _, name = job.rpartition("/")
    if not name:
        raise Failure(f'"{job}" is no name of a job{ELSEWHERE}')
    try:
        found, _ = listed(hub, namespace, name=name, **({"kind": kind} if kind else {}))
    except Refused as refused:
        if refused.status != 403:
            raise
        raise Failure(f"{refused}{_near(hub, name, namespace)}{ELSEWHERE}") from refused
    if not found:
        raise Failure(
            f'no job "{job}" in namespace {namespace}{_near(hub, name, namespace)} (fleet jobs -A lists them)'
        )
    if len(found) > 1:
        kinds = ", ".join(sorted(f"{one['kind']}/{name}" for one in found))
        raise Failure(f'"{name}" names several jobs: {kinds}')
    return found[0]


def _near(hub: Hub, name: str, namespace: str) -> str:
    """The kind or the place of a job of that name, or the job that the user may have meant."""
    from fleet.cli.hub import Refused

    try:
        same = listed(hub, None, name=name)[0]
        here = [f"{found['kind']}/{name}" for found in same if found["namespace"] == namespace]
        elsewhere = sorted({found["namespace"] for found in same})[:NEAR_MOST]
        if here or elsewhere:
            return f"; there is {' and '.join(sorted(here))}" if here else f"; there is one in {', '.join(elsewhere)}"
        names = [found["name"] for found in listed(hub, namespace)[0]]
    except Refused:
        return ""
    near = difflib.get_close_matches(name, names, NEAR_MOST, 0.75)
    return f"; did you mean {' or '.join(near)}?" if near else ""


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
        "priority": job["priority"],
        "attempt": job["attempt"],
        "gpus": job["gpus"],
        "pods": job["pods"],
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
