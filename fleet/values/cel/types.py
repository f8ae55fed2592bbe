"""The types of CEL, and which of them fits where.

A type of a schema also knows its objects' fields and how large its values can be (shapes.py). Two object types are the
same only when they are the same object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.values.cel.shapes import Shape


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """`params`: of a list, a map, an optional or a type. `fields`: of an object; None where nothing is declared.
    `constructible`: an expression can make values of the type (messages.py)."""

    kind: str
    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = None
    shape: Shape | None = None
    constructible: bool = False

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


def _simple(kind: str, name: str = "") -> Type:
    return Type(kind, name or kind)


BOOL, BYTES, DOUBLE, INT, STRING, UINT = map(_simple, ("bool", "bytes", "double", "int", "string", "uint"))
DURATION, TIMESTAMP, NULL = _simple("duration"), _simple("timestamp"), _simple("null")
DYN, ERROR = _simple("dyn"), _simple("error", "!error!")
IP, CIDR = _simple("opaque", "net.IP"), _simple("opaque", "net.CIDR")
QUANTITY, URL = _simple("struct", "kubernetes.Quantity"), _simple("struct", "kubernetes.URL")
SEMVER, FORMAT = _simple("struct", "kubernetes.Semver"), _simple("struct", "kubernetes.NamedFormat")
AUTHORIZER = _simple("struct", "kubernetes.authorization.Authorizer")
PATH_CHECK = _simple("struct", "kubernetes.authorization.PathCheck")
GROUP_CHECK = _simple("struct", "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = _simple("struct", "kubernetes.authorization.ResourceCheck")
DECISION = _simple("struct", "kubernetes.authorization.Decision")
NAMED = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "string": STRING,
    "uint": UINT,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "null": NULL,
    "dyn": DYN,
    "IP": IP,
    "CIDR": CIDR,
    "Quantity": QUANTITY,
    "URL": URL,
    "Semver": SEMVER,
    "Format": FORMAT,
    "Authorizer": AUTHORIZER,
    "PathCheck": PATH_CHECK,
    "GroupCheck": GROUP_CHECK,
    "ResourceCheck": RESOURCE_CHECK,
    "Decision": DECISION,
}


def list_of(item: Type) -> Type:
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(inner: Type) -> Type:
    return Type("opaque", "optional_type", (inner,))


def type_of(inner: Type) -> Type:
    return Type("type", "type", (inner,))


def param(name: str) -> Type:
    return Type("param", name)


def unwrapped(given: Type) -> tuple[Type, bool]:
    """The type in an optional, and whether there was one."""
    return (given.params[0], True) if given.name == "optional_type" else (given, False)


def exactly(type_: Type, other: Type) -> bool:
    if type_ is other:
        return True
    if type_.kind != other.kind or type_.name != other.name or len(type_.params) != len(other.params):
        return False
    if type_.kind == "struct" and (type_.fields is not None or other.fields is not None):
        return False
    return all(map(exactly, type_.params, other.params))


_NULLABLE = frozenset({"opaque", "struct", "duration", "timestamp", "null"})


class Bindings:
    """What is known of type parameters. A failed attempt to bind leaves no trace."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._made = 0

    def fresh(self) -> Type:
        self._made += 1
        return param(f"_var{self._made}")

    def fits(self, wanted: Type, given: Type) -> bool:
        return self.all_fit((wanted,), (given,))

    def all_fit(self, wanted: tuple[Type, ...] | list[Type], given: tuple[Type, ...] | list[Type]) -> bool:
        if len(wanted) != len(given):
            return False
        before = dict(self._known)
        if all(map(self._fits, wanted, given)):
            return True
        self._known = before
        return False

    def resolved(self, type_: Type, *, free_to_dyn: bool = False) -> Type:
        if type_.kind == "param":
            known = self._known.get(type_.name)
            if known is not None:
                return self.resolved(known, free_to_dyn=free_to_dyn)
            return DYN if free_to_dyn else type_
        if not type_.params:
            return type_
        params = tuple(self.resolved(inner, free_to_dyn=free_to_dyn) for inner in type_.params)
        if all(old is new for old, new in zip(type_.params, params, strict=True)):
            return type_
        return Type(type_.kind, type_.name, params, None, type_.shape)

    def _fits(self, target: Type, type_: Type) -> bool:
        if type_.kind == "param":
            valid, known = self._bind(target, type_)
            if valid or known:
                return valid
        if target.kind == "param":
            return self._bind(type_, target)[0]
        if target.kind in ("dyn", "error") or type_.kind in ("dyn", "error"):
            return True
        if target.kind == "null":
            return type_.kind in _NULLABLE
        if type_.kind == "null":
            return target.kind in _NULLABLE
        if target.kind == "type":
            return type_.kind == "type"
        if target.kind in ("opaque", "list", "map"):
            return (
                target.kind == type_.kind
                and target.name == type_.name
                and len(target.params) == len(type_.params)
                and all(map(self._fits, target.params, type_.params))
            )
        return exactly(target, type_)

    def _bind(self, type_: Type, parameter: Type) -> tuple[bool, bool]:
        """(whether the parameter can stand for the type, whether it stood for one before)"""
        if type_.kind == "param" and type_.name == parameter.name:
            return True, True
        binding = self._known.get(parameter.name)
        if binding is None:
            if self._within(parameter, type_):
                return False, False
            self._known[parameter.name] = type_
            return True, False
        if exactly(type_, binding):
            return True, True
        if not self._fits(type_, binding):
            return False, True
        wider = general(type_, binding)
        if not self._within(parameter, wider):
            self._known[parameter.name] = wider
        return True, True

    def _within(self, parameter: Type, type_: Type) -> bool:
        if type_.kind == "param":
            if type_.name == parameter.name:
                return True
            known = self._known.get(type_.name)
            return known is not None and self._within(parameter, known)
        return any(self._within(parameter, inner) for inner in type_.params)


def general(one: Type, other: Type) -> Type:
    """The less specific of two types that fit each other."""
    return one if _as_general(one, other) else other


def _as_general(type_: Type, other: Type) -> bool:
    if type_.kind in ("dyn", "param"):
        return True
    if other.kind in ("dyn", "param") or type_.kind != other.kind:
        return False
    if type_.params:
        return (
            type_.name == other.name
            and len(type_.params) == len(other.params)
            and (type_.kind == "type" or all(map(_as_general, type_.params, other.params)))
        )
    return exactly(type_, other)
