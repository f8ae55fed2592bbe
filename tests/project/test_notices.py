"""The built console brings the licence of each package that it has code of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from fleet.console.files import FOLDER
from tests.checkout import ROOT, script

CONSOLE = ROOT / "console"
IMPORT = re.compile(r"(?:from|import)\s*\(?\s*\"([^.\"][^\"]*)\"")
GRANT = re.compile(r"Permission (is hereby granted|to use, copy, modify)|CC0|Creative Commons")


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return script("console/notices.py")


@pytest.fixture(scope="module")
def built(maker: ModuleType) -> str:
    return (FOLDER / str(maker.NAME)).read_text()


def test_the_built_console_has_the_notices_of_its_lock(maker: ModuleType, built: str) -> None:
    assert built == maker.notices()


def test_each_package_of_the_lock_has_its_version_and_the_text_of_its_licence(built: str) -> None:
    packages = json.loads((CONSOLE / "package-lock.json").read_text())["packages"]
    wanted = {
        f"{folder.rpartition('node_modules/')[2]} {about['version']}": about["license"].strip("()")
        for folder, about in packages.items()
        if folder and not about.get("dev")
    }
    sections = {name: (licence.strip("()"), text) for name, licence, text in titled(built)}
    assert wanted.keys() <= sections.keys()
    assert [name for name, licence in wanted.items() if sections[name][0] != licence] == []
    assert [name for name, (_, text) in sections.items() if not GRANT.search(text)] == []


def titled(notices: str) -> list[tuple[str, str, str]]:
    """Each section as its name with the version, its licence, and the text below."""
    sections = notices.split("=" * 80 + "\n")[1:]
    heads = [section.partition("\n") for section in sections]
    names = [head.partition(": ") for head, _, _ in heads]
    return [(name, licence, text) for (name, _, licence), (_, _, text) in zip(names, heads, strict=True)]


def test_each_package_that_the_sources_import_is_one_that_the_notices_name(built: str) -> None:
    named = {name.rpartition(" ")[0] for name, _, _ in titled(built)}
    imported = {
        "/".join(target.split("/")[: 2 if target.startswith("@") else 1])
        for source in (CONSOLE / "src").rglob("*.ts*")
        for target in IMPORT.findall(source.read_text())
    }
    assert {"react", "@mantine/core"} <= imported <= named


def test_a_package_without_a_licence_stops_the_build(maker: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "node_modules" / "odd"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"name": "odd", "version": "1.0.0", "license": "MIT"}')
    (tmp_path / "package-lock.json").write_text('{"packages": {"": {}, "node_modules/odd": {"version": "1.0.0"}}}')
    with pytest.raises(SystemExit, match="node_modules/odd has no text"):
        maker.notices(tmp_path)
    (folder / "LICENSE").write_text("Permission is hereby granted")
    assert "odd 1.0.0: MIT" in maker.notices(tmp_path)
