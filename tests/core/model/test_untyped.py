"""Values that nothing vouches for: text that only looks like a number is none."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.values.untyped import digits


@pytest.mark.parametrize(("value", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_a_text_of_digits_is_a_number(value: str, number: int) -> None:
    assert digits(value) == number


@pytest.mark.parametrize("value", ["", "²", "٣", "-1", "+1", " 1", "1.0", "1_0", "1" * 19, None, 1, True, ["1"]])
def test_everything_else_is_none(value: Any) -> None:
    assert digits(value) is None


def test_the_caller_says_how_many_digits_a_number_may_have() -> None:
    assert (digits("1234", 3), digits("1" * 20, 20)) == (None, int("1" * 20))
