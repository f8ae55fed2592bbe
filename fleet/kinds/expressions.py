"""Expressions of a declaration: CEL, of which the usual shapes run without the library.

The hub reads every job dozens of times, and the library takes ten microseconds for a comparison. So a plain path, a
comparison of a path with a literal, `has(path)`, and the look for a true condition are read here and run as Python. All
else runs in the library, over a copy of the parts that the expression names, within a bound on its steps.

An expression that reads what is not there has no value: the caller takes its default. So do those that fail, or cost
too much for this object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fleet.kinds.paths import getter, is_path, parsed
from fleet.values.cel.nominal import cost_of
from fleet.values.cel.syntax import Node, read
from fleet.values.cel.tree import BadExpression
from fleet.values.untyped import text

if TYPE_CHECKING:  # it takes a tenth of a second to load, and most commands run no expression
    from fleet.values.cel.declare import Overload
    from fleet.values.cel.program import Budget, Program
    from fleet.values.cel.values import Evaluation

STEPS_MAX = 100_000  # of one expression over one job, about ten milliseconds
NOMINAL_ITEMS = 64  # of each list of the job that an expression must be affordable for
ONCE_ITEMS = 32  # the same of an expression that is asked once a write
ONCE_STEPS_MAX = 200_000  # of all expressions that are asked of one write
_NOMINAL_WEIGHT = 32  # of each item, in units of fleet.values.cel.nominal
_JVM_UNITS = {"": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}

Values = Mapping[str, Any]
Read = Callable[[Values], Any]

_LITERAL = r"""(?:-?\d{1,15}|"[^"\\]*"|'[^'\\]*'|true|false)"""
_COMPARED = re.compile(rf"(?P<path>\S+)\s*(?P<sign>==|>)\s*(?P<literal>{_LITERAL})")
_AMONG = re.compile(rf"(?P<path>\S+)\s+in\s+\[\s*(?P<literals>{_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*\]")
_HAS = re.compile(r"has\(\s*(?P<path>[^\s()]+)\s*\)")
_CONDITION = re.compile(
    r"""status\.conditions\.exists\(\s*(?P<name>\w+)\s*,\s*(?P=name)\.type\s*==\s*["'](?P<type>\w+)["']\s*"""
    r"""&&\s*(?P=name)\.status\s*==\s*["']True["']\s*\)"""
)


def budget_of(most: int) -> Budget:
    """What several expressions may cost together."""
    from fleet.values.cel.program import Budget

    return Budget(most)


class Nominal:
    """The size of a job as an expression has to be affordable for: lists of some dozen small items."""

    __slots__ = ("length", "weight")

    def __init__(self, items: int = NOMINAL_ITEMS) -> None:
        self.length, self.weight = items, items * _NOMINAL_WEIGHT

    def field(self, name: str) -> Nominal:
        return self

    def entry(self) -> Nominal:
        return self

    def item(self) -> _NominalItem:
        return _NominalItem()


class _NominalItem(Nominal):
    __slots__ = ()

    def __init__(self) -> None:
        self.length = self.weight = _NOMINAL_WEIGHT

    def field(self, name: str) -> Nominal:
        return self

    def item(self) -> _NominalItem:
        return self


class KindExpression:
    """`read` gives its value over a job, None where it has none. `condition`: the type of the condition that it looks
    for, where it does nothing else. `places`: the names and paths that it reads. `example`: of a comparison, the path
    and a value with which it holds."""

    __slots__ = ("_library", "condition", "example", "places", "read", "text")

    def __init__(self, source: str, *, once: bool = False) -> None:
        """Raises BadExpression. `once`: it is asked once a write. So it needs no short way, in which a field that is
        missing differs from everything, and must be affordable for smaller lists only."""
        items = ONCE_ITEMS if once else NOMINAL_ITEMS
        self.text = source.strip()
        found = _CONDITION.fullmatch(self.text)
        self.condition = found["type"] if found else ""
        self.example = _example(self.text)
        tree = read(self.text)
        self.places = _places(tree.tree)
        if cost_of(tree, {root: Nominal(items) for root, _ in self.places}) > STEPS_MAX:
            raise BadExpression(f"may take too long: a loop over lists of {items} items must be affordable")
        self._library = _Library(self.text, self.places)
        self.read: Read = (None if once else _shaped(self.text)) or self._library

    def within(self, values: Values, budget: Budget) -> Any:
        """Its value, of what several expressions may cost together; None when that is spent."""
        return self._library(values, budget)

    def checked(self) -> None:
        """Compile it in the library. Raises BadExpression."""
        _compiled(self.text, tuple(sorted({root for root, _ in self.places})))


def _shaped(source: str) -> Read | None:
    """The expression as Python; None for one that is of no usual shape."""
    if is_path(source) and source not in ("true", "false", "null"):
        return getter(*parsed(source))
    if re.fullmatch(_LITERAL, source):
        fixed = _literal(source)
        return lambda values: fixed
    if (match := _COMPARED.fullmatch(source)) and is_path(match["path"]):
        return _compared(getter(*parsed(match["path"])), match["sign"], _literal(match["literal"]))
    if (match := _AMONG.fullmatch(source)) and is_path(match["path"]):
        read_ = getter(*parsed(match["path"]))
        wanted = tuple(_literal(one) for one in re.findall(_LITERAL, match["literals"]))
        return lambda values: any(_same(read_(values), one) for one in wanted)
    if (match := _HAS.fullmatch(source)) and is_path(match["path"]):
        read_ = getter(*parsed(match["path"]))
        return lambda values: read_(values) is not None
    return None


def _example(source: str) -> tuple[tuple[str, ...], Any] | None:
    if (match := _COMPARED.fullmatch(source)) and is_path(match["path"]):
        wanted = _literal(match["literal"])
        return parsed(match["path"])[1], wanted + 1 if match["sign"] == ">" and wanted.__class__ is int else wanted
    if (match := _AMONG.fullmatch(source)) and is_path(match["path"]):
        return parsed(match["path"])[1], _literal(re.findall(_LITERAL, match["literals"])[0])
    return None


def _compared(read_: Read, sign: str, literal: Any) -> Read:
    if sign == "==":
        return lambda values: _same(read_(values), literal)
    if literal.__class__ is not int:
        return lambda values: None

    def more(values: Values) -> bool:
        value = read_(values)
        return value.__class__ in (int, float) and bool(value > literal)

    return more


def _same(value: Any, wanted: Any) -> bool:
    return value.__class__ is wanted.__class__ and bool(value == wanted)


def _literal(word: str) -> Any:
    if word in ("true", "false"):
        return word == "true"
    return word[1:-1] if word[0] in "\"'" else int(word)


# -- the parts of a job that an expression names


def _places(tree: Node) -> frozenset[tuple[str, tuple[str, ...]]]:
    found: set[tuple[str, tuple[str, ...]]] = set()
    _collect(tree, frozenset(), found)
    return frozenset(found)


def _collect(node: Node, bound: frozenset[str], paths: set[tuple[str, tuple[str, ...]]]) -> None:
    what = node[0]
    if what == "value":
        return
    if what == "name":
        if node[1] not in bound and node[1] not in ("true", "false", "null"):
            paths.add((node[1], ()))
    elif what == "path":
        base, steps = node[1], node[2]
        names: list[str] = []
        for step, name in steps:
            if step != ".":
                break
            names.append(name)
        if base[0] == "name" and base[1] not in bound:
            paths.add((base[1], tuple(names)))
        else:
            _collect(base, bound, paths)
        for step, inner in steps:
            if step != ".":
                _collect(inner, bound, paths)
    elif what == "loop":
        _, _, over, name, bodies = node
        _collect(over, bound, paths)
        inside = bound | {name}
        for index, body in enumerate(bodies):
            if index == 0 and len(bodies) > 1 and body[0] == "name":
                inside |= {body[1]}  # the second variable of a loop over a map
                continue
            _collect(body, inside, paths)
    else:
        for part in node[2] if what == "call" else node[1]:
            _collect(part, bound, paths)


class _Library:
    """An expression that the CEL library runs."""

    __slots__ = ("_places", "_text")

    def __init__(self, source: str, places: frozenset[tuple[str, tuple[str, ...]]]) -> None:
        self._text = source
        self._places: dict[str, Any] = {}
        for root, steps in places:
            _grow(self._places, (root, *steps))

    def __call__(self, values: Values, budget: Budget | None = None) -> Any:
        from fleet.values.cel.program import NoValue
        from fleet.values.cel.values import Optional

        budget = budget_of(STEPS_MAX) if budget is None else budget
        if budget.balance <= 0:
            return None
        try:
            program = _compiled(self._text, tuple(sorted(self._places)))
            value = program.evaluate(_project(values, self._places), budget)
        except (BadExpression, NoValue):
            return None
        return next(iter(value.content), None) if isinstance(value, Optional) else value


@lru_cache(maxsize=256)
def _compiled(source: str, names: tuple[str, ...]) -> Program:
    """Raises BadExpression."""
    from fleet.values.cel.declare import overloads
    from fleet.values.cel.program import compile_expression
    from fleet.values.cel.types import DYN

    functions: dict[str, tuple[tuple[Overload, ...], Callable[..., Any]]] = {
        "jvmBytes": (overloads("jvmBytes", "(dyn) -> int"), _jvm_bytes),
        "greatest": (overloads("greatest", "(dyn, dyn) -> dyn"), _greatest_of),
    }
    return compile_expression(source, dict.fromkeys(names, DYN), functions=functions)


def _grow(tree: dict[str, Any], steps: tuple[str, ...]) -> None:
    """Add a path to a tree of names, in which None stands for all that is below."""
    for step in steps[:-1]:
        below = tree.setdefault(step, {})
        if below is None:
            return
        tree = below
    tree[steps[-1]] = None


def _project(value: Any, tree: Mapping[str, Any]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {
        name: value[name] if below is None else _project(value[name], below)
        for name, below in tree.items()
        if name in value
    }


def jvm_bytes(amount: Any) -> int:
    """The bytes of an amount of memory as a Java virtual machine writes it: "512m" is 512 MiB, "2g" 2 GiB; Spark
    takes a bare number for MiB. Raises
    ValueError."""
    match = re.fullmatch(r"(\d{1,12})([kmgtp]?)b?", text(amount).strip().lower())
    if match is None:
        raise ValueError(f"{str(amount)[:40]!r} is no amount of memory")
    return int(match[1]) * _JVM_UNITS[match[2]]


def _jvm_bytes(run: Evaluation, said: Any) -> int:
    return jvm_bytes(said)


def _greatest_of(run: Evaluation, one: Any, other: Any) -> Any:
    return max(one, other)
