"""Records that an older release wrote are read, and replay to the plan that they hold.

`records-of-version-1.jsonl` has records of commit 96be7fac, one a line: without a solver, with its answers, with
victims, with solvers that failed, started or were late, with what the checker dropped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.core.decide import BadSnapshot
from fleet.core.model.cause import PARTS, TABLE, Cause, CauseCode, in_words, left_out
from fleet.core.notation.causetexts import cause_in, causes_in
from fleet.core.notation.codec import decode_plan, decode_snapshot, differences, encode_record, replay

RECORDS = [json.loads(line) for line in Path(__file__).with_name("records-of-version-1.jsonl").read_text().splitlines()]


def said(record: dict[str, Any]) -> str:
    certificate = record["plan"]["certificate"]
    victims = [search.get("why", search["shipped"]) for search in certificate.get("victims", ())]
    return "; ".join([certificate.get("why", certificate["shipped"]), *victims])


@pytest.mark.parametrize("record", RECORDS, ids=said)
def test_a_record_of_version_1_replays_to_its_plan_and_to_its_words(record: dict[str, Any]) -> None:
    recorded, plan = decode_plan(record["plan"]), replay(record)
    assert differences(plan, recorded) == []
    written = record["plan"]["certificate"]
    for one in (plan.certificate, recorded.certificate):
        assert (one.shipped, one.why) == (written["shipped"], written.get("why", ""))
        assert [search.why for search in one.victims] == [s.get("why", "") for s in written.get("victims", ())]
        assert CauseCode.OLDER not in {cause.code for cause in one.causes}
    assert recorded.certificate.gap == plan.certificate.gap


@pytest.mark.parametrize("record", RECORDS, ids=said)
def test_it_is_written_anew_in_the_version_of_today(record: dict[str, Any]) -> None:
    plan, snapshot = replay(record), decode_snapshot(record["snapshot"])
    again = json.loads(json.dumps(encode_record(snapshot, plan, now=record["now"], seed=record["seed"])))
    assert (again["version"], again["plan"]["version"]) == (2, 2)
    assert again["plan"]["certificate"].get("why", "") == record["plan"]["certificate"].get("why", "")
    assert decode_plan(again["plan"]) == replay(again) == plan


NUMBERS: dict[str, str | int | float] = {"limit_s": 1.5, "detail": "exit status -9", "fault": "a is held; so is b"}
NUMBERS |= dict.fromkeys(("lanes", "questions", "gangs", "tries", "kinds", "starts"), 12)


@pytest.mark.parametrize("code", [code for code in TABLE if code not in (CauseCode.LEFT_OUT, CauseCode.OLDER)])
def test_the_text_of_each_cause_is_read_back_as_the_cause(code: CauseCode) -> None:
    cause = Cause(code, {name: value for name, value in NUMBERS.items() if f"{{{name}}}" in TABLE[code]})
    assert cause_in(cause.text) == cause
    assert causes_in(cause.text) == (cause,)


def test_parts_that_were_left_out_are_read_back_beside_the_cause_before_them() -> None:
    values: dict[str, str | int] = {"most": 12, "users": 301, "queue": "root/a, b"}
    parts = [left_out(bound, **{n: v for n, v in values.items() if f"{{{n}}}" in PARTS[bound]}) for bound in PARTS]
    causes = (Cause(CauseCode.NO_OTHER), *parts)
    words = in_words(causes)
    assert words.startswith("optimal: no other gang could start; the model has no bands below the first 12, no ")
    assert causes_in(words) == causes


def test_a_text_that_no_release_of_today_knows_stays_as_it_is() -> None:
    for text in ("the moon was full", "the model has no moon", "greedy is as good; the moon was full"):
        assert in_words(causes_in(text)) == text
    assert cause_in("") is None and causes_in("") == ()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"why": 5}, "certificate.why"),
        ({"victims": [{"unit": "a", "shipped": "greedy", "why": []}]}, "certificate.victims[0].why"),
        ({"causes": []}, "certificate.causes"),
        ({"answer": [[1]]}, "certificate.answer"),
    ],
)
def test_a_bad_certificate_of_version_1_is_refused_with_its_field(change: dict[str, Any], field: str) -> None:
    plan = {"version": 1, "certificate": {"shipped": "greedy", **change}}
    with pytest.raises(BadSnapshot) as refused:
        decode_plan(plan)
    assert refused.value.problems[0][0] == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"causes": [{"code": "Late", "numbers": {"limit_s": []}}]}, "certificate.causes[0].numbers[limit_s]"),
        ({"causes": [{"code": "Soon"}]}, "certificate.causes[0].code"),
        ({"answer": [[1], [1]]}, "certificate.answer"),
    ],
)
def test_a_bad_certificate_of_today_is_refused_with_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadSnapshot) as refused:
        decode_plan({"version": 2, "certificate": {"shipped": "greedy", **change}})
    assert refused.value.problems[0][0] == field


def test_a_cause_without_its_numbers_has_a_text_all_the_same() -> None:
    causes = tuple(Cause(code) for code in CauseCode)
    assert "deadline of ? s" in in_words(causes)


@pytest.mark.parametrize("version", [3, 0, True, "1", None])
def test_a_version_that_is_not_known_is_refused(version: object) -> None:
    with pytest.raises(BadSnapshot, match="this reads versions 1 to 2"):
        decode_plan({"version": version})
    with pytest.raises(BadSnapshot, match="this reads version 1"):
        decode_snapshot({"version": version})
