"""The version of this program and the commit that it was made of: one number for all that says one.

A checkout asks git: the tag `vX.Y.Z` of its commit, or `X.Y.(Z+1).devN+gCOMMIT` where that tag is N commits back.
Without a tag (a shallow clone, no release yet) the number of `release.json` counts, which a release writes before it is
tagged; so it does without git. A build writes a `release.json` with number and commit into the wheel and the sdist.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

NAME = "release.json"
WITHIN_S = 10.0
_TAGGED = re.compile(r"v(\d+\.\d+\.)(\d+)-(\d+)-g([0-9a-f]+)")


class ProgramRelease(NamedTuple):
    version: str
    commit: str  # "" where nobody knows

    def __str__(self) -> str:
        return self.version if self.commit in self.version else f"{self.version} (commit {self.commit})"

    @property
    def document(self) -> str:
        """The content of `release.json`."""
        return json.dumps(self._asdict()) + "\n"


@functools.cache
def running() -> ProgramRelease:
    """The release of this process, as it was when somebody first asked."""
    return of(Path(__file__).resolve().parent.parent)


def of(package: Path) -> ProgramRelease:
    """The release of this directory `fleet`: of an installed package, or of one in a checkout."""
    written = ProgramRelease(**json.loads((package / NAME).read_text()))
    if written.commit or not (package.parent / ".git").exists():
        return written
    return described(_git(package), written)


def described(answer: str, written: ProgramRelease) -> ProgramRelease:
    """The release by the answer of `git describe --always --long`, which is empty where git gave none."""
    match = _TAGGED.fullmatch(answer)
    if match is not None:
        line, patch, since, commit = match.groups()
        after = "" if since == "0" else f".dev{since}+g{commit}"
        return ProgramRelease(f"{line}{int(patch) + (since != '0')}{after}", commit)
    if re.fullmatch(r"[0-9a-f]+", answer):
        return ProgramRelease(f"{written.version}+g{answer}", answer)
    return written


def _git(package: Path) -> str:
    # A hub may run as another user than the owner of the checkout, which git would else refuse to read. A hook of git
    # sets variables that name another repository.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "safe.directory=*", "describe", "--tags", "--always", "--long", "--abbrev=12"]
    try:
        done = subprocess.run(
            [*command, "--match", "v[0-9]*"], cwd=package, env=clean, capture_output=True, text=True, timeout=WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
