"""The terminal session in README is one that the program prints today, and can be read in any scheme."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.checkout import ROOT
from tests.docs.shown import missing

PICTURE = ROOT / "docs" / "images" / "walkthrough.svg"
RECORD = "import pathlib, sys, docs.terminal as t; print(*t.recorded(pathlib.Path(sys.argv[1])), sep='\\n')"
SVG = "{http://www.w3.org/2000/svg}"


def lines() -> list[str]:
    return [text.text or "" for text in ElementTree.parse(PICTURE).getroot().iter(f"{SVG}text")]


@pytest.mark.slow  # tests/docs/test_pages_run.py runs the same commands, as the tutorial shows them
def test_the_picture_shows_what_is_printed_now(tmp_path: Path) -> None:
    recorded = subprocess.run(
        [sys.executable, "-c", RECORD, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert recorded.returncode == 0, recorded.stderr
    assert missing(tuple(lines()), recorded.stdout) == [], recorded.stdout
    assert len(lines()) == len([line for line in recorded.stdout.splitlines() if line])


def test_the_picture_is_small_and_follows_the_scheme_and_names_no_machine() -> None:
    text = PICTURE.read_text()
    assert len(text) < 60_000 and "prefers-color-scheme: dark" in text
    assert (
        re.findall(r"/(?:home|root|tmp|work|Users)/|https?://(?!127\.0\.0\.1:6440|www\.w3\.org/2000/svg)", text) == []
    )
    assert max(len(line) for line in lines()) <= 104
