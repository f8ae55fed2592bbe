"""A class is found by its name: a reader who meets `Place` need not ask which of six it is."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

import pytest

from tests.checkout import ROOT

# Names of the client and of documents are public, and say again what the hub's own say.
PUBLIC = ("fleet/client/*.py", "fleet/rest/*models.py")


# Words that end like a participle, and are nouns.
NOUNS = {
    "Binding",
    "Encoding",
    "Finding",
    "Gathering",
    "Grouping",
    "Happening",
    "Listing",
    "Mapping",
    "Packing",
    "Ranking",
    "Setting",
    "Standing",
    "String",
}
# Documents carry these names: a JSON schema, and the outcome of an estimate in `/fleet/v1`.
IN_DOCUMENTS = {"NotEstimated", "Said"}
PARTICIPLE = re.compile(
    "Begun|Bound|Broken|Built|Chosen|Done|Drawn|Found|Given|Gone|Got|Heard|Held|Hidden|Kept|Known|Left|Lost|Made|Meant"
    "|Met|Paid|Read|Said|Seen|Sent|Shown|Spent|Split|Stuck|Taken|Told|Torn|Understood|Won|Written|.*(?<!e)ed|.*ing"
)


@cache
def classes(house: str) -> dict[str, list[str]]:
    """The modules that define a public class, by its name."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / house).rglob("*.py")):
        if not any(path.relative_to(ROOT).match(pattern) for pattern in PUBLIC):
            for node in ast.parse(path.read_bytes()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(str(path.relative_to(ROOT)))
    assert len(modules) > 100, "the house is not where this test looks"
    return modules


def is_participle(name: str) -> bool:
    """Whether the last word of a class name says how something came about, and not what it is."""
    word = re.findall(r"[A-Z][a-z0-9]*", name)[-1]
    return word not in NOUNS and PARTICIPLE.fullmatch(word) is not None


@pytest.mark.parametrize("house", ["api", "fleet"])
def test_no_two_public_classes_of_a_house_have_one_name(house: str) -> None:
    assert {name: places for name, places in classes(house).items() if len(places) > 1} == {}


@pytest.mark.parametrize("house", ["api", "fleet"])
def test_a_public_class_is_called_by_a_noun(house: str) -> None:
    assert [name for name in classes(house) if is_participle(name) and name not in IN_DOCUMENTS] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Reserving", True),
        ("Bounded", True),
        ("DeciderEnded", True),
        ("NotGiven", True),
        ("BoundedValues", False),
        ("PolicyBinding", False),
        ("KeySet", False),
        ("Need", False),
        ("TLS", False),
    ],
)
def test_a_participle_is_known_by_its_last_word(name: str, expected: bool) -> None:
    assert is_participle(name) is expected
