"""What `fleet what-if` prints: a row for each job that the edits make a difference to, and the sums."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fleet.amc import table
from fleet.cli.alike import merged
from fleet.cli.jobs import age
from fleet.foresee.whatif import HORIZON_S, Comparison, Row, Standing, State, Verdict
from fleet.model.unit import Phase
from fleet.plan import Plan

NOTHING = "nothing would be otherwise"


def lines(found: Comparison, now: float) -> Iterator[str]:
    """`now`: the epoch second that the fleet was asked at."""
    if found.rows:
        rows = [
            [row.unit.name, row.verdict.value, _standing(row.before), _standing(row.after), _start(row, now), _why(row)]
            for row in found.rows
        ]
        head = ["JOB", "CHANGE", "BEFORE", "AFTER", "START", "REASON"]
        yield from table.lines([head, *merged(rows)])
    else:
        yield NOTHING
    yield f"jobs that wait: {_waiting(found.before)}, then {_waiting(found.after)}"
    before, after = (_answer(plan) for plan in (found.before, found.after))
    yield f"answer: {after}" if before == after else f"answer: {before}, then {after}"
    if found.no_times:
        yield f"no times: {found.no_times}"
    elif found.until < now + HORIZON_S:
        yield f"the queues were run forward for {age(found.until - now)}: who starts later is unknown"
    elif _endless(found):
        yield "jobs without a walltime are taken not to end; --runs-for says otherwise"


def _endless(found: Comparison) -> bool:
    """Whether some running job has no walltime, so that who waits for it has no time."""
    running = (unit for unit in found.snapshot.units.values() if unit.phase is not Phase.WAITING)
    missing = any(
        row.after.when is None or not row.after.when.known for row in found.rows if row.after.state is State.WAITS
    )
    return missing and any(unit.walltime_s is None for unit in running)


def _answer(plan: Plan) -> str:
    certificate = plan.certificate
    return certificate.shipped + (f" ({certificate.why})" if certificate.why else "")


def _waiting(plan: Plan) -> int:
    return len(plan.reasons)


def _standing(standing: Standing) -> str:
    match standing.state:
        case State.ABSENT:
            return "-"
        case State.WAITS:
            return f"waits: {standing.reason.code.value}" if standing.reason is not None else "waits"
        case State.UNREACHABLE:
            return f"in {standing.member}, unreachable"
        case State.LEAVES:
            return f"leaves {standing.member}"
        case State.RUNS:
            return f"runs in {standing.member}"
        case State.STARTS:
            return f"starts in {standing.member}"


def _start(row: Row, now: float) -> str:
    """When it starts after the edits, and what it was before them."""
    after, before = _time(row.after, now), _time(row.before, now)
    if row.verdict in (Verdict.UNREACHABLE, Verdict.REMOVED, Verdict.STAYS):
        return ""
    return f"{after}, was {before}" if before and before != after else after


def _time(standing: Standing, now: float) -> str:
    if standing.state not in (State.STARTS, State.WAITS, State.LEAVES):
        return ""
    when = standing.when
    if standing.state is State.STARTS:
        return "now"
    if when is None or not when.known:
        return "unknown"
    middle = f"in {age(when.p50 - now)}"
    if when.p10 == when.p90:
        return middle
    last = "later" if math.isinf(when.p90) else age(when.p90 - now)
    return f"{middle} ({age(when.p10 - now)} to {last})"


def _why(row: Row) -> str:
    return row.after.reason.text if row.after.reason is not None else ""
