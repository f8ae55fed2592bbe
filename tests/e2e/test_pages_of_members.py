"""The commands of the guides that join real clusters, run as their readers run them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.hub import Up
from tests.docs.reader import Reader
from tests.docs.worlds_of_members import ON_REAL_MEMBERS
from tests.e2e.hub import World

# It may be the first of its group, and then starts the real clusters.
pytestmark = [pytest.mark.xdist_group("e2e-real"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A hub without members."""
    running = Up(tmp_path_factory.mktemp("pages") / "hub")
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


@pytest.mark.parametrize("page", sorted(ON_REAL_MEMBERS))
def test_every_command_of_the_page_does_what_the_page_shows(real: World, empty: Up, tmp_path: Path, page: str) -> None:
    assert real.bed is not None
    world = ON_REAL_MEMBERS[page]
    hub = {"FLEET_DATA_DIR": str(empty.folder), "FLEET_KUBECONFIG": str(empty.folder / "kubeconfig")}
    reader = Reader(tmp_path, world, real.bed.members["cfa"].kubeconfig, **hub)
    try:
        differing = reader.follow(page, world)
    finally:
        reader.run(world.afterwards)
    assert differing == "", differing
