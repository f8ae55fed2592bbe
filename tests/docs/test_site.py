"""The pages as a site: each link works, each page is in the navigation, and no other address is asked for anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")


def build(root: Path, into: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", root / "mkdocs.yml", "--site-dir", into],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The sources of the site, to be changed."""
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = build(ROOT, tmp_path)
    assert built.returncode == 0, built.stderr
    foreign = {
        f"{page.relative_to(tmp_path)}: {found}"
        for page in tmp_path.rglob("*.html")
        for found in LOADED.findall(page.read_text())
    }
    assert foreign == set()
    assert (tmp_path / "how-to" / "write-a-policy.html").exists()


def test_a_link_to_the_source_becomes_the_name_of_the_file(tmp_path: Path, copied: Path) -> None:
    (copied / "docs" / "tutorial.md").write_text("# A page\n\n[The list](../api/engine/README.md#known) is long.\n")
    index = copied / "docs" / "README.md"
    index.write_text("# Fleet\n\n[Tutorial](tutorial.md)\n")
    built = build(copied, tmp_path / "site")
    assert built.returncode == 0, built.stderr
    assert (
        "The list (<code>api/engine/README.md</code> in the source) is long."
        in (tmp_path / "site" / "tutorial.html").read_text()
    )


def test_wrong_links_and_pages_that_no_list_has_stop_the_build(tmp_path: Path, copied: Path) -> None:
    index = copied / "docs" / "README.md"
    index.write_text(f"{index.read_text()}\n[gone](how-to/gone.md) and [gone](architecture.md#no-such-heading)\n")
    (copied / "docs" / "how-to" / "unlisted.md").write_text("# A page\n")
    built = build(copied, tmp_path / "site")
    assert built.returncode != 0
    warnings = re.sub(r"\s+", " ", built.stderr)
    for fault in ("'how-to/gone.md'", "no-such-heading", "how-to/unlisted.md"):
        assert fault in warnings
