"""A function takes at most 15 decisions. complex.txt lists the functions that take more, and only shrinks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tests.checkout import ROOT

MOST = 15
LIST = Path(__file__).with_name("complex.txt")
_DECISIONS = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.comprehension)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def complexity(function: ast.AST) -> int:
    """The cyclomatic complexity, and that of functions within it. Each operand of `and` and `or`, each conditional
    expression and each part of a comprehension counts: ruff's C901 counts statements alone."""
    number = 1
    for node in ast.walk(function):
        number += isinstance(node, _DECISIONS)
        if isinstance(node, ast.BoolOp):
            number += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            number += len(node.ifs)
    return number


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, int]]:
    """The qualified name and the complexity of each function."""
    for node in ast.iter_child_nodes(tree):
        name = within
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            name = f"{within}.{node.name}" if within else node.name
        if isinstance(node, _FUNCTIONS):
            yield name, complexity(node)
        yield from functions(node, name)


def sources(root: Path) -> Iterator[Path]:
    return chain(root.glob("*.py"), root.glob("api/**/*.py"), root.glob("fleet/**/*.py"))


def complex_functions(root: Path) -> dict[str, int]:
    """The functions with more than MOST decisions, as `path::name`."""
    numbers: dict[str, int] = {}
    for path in sources(root):
        for name, number in functions(ast.parse(path.read_text())):
            if number > MOST:
                place = f"{path.relative_to(root).as_posix()}::{name}"
                numbers[place] = max(number, numbers.get(place, 0))  # a setter has the name of its property
    return numbers


def listed(text: str) -> dict[str, int]:
    """The functions of complex.txt."""
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {place: int(number) for place, number in lines}


def faults(numbers: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """The differences between the functions of the sources and those of the list, each with what to do."""
    wrong = []
    for place, number in sorted(numbers.items()):
        most = allowed.get(place, MOST)
        if number > most:
            wrong.append(f"{place} {number}: more than {most}, make it simpler")
        elif number < most:
            wrong.append(f"{place} {number}: simpler than the {most} of the list, write the new number there")
    wrong += [
        f"{place}: gone, or at most {MOST}: take its line out" for place in sorted(allowed) if place not in numbers
    ]
    return wrong


def test_a_function_that_is_more_complex_than_it_may_be_is_on_the_list_with_its_number() -> None:
    wrong = faults(complex_functions(ROOT), listed(LIST.read_text()))
    assert not wrong, "\n".join(wrong)


def test_the_list_is_sorted_and_names_each_function_once() -> None:
    places = [line.rsplit(" ", 1)[0] for line in LIST.read_text().splitlines() if not line.startswith("#")]
    assert places == sorted(set(places))


def test_the_list_only_shrinks() -> None:
    allowed = {"a.py::grown": 17, "a.py::less": 18, "a.py::gone": 16, "a.py::same": 20}
    numbers = {"a.py::grown": 18, "a.py::less": 16, "a.py::same": 20, "a.py::new": 16}
    assert faults(numbers, allowed) == [
        "a.py::grown 18: more than 17, make it simpler",
        "a.py::less 16: simpler than the 18 of the list, write the new number there",
        "a.py::new 16: more than 15, make it simpler",
        "a.py::gone: gone, or at most 15: take its line out",
    ]


def test_each_decision_counts_and_a_function_has_those_of_the_functions_in_it() -> None:
    text = """
class A:
    async def outer(self, items):
        assert items
        def inner(x):
            return 1 if x and (x > 1 or x < -1) else 0
        with open(items[0]):
            return [inner(i) for i in items if i]
        for i in items:
            while i:
                try: pass
                except ValueError: pass
"""
    assert dict(functions(ast.parse(text))) == {"A.outer": 9, "A.outer.inner": 4}
