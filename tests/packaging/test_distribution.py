"""What `pip install` gets: a light distribution for who uses a hub, and the hub on top of it.

Both are built from the sdist and installed into environments that have nothing else.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement

from fleet.cli.main import COMMANDS
from tests.checkout import ROOT, script
from tests.cli.hub import Up, refusal
from tests.packaging.conftest import PAGES, run, site_of

DISTRIBUTIONS = script("distributions.py")
LIGHT, HUB = DISTRIBUTIONS.LIGHT, DISTRIBUTIONS.HUB
INSTALL = f"pip install {HUB}"
LIGHT_MOST_BYTES = 30_000_000
SERVER = {"kubernetes", "cryptography", "fastapi", "sqlalchemy", "ortools", "uvicorn", "numpy", "matplotlib", "aiohttp"}
# Modules of the light distribution import them where they are installed.
OF_EXTRAS = {"pandas", "matplotlib"}
MODULES = {"yaml": "pyyaml", "re2": "google-re2", "websocket": "websocket-client", "jsonpointer": "jsonpatch"}
WALKTHROUGH = ROOT / "examples" / "walkthrough"


def content(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def metadata(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (there,) = [one for one in archive.namelist() if one.endswith(f".dist-info/{name}")]
        return archive.read(there).decode()


def test_every_file_of_the_tree_is_in_exactly_one_of_the_wheels(wheels: tuple[Path, Path]) -> None:
    light, hub = ({name for name in content(wheel) if ".dist-info/" not in name} for wheel in wheels)
    assert light & hub == set()
    packed = {
        path.relative_to(ROOT).as_posix()
        for top in ("fleet", "api", "migrations")
        for path in (ROOT / top).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".md")
    }
    assert light | hub == {f"fleet/{name}" if name.startswith("migrations/") else name for name in packed}
    assert {name.split("/")[0] for name in light} == {"fleet"}
    assert {name.split("/")[0] for name in hub} == {"fleet", "api"}
    assert {f"{PAGES}/THIRD-PARTY-NOTICES.txt", f"{PAGES}/index.html"} <= hub


def test_every_module_is_where_its_layer_says(wheels: tuple[Path, Path]) -> None:
    for wheel, name in zip(wheels, (LIGHT, HUB), strict=True):
        modules = [one.removesuffix(".py").replace("/", ".") for one in content(wheel) if one.endswith(".py")]
        assert modules and {DISTRIBUTIONS.distribution_of(module) for module in modules} == {name}
        assert f"Name: {name}\n" in metadata(wheel, "METADATA")


def test_the_light_part_imports_nothing_that_it_does_not_bring(wheels: tuple[Path, Path]) -> None:
    """Of other packages; that it imports nothing of the hub follows from the layers, which `make lint` checks."""
    lines = [line for line in metadata(wheels[0], "METADATA").splitlines() if line.startswith("Requires-Dist: ")]
    asked = [Requirement(line.removeprefix("Requires-Dist: ")) for line in lines if "extra ==" not in line]
    graph = grimp.build_graph(
        "fleet", "api", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )
    own = [
        one for one in graph.modules if one.startswith("fleet") and DISTRIBUTIONS.distribution_of(one) == "fleet-queues"
    ]
    used = {there.partition(".")[0] for one in own for there in graph.find_modules_directly_imported_by(one)}
    others = used - set(sys.stdlib_module_names) - {"fleet"}
    assert {MODULES.get(name, name) for name in others - OF_EXTRAS} <= {one.name for one in asked}


def test_the_hub_needs_the_light_part_of_its_own_version(wheels: tuple[Path, Path]) -> None:
    light, hub = (wheel.name.split("-")[1] for wheel in wheels)
    assert light == hub
    assert f"Requires-Dist: fleet-queues=={light}\n" in metadata(wheels[1], "METADATA")
    assert "fleet = fleet.cli.main:main" in metadata(wheels[0], "entry_points.txt")
    assert "kubectl-amc = fleet.amc.main:main" in metadata(wheels[0], "entry_points.txt")


def test_both_wheels_bring_their_licence(wheels: tuple[Path, Path]) -> None:
    for wheel in wheels:
        fields = metadata(wheel, "METADATA")
        assert "\nLicense-Expression: Apache-2.0\n" in fields and "\nLicense-File: LICENSE\n" in fields
        assert metadata(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()


def test_the_light_environment_is_small_and_has_no_server(light: Path) -> None:
    site = site_of(light)
    there = {path.name for path in site.iterdir()}
    assert there.isdisjoint(SERVER | {"api"})
    size = sum(
        (Path(folder) / name).stat().st_size for folder, _, names in os.walk(site, followlinks=True) for name in names
    )
    print(f"{size / 1e6:.1f} MB: {', '.join(sorted(name for name in there if not name.endswith('.dist-info')))}")
    assert size <= LIGHT_MOST_BYTES


def test_a_command_of_the_hub_says_in_one_line_what_to_install(light: Path, tmp_path: Path) -> None:
    hub_commands = [name for name, place in COMMANDS.items() if place.startswith("hub.")]
    assert {"up", "demo", "api", "controllers", "decide", "replay", "backup", "restore", "sim"} <= set(hub_commands)
    listed = run(light, "fleet", "--help").stdout
    for name in hub_commands:
        assert f"\n  {name} " in listed
    for words in (["up", "--members", "2"], ["api", "--help"], ["decide", "snapshot.json"]):
        said = refusal(run(light, "fleet", *words, HOME=str(tmp_path)))
        assert said == f"fleet: fleet {words[0]} is part of the hub, which is not installed here: {INSTALL}"
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    assert f"$ fleet up\n{refusal(run(light, 'fleet', 'up'))}\n" in page
    said = refusal(run(light, "fleet", "what-if", str(tmp_path / "snapshot.json"), HOME=str(tmp_path)))
    assert said.endswith(f"is part of the hub, which is not installed here: {INSTALL}")
    said = refusal(run(light, "fleet", "report", "usage", "-o", "png", HOME=str(tmp_path)))
    assert said.endswith(f"which is not installed here: pip install '{LIGHT}[plots]'")
    wrong = run(light, "fleet", "nonsense")
    assert wrong.returncode == 2 and "No such command 'nonsense'" in wrong.stderr


@pytest.mark.timeout(300)
def test_the_walkthrough_runs_with_a_hub_and_a_command_line_from_the_wheels(
    light: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.cli.hub.BIN", whole / "bin")
    monkeypatch.chdir(tmp_path)
    up = Up(tmp_path / "hub", "--members", "1")
    try:
        where = {"FLEET_DATA_DIR": str(up.folder), "KUBECONFIG": str(up.folder / "kubeconfig")}

        def fleet(*words: str, program: str = "fleet") -> str:
            done = run(light, program, *words, **where)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            return done.stdout

        for name in ("quota-tree.yaml", "policy-gang-queue.yaml", "pytorchjob.yaml"):
            fleet("submit", str(WALKTHROUGH / name))
        fleet("wait", "pytorch-test", "--for", "started")
        assert "pytorch-test" in fleet("jobs")
        fleet("submit", str(WALKTHROUGH / "pytorchjob-second.yaml"))
        assert "Reason:" in fleet("explain", "pytorch-second")
        assert "pytorch-test" in fleet("get", "pods", "-M", program="kubectl-amc")
        change = fleet("what-if", "--set", "root/child-2.max.kube-queue/max-jobs=2")
        assert "pytorch-second" in change
        said = refusal(run(light, "fleet", "what-if", "--drain", "cfa", **where))
        assert said == f"fleet: --drain: edits of members and of the whole tree are worked out here: {INSTALL}"
        page = up.hub.client.get("/console/", accept="text/html")
        assert page.status == 200 and "<script" in page.text
    finally:
        assert up.stop() == 0, up.errors.read_text()


def test_the_client_loads_none_of_the_heavy_parts(light: Path) -> None:
    heavy = {*SERVER, "pandas", "httpx", "typer", "rich", "pydantic"}
    code = f"import sys, fleet.client; print(*sorted({heavy!r} & sys.modules.keys()))"
    done = run(light, "python", "-c", code)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
