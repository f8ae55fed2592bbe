"""The files and folders that pages name in code marks exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, pages, relative

PATH = re.compile(r"`((?:api|fleet|tests|docs|migrations|deploy|hub|console)/[\w./*-]*)`")
FIRST_CELL = re.compile(r"^\| ((?:`[^`|]+`(?:, )?)+)", re.MULTILINE)
FILE = re.compile(r"`([\w./*-]+\.(?:py|yaml|txt|go|json|md)|[\w./-]+/)`")
# Not of the tree: paths of HTTP, what is made later, and folders that a decision says are gone.
ELSEWHERE = ("fleet/v1", "fleet/migrations", "tests/upgrade/recorded/9.8.7.tar.gz")


def there(name: str, *folders: Path) -> bool:
    return any(next(folder.glob(name.rstrip("/")), None) is not None for folder in folders)


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_every_path_in_code_marks_exists(page: Path) -> None:
    names = [name for name in PATH.findall(page.read_text()) if "NAME" not in name and name not in ELSEWHERE]
    assert [name for name in names if not there(name, ROOT, page.parent)] == []


@pytest.mark.parametrize("page", [page for page in pages() if page.name == "README.md"], ids=relative)
def test_every_file_in_the_table_of_a_package_exists(page: Path) -> None:
    names = [name for cell in FIRST_CELL.findall(page.read_text()) for name in FILE.findall(cell)]
    assert [name for name in names if not there(name, page.parent, ROOT)] == []
