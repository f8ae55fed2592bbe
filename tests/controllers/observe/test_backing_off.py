"""Attempts that come to nothing: each waits longer than the one before, they are counted, and there is an end."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.failures import (
    BACKOFF_LIMIT,
    Failure,
    backoff_until,
    backoffs,
    failures_of,
    failures_text,
    gave_up,
    with_failure,
)
from fleet.ports import Body
from fleet.wellknown import ANNOTATION_BACKOFF_LIMIT, ANNOTATION_RETRIES
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


def binding(failures: int, **annotations: str) -> Body:
    """A binding that failed so often, as it is stored."""
    body: Body = {"metadata": {"annotations": dict(annotations)}, "spec": {}}
    for number in range(failures):
        told = with_failure(failures_of(body), Failure("cfa", 100.0 + number, "GangNotWhole", message="no room"))
        body["metadata"]["annotations"][ANNOTATION_RETRIES] = failures_text(told)
    return body


def test_the_count_goes_on_although_only_the_newest_failures_are_kept() -> None:
    body = binding(57)
    assert (len(failures_of(body)), backoffs(failures_of(body))) == (20, 57)


def test_what_does_not_back_off_is_not_counted() -> None:
    failures = with_failure(failures_of(binding(3)), Failure("cfa", 1.0, "MemberUnreachable", backoff=False))
    assert backoffs(failures) == 3
    assert backoff_until(failures) is None
    assert backoffs(with_failure(failures, Failure("cfa", 2.0, "GangNotWhole"))) == 4


def test_failures_that_were_stored_before_they_were_counted_count() -> None:
    old = [Failure("cfa", float(n), "GangNotWhole") for n in range(5)]
    assert backoffs(old) == 5
    assert backoffs(with_failure(old, Failure("cfa", 9.0, "GangNotWhole"))) == 6


@pytest.mark.parametrize(
    ("failures", "limit", "over"),
    [
        (0, None, False), (BACKOFF_LIMIT - 1, None, False), (BACKOFF_LIMIT, None, True), (1, "1", True),
        (BACKOFF_LIMIT + 5, "0", False), (2, "3", False), (3, "many", False),
    ],
)  # fmt: skip
def test_attempts_end_at_a_limit(failures: int, limit: str | None, over: bool) -> None:
    body = binding(failures, **({} if limit is None else {ANNOTATION_BACKOFF_LIMIT: limit}))
    why = gave_up(body)
    assert bool(why) == over
    if over:
        assert why == f"{failures} attempt{'s' if failures > 1 else ''} came to nothing, the last: no room"


def annotated(value: str) -> Any:
    return lambda body: body["metadata"].update(annotations={ANNOTATION_BACKOFF_LIMIT: value})


def status(world: World) -> Body:
    return dict((world.unit("one") or {}).get("status") or {})


async def test_a_gang_that_never_gets_whole_is_held_after_its_limit_until_somebody_raises_it() -> None:
    async with hub(member("cfa", no_pods=True)) as world:
        job = pytorchjob("one")
        annotated("2")(job)
        await world.apply(tree(), policy(queue=True), job)
        await eventually(lambda: status(world).get("requeueState", {}).get("count") == 1, within_s=90)
        assert world.phase("one") == "TimeoutBackoff"
        await eventually(lambda: "held: 2 attempts came to nothing" in world.message("one"), within_s=90)
        assert (world.unit("one") or {})["status"]["reason"]["code"] == "Held"
        assert "only 0 of 3 pods found a node" in world.message("one")
        await settle(200)
        assert (world.attempt("one"), world.placed("one")) == (2, "")
        await world.edit("PyTorchJob", "one", annotated("3"))
        await eventually(lambda: world.placed("one") == "cfa")


@pytest.mark.parametrize("queue", [True, False])
async def test_the_policys_limit_is_for_all_its_jobs_in_and_outside_queues(queue: bool) -> None:
    async with hub(member("cfa", no_pods=True)) as world:
        limited = policy(queue=queue)
        annotated("1")(limited)
        await world.apply(tree(), limited, pytorchjob("one"))
        held = lambda: world.condition(world.binding("one"), "Scheduled")  # noqa: E731
        await eventually(lambda: held().get("reason") == "Held", within_s=90)
        assert "1 attempt came to nothing" in held()["message"]
