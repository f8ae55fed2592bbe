"""The table of limits: each row is found by what it refuses, and says in its reason which limit it is."""

from __future__ import annotations

import pytest

from fleet.core.model.reason import OF_QUOTA, TABLE, Code
from fleet.core.placement.explain.why import quota_reason
from fleet.core.quota.guarantee import guarantees
from fleet.core.quota.limits import LIMITS, Limit, LimitKind, limit_of, limit_on
from fleet.core.quota.tree import MAX_JOBS, STARTS, QuotaTree
from fleet.core.quota.usage import Usage, account_of, request_of, start_of
from fleet.core.quota.users import USER_MAX
from tests.builders import GPU, UnitBuilder, tree, unit

LEAF: dict[LimitKind, dict[str, object]] = {
    LimitKind.MAX: {"max": {GPU: 4}},
    LimitKind.JOBS: {"jobs": 1},
    LimitKind.STARTS: {"one_at_a_time": True},
    LimitKind.MIN: {"min": {GPU: 4}},
    LimitKind.USER: {"attributes": {USER_MAX: '{"nvidia.com/gpu": 4}'}},
}
RESOURCE = {LimitKind.JOBS: MAX_JOBS, LimitKind.STARTS: STARTS}


def limited(kind: LimitKind) -> QuotaTree:
    return tree(a=LEAF[kind])


def job(kind: LimitKind) -> UnitBuilder:
    return unit("u").gpus(4).queue("root/a").having(user="ann", preemptible=kind is not LimitKind.MIN)


@pytest.mark.parametrize("kind", LimitKind)
def test_a_second_job_meets_the_limit_that_the_first_has_used_up(kind: LimitKind) -> None:
    made, mine = limited(kind), job(kind).value
    usage, account = Usage(made, guarantees(made, {GPU: 8})), account_of(made, mine) or ""
    request = start_of(mine, made, request_of(mine))
    assert usage.refusal(account, request) is None
    usage.charge(account, request)
    refusal = usage.refusal(account, request)
    user = "ann" if LIMITS[kind].by_user else ""
    assert refusal is not None
    assert refusal.limit == Limit(kind, "root/a", RESOURCE.get(kind, GPU), user)
    assert refusal.limit.counts(mine)
    reason = quota_reason(refusal)
    assert reason.code is LIMITS[kind].code and reason.text
    assert limit_of(reason) == (refusal.limit if LIMITS[kind].stated is not None else None)


@pytest.mark.parametrize("kind", [kind for kind, entry in LIMITS.items() if entry.stated is not None])
def test_a_figure_that_is_set_anew_is_the_one_that_is_read(kind: LimitKind) -> None:
    made = limited(kind)
    limit = Limit(kind, "root/a", RESOURCE.get(kind, GPU), "ann" if LIMITS[kind].by_user else "")
    now = limit.stated(made)
    assert now is not None
    assert limit.stated(limit.raised(made, now + 3)) == now + 3


def test_every_reason_about_a_limit_that_people_set_has_a_text_for_a_job_that_is_too_large() -> None:
    codes = [entry.code for entry in LIMITS.values()]
    assert len(set(codes)) == len(codes)
    assert {entry.code for entry in LIMITS.values() if entry.stated is not None} == set(OF_QUOTA)
    assert all(TABLE[entry.code].of_jobs == bool(entry.counts) for entry in LIMITS.values() if entry.stated)


def test_a_limit_on_jobs_of_a_user_is_one_of_that_users_limits() -> None:
    assert limit_on("root/a", MAX_JOBS, "ann") == Limit(LimitKind.USER, "root/a", MAX_JOBS, "ann")
    assert limit_on("root/a", MAX_JOBS).entry.code is Code.MAX_JOBS


def test_a_limit_counts_the_work_that_is_charged_to_it() -> None:
    firm, other = job(LimitKind.MIN).value, job(LimitKind.MAX).value
    least = Limit(LimitKind.MIN, "root", GPU)
    assert least.counts(firm) and not least.counts(other)
    assert not Limit(LimitKind.USER, "root/a", GPU, "bob").counts(other)
    assert not Limit(LimitKind.MAX, "root/ab", GPU).counts(other)
