"""The whole explanation of one waiting unit: its reason, its place, its estimated start, the changes that start it now.

The reason, the position and the jobs that are waited for cost one decision. The smallest changes and the estimate cost
dozens and hundreds. Each has half of the time that the caller allows, and the parts that are not ready by then are left
out, by name. A start is said to be certain only where the decision with a solver makes it, too (certain.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from fleet.core.decide import decide
from fleet.core.foresee import blockers as waited
from fleet.core.foresee import trialedits
from fleet.core.foresee.answer import StartAnswer
from fleet.core.foresee.blockers import BlockingJobs
from fleet.core.foresee.change import KINDS, cost, text
from fleet.core.foresee.estimate import BeyondHorizon, Estimate, NeverStarts, NotEstimated, Outcome, estimate
from fleet.core.foresee.history import History
from fleet.core.foresee.position import Position, position
from fleet.core.foresee.smallest import smallest
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Unit
from fleet.core.placement.problem import Solver
from fleet.core.snapshot import Snapshot
from fleet.values.times import instant

TOO_LONG = "it would take too long to run the queue forward"


@dataclass(frozen=True, slots=True)
class Explanation:
    """`at`: the epoch second of the explanation. `answer.reason` is the reason."""

    unit: Unit
    at: float
    position: Position | None
    answer: StartAnswer
    outcome: Outcome
    awaited: BlockingJobs


def explain(
    snapshot: Snapshot,
    unit: str,
    history: History,
    *,
    now: float,
    seed: int = 0,
    elapsed_s: Callable[[], float] = lambda: 0.0,
    limit_s: float = float("inf"),
    improve: Callable[[Estimate], Estimate] = lambda said: said,
    solver: Solver | None = None,
) -> Explanation:
    """For a waiting unit. `elapsed_s`: how long this has taken; parts that take longer than `limit_s` are left out.
    `improve` may move the ends of an estimate (see estimate.stretched). `solver` tells which starts are certain. Raises
    KeyError for a unit that is not there or does not wait, BadSnapshot as `decide` does."""
    plan = decide(snapshot, now=now, seed=seed, solver=None)
    place = position(snapshot, plan, unit)
    answer = smallest(
        snapshot, unit, now=now, seed=seed, plan=plan, enough=lambda: elapsed_s() > limit_s / 2, solver=solver
    )
    if elapsed_s() > limit_s:
        outcome: Outcome = NotEstimated(TOO_LONG)
    else:
        outcome = estimate(snapshot, unit, history, now=now, seed=seed, plan=plan, enough=lambda: elapsed_s() > limit_s)
    if isinstance(outcome, Estimate) and outcome.samples > 1:  # a start with the next decision is no estimate
        outcome = improve(outcome)
    mine = snapshot.units[unit]
    return Explanation(mine, now, place, answer, outcome, waited.blocking_jobs(snapshot, plan, mine, answer.reason))


def document(
    explanation: Explanation,
    kind_name: waited.KindName,
    reader: str | None = None,
    may_see: Callable[[Unit], bool] | None = None,
) -> dict[str, Any]:
    """As JSON; times are RFC 3339 in UTC. `kind_name`: the words of kinds. `reader`: the namespace whose jobs reasons
    may name; `may_see`: whether a job that is waited for may be named; None: all."""
    answer, place = explanation.answer, explanation.position
    return {
        "job": explanation.unit.name,
        "unit": explanation.unit.id,
        "at": instant(explanation.at),
        "queue": explanation.unit.leaf,
        "priority": explanation.unit.priority,
        "starts": answer.starts,
        "certain": None in answer.certain,
        "reason": _reason(answer.reason, reader),
        "then": _reason(answer.then, reader),
        "waitsFor": waited.document(explanation.awaited, kind_name, may_see),
        "position": None if place is None else _place(place),
        "estimate": _outcome(explanation.outcome),
        **changes(answer, explanation.unit),
    }


def changes(answer: StartAnswer, unit: Unit) -> dict[str, Any]:
    """The smallest changes of an answer as JSON, and the kinds that have none."""
    return {
        "changes": [
            {
                "kind": KINDS[type(change)].value,
                "text": text(change) + _preempting(answer.preempts.get(change, 0)),
                "cost": round(cost(change, unit), 4),
                "certain": change in answer.certain,
                "edits": trialedits.document(change, unit),
            }
            for change in answer.changes
        ],
        "without": [{"kind": kind.value, "cause": cause.value, "why": cause.text} for kind, cause in answer.without],
    }


def _preempting(units: int) -> str:
    """Whoever makes a change should know that it stops the work of others."""
    return f" (preempts {units} job{'s' if units != 1 else ''})" if units else ""


def _place(position: Position) -> dict[str, Any]:
    return {**asdict(position), "tier": None if position.tier is None else position.tier.word}


def _reason(reason: Reason | None, reader: str | None) -> dict[str, Any] | None:
    if reason is None:
        return None
    reason = reason if reader is None else reason.told_to(reader)
    return {"code": reason.code.value, "text": reason.text, "numbers": reason.figures}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    none: dict[str, Any] = {"outcome": type(outcome).__name__, "p10": None, "p50": None, "p90": None, "samples": 0}
    match outcome:
        case Estimate():
            times = {"p10": instant(outcome.p10), "p50": instant(outcome.p50)}
            late = None if outcome.p90 is None else instant(outcome.p90)
            return none | times | {"p90": late, "samples": outcome.samples, "why": None}
        case NeverStarts():
            return none | {"why": "it does not start as things are: somebody must change something first"}
        case BeyondHorizon():
            return none | {"samples": outcome.samples, "why": f"probably after {instant(outcome.horizon)}"}
        case NotEstimated():
            return none | {"why": outcome.why}
