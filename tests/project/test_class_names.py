"""A class is found by its name: a reader who meets `Place` need not ask which of six it is."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.checkout import ROOT

# Names of the client and of documents are public, and say again what the hub's own say.
PUBLIC = ("fleet/client/*.py", "fleet/rest/*models.py")


@pytest.mark.parametrize("house", ["api", "fleet"])
def test_no_two_public_classes_of_a_house_have_one_name(house: str) -> None:
    modules = defaultdict(list)
    for path in sorted((ROOT / house).rglob("*.py")):
        if not any(path.relative_to(ROOT).match(pattern) for pattern in PUBLIC):
            for node in ast.parse(path.read_bytes()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(str(path.relative_to(ROOT)))
    assert len(modules) > 100, "the house is not where this test looks"
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}
