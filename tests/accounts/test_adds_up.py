"""GPU hours of the history agree with what the pods in the members took: jobs of a trace, through the controllers."""

from __future__ import annotations

import pytest

from fleet.core.foresee.forward import Stop
from tests.accounts.replay import HOUR, counted, replayed, seen_in_members


def test_gpu_hours_of_the_history_are_those_of_the_pods(database_url: str) -> None:
    done, hub = replayed(days=0.04, count=10, longest_s=HOUR)
    assert done.stopped is Stop.DONE
    found = counted(database_url, hub)
    assert (found.ended, found.models) == (10, {"A100"})
    assert found.gpu_s == pytest.approx(seen_in_members(done), rel=1e-3)
