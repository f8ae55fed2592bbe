"""Troubles that the hub works on with, and that a person has to mend: from what the leader and the members tell. Pure.

A trouble of one job is the affair of its user. What stands here concerns many jobs at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.bindings.finding import Finding
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text, whole

NODES_PART = 0.2  # of a member's nodes that may be not ready
REFUSED_LEAST = 3  # jobs that are not sent for one cause
WAITING_LEAST, WAITING_PART = 1000, 0.5  # of one user's waiting jobs, and of all
CALLS_LEAST = 3  # calls of a webhook that failed, with none that did not between them


def warnings(clusters: Iterable[Body], report: Mapping[str, Any], calls: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """`report`: the leader's, as `heartbeat.report_of` reads it; `calls`: the webhooks that fail, as
    admission/dynamic/failing.py tells."""
    return [*_nodes(clusters), *_refused(report), *_user(report), *_webhooks(calls)]


def _nodes(clusters: Iterable[Body]) -> Iterator[Finding]:
    for cluster in clusters:
        name = text(mapping(cluster.get("metadata")).get("name"))
        summary = mapping(mapping(cluster.get("status")).get("nodeSummary"))
        total, ready = whole(summary.get("totalNum")), whole(summary.get("readyNum"))
        if total - ready > NODES_PART * total:
            yield Finding(
                "nodes-not-ready",
                "Cluster",
                "",
                name,
                f"{total - ready} of {total} nodes are not ready",
                f"see which, and why: kubectl amc get nodes -m {name}",
                name,
            )


def _refused(report: Mapping[str, Any]) -> Iterator[Finding]:
    for cause in rows(report.get("refused")):
        jobs, first = whole(cause.get("jobs")), mapping(cause.get("first"))
        if jobs >= REFUSED_LEAST:
            name, namespace = text(first.get("name")), text(first.get("namespace"))
            yield Finding(
                "jobs-refused",
                text(first.get("kind")),
                namespace,
                name,
                f"{jobs} jobs, and this one last: {text(cause.get('text'))} ({text(cause.get('code'))})",
                f"mend what is named, and the jobs go on by themselves: fleet explain {name} -n {namespace}",
            )


def _user(report: Mapping[str, Any]) -> Iterator[Finding]:
    waiting = mapping(report.get("waiting"))
    most, all_jobs, user = whole(waiting.get("most")), whole(waiting.get("jobs")), text(waiting.get("user"))
    if most >= WAITING_LEAST and most > WAITING_PART * all_jobs:
        yield Finding(
            "user-floods",
            "User",
            "",
            user,
            f"has {most} of the {all_jobs} jobs that wait",
            "ask what they are for: fleet jobs --state queued lists them; a quota for each user bounds what runs",
        )


def _webhooks(calls: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    for call in calls:
        failures, configuration = whole(call.get("failures")), text(call.get("configuration"))
        if failures >= CALLS_LEAST:
            what = "their requests are let through" if call.get("ignored") else "their requests are refused"
            kind = text(call.get("kind"))
            yield Finding(
                "webhook-fails",
                kind,
                "",
                configuration,
                f"the last {failures} calls of its webhook {text(call.get('webhook'))} failed, and {what}, the last at"
                f" {text(call.get('last'))}: {text(call.get('error'))}",
                f"mend its server, allow its address (--outgoing-allow), or delete the {kind} {configuration}",
            )
