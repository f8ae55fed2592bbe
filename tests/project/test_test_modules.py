"""Test modules are imported by pytest alone: what several share lies in modules beside them."""

from __future__ import annotations

import ast

import pytest

from tests.checkout import ROOT, files


def imports(source: str) -> list[str]:
    """The test modules that a module imports, as it names them."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        if isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.name for alias in node.names]
    return [name for name in names if name.rpartition(".")[2].startswith("test_")]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from tests.cli.test_jobs import TREE", ["tests.cli.test_jobs"]),
        ("from .test_jobs import TREE", ["test_jobs"]),
        ("from tests.cli import test_jobs as jobs", ["test_jobs"]),
        ("import tests.cli.test_jobs", ["tests.cli.test_jobs"]),
        ("def late() -> None:\n    from tests.cli.test_jobs import TREE", ["tests.cli.test_jobs"]),
        ("from tests.testbed.bed import Bed\nfrom tests.cli.conftest import up\nfrom . import hub", []),
    ],
)
def test_every_form_of_an_import_is_seen(source: str, names: list[str]) -> None:
    assert imports(source) == names


def test_no_module_imports_a_test_module() -> None:
    modules = {str(path.relative_to(ROOT)): imports(path.read_text()) for path in files("tests/*.py")}
    assert {module: names for module, names in modules.items() if names} == {}
