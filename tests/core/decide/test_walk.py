"""The walk through `decide` names its steps and the files that they enter."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.checkout import ROOT
from tests.core.decide.walk import walk


def printed(seed: str) -> str:
    command = [sys.executable, "-m", "tests.core.decide.walk"]
    env = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_steps_of_a_decision_are_there_in_their_order() -> None:
    taken, plan = walk()
    begins = [next(iter(step.files)).split("/")[0] for step in taken.steps]
    assert begins[:3] == ["decide.py", "snapshot", "snapshot"] and begins[-2:] == ["decide.py", "check"]
    assert sum(step.calls for step in taken.steps) > len(taken.files) > len(taken.steps)
    assert 0 < taken.returns < taken.crossings
    assert plan.evictions and plan.claims, "the scenario has no work for each step"


def test_the_table_is_the_same_at_each_run() -> None:
    first = printed("1")
    assert first == printed("2")
    assert "decide.py" in first and "check/check.py" in first and "files, " in first.splitlines()[-1]
