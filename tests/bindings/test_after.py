"""What a job that starts after others is said to wait for, when the decider has decided on older words."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.after import OK, After, AfterProgress, Obstacle, entries_text, obstacle
from fleet.wellknown import ANNOTATION_AFTER, ANNOTATION_AFTER_SEEN


def binding(seen: AfterProgress) -> dict[str, Any]:
    return {"metadata": {"annotations": {ANNOTATION_AFTER: "first", ANNOTATION_AFTER_SEEN: str(seen)}}}


@pytest.mark.parametrize(
    "seen",
    [AfterProgress(), AfterProgress(waits="first; no job first is there yet"), AfterProgress(never="first has failed")],
)
def test_the_decision_before_a_note_changed_is_still_known_as_waiting_for_other_jobs(seen: AfterProgress) -> None:
    before, now = Obstacle(entries_text([After("first", OK)])), obstacle(binding(seen))
    assert now is not None
    assert now.is_why(before.why) and now.is_why(now.why)


@pytest.mark.parametrize("why", ["", None, "sweep tune runs at most 2 at once", "held by the user"])
def test_another_reason_to_wait_is_not_taken_for_it(why: str | None) -> None:
    assert not Obstacle("first has succeeded").is_why(why)
