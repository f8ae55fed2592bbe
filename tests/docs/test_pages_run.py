"""The commands of the guides, run as their readers run them, on a real hub with three simulated members.

The output that a page shows is compared without times, ages, addresses and other names that a hub makes. Commands that
are not run stand with their reasons in `tests/docs/not_run.py`, so that none is left out in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import ROOT, pages
from tests.cli.hub import Up
from tests.docs.not_run import ANOTHER_RUN, BY_CHANCE, NOT_RUN
from tests.docs.page_worlds import WORLDS
from tests.docs.reader import Reader, asked, named_by, shown
from tests.docs.shown import commands, missing
from tests.docs.world import HOW_TO
from tests.docs.worlds_of_members import ON_REAL_MEMBERS
from tests.slow import repeated

# Pages that take a third of a minute and more.
LONG = {
    "find-out-why-a-job-waits.md",
    "give-people-access.md",
    "hold-hurry-or-stop-a-job.md",
    "move-and-fail-over.md",
}
# Objects that pages make and that others would meet.
SHARED = "pytorchjobs,jobs,propagationpolicies,clusterpropagationpolicies,clusteroverridepolicies,elasticquotatrees"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One hub for all pages, with an audit log. A job may be evicted for others two seconds after its start."""
    folder = tmp_path_factory.mktemp("pages")
    audit = ("--audit-policy-file", str(HOW_TO / "audit-policy.yaml"), "--audit-log-path", str(folder / "audit.log"))
    running = Up(folder / "hub", "--members", "3", "--protection-seconds", "2", *audit)
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


@pytest.mark.parametrize("page", repeated(sorted(WORLDS), short=WORLDS.keys() - LONG))
def test_every_command_of_the_page_does_what_the_page_shows(up: Up, tmp_path: Path, page: str) -> None:
    world = WORLDS[page]
    reader = Reader(tmp_path, world, up.folder / "kubeconfig", FLEET_DATA_DIR=str(up.folder))
    try:
        differing = reader.follow(page, world)
    finally:
        left = reader.run(f"{world.afterwards}\nkubectl delete {SHARED} --all --all-namespaces --timeout=150s")
    assert asked(page) != [] and differing == "", differing
    assert left.returncode == 0, left.stdout


def test_a_line_that_a_command_does_not_print_is_found() -> None:
    said = "NAME   AGE\none    3m2s\ntwo    1d\n"
    assert missing(("NAME AGE", "one    28m", "…", "two 5s"), said) == []
    assert missing(("two 5s", "one 28m"), said) == ["one 28m"]
    assert missing(("one 28m Running",), said) == ["one 28m Running"]
    assert missing(("o… 28m", "two …"), said) == []


def test_here_documents_and_long_lines_belong_to_their_command() -> None:
    page = "# A\n```\n$ a - <<EOF\nb\nEOF\nc\n$ d \\\n  e\n```\n## B\n```\nf \\\n  g  # why\nh\n```\n"
    assert [(one.section, one.line, one.output) for one in commands(page)] == [
        ("A", "a - <<EOF\nb\nEOF", ("c",)),
        ("A", "d \\\n  e", None),
        ("B", "f \\\n  g", None),
        ("B", "h", None),
    ]


def test_every_page_with_commands_is_run_or_named_with_its_reason() -> None:
    found = {os.path.relpath(page, HOW_TO): list(commands(page.read_text())) for page in pages()}
    guides = [page for page, them in found.items() if them and "/" not in page]
    with_output = [page for page, them in found.items() if any(one.output for one in them)]
    run = [WORLDS.keys(), ON_REAL_MEMBERS.keys(), ANOTHER_RUN.keys()]
    assert sorted(page for part in run for page in part) == sorted({*guides, *with_output})
    assert [where for where in ANOTHER_RUN.values() if not (ROOT / where).exists()] == []


def test_every_command_that_is_not_run_is_still_on_its_page() -> None:
    run = WORLDS.keys() | ON_REAL_MEMBERS.keys() | ANOTHER_RUN.keys()
    assert run >= NOT_RUN.keys()
    gone = [
        (page, pattern)
        for page, patterns in NOT_RUN.items()
        for pattern in patterns
        if not any(named_by(pattern, command) for command in shown(page))
    ]
    lines = {command.line for page in run for command in shown(page)}
    assert (gone, BY_CHANCE - lines) == ([], set())
