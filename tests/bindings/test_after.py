"""What a job that starts after others is said to wait for, when the decider has decided on older words."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.after import AfterProgress
from fleet.controllers.decide.reasons import with_cause
from fleet.core.model.reason import Code, Reason
from fleet.wellknown import ANNOTATION_AFTER, ANNOTATION_AFTER_SEEN

BEFORE = Reason(Code.AFTER, {"jobs": "first has succeeded"})


def binding(seen: AfterProgress) -> dict[str, Any]:
    return {"metadata": {"annotations": {ANNOTATION_AFTER: "first", ANNOTATION_AFTER_SEEN: str(seen)}}}


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (AfterProgress(), BEFORE),
        (AfterProgress(waits="first; no job first is there yet"), BEFORE),
        (AfterProgress(never="first has failed"), Reason(Code.NEVER_AFTER, {"why": "first has failed"})),
    ],
)
def test_the_reason_of_the_decision_before_a_note_changed_has_the_words_of_the_note(
    seen: AfterProgress, reason: Reason
) -> None:
    words = {"jobs": seen.waits} if seen.waits else reason.numbers
    assert with_cause(BEFORE, binding(seen)) == Reason(reason.code, words)


@pytest.mark.parametrize(
    "other",
    [
        Reason(Code.HELD),
        Reason(Code.HELD, {"why": "starts after lunch"}),
        Reason(Code.NOT_ITS_TURN, {"why": "sweep tune runs at most 2 at once"}),
    ],
)
def test_another_reason_to_wait_is_not_taken_for_it(other: Reason) -> None:
    assert with_cause(other, binding(AfterProgress())) == other
