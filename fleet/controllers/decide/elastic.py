"""Elastic jobs that do not fit whole are decided again at their smallest.

The first decision knows every job as large as it asks to be. Where it leaves elastic jobs waiting for quota or room,
the second one is about the same fleet with these jobs at their smallest. Its plan counts if it starts one of them. That
plan evicts nobody: a job that takes room back takes it back for all of its pods. A job that started small asks for the
rest from then on, as a job that was made larger does (growing.py). A job that starts in neither plan waits for its
smallest size, and its reason is about that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fleet.bindings.elastic import least_of, least_text, resized, with_replicas
from fleet.bindings.unit import reason_of
from fleet.controllers.decide.snapshot import Picture, Sources
from fleet.core.model.matching import member_bars
from fleet.core.model.plan import Plan
from fleet.core.model.reason import LEAST, TABLE, Code, Reason, Severity
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Snapshot, SnapshotChanges

_LESS_HELPS = frozenset(
    {
        Code.QUOTA_EXHAUSTED,
        Code.MIN_EXHAUSTED,
        Code.USER_LIMIT,
        Code.NO_MEMBER_FITS,
        Code.TOO_LARGE,
        Code.LOST_TO_OTHERS,
        Code.COLLECTS,
        Code.BEHIND_HEAD,
    }
)


def at_their_smallest(picture: Picture, plan: Plan) -> Picture | None:
    """The picture in which the elastic units that a plan leaves waiting ask for their least; None where there are
    none."""
    reasons = plan.reasons
    units = _smallest(picture, [k for k in picture.elastic if k in reasons and reasons[k].code in _LESS_HELPS])
    if not units:
        return None
    sources: dict[str, Sources] = {}
    for unit in units:
        found = picture.sources[unit.id]
        sources[unit.id] = replace(found, binding=with_replicas(found.binding, least_of(found.binding.body)))
    config = replace(picture.snapshot.config, reclaim=False)
    snapshot = picture.snapshot.apply(SnapshotChanges(put_units=tuple(units), config=config, new_config=True))
    return replace(picture, snapshot=snapshot, sources={**picture.sources, **sources})


def to_ask_about(picture: Picture) -> Snapshot:
    """The snapshot for questions about the future: elastic units that wait start when their smallest size fits."""
    units = _smallest(picture, picture.elastic)
    waiting = tuple(unit for unit in units if unit.claim is None)
    return picture.snapshot.apply(SnapshotChanges(put_units=waiting)) if waiting else picture.snapshot


def _smallest(picture: Picture, keys: Iterable[str]) -> list[Unit]:
    """These elastic units at their least."""
    units = ((key, picture.snapshot.units.get(key)) for key in keys)
    return [
        replace(unit, components=resized(unit.components, least_of(picture.sources[key].binding.body)))
        for key, unit in units
        if unit is not None
    ]


def starts_one(whole: Picture, smaller: Picture, plan: Plan) -> bool:
    """Whether a plan about the second picture starts a unit that is smaller there."""
    started = (placement.unit for placement in plan.placements)
    return any(smaller.sources[key] is not whole.sources[key] for key in started)


def wait_reasons(whole: Picture, smaller: Picture, plan: Plan) -> dict[str, Reason]:
    """Why the units that are smaller in the second picture wait even so, by its plan. Where that is a reason of another
    kind, such as members that take none, the reason of the first plan stands."""
    return {
        key: Reason(reason.code, {**reason.numbers, LEAST: least_text(whole.sources[key].binding.body)})
        for key, reason in plan.reasons.items()
        if key in smaller.sources and smaller.sources[key] is not whole.sources[key] and reason.code in _LESS_HELPS
    }


def others_wait(picture: Picture, key: str) -> bool:
    """Whether a unit waits that may need the room or the quota which an elastic unit would grow into: a unit of its
    leaf, one that may go to its member, or one there whose pods do not all have a node. A unit that never starts as it
    is does not count."""
    own_unit = picture.snapshot.units[key]
    member = picture.snapshot.members.get(own_unit.member or "")
    if any(unit.member == own_unit.member and unit.id != key for unit in picture.snapshot.backlog.unseen.values()):
        return True
    for other in picture.snapshot.units.values():
        if other.phase is not Phase.WAITING or other.held or other.suspended:
            continue
        near = other.leaf == own_unit.leaf or (member is not None and not member_bars(other, member))
        if near and not _never_starts(picture.sources[other.id]):
            return True
    return False


def _never_starts(sources: Sources) -> bool:
    said = str(reason_of(sources.unit.body if sources.unit is not None else None).get("code"))
    return any(code == said and entry.severity is Severity.ERROR for code, entry in TABLE.items())
