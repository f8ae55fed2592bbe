"""Which tests stay together on one worker, and what is started first.

Tests of one xdist_group stay together, and so do those of a module or package that share a fixture of it: a running hub
is started once. Groups, and tests of no group, are handed out by how long they took when durations.json was written,
the longest first: no long one begins when the other workers are done. `make durations` writes the file anew; what it
does not have counts as short.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from _pytest.nodeid import coerce_node_id

DURATIONS = Path(__file__).with_name("durations.json")
LEAST_S = 3.0  # what takes less is not kept


def group_of(item: pytest.Item) -> str:
    """The name that a test shares with those that run on its worker; "" for a test that runs anywhere."""
    mark = item.get_closest_marker("xdist_group")
    if mark is not None:
        return str(mark.args[0])
    if not isinstance(item, pytest.Function):
        return ""
    scopes = {definitions[-1].scope for definitions in item._fixtureinfo.name2fixturedefs.values() if definitions}
    where = item.path.parent if "package" in scopes else item.path if "module" in scopes else None
    return "" if where is None else where.relative_to(item.config.rootpath).as_posix()


def put_in_order(items: list[pytest.Item], seconds_of: dict[str, float]) -> None:
    """Name the group in the id of each test, as xdist reads it (3.8 writes it where pytest 9.2 no longer looks), and
    put the tests of the longest group first."""
    for item in items:
        group = group_of(item)
        if group:
            item._id = coerce_node_id(f"{item.nodeid}@{group}")
    items.sort(key=lambda item: -seconds_of.get(_unit_of(item.nodeid), 0.0))


def _unit_of(nodeid: str) -> str:
    """The group that the id of a test ends with, else the id: what is handed out in one piece."""
    _, at, group = nodeid.rpartition("@")
    return group if at and "]" not in group else nodeid


def stored() -> dict[str, float]:
    """Seconds by group, or by test of no group."""
    durations: dict[str, float] = json.loads(DURATIONS.read_text())
    return durations


class Durations:
    """Writes how long each group took, with what was set up and put away for it, once all have run."""

    def __init__(self) -> None:
        self._took: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[_unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        kept = {unit: round(took, 1) for unit, took in sorted(self._took.items()) if took >= LEAST_S}
        DURATIONS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
