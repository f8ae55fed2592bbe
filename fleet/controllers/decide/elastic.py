"""Elastic jobs that do not fit whole are decided again at their smallest.

The first decision knows every job as large as it asks to be. Where it leaves elastic jobs waiting for quota or room,
the second one is about the same fleet with these jobs at their smallest. Its plan counts if it starts one of them. That
plan evicts nobody: a job that takes room back takes it back for all of its pods. A job that started small asks for the
rest from then on, as a job that was made larger does (growing.py).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

from fleet.bindings.elastic import give, least_of, resized
from fleet.bindings.unit import reason_of
from fleet.controllers.decide.snapshot import Picture, Sources
from fleet.controllers.fields import reserving
from fleet.controllers.fields.rooms import driver_of
from fleet.controllers.runtime.hub import Hub
from fleet.model.matching import member_bars
from fleet.model.plan import Plan
from fleet.model.reason import TABLE, Code, Severity
from fleet.model.unit import Phase, Unit
from fleet.ports import Body, Stored
from fleet.snapshot import Changes
from fleet.wellknown import CLUSTER

_LESS_HELPS = frozenset({
    Code.QUOTA_EXHAUSTED, Code.MIN_EXHAUSTED, Code.USER_LIMIT, Code.NO_MEMBER_FITS, Code.TOO_LARGE, Code.LOST_TO_OTHERS,
    Code.COLLECTS, Code.BEHIND_HEAD,
})  # fmt: skip


def at_their_smallest(hub: Hub, picture: Picture, plan: Plan) -> Picture | None:
    """The picture in which the elastic units that a plan leaves waiting ask for their least; None where there are none.
    Units that other services must agree to first are decided whole alone. So are all units in members where room is
    held before a job comes."""
    held = frozenset(
        body["metadata"]["name"] for body in hub.bodies(CLUSTER, "clusters") if driver_of(body) is not None
    )
    queues = reserving.Queues.of(hub)
    units: list[Unit] = []
    sources: dict[str, Sources] = {}
    for key in picture.elastic:
        reason, unit, found = plan.reasons.get(key), picture.snapshot.units.get(key), picture.sources[key]
        if unit is None or reason is None or reason.code not in _LESS_HELPS:
            continue
        if found.unit is not None and reserving.asked_of(hub, queues, found.unit.body, found.binding.body, "")[1]:
            continue
        least = least_of(found.binding.body)
        units.append(replace(unit, components=resized(unit.components, least), excluded=unit.excluded | held))
        sources[key] = replace(found, binding=_given(found.binding, least))
    if not units:
        return None
    config = replace(picture.snapshot.config, reclaim=False)
    snapshot = picture.snapshot.apply(Changes(put_units=tuple(units), config=config, new_config=True))
    return replace(picture, snapshot=snapshot, sources={**picture.sources, **sources})


def starts_one(whole: Picture, smaller: Picture, plan: Plan) -> bool:
    """Whether a plan about the second picture starts a unit that is smaller there."""
    started = (placement.unit for placement in plan.placements)
    return any(smaller.sources[key] is not whole.sources[key] for key in started)


def _given(binding: Stored, least: Mapping[str, int]) -> Stored:
    """The binding as it is once its job is placed at its smallest."""
    body: Body = copy.deepcopy(binding.body)
    give(body, least)
    return Stored(binding.key, binding.uid, binding.revision, binding.raw, body)


def others_wait(picture: Picture, key: str) -> bool:
    """Whether a unit waits that may need the room or the quota which an elastic unit would grow into: a unit of its
    leaf, one that may go to its member, or one there whose pods do not all have a node. A unit that never starts as it
    is does not count."""
    mine = picture.snapshot.units[key]
    member = picture.snapshot.members.get(mine.member or "")
    if any(unit.member == mine.member and unit.id != key for unit in picture.snapshot.backlog.unseen.values()):
        return True
    for other in picture.snapshot.units.values():
        if other.phase is not Phase.WAITING or other.held or other.suspended:
            continue
        near = other.leaf == mine.leaf or (member is not None and not member_bars(other, member))
        if near and not _never_starts(picture.sources[other.id]):
            return True
    return False


def _never_starts(sources: Sources) -> bool:
    said = str(reason_of(sources.unit.body if sources.unit is not None else None).get("code"))
    return any(code == said and entry.severity is Severity.ERROR for code, entry in TABLE.items())
