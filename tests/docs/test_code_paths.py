"""The pages about the source name files, folders, functions and words that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.checkout import DOCS, ROOT, faults_of_pages, pages, relative
from tests.docs.glossary import rows
from tests.scenarios import drive

READMES = [page for page in pages() if page.name == "README.md"]
READS = DOCS / "how-the-code-reads.md"
NAMED = re.compile(r"`([A-Za-z_][\w.]*)`(?: and `([A-Za-z_]\w*)`)? in `([\w/]+\.py)`")
PATH = re.compile(r"`((?:api|fleet|tests|docs|migrations|deploy|hub|console)/[\w./*-]*)`")
FIRST_CELL = re.compile(r"^\| ((?:`[^`|]+`(?:, )?)+)", re.MULTILINE)
FILE = re.compile(r"`([\w./*-]+\.(?:py|yaml|txt|go|json|md)|[\w./-]+/)`")
# Not of the tree: paths of HTTP, what is made later, and folders that a decision says are gone.
ELSEWHERE = ("fleet/v1", "fleet/migrations", "tests/upgrade/recorded/9.8.7.tar.gz")


def defined(path: str) -> set[str]:
    """The functions and classes of a module, and the methods of its classes as Class.method."""

    def names(body: list[ast.stmt], before: str = "") -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield before + node.name
                if isinstance(node, ast.ClassDef):
                    yield from names(node.body, f"{node.name}.")

    return set(names(ast.parse((ROOT / path).read_text()).body))


def there(name: str, *folders: Path) -> bool:
    return any(next(folder.glob(name.rstrip("/")), None) is not None for folder in folders)


def test_every_function_that_a_reader_is_sent_to_is_in_its_file() -> None:
    named = [(name, path) for first, second, path in NAMED.findall(READS.read_text()) for name in (first, second)]
    assert len(named) > 60
    assert [f"{name} in {path}" for name, path in named if name and name not in defined(path)] == []


def test_each_step_of_a_way_names_one_function_to_begin_with() -> None:
    steps = re.findall(r"^\d+\. \*\*.+$", READS.read_text(), re.MULTILINE)
    assert len(steps) > 20
    assert [step for step in steps if not re.search(r"(Begin with|in order\*\*:) `\w[\w.]*` in `", step)] == []


def test_every_mechanism_has_a_story() -> None:
    table = READS.read_text().partition("## The mechanisms")[2].partition("\n## ")[0]
    stories = re.findall(r"^\| [^|`]+ \| `[\w/.]+` \| ([^|]+) \|$", table, re.MULTILINE)
    scenarios = {scenario["name"] for scenario in drive.scenarios()}
    assert len(stories) > 30
    assert [story for story in stories if story not in scenarios and not NAMED.fullmatch(story)] == []


def test_every_word_of_the_files_has_its_row_in_the_glossary() -> None:
    listed = re.findall(r"^- [A-Z][\w ]+: (.+)\.$", READS.read_text().partition("## Words")[2], re.MULTILINE)
    words = {word for line in listed for word in line.split(", ")}
    assert len(words) > 20
    assert words - {row["term"] for row in rows()} == set()


def test_every_path_in_code_marks_exists() -> None:
    def missing(page: Path) -> Iterator[str]:
        for name in PATH.findall(page.read_text()):
            if "NAME" not in name and name not in ELSEWHERE and not there(name, ROOT, page.parent):
                yield name

    assert faults_of_pages(missing) == {}


def test_every_file_in_the_table_of_a_package_exists() -> None:
    def missing(page: Path) -> Iterator[str]:
        for cell in FIRST_CELL.findall(page.read_text()):
            yield from (name for name in FILE.findall(cell) if not there(name, page.parent, ROOT))

    assert faults_of_pages(missing, READMES) == {}


def test_a_package_names_each_of_its_files() -> None:
    def unnamed(page: Path) -> Iterator[str]:
        named = re.findall(r"`([\w./*-]+\.py)`", page.read_text())
        files = [path for path in page.parent.glob("*.py") if not path.name.startswith("__")]
        yield from (path.name for path in files if not any(path.match(name) for name in named))

    assert faults_of_pages(unnamed, [page for page in READMES if relative(page).startswith(("api/", "fleet/"))]) == {}
