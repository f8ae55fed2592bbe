"""The notes of releases, from one small file for each change.

docs/changelog.py check             whether the files of changelog/ can be read, and this change brings one
docs/changelog.py release VERSION   moves them to the top of CHANGELOG.md, and writes the number into the sources
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from fleet.values.release import NAME as RELEASE
from fleet.values.release import ProgramRelease

TITLES = {
    "added": "Added",
    "changed": "Changed",
    "fixed": "Fixed",
    "removed": "Removed",
    "security": "Security",
    "none": "",  # a change that users do not notice
}
NAME = re.compile(r"(?P<subject>[a-z0-9][a-z0-9-]*)\.(?P<kind>[a-z]+)\.md")
NOTED = ("api/", "console/src/", "deploy/", "fleet/", "migrations/")  # a change below these has a note
NOTES = ("changelog/", "CHANGELOG.md")
MAIN = ("origin/HEAD", "origin/main", "main")
LONGEST = 400  # characters of a note
ABOVE_RELEASES = re.compile(r"^## ", re.MULTILINE)


def fragments(root: Path) -> list[Path]:
    return sorted(path for path in (root / "changelog").glob("*.md") if path.name != "README.md")


def flaws(root: Path) -> list[str]:
    """What is wrong with each file of changelog/."""
    wrong = []
    for path in fragments(root):
        name, text = NAME.fullmatch(path.name), path.read_text().strip()
        if name is None or name["kind"] not in TITLES:
            wrong.append(f"changelog/{path.name}: the name is not SUBJECT.KIND.md with a kind of {', '.join(TITLES)}")
        elif "\n\n" in text or not text.endswith("."):
            wrong.append(f"changelog/{path.name}: a note is one paragraph of whole sentences")
        elif len(text) > LONGEST:
            wrong.append(f"changelog/{path.name}: {len(text)} characters, and a note has at most {LONGEST}")
    return wrong


def unnoted(changed: Iterable[str]) -> list[str]:
    """The changed files that need a note, where the change brings none."""
    paths = sorted(changed)
    return [] if any(path.startswith(NOTES) for path in paths) else [path for path in paths if path.startswith(NOTED)]


def changed_since_main(root: Path) -> set[str]:
    """The files that differ from where this branch left the main one, new files included. Empty where no history says:
    in an archive, and in a clone that is not deep enough."""
    for main in MAIN:
        base = _git(root, "merge-base", "HEAD", main)
        if base:
            new = _git(root, "ls-files", "--others", "--exclude-standard")
            return {*_git(root, "diff", "--name-only", base[0], "--"), *new}
    return set()


def _git(root: Path, *arguments: str) -> list[str]:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def notes(texts: Iterable[tuple[str, str]]) -> str:
    """The sections of a release, from pairs of a kind and a note."""
    pairs = list(texts)
    sections = []
    for kind, title in TITLES.items():
        if items := [f"- {' '.join(text.split())}" for of, text in pairs if of == kind and title]:
            sections.append("\n".join([f"### {title}", "", *items]))
    return "\n\n".join(sections) or "Nothing that users notice."


def release(root: Path, version: str, day: date) -> None:
    """Move the notes to the top of CHANGELOG.md, and write the number for clones without its tag. SystemExit, and
    nothing is changed, for notes that cannot be read or a version that is there already."""
    page = root / "CHANGELOG.md"
    text = page.read_text()
    if wrong := flaws(root):
        raise SystemExit("\n".join(wrong))
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"VERSION is {version!r}, and not of the form 1.2.3")
    if f"## {version} " in text:
        raise SystemExit(f"CHANGELOG.md has {version} already")
    read = [(path.name.split(".")[1], path.read_text()) for path in fragments(root)]
    first = ABOVE_RELEASES.search(text)
    at = first.start() if first else len(text)
    page.write_text(f"{text[:at].rstrip()}\n\n## {version} ({day})\n\n{notes(read)}\n\n{text[at:]}".rstrip() + "\n")
    (root / "fleet" / RELEASE).write_text(ProgramRelease(version, commit="").document)
    for path in fragments(root):
        path.unlink()


def main(arguments: list[str], root: Path) -> int:
    match arguments:
        case ["check"]:
            wrong = flaws(root)
            if lacking := unnoted(changed_since_main(root)):
                wrong.append(f"{lacking[0]} is changed, and changelog/ has no new note: see changelog/README.md")
            print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
            return 1 if wrong else 0
        case ["release", version]:
            release(root, version, date.today())
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[1]))
