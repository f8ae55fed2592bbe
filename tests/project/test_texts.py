"""Nothing reads a `why`: it is a text for people, and a code stands beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.checkout import ROOT

READING = {"startswith", "endswith", "split", "rsplit", "partition", "rpartition", "replace", "removeprefix", "find"}
OLDER = "fleet/core/notation/causetexts.py"  # reads the texts of records that had no codes


def is_why(node: ast.expr) -> bool:
    """Whether an expression is a `why`, however it is reached."""
    if isinstance(node, ast.Name):
        return node.id == "why"
    if isinstance(node, ast.Attribute):
        return node.attr == "why"
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "why"


def is_text(node: ast.expr) -> bool:
    """Whether an expression is a text that says something, or several of them."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(is_text, node.elts))
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and bool(node.value))


def readings(source: str) -> Iterator[int]:
    """The lines where a `why` is cut, searched, or compared with a text. Whether there is one may be asked."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in READING and is_why(node.value):
            yield node.lineno
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_why, sides)) and any(map(is_text, sides)):
                yield node.lineno


def test_no_why_is_read() -> None:
    files = sorted((ROOT / "fleet").rglob("*.py"))
    assert len(files) > 100, "the house is not where this test looks"
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in readings(path.read_text())]
    assert [where for where in found if not where.startswith(OLDER)] == []


def test_each_way_to_read_one_is_seen() -> None:
    for source in (
        "plan.certificate.why.startswith('optimal')",
        "'checker' in plan.certificate.why",
        "entry['why'] == 'late'",
        "why not in ('', 'greedy is as good')",
        "why.split(': ')",
    ):
        assert list(readings(source)) == [1], source
    for source in ("why == ''", "if why: pass", "why is None", "{'why': why}", "f'{one.why}: more'", "a.why == b.why"):
        assert list(readings(source)) == [], source
