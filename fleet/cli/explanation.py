"""The explanation of one waiting job, as text: its reason, its place, its estimated start, and the changes that would
start it now. A start that the solver's plan has, too, "would" happen; any other "would likely".
"""

from __future__ import annotations

from typing import Any

from fleet.cli.jobs import age
from fleet.values.times import seconds

_KINDS = {
    "Wait": "waiting alone",
    "Release": "letting it go",
    "FewerReplicas": "fewer replicas",
    "HigherPriority": "a higher priority",
    "AnotherMember": "another member",
    "MoreQuota": "more quota",
    "MoreNodes": "more nodes",
}
_NO_CHANGE = {"NoneStartsIt": "Would not start it", "NotFoundInTime": "Not found in time"}


def lines(document: dict[str, Any]) -> list[str]:
    """A `document` of fleet/core/foresee/explanation.py for people; without the reason, which stands above it or is its
    first line."""
    if document["starts"] and document["reason"] is None:
        return [f"It {'' if document.get('certain') else 'likely '}starts with the next decision."]
    texts: list[str] = []
    if document.get("waitsFor"):
        texts.append(f"Waits for:  {document['waitsFor']['text']}")
    place = document["position"]
    if place is not None:
        where = document["queue"] or "those outside quota"
        ahead = place["ahead"]
        others = {0: "no job of the fleet is", 1: "1 job of the fleet is"}.get(ahead, f"{ahead} jobs of the fleet are")
        texts.append(f"Position:   {place['place']} of {place['of']} in {where}; {others} ahead of it")
    texts.append(f"Starts:     {_starts(document)}")
    texts += would_start(document["changes"])
    if document["then"] is not None:
        texts.append(f"Let go, it waits: {document['then']['text']}")
    return texts + would_not(document["without"])


def would_start(changes: list[dict[str, Any]]) -> list[str]:
    """The smallest changes that start a job: the certain starts, then the likely ones. Who waits for the end of a
    back-off starts then, not now."""
    texts: list[str] = []
    for certain, title in ((True, "Would start it"), (False, "Would likely start it")):
        those = [change for change in changes if bool(change.get("certain")) is certain]
        later = [f"  {change['text']}" for change in those if change.get("kind") == "Wait"]
        now = [f"  {change['text']}" for change in those if change.get("kind") != "Wait"]
        texts += [f"{title}:", *later] if later else []
        texts += [f"{title} now, each by itself:", *now] if now else []
    return texts


def would_not(without: list[dict[str, Any]]) -> list[str]:
    """The kinds of changes that alone do not start a job, or of which none was found in time."""
    found: list[str] = []
    for cause, text in _NO_CHANGE.items():
        kinds = [_KINDS.get(entry["kind"], entry["kind"]) for entry in without if entry.get("cause") == cause]
        found += [f"{text}: {', '.join(kinds)}"] if kinds else []
    return found


def _starts(said: dict[str, Any]) -> str:
    estimate = said["estimate"]
    if estimate["p50"] is None:
        return f"not estimated: {estimate['why']}" if estimate["outcome"] == "NotEstimated" else str(estimate["why"])
    at = seconds(said["at"]) or 0.0
    early, middle, late = (then and age(then - at) for then in (seconds(estimate[p]) for p in ("p10", "p50", "p90")))
    if early == late:
        return f"probably in {middle} ({estimate['p50']})"
    until = f"{late}" if late else "later than can be told"
    return f"probably in {middle} ({estimate['p50']}); in 4 of 5 cases in {early} to {until}"
