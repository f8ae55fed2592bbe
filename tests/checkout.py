"""The checkout that the tests lie in: its root, its files and scripts, and copies for tests that change it."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def files(pattern: str = "*") -> list[Path]:
    """The files that are under version control, or new, and that the pattern of git matches."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


@functools.cache
def pages() -> tuple[Path, ...]:
    """Every Markdown file."""
    return tuple(files("*.md"))


def faults_of_pages(
    faults: Callable[[Path], Iterable[str]], some: Iterable[Path] | None = None
) -> dict[str, list[str]]:
    """What is wrong with `some` pages (default: with all), by the path of the page; those without a fault left out."""
    by_page = {relative(page): list(faults(page)) for page in (pages() if some is None else some)}
    return {page: wrong for page, wrong in by_page.items() if wrong}


def relative(path: Path) -> str:
    """The path from the root of the checkout."""
    return str(path.relative_to(ROOT))


def copy(into: Path, *, without: tuple[str, ...] = ()) -> Path:
    """Copy the files but for the paths that begin with one of `without`."""
    for file in files():
        name = file.relative_to(ROOT)
        if not str(name).startswith(without):
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, into / name)
    return into


@functools.cache
def script(path: str) -> ModuleType:
    """A script of the project that belongs to no package, by its path from the root."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    return module
