"""Writes THIRD-PARTY-NOTICES.txt: the licence of each package that the built console has code of, with its text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "THIRD-PARTY-NOTICES.txt"
HELPERS = ("node_modules/rolldown", "node_modules/vite")  # build tools that write functions of their own into the pages
# Packages without a text of their licence, and one of the same author and licence that has it.
TEXT_OF = {"node_modules/react-remove-scroll-bar": "node_modules/react-remove-scroll"}
OTHERS = "# Licenses of bundled dependencies"  # in vite's text: of what vite itself is made of
HEAD = "The console of Fleet has code of the packages below. Each is under the licence that stands with it.\n"


def bundled(lock: Path) -> Iterator[str]:
    """The folder of each package that the console needs when it runs, and of the helpers."""
    packages = json.loads(lock.read_text())["packages"]
    yield from (folder for folder, about in packages.items() if folder and (not about.get("dev") or folder in HELPERS))


def notice(folder: str, root: Path) -> str:
    """The name, version, licence and its text. SystemExit for a package without one."""
    about = json.loads((root / folder / "package.json").read_text())
    text = "\n\n".join(licences(root / folder) or licences(root / TEXT_OF.get(folder, folder)))
    if not text or not about.get("license"):
        raise SystemExit(f"{folder} has no text of a licence: look for it, and name it in console/notices.py")
    return f"{'=' * 80}\n{about['name']} {about['version']}: {about['license']}\n\n{text}\n"


def licences(folder: Path) -> list[str]:
    found = sorted(path for path in folder.iterdir() if path.name.lower().startswith(("licen", "copying", "notice")))
    return [path.read_text().partition(OTHERS)[0].strip() for path in found]


def notices(root: Path = HERE) -> str:
    return "\n".join([HEAD, *(notice(folder, root) for folder in sorted(bundled(root / "package-lock.json")))])


if __name__ == "__main__":
    (Path(sys.argv[1]) / NAME).write_text(notices())
