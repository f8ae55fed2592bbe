"""The glossary names each term once and places that exist; each invariant that is cited by number is defined."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

from tests.checkout import ROOT
from tests.docs.glossary import rows

PATH = re.compile(r"`((?:fleet|api|docs|tests)/[^`]*)`")
# Terms that code and pages lean on everywhere: each has its row.
WORDS = (
    "hub",
    "member",
    "job",
    "component",
    "gang",
    "binding",
    "unit",
    "queue",
    "quota node",
    "leaf",
    "pool",
    "slot",
    "snapshot",
    "plan",
    "reason",
    "profile",
    "reservation",
    "service order",
    "backfill",
    "preemptor",
    "victim",
)


def test_every_term_appears_once() -> None:
    assert [term for term, times in Counter(row["term"] for row in rows()).items() if times > 1] == []


def test_every_word_that_pages_lean_on_has_its_row() -> None:
    assert set(WORDS) - {row["term"] for row in rows()} == set()


def test_every_meaning_is_one_sentence() -> None:
    meanings = [row["meaning"] for row in rows()]
    assert [meaning for meaning in meanings if not meaning.endswith(".") or ". " in meaning] == []


def test_every_place_of_a_term_exists() -> None:
    places = [path for row in rows() for path in PATH.findall(row["where"])]
    assert len(places) > 50
    assert [path for path in places if not (ROOT / path).exists()] == []


def test_every_invariant_that_is_cited_is_defined() -> None:
    defined = re.findall(r"^\| (I\d+) \|", (ROOT / "docs" / "invariants.md").read_text(), re.MULTILINE)
    cited = subprocess.run(
        ["git", "grep", "--untracked", "-hoEw", "I[1-9][0-9]?", "--", "*.py", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout.split()
    assert defined == [f"I{number}" for number in range(1, len(defined) + 1)]
    assert set(cited) - set(defined) == set()
