"""Amounts, matching and the table of reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.core.model.amounts import Amounts
from fleet.core.model.matching import pool_takes, tolerates
from fleet.core.model.member import Pool, Taint
from fleet.core.model.reason import TABLE, Code, Reason, Severity, human
from fleet.core.model.unit import NodeClaim, Requirement, Toleration
from tests.builders import amounts, member, unit


def test_equal_amounts_are_equal_however_they_came_about() -> None:
    assert Amounts.of({"a": 1, "b": 0}) == Amounts.of({"b": 2, "a": 1}).minus(Amounts.of({"b": 2}))


def test_quota_is_charged_the_sum_over_all_replicas_without_pods() -> None:
    made = unit("a").gang(2, gpu=4, cpu=1).gang(1, cpu=3).value
    assert dict(made.total.items_) == {"nvidia.com/gpu": 8, "cpu": 5000}
    assert made.pods == 3


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "v"), True),
        (Toleration("k", "Equal", "other"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal"), False),
        (Toleration("k", "Exists", effect="NoExecute"), False),
        (Toleration("k", "Nonsense", "v"), False),
    ],
)
def test_tolerations(toleration: Toleration, covers: bool) -> None:
    assert tolerates(toleration, Taint("k", "v", "NoSchedule")) is covers


@pytest.mark.parametrize(
    ("term", "takes"),
    [
        (Requirement("model", "In", ("A100", "H800")), True),
        (Requirement("model", "In", ("T4",)), False),
        (Requirement("model", "NotIn", ("T4",)), True),
        (Requirement("absent", "NotIn", ("T4",)), True),
        (Requirement("absent", "In", ("",)), False),
        (Requirement("model", "Exists"), True),
        (Requirement("absent", "DoesNotExist"), True),
        (Requirement("model", "DoesNotExist"), False),
        (Requirement("gen", "Gt", ("7",)), True),
        (Requirement("gen", "Gt", ("8",)), False),
        (Requirement("gen", "Lt", ("9",)), True),
        (Requirement("model", "Gt", ("1",)), False),
        (Requirement("gen", "Gt", ("x",)), False),
        (Requirement("gen", "Gt", ()), False),
        (Requirement("gen", "Nonsense", ("8",)), False),
        (Requirement("gen", "Lt", ("1_0",)), False),
        (Requirement("gen", "Lt", ("9223372036854775807",)), True),
        (Requirement("gen", "Lt", ("9223372036854775808",)), False),
        (Requirement("gen", "Gt", ("007",)), True),
    ],
)
def test_required_node_affinity(term: Requirement, takes: bool) -> None:
    pool = Pool(labels=(("model", "A100"), ("gen", "8")))
    assert pool_takes(pool, NodeClaim(affinity=((term,),))) is takes


def test_every_code_has_a_severity_and_a_text_that_its_numbers_fill() -> None:
    assert set(TABLE) == set(Code)
    for code, entry in TABLE.items():
        reason = Reason(code, dict.fromkeys(entry.numbers, 7))
        assert isinstance(reason.severity, Severity)
        assert "?" not in reason.text.removesuffix("did you mean 7?")
        assert "{" not in reason.text


def test_a_reason_from_an_older_record_still_has_a_text() -> None:
    assert Reason(Code.MEMBER_REFUSED, {"member": "x"}).text == "member x refused it: ?"


@pytest.mark.parametrize(
    ("amount", "resource", "text"),
    [
        (1500, "cpu", "1.5"),
        (96000, "cpu", "96"),
        (5, "cpu", "5m"),
        (1 << 36, "memory", "64 GiB"),
        (1023, "memory", "1023 B"),
        ((1 << 30) + 1, "memory", "1 GiB"),
        (8, "nvidia.com/gpu", "8"),
        (0, "cpu", "0"),
        (-2500, "cpu", "-2.5"),
    ],
)
def test_amounts_for_people(amount: int, resource: str, text: str) -> None:
    assert human(amount, resource) == text


def test_why_the_first_of_a_queue_waits_is_told_in_words_and_kept_as_a_code() -> None:
    reason = Reason(Code.BEHIND_IN_QUEUE, {"position": 2, "leaf": "root/a", "head": "v/b", "why": "QuotaExhausted"})
    assert reason.text.endswith("waits for v/b (quota is short)") and reason.figures["why"] == "QuotaExhausted"
    newer = replace(reason, numbers={**reason.numbers, "why": "OfANewerHub"})
    assert newer.text.endswith("(OfANewerHub)")


def test_a_quota_that_allows_no_job_says_so() -> None:
    reason = Reason(Code.MAX_JOBS, {"node": "root/a", "resource": "kube-queue/max-jobs", "used": 0, "max": 0})
    assert reason.text == "root/a may run no jobs at all: its max kube-queue/max-jobs is 0"


def test_a_vector_that_a_pool_names_twice_is_counted_together() -> None:
    pool = member("x").nodes(1).value.pools[0]
    (vector, _), other = pool.free[0], amounts(gpu=1)
    assert replace(pool, free=((vector, 2), (other, 1), (vector, 3))).counts == {vector: 5, other: 1}
