"""The README of the planner leads from a reason to the step of a decision that it comes from, and to the source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from fleet.core.model.reason import Code
from tests.checkout import ROOT

PLACEMENT = ROOT / "fleet/core/placement"
DECIDE = ROOT / "fleet/core/decide.py"
LIMITS = ROOT / "fleet/core/quota/limits.py"
ROW = re.compile(r"^\| (\d) `(\w+)` \| (.+) \| `(\w+)` in `([\w/.]+)` \| `(\w+)` in `([\w/.]+)` \|$", re.MULTILINE)
CODE = re.compile(r"`([A-Z]\w+)`")
STEP = re.compile(r"(\w+)\(.*\)  # (\d): ")
ROWS = ROW.findall((PLACEMENT / "README.md").read_text())


def path_of(file: str) -> Path:
    return ROOT / file if file.startswith("fleet/") else PLACEMENT / file


def made_in(path: Path) -> set[str]:
    """The codes that a module names."""
    names = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))
    return {Code[node.attr].value for node in names if isinstance(node.value, ast.Name) and node.value.id == "Code"}


def defined(path: Path) -> set[str]:
    """The functions and classes of a module."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}


def test_every_reason_that_the_planner_makes_has_its_step_in_the_table() -> None:
    made = set[str]().union(*(made_in(path) for path in (*PLACEMENT.rglob("*.py"), DECIDE, LIMITS)))
    assert len(made) > 20
    assert {code for row in ROWS for code in CODE.findall(row[2])} == made


def test_a_reason_is_told_in_the_file_that_the_table_names() -> None:
    assert [
        f"{code} in {row[6]}" for row in ROWS for code in CODE.findall(row[2]) if code not in made_in(path_of(row[6]))
    ] == []


def test_the_steps_and_the_names_of_the_table_are_those_of_the_source() -> None:
    steps = {(number, name) for name, number in STEP.findall(DECIDE.read_text())}
    assert {row[:2] for row in ROWS} <= steps
    sources = [(name, file) for row in ROWS for name, file in (row[3:5], row[5:7])]
    assert [f"{name} in {file}" for name, file in sources if name not in defined(path_of(file))] == []
