"""Which interpreter reads which kind: one table a process.

The declarations that Fleet ships are read when the first kind is asked for. A loader (fleet/admission/interpreters.py)
puts the declarations of users over them, all at once: a reader sees the table before or after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

import yaml

from fleet.kinds.declaration import read_declaration
from fleet.kinds.declared import DeclaredKind
from fleet.kinds.interpreter import Interpreter
from fleet.values.quantity import BadQuantity
from fleet.values.untyped import text

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Target = tuple[str, str]  # (group, kind)


class NamedKind(Protocol):
    """A `api.engine.kind.Kind`, as far as this package looks."""

    @property
    def group(self) -> str: ...

    @property
    def kind(self) -> str: ...


SIZE_MAX = 2**31 - 1  # pods of a component, as in every job kind
UNREADABLE = (BadQuantity, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # a body of a member


@cache
def shipped() -> dict[Target, DeclaredKind]:
    """The interpreters that Fleet brings, by (group, kind)."""
    folder = files("fleet.kinds").joinpath("declared")
    entries = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda e: e.name)
    found: dict[Target, DeclaredKind] = {}
    for entry in entries:
        for spec in yaml.load_all(entry.read_bytes(), Loader=_Loader):
            interpreter = DeclaredKind(read_declaration(spec["spec"]))
            found[interpreter.group, interpreter.kind] = interpreter
    return found


class Interpreters(Mapping[Target, Interpreter]):
    """The table of this process."""

    def __init__(self) -> None:
        self._all: dict[Target, Interpreter] | None = None
        self._plain: tuple[dict[Target, Interpreter], dict[str, str]] | None = None
        self._by_labels: tuple[dict[Target, Interpreter], tuple[Interpreter, ...]] | None = None

    def declare(self, users: Iterable[Interpreter]) -> None:
        """Put these over the shipped ones, in place of those that were declared before. Of two of one kind the first
        counts."""
        table: dict[Target, Interpreter] = dict(shipped())
        mine: dict[Target, Interpreter] = {}
        for interpreter in users:
            mine.setdefault((interpreter.group, interpreter.kind), interpreter)
        table.update(mine)
        self._all = table  # one assignment, so that no reader sees half of it

    def plain(self, kind: str) -> str | None:
        """The group that the name of a kind means without one: of several the first of the shipped ones, `batch` for
        Job, else the first of the declared ones. None for a kind without an interpreter."""
        table = self._table
        if self._plain is None or self._plain[0] is not table:
            order = sorted(table, key=lambda target: (target not in shipped(), target))
            self._plain = table, {name: group for group, name in reversed(order)}
        return self._plain[1].get(kind)

    def by_labels(self) -> tuple[Interpreter, ...]:
        """The interpreters of kinds whose pods carry no labels of the job, and are known by those of a controller."""
        table = self._table
        if self._by_labels is None or self._by_labels[0] is not table:
            found = (one for one in table.values() if isinstance(one, DeclaredKind) and one.pods_unmarked)
            self._by_labels = table, tuple(found)
        return self._by_labels[1]

    @property
    def _table(self) -> dict[Target, Interpreter]:
        if self._all is None:
            self._all = dict(shipped())
        return self._all

    def get(self, target: Target, default: Any = None) -> Any:
        return self._table.get(target, default)

    def __getitem__(self, target: Target) -> Interpreter:
        return self._table[target]

    def __iter__(self) -> Iterator[Target]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


INTERPRETERS = Interpreters()


def kind_word(group: str, kind: str) -> str:
    """The kind as people name it: with its group where the name alone means the kind of another group."""
    return kind if INTERPRETERS.plain(kind) in (None, group) else f"{kind}.{group}"


def named_kind(group_kind: str) -> str:
    """The same for "group/Kind"."""
    group, _, kind = group_kind.rpartition("/")
    return kind_word(group, kind)


def word_of(reference: Mapping[str, Any]) -> str:
    """The same for what has `apiVersion` and `kind`: an object, or a reference to one."""
    return kind_word(text(reference.get("apiVersion")).rpartition("/")[0], text(reference.get("kind")))


def interpreter_for(kind: NamedKind) -> Interpreter | None:
    """The interpreter of a job kind; None for objects without pods."""
    found: Interpreter | None = INTERPRETERS.get((kind.group, kind.kind))
    return found


def interpreter_of(api_version: object, kind: object) -> Interpreter | None:
    """The same by what a reference says: `apiVersion` and `kind`."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    group = api_version.rsplit("/", 1)[0] if "/" in api_version else ""
    found: Interpreter | None = INTERPRETERS.get((group, kind))
    return found


def sizes_of(copy: Mapping[str, Any]) -> dict[str, int]:
    """How many pods the components of a member's copy have of which a field says the number; none of a copy that
    cannot be read."""
    interpreter = interpreter_of(text(copy.get("apiVersion")), text(copy.get("kind")))
    try:
        found = interpreter.sizes(dict(copy)) if interpreter is not None else {}
    except UNREADABLE:
        return {}
    return {name: size for name, size in found.items() if 0 <= size <= SIZE_MAX}
