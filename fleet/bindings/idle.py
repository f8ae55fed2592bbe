"""Kinds that a member serves and no controller there acts on: no job of them goes there for a time. Pure.

A CRD without its controller takes a job and does nothing with it, so each job of that kind would hold room there until
it is withdrawn, one after the other. The Cluster's status names the kinds, so a new leader knows them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.core.model.reason import Code
from fleet.values.ports import Body
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import mapping, rows, text
from fleet.wellknown import KINDS_AVOIDED

AVOIDED_S = 600.0
KINDS_MAX = 50  # of one member, the newest
FIELD = "avoidedKinds"  # in a Cluster's status


def idle_kinds(cluster: Mapping[str, Any] | None, now: float) -> dict[str, float]:
    """group/Kind -> epoch second until which no job of it goes there."""
    entries = rows(mapping(mapping(cluster).get("status")).get(FIELD))
    found = {text(entry.get("kind")): seconds(text(entry.get("until"))) for entry in entries}
    return {kind: until for kind, until in found.items() if kind and until is not None and until > now}


def avoid(cluster: Body, kind: str, now: float) -> bool:
    """Name the kind in the Cluster's status, in place."""
    kinds = {**idle_kinds(cluster, now), kind: now + AVOIDED_S}
    newest = sorted(kinds, key=lambda one: -kinds[one])[:KINDS_MAX]
    return _say(cluster, {one: kinds[one] for one in sorted(newest)}, now)


def settle(cluster: Body, now: float) -> bool:
    """Drop the kinds whose time is over, in place; False when there is none."""
    if not rows(b.status_of(cluster).get(FIELD)):
        return False
    return _say(cluster, idle_kinds(cluster, now), now)


def _say(cluster: Body, kinds: Mapping[str, float], now: float) -> bool:
    status = cluster.setdefault("status", {})
    if not kinds:
        return (status.pop(FIELD, None) is not None) | drop_condition(cluster, KINDS_AVOIDED)
    entries = [{"kind": kind, "until": rfc3339(until)} for kind, until in kinds.items()]
    changed = status.get(FIELD) != entries
    status[FIELD] = entries
    said = ", ".join(f"{entry['kind']} (until {entry['until']})" for entry in entries)
    message = f"jobs of these kinds got no pods and no status, so no controller acts on them: {said}"
    return set_condition(cluster, KINDS_AVOIDED, True, str(Code.NO_CONTROLLER), message, now) or changed
