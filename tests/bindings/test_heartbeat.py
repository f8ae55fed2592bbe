"""Conclusions from the sign of life of the controllers."""

from __future__ import annotations

import pytest

from fleet.bindings.heartbeat import silence
from fleet.values.ports import Body
from fleet.values.times import rfc3339, rfc3339_micro

NOW = 1_700_000_000.0


def lease(renewed: float, acquired: float = -1000.0, looked: float | None = 0.0) -> Body:
    """Times in seconds from NOW."""
    report = "{}" if looked is None else f'{{"looked": "{rfc3339(NOW + looked)}"}}'
    return {
        "metadata": {"annotations": {"fleet.io/heartbeat": report}},
        "spec": {
            "holderIdentity": "host-1",
            "acquireTime": rfc3339_micro(NOW + acquired),
            "renewTime": rfc3339_micro(NOW + renewed),
        },
    }


@pytest.mark.parametrize(
    ("stored", "since", "why"),
    [
        pytest.param(lease(-5, looked=-20), None, "", id="it was renewed and the decider looked"),
        pytest.param(lease(-5, acquired=-30, looked=None), None, "", id="it leads since a moment ago"),
        pytest.param(None, None, "no controllers have led", id="nobody has ever led"),
        pytest.param(lease(-16), -16, "the last one was host-1", id="it is too old"),
        pytest.param(lease(-5, looked=-70), -70, "the decider of host-1", id="the decider hangs"),
        pytest.param(lease(-5, acquired=-80, looked=None), -80, "the decider", id="the decider never looked"),
        pytest.param({"metadata": {}, "spec": {"renewTime": 7}}, None, "no controllers", id="it cannot be read"),
    ],
)
def test_who_decides(stored: Body | None, since: float | None, why: str) -> None:
    found = silence(stored, NOW)
    assert (found is None) == (why == "")
    if found is not None:
        assert why in found.why
        assert (None if found.since is None else found.since - NOW) == since


def test_people_are_told_since_when() -> None:
    found = silence(lease(-120), NOW)
    assert found is not None and found.sentence(NOW) == (
        "nobody decides since 2023-11-14T22:11:20Z (2 min): no controllers process leads; the last one was host-1"
    )
