"""The short form of the fuzzer of the decision core (`make fuzz-core`)."""

from __future__ import annotations

from tests.core.decide.fuzz import Found, with_all_features, with_contention


def test_random_worlds_break_no_rule() -> None:
    found = Found()
    with_contention(found, range(40))
    with_all_features(found, 60, 0)
    assert found.broken == []
    assert found.counts["worlds"] == 100
    assert min(found.counts[what] for what in ("starts", "evictions", "gone")) > 0, "the worlds are about something"
