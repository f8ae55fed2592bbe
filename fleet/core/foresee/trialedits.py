"""The edits of a what-if question that make a change, so that a person can see what else the change would do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fleet.core.foresee.change import (
    AnotherMember,
    BackoffEnd,
    Change,
    FewerReplicas,
    HigherPriority,
    Lift,
    MoreNodes,
    MoreQuota,
    UnitRelease,
)
from fleet.core.foresee.edits import CordonMember, Edit, Hold, Prioritize, Resize, Scale, SetLimit
from fleet.core.model.unit import Unit


def edits_of(change: Change, unit: Unit) -> tuple[Edit, ...]:
    """In an order in which each fits; () where no edits make the change: waiting, another policy, a limit of a user."""
    match change:
        case AnotherMember() if change.lifts == (Lift.CORDON,):
            return (CordonMember(change.member, cordoned=False),)
        case BackoffEnd() | AnotherMember():
            return ()
        case UnitRelease():
            return (Hold(unit.id, held=False),)
        case FewerReplicas():
            return (Resize(unit.id, change.name, change.replicas),)
        case HigherPriority():
            return (Prioritize(unit.id, change.priority),)
        case MoreNodes():
            return (Scale(change.member, change.pool, change.nodes),)
        case MoreQuota():
            raises = (*change.raises, *change.follows)
            # a min fits below its max
            limits = sorted(((given.limit, given.to) for given in raises), key=lambda one: one[0].entry.firm)
            if any(limit.user for limit, _ in limits):
                return ()
            return tuple(SetLimit(limit.node, limit.entry.word, limit.resource, to) for limit, to in limits)


def document(change: Change, unit: Unit) -> list[dict[str, Any]]:
    """The same as JSON, as POST /fleet/v1/what-if takes it: all of these edits have plain fields."""
    return [{type(edit).__name__: asdict(edit)} for edit in edits_of(change, unit)]
