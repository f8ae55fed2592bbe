"""The output of `fleet what-if`: a row for each job that the edits make a difference to, and the sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fleet.amc import table
from fleet.cli.alike import merged
from fleet.cli.explanation import would_not, would_start
from fleet.cli.jobs import age
from fleet.core.model.cause import Cause, CauseCode, in_words
from fleet.core.model.difference import HORIZON_S, UnitState, Verdict
from fleet.core.model.reason import human

HOLDERS = 10  # queues that are told
NOTHING = "nothing would be otherwise"
_IN_WORDS = {CauseCode.AS_GOOD: "the solver found nothing better", CauseCode.BETTER: "backfill is better"}
Json = Mapping[str, Any]


def lines(answer: Json) -> Iterator[str]:
    """Of an answer as notation/edits.py encodes it."""
    now = answer["now"]
    if answer["rows"]:
        rows = [
            [
                row["job"],
                row["change"],
                _standing(row["before"]),
                _standing(row["after"]),
                _start(row, now),
                (row["after"]["reason"] or {"text": ""})["text"],
            ]
            for row in answer["rows"]
        ]
        head = ["JOB", "CHANGE", "BEFORE", "AFTER", "START", "REASON"]
        yield from table.lines([head, *merged(rows)])
    elif not answer.get("others"):
        yield NOTHING
    told = {row["unit"] for row in answer["rows"]}
    for bound in answer["bound"]:
        why = "" if bound["unit"] in told else f": {bound['reason']['text']}"
        yield f"{bound['job']} waits all the same{why}"
        yield from (f"  {line}" for line in _bound(bound))
    if (of := answer.get("boundOf", 0)) > len(answer["bound"]):
        yield f"{len(answer['bound'])} of {of} jobs that wait all the same are shown"
    for other in answer.get("others") or ():
        many = "1 job" if other["jobs"] == 1 else f"{other['jobs']} jobs"
        yield f"not yours: {many} of {other['leaf'] or 'no queue'} ({other['gpus']} GPUs): {other['change']}"
    yield f"jobs that wait: {answer['waiting']['before']}, then {answer['waiting']['after']}"
    before, after = (_answer(answer["certificate"][when]) for when in ("before", "after"))
    yield f"answer: {after}" if before == after else f"answer: {before}, then {after}"
    if answer["noTimes"]:
        yield f"no times: {answer['noTimes']}"
    elif answer["until"] < now + HORIZON_S:
        yield f"the queues were run forward for {age(answer['until'] - now)}: who starts later is unknown"
    elif answer["endless"] and any(_waits_for_good(row["after"]) for row in answer["rows"]):
        yield "jobs without a walltime are taken not to end; --runs-for says otherwise"


def _bound(bound: Json) -> Iterator[str]:
    """The users of the resources that a job lacks that waits all the same, and the changes that would start it."""
    if bound["holders"]:
        yield f"Used in {_some(bound['where'])} by:"
        yield from (f"  {_holder(holder)}" for holder in bound["holders"][:HOLDERS])
        if len(bound["holders"]) > HOLDERS:
            yield f"  {HOLDERS} of {len(bound['holders'])} queues are shown"
    yield from would_start(bound["changes"])
    yield from would_not(bound["without"])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _holder(holder: Json) -> str:
    jobs = f"{holder['jobs']} job{'s' if holder['jobs'] != 1 else ''}"
    amounts = "".join(f", {human(amount, name)} {name}" for name, amount in holder["amounts"].items())
    return f"{holder['queue'] or 'outside quota'}: {jobs}{amounts}"


def _waits_for_good(standing: Json) -> bool:
    return standing["state"] == UnitState.WAITS.value and standing["start"] is None


def _answer(certificate: Json) -> str:
    return source_in_words(str(certificate["shipped"]), map(_cause, certificate.get("causes", ())))


def _cause(written: Json) -> Cause:
    """A code of a newer hub has its text alone."""
    if written["code"] not in set(CauseCode):
        return Cause(CauseCode.OLDER, {"text": written["text"]})
    return Cause(CauseCode(written["code"]), written.get("numbers", {}))


def source_in_words(shipped: str, causes: Iterable[Cause]) -> str:
    """The source of a plan, and the causes of that. The plan without the solver starts jobs in order, and lets others
    fill the gaps: backfill."""
    source, why = "backfill" if shipped == "greedy" else shipped, in_words(causes, _IN_WORDS)
    return source + (f" ({why})" if why else "")


def _standing(standing: Json) -> str:
    member = standing["member"]
    match UnitState(standing["state"]):
        case UnitState.ABSENT:
            return "-"
        case UnitState.WAITS:
            return f"waits: {standing['reason']['code']}"
        case UnitState.UNREACHABLE:
            return f"in {member}, unreachable"
        case UnitState.LEAVES:
            return f"leaves {member}"
        case UnitState.RUNS:
            return f"runs in {member}"
        case UnitState.STARTS:
            return f"starts in {member}"


def _start(row: Json, now: float) -> str:
    """Its start after the edits, and its start before them."""
    if Verdict(row["change"]) in (Verdict.UNREACHABLE, Verdict.REMOVED, Verdict.STAYS):
        return ""
    after, before = _time(row["after"], now), _time(row["before"], now)
    return f"{after}, was {before}" if before and before != after else after


def _time(standing: Json, now: float) -> str:
    state, start = UnitState(standing["state"]), standing["start"]
    if state not in (UnitState.STARTS, UnitState.WAITS, UnitState.LEAVES):
        return ""
    if state is UnitState.STARTS:
        return "now"
    if start is None:
        return "unknown"
    middle = f"in {age(start['p50'] - now)}"
    if start["p10"] == start["p90"]:
        return middle
    last = "later" if start["p90"] is None else age(start["p90"] - now)
    return f"{middle} ({age(start['p10'] - now)} to {last})"
