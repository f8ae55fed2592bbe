"""A real member with the controllers that a class of tests names in `operators`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testbed.bed import started_bed
from tests.testbed.member import RealMember


@pytest.fixture(scope="class")
def member(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMember]:
    with started_bed(tmp_path_factory.mktemp("bed"), ["cfa"], operators=request.cls.operators) as bed:
        yield bed.members["cfa"]
