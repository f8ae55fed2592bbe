"""A change of what users run brings a note, and a release collects the notes."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from fleet.values.release import NAME, ProgramRelease
from tests.checkout import ROOT, script

DAY = date(2026, 1, 2)


@pytest.fixture(scope="module")
def changelog() -> ModuleType:
    return script("docs/changelog.py")


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A branch of a project, without a change of its own."""
    for name in ("fleet/a.py", "docs/a.md", "changelog/README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\nWhat is new.\n")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first"), ("checkout", "-qb", "branch")):
        git(tmp_path, *arguments)
    return tmp_path


def add(project: Path, name: str, text: str = "Jobs start sooner.") -> None:
    (project / "changelog" / name).write_text(text + "\n")


def test_the_notes_of_this_project_can_be_read(changelog: ModuleType) -> None:
    assert changelog.flaws(ROOT) == []


@pytest.mark.parametrize("committed", [True, False])
def test_a_change_of_the_source_needs_a_note(
    changelog: ModuleType, project: Path, committed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "fleet" / "a.py").write_text("a = 1\n")
    if committed:
        git(project, "commit", "-qam", "second")
    assert changelog.main(["check"], project) == 1
    assert "fleet/a.py is changed, and changelog/ has no new note" in capsys.readouterr().err
    add(project, "a.none.md", "Only a comment is new.")
    assert changelog.main(["check"], project) == 0


def test_a_change_of_a_page_needs_no_note(changelog: ModuleType, project: Path) -> None:
    (project / "docs" / "a.md").write_text("# A\n")
    assert changelog.main(["check"], project) == 0


def test_a_change_on_the_main_branch_needs_a_note_until_it_is_committed(changelog: ModuleType, project: Path) -> None:
    git(project, "checkout", "-q", "main")
    (project / "fleet" / "b.py").write_text("b = 1\n")
    assert changelog.main(["check"], project) == 1
    git(project, "add", "-A")
    git(project, "commit", "-qm", "second")
    assert changelog.main(["check"], project) == 0


@pytest.mark.parametrize("depth", [("--depth", "1"), ()])
def test_a_clone_in_which_nothing_is_changed_passes(
    changelog: ModuleType, project: Path, tmp_path_factory: pytest.TempPathFactory, depth: tuple[str, ...]
) -> None:
    (project / "fleet" / "a.py").write_text("a = 1\n")
    add(project, "a.none.md", "Only a comment is new.")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "second")
    clone = tmp_path_factory.mktemp("clone") / "clone"
    git(project, "clone", "-q", *depth, f"file://{project}", str(clone))
    assert changelog.main(["check"], clone) == 0


def test_a_folder_without_history_passes(changelog: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "a.py").write_text("a = 1\n")
    assert changelog.main(["check"], tmp_path) == 0


@pytest.mark.parametrize(
    ("name", "text", "flaw"),
    [
        ("a.better.md", "Better.", "the name is not SUBJECT.KIND.md"),
        ("a.md", "Better.", "the name is not SUBJECT.KIND.md"),
        ("a.fixed.md", "", "one paragraph"),
        ("a.fixed.md", "One.\n\nTwo.", "one paragraph"),
        ("a.fixed.md", "no sentence", "one paragraph"),
        ("a.fixed.md", "x" * 400 + ".", "401 characters"),
    ],
)
def test_a_note_that_cannot_be_read_is_named_and_stops_a_release(
    changelog: ModuleType, project: Path, name: str, text: str, flaw: str
) -> None:
    add(project, name, text)
    (wrong,) = changelog.flaws(project)
    assert wrong.startswith(f"changelog/{name}: ") and flaw in wrong
    with pytest.raises(SystemExit, match="changelog/"):
        changelog.release(project, "1.2.0", DAY)
    assert (project / "changelog" / name).exists()


def test_a_release_moves_the_notes_to_the_top_by_kind(changelog: ModuleType, project: Path) -> None:
    add(project, "b.fixed.md", "A job that waits\nsays why.")
    add(project, "c.added.md")
    add(project, "d.none.md", "A comment.")
    changelog.release(project, "0.1.0", DAY)
    changelog.release(project, "0.2.0", DAY)
    assert (project / "CHANGELOG.md").read_text() == (
        "# Changes\n\nWhat is new.\n\n"
        "## 0.2.0 (2026-01-02)\n\nNothing that users notice.\n\n"
        "## 0.1.0 (2026-01-02)\n\n"
        "### Added\n\n- Jobs start sooner.\n\n### Fixed\n\n- A job that waits says why.\n"
    )
    assert [path.name for path in (project / "changelog").iterdir()] == ["README.md"]


def test_a_release_writes_its_number_for_those_without_its_tag(changelog: ModuleType, project: Path) -> None:
    changelog.release(project, "0.2.0", DAY)
    assert (project / "fleet" / NAME).read_text() == ProgramRelease("0.2.0", commit="").document


@pytest.mark.parametrize(
    ("version", "text"), [("0.1", "not of the form"), ("", "not of the form"), ("0.1.0", "already")]
)
def test_a_version_that_is_wrong_or_there_changes_nothing(
    changelog: ModuleType, project: Path, version: str, text: str
) -> None:
    changelog.release(project, "0.1.0", DAY)
    before = (project / "CHANGELOG.md").read_text()
    with pytest.raises(SystemExit, match=text):
        changelog.release(project, version, DAY)
    assert (project / "CHANGELOG.md").read_text() == before
