"""The checker refuses each size that a unit may not have, by the rule that it breaks."""

from __future__ import annotations

import pytest

from fleet.core.check import Rule, check
from fleet.core.model.plan import Plan
from tests.builders import NOW
from tests.core.check.resizing import SOUND, TOO_LARGE, UNSOUND, WORLD


@pytest.mark.parametrize("plan", SOUND.values(), ids=SOUND)
def test_a_sound_change_of_size_breaks_no_rule(plan: Plan) -> None:
    assert check(WORLD, plan, now=NOW) == ()


@pytest.mark.parametrize("plan", UNSOUND.values(), ids=UNSOUND)
def test_a_size_that_a_unit_cannot_have_is_unsound(plan: Plan) -> None:
    assert [broken.rule for broken in check(WORLD, plan, now=NOW)] == [Rule.SIZE_UNSOUND]


@pytest.mark.parametrize("plan", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_growth_without_quota_or_room_is_too_large(plan: Plan) -> None:
    assert [broken.rule for broken in check(WORLD, plan, now=NOW)] == [Rule.SIZE_TOO_LARGE]
