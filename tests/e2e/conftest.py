"""One hub with three members for each kind of member: simulated ones, and real ones from the test bed."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hub import BIN, Hub, Kubectl, World
from tests.e2e.manifests import leaf, quota_tree
from tests.testbed.bed import started_bed

MEMBERS = ("cfa", "cfb", "cfc")
_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    hub = Hub(tmp_path_factory.mktemp("simulated") / "hub", "--members", str(len(MEMBERS)))
    hub.start()
    try:
        yield World("simulated", hub, Kubectl(hub.kubeconfig), MEMBERS)
    finally:
        assert hub.stop() == 0, hub.log()


@pytest.fixture(scope="package")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("real")
    with started_bed(folder / "bed", MEMBERS) as bed:
        hub = Hub(folder / "hub")
        hub.start()
        try:
            for name, member in bed.members.items():
                join(hub, name, member.kubeconfig)
            yield World("real", hub, Kubectl(hub.kubeconfig), MEMBERS, bed)
        finally:
            assert hub.stop() == 0, hub.log()


def join(hub: Hub, name: str, kubeconfig: Path) -> None:
    command = [str(BIN / "fleet"), "join", name, "--kubeconfig", str(kubeconfig), "--data-dir", str(hub.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{hub.log()}"


REAL = pytest.param("real", id="real", marks=pytest.mark.xdist_group("e2e-real"))
SIMULATED = pytest.param("simulated", id="simulated", marks=pytest.mark.xdist_group("e2e-simulated"))


# That simulated members answer as real ones do is shown by the contract suite of tests/members, and the life of each
# kind of job in them by tests/simulate/test_lives.py: `make test` runs the walk-through on both, the rest on real ones.
@pytest.fixture(params=[REAL, pytest.param("simulated", id="simulated", marks=[*SIMULATED.marks, pytest.mark.slow])])
def world(request: pytest.FixtureRequest) -> World:
    chosen: World = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def team(world: World) -> Iterator[Callable[..., str]]:
    """`team(**limits)` makes a namespace of its own, hung on a leaf of its own with these limits, and returns its name.
    On the way out the namespace goes with everything in it, and nothing of it may be left in a member."""
    made: list[str] = []
    leaves: list[dict[str, Any]] = []

    def make(**limits: Any) -> str:
        name = f"team-{next(_numbers)}"
        world.kubectl.run("create", "namespace", name)
        made.append(name)
        leaves.append(leaf(name, name, **limits))
        world.kubectl.apply(quota_tree(*leaves))
        return name

    yield make
    for name in made:
        world.kubectl.run("delete", "pytorchjob", "--all", "-n", name, timeout_s=240)
        world.until(f"no job of {name} in a member", lambda name=name: not world.jobs_in_members(name))
        world.until(f"no pod of {name} in a member", lambda name=name: not world.pods_in_members(name))
        world.kubectl.run("delete", "namespace", name, timeout_s=240)
    world.kubectl.run("delete", "elasticquotatree", "--all", "-n", "kube-system")
