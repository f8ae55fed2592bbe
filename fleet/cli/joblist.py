"""Jobs as the hub lists them: every page, and the one job of a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fleet.cli.failure import Failure
from fleet.cli.nearest import suggestion

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

JOBS = "/fleet/v1/jobs"
ELSEWHERE = " (fleet jobs -A lists what you may list)"
ELSEWHERE_MOST = 3  # namespaces that are named
FIRST_PAGE = 100
PAGE = 5_000
PAGES_MAX = 1_000


def pages(
    hub: HubClient, namespace: str | None, **which: str | Sequence[str]
) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """The jobs of a namespace, or of all, as /fleet/v1 describes them, and whether they are a part. The first page is
    small, so that people see it soon. Raises Failure."""
    query: dict[str, str | Sequence[str]] = {"limit": str(FIRST_PAGE), **which}
    if namespace:
        query["namespace"] = namespace
    for _ in range(PAGES_MAX):
        page = hub.request("GET", f"{JOBS}?{urlencode(query, doseq=True)}").body
        if page.get("notice"):
            hub.note(f"fleet: {page['notice']}")
        yield page["items"], bool(page["partial"])
        if page["continue"] is None:
            return
        query |= {"continue": page["continue"], "limit": str(PAGE)}
    raise Failure(f"more than {PAGE * PAGES_MAX} jobs")


def listed(hub: HubClient, namespace: str | None, **which: str | Sequence[str]) -> tuple[list[dict[str, Any]], bool]:
    """All pages together. Raises Failure."""
    found = list(pages(hub, namespace, **which))
    return [job for items, _ in found for job in items], any(part for _, part in found)


def job_named(hub: HubClient, namespace: str, job: str) -> dict[str, Any]:
    """The one job that is called NAME, or KIND/NAME. Raises Failure, which names the job that the user may have
    meant."""
    from fleet.cli.hub import HubRefusal

    kind, _, name = job.rpartition("/")
    if not name:
        raise Failure(f'"{job}" is no name of a job{ELSEWHERE}')
    try:
        matches, _ = listed(hub, namespace, name=name, **({"kind": kind} if kind else {}))
    except HubRefusal as refused:
        if refused.status != 403:
            raise
        raise Failure(f"{refused}{_near(hub, name, namespace)}{ELSEWHERE}") from refused
    if not matches:
        raise Failure(
            f'no job "{job}" in namespace {namespace}{_near(hub, name, namespace)} (fleet jobs -A lists them)'
        )
    if len(matches) > 1:
        kinds = ", ".join(sorted(f"{one['kind']}/{name}" for one in matches))
        raise Failure(f'"{name}" names several jobs: {kinds}')
    return matches[0]


def _near(hub: HubClient, name: str, namespace: str) -> str:
    """The kind or the place of a job of that name, or the job that the user may have meant."""
    from fleet.cli.hub import HubRefusal

    try:
        same = listed(hub, None, name=name)[0]
        here = [f"{found['kind']}/{name}" for found in same if found["namespace"] == namespace]
        elsewhere = sorted({found["namespace"] for found in same})[:ELSEWHERE_MOST]
        if here or elsewhere:
            return f"; there is {' and '.join(sorted(here))}" if here else f"; there is one in {', '.join(elsewhere)}"
        names = [found["name"] for found in listed(hub, namespace)[0]]
    except HubRefusal:
        return ""
    return suggestion(name, names)
