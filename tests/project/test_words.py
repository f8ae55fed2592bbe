"""A name says what its value is: no bare participle or adverb (`found`, `told`, `there`) outlives five lines, nor is it
what a function that returns something is called."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.checkout import ROOT

# Words that say how a value came about or where it is, and not what it is.
WORDS = {
    "asked",
    "found",
    "given",
    "gone",
    "held",
    "here",
    "kept",
    "known",
    "left",
    "made",
    "mine",
    "named",
    "one",
    "others",
    "ours",
    "said",
    "seen",
    "sent",
    "shown",
    "taken",
    "theirs",
    "there",
    "told",
    "wanted",
}
LINES = 5
# Fields that readers outside of Fleet know by their names, by file.
PUBLIC = {
    "fleet/bindings/failures.py": {"others"},
    "fleet/client/hubvalues.py": {"others"},
    "fleet/core/foresee/edits.py": {"held"},
    "fleet/core/model/plan.py": {"said"},
    "fleet/core/model/unit.py": {"held"},
    "fleet/core/notation/versionone.py": {"said"},
    "fleet/notify/happening.py": {"told"},
    "fleet/rest/decisionmodels.py": {"named"},
    "fleet/rest/historymodels.py": {"left"},
    "fleet/rest/hubmodels.py": {"wanted"},
    "fleet/rest/membermodels.py": {"left"},
}

# Such a word is the name of a function only where it tells something (None) or says whether (bool). Other participles
# may be: `quoted(text)` is the text, quoted.
OF_FUNCTIONS = WORDS | {"answered", "chosen", "meant", "refused"}

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Hit(NamedTuple):
    line: int
    word: str
    distance: str


@dataclass(frozen=True)
class Scope:
    """What a module, a class, a function or a comprehension binds: the first and the last line of each name."""

    node: ast.AST
    parent: Scope | None = None
    first: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    uses: list[tuple[str, int]] = field(default_factory=list)
    borrowed: set[str] = field(default_factory=set)

    def bind(self, name: str, line: int) -> None:
        if name not in self.borrowed:
            self.first.setdefault(name, line)
        self.uses.append((name, line))

    def owner(self, name: str) -> Scope | None:
        """The scope, this or one around it, that binds the name which is meant here."""
        scope: Scope | None = self
        while scope is not None and (name not in scope.first or scope.is_class_around(self)):
            scope = scope.parent
        return scope

    def is_class_around(self, inner: Scope) -> bool:
        return self is not inner and isinstance(self.node, ast.ClassDef)


class Reader(ast.NodeVisitor):
    """Collects the scopes of a module, and the attributes that it sets."""

    def __init__(self, tree: ast.Module) -> None:
        self.scope = Scope(tree)
        self.scopes = [self.scope]
        self.attributes: list[Hit] = []
        self.generic_visit(tree)
        for scope in self.scopes:
            for name, line in scope.uses:
                if (owner := scope.owner(name)) is not None:
                    owner.last[name] = max(owner.last.get(name, line), line)

    def enter(self, node: ast.AST, line: int, parts: Iterable[ast.AST], parameters: Iterable[str] = ()) -> None:
        """Read the parts in a scope of their own, whose parameters count from the given line."""
        self.scope = Scope(node, self.scope)
        self.scopes.append(self.scope)
        for parameter in parameters:
            self.scope.bind(parameter, line)
        for part in parts:
            self.visit(part)
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        defaults = [value for value in (*node.args.defaults, *node.args.kw_defaults) if value is not None]
        for part in (*defaults, *getattr(node, "decorator_list", ())):
            self.visit(part)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.enter(node, node.lineno, body, [each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)])

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.bases, *node.keywords, *node.decorator_list):
            self.visit(part)
        self.enter(node, node.lineno, node.body)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.visit(node.generators[0].iter)
        names = [each.id for part in node.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)]
        conditions = [each for part in node.generators for each in part.ifs]
        self.enter(node, node.lineno, [*(part.iter for part in node.generators[1:]), *conditions, *values], names)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.scope.uses.append((node.id, node.lineno))
        else:
            self.scope.bind(node.id, node.lineno)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        scope = self.scope
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        scope.bind(node.target.id, node.lineno)
        self.visit(node.value)

    def visit_Nonlocal(self, node: ast.Nonlocal | ast.Global) -> None:
        self.scope.borrowed.update(node.names)

    visit_Global = visit_Nonlocal

    def visit_ExceptHandler(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> None:
        if node.name is not None:
            self.scope.bind(node.name, node.lineno)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_ExceptHandler

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store):
            self.attributes.append(Hit(node.lineno, node.attr, "attribute"))
        self.generic_visit(node)


def participles(names: Iterable[str]) -> set[str]:
    """The words that are no names; `left` is one where `right` is beside it."""
    words = set(names)
    return words & WORDS - ({"left"} if "right" in words else set())


def hits(source: str) -> list[Hit]:
    """Each name of the text that is one of WORDS and lives too long: its line, and how many lines it lives.

    A local name counts from its first assignment to its last use, a parameter from its `def`. A name of a module,
    a field of a class and an attribute live as long as the program, so that they always count.
    """
    reader = Reader(ast.parse(source))
    words = participles(hit.word for hit in reader.attributes)
    rows = [hit for hit in reader.attributes if hit.word in words]
    for scope in reader.scopes:
        for word in participles(scope.first):
            line, distance = scope.first[word], scope.last[word] - scope.first[word]
            if isinstance(scope.node, ast.ClassDef | ast.Module):
                rows.append(Hit(line, word, "field" if isinstance(scope.node, ast.ClassDef) else "module"))
            elif distance > LINES:
                rows.append(Hit(line, word, str(distance)))
    return sorted(rows)


def functions(source: str) -> list[Hit]:
    """The public functions of the text that are called by one of OF_FUNCTIONS though they return something."""
    body = ast.parse(source).body
    classes = (node.body for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))
    rows = []
    for node in chain(body, *classes):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in OF_FUNCTIONS:
            returned = ast.unparse(node.returns) if node.returns is not None else "nothing"
            if returned not in ("None", "bool"):
                rows.append(Hit(node.lineno, node.name, returned))
    return rows


def hits_of(path: Path) -> list[Hit]:
    """The hits in a file of this project, without the fields that are public."""
    public = PUBLIC.get(str(path.relative_to(ROOT)), set())
    return [hit for hit in hits(path.read_text()) if hit.distance != "field" or hit.word not in public]


@pytest.mark.parametrize("house", ["api", "fleet"])
def test_names_say_what_their_values_are(house: str) -> None:
    files = sorted((ROOT / house).rglob("*.py"))
    assert len(files) > 100, "the house is not where this test looks"
    assert [f"{path.relative_to(ROOT)}:{hit.line} {hit.word}" for path in files for hit in hits_of(path)] == []


@pytest.mark.parametrize("house", ["api", "fleet"])
def test_a_function_is_called_by_what_it_returns_or_does(house: str) -> None:
    files = [path for path in sorted((ROOT / house).rglob("*.py")) if ROOT / "fleet" / "client" not in path.parents]
    assert [f"{p.relative_to(ROOT)}:{hit.line} {hit.word}" for p in files for hit in functions(p.read_text())] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_field_is_one_that_its_file_has(name: str) -> None:
    fields = {hit.word for hit in hits((ROOT / name).read_text()) if hit.distance == "field"}
    assert PUBLIC[name] <= fields


LONG = "\n" * LINES


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (f"def f():\n    found = g(){LONG}\n    return found", {"found": "6"}),
        (f"def f(told):{LONG}\n    return told", {"told": "6"}),
        (f"def f(*, told=0):{LONG}\n    return told", {"told": "6"}),
        (f"async def f():\n    async for one in g(): pass{LONG}\n    return one", {"one": "6"}),
        (f"def f():\n    with g() as held: pass{LONG}\n    return held", {"held": "6"}),
        (f"def f():\n    if (seen := g()): pass{LONG}\n    return seen", {"seen": "6"}),
        (f"def f():\n    a, (left, *b) = g(){LONG}\n    return left", {"left": "6"}),
        (f"def f():\n    given = 1{LONG}\n    return lambda: given", {"given": "6"}),
        (f"def f():\n    given = 1{LONG}\n    return f'{{given}}'", {"given": "6"}),
        (f"def f():\n    given = 1\n    def h():\n        nonlocal given\n        given = 2{LONG}", {}),
        (f"def f():\n    found = g()\n    found.append(1){LONG}\n    return 0", {}),
        (f"def f():\n    found = g(){LONG[1:]}\n    return found", {}),
        (f"def f():\n    g([one for one in h()]){LONG}\n    return [one for one in h()]", {}),
        (f"def f():\n    def h(one):\n        return one{LONG}\n    return lambda one: one", {}),
        (f"def f():\n    g(found=1){LONG}\n    return g().found", {}),
        ("def f(self):\n    self.found = 1", {"found": "attribute"}),
        ("class A:\n    found: int", {"found": "field"}),
        ("found = 1", {"found": "module"}),
        (f"def f(left, right):{LONG}\n    return left < right", {}),
        (f"def f():\n    placement = g(){LONG}\n    return placement", {}),
    ],
)
def test_a_participle_may_live_for_five_lines(source: str, words: dict[str, str]) -> None:
    assert {hit.word: hit.distance for hit in hits(source)} == words


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def found(a) -> int: ...", ["found"]),
        ("class A:\n    async def told(self) -> str: ...", ["told"]),
        ("class A:\n    def seen(self, body) -> None: ...", []),
        ("def known(a) -> bool: ...", []),
        ("def quoted(a) -> str: ...", []),
    ],
)
def test_a_function_that_returns_something_is_no_participle(source: str, words: list[str]) -> None:
    assert [hit.word for hit in functions(source)] == words
