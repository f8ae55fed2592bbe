"""The macros of CEL: what each means as a loop over an accumulator.

Kubernetes checks types and counts costs of these loops, so they are spelt out as it spells them.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet.values.cel.tree import ACCUMULATOR, Bind, Call, Const, Ident, ListOf, Loop, MapOf, Select, SyntaxNode

_NAMES = {"existsOne": "exists_one"}
_SORTED = "@sorted"  # the list that sortBy sorts


class MacroFlaw(Exception):
    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at, self.message = at, message


def expanded(at: int, name: str, target: SyntaxNode | None, args: list[SyntaxNode]) -> SyntaxNode | None:
    """None for a plain call. Raises MacroFlaw."""
    if target is None:
        if name != "has" or len(args) != 1:
            return None
        if isinstance(args[0], Select):
            return Select(args[0].at, args[0].operand, args[0].name, test=True)
        raise MacroFlaw(args[0].at, "invalid argument to has() macro")
    if name in ("optMap", "optFlatMap") and len(args) == 2:
        return _optional(at, name, target, args)
    if name == "sortBy" and len(args) == 2:
        keys = _loop(at, "map", Ident(at, _SORTED), args)
        assert keys is not None
        return Bind(at, _SORTED, target, Call(at, "@sortByAssociatedKeys", Ident(at, _SORTED), [keys]))
    return _loop(at, name, target, args)


def _optional(at: int, name: str, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    if not isinstance(args[0], Ident):
        raise MacroFlaw(args[0].at, f"{name}() variable name must be a simple identifier")
    inside = Bind(at, args[0].name, Call(at, "value", target, []), args[1])
    made = inside if name == "optFlatMap" else Call(at, "optional.of", None, [inside])
    return Call(at, "_?_:_", None, [Call(at, "hasValue", target, []), made, Call(at, "optional.none", None, [])])


_ONE = {"all": (2,), "exists": (2,), "exists_one": (2,), "existsOne": (2,), "map": (2, 3), "filter": (2,)}
_TWO = {
    "all": (3,),
    "exists": (3,),
    "exists_one": (3,),
    "existsOne": (3,),
    "transformList": (3, 4),
    "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
}


def _loop(at: int, name: str, over: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode | None:
    if len(args) in _ONE.get(name, ()):
        first, second, rest = _variable(args[0], name not in ("map", "filter", "sortBy")), "", args[1:]
    elif len(args) in _TWO.get(name, ()):
        first, second, rest = _variable(args[0], True), _variable(args[1], True), args[2:]
        if first == second:
            raise MacroFlaw(args[1].at, f"duplicate variable name: {first}")
    else:
        return None
    macro = _NAMES.get(name, name)
    test = rest[0] if len(rest) == 2 or macro in ("all", "exists", "exists_one", "filter") else None
    made = rest[-1] if macro.startswith(("map", "transform")) else None
    if macro == "filter":
        made = args[0]
    start, condition, step, result = _SHAPES[macro](at, first, test, made)
    return Loop(at, macro, over, first, second, start, condition, step, result, test, made)


def _variable(node: SyntaxNode, simple: bool) -> str:
    if not isinstance(node, Ident) or node.name.startswith("."):
        raise MacroFlaw(node.at, "argument must be a simple name" if simple else "argument is not an identifier")
    if node.name in ("__result__", ACCUMULATOR):
        raise MacroFlaw(node.at, "iteration variable overwrites accumulator variable")
    return node.name


_Shape = tuple[SyntaxNode, SyntaxNode, SyntaxNode, SyntaxNode]


def _all(at: int, first: str, test: SyntaxNode | None, made: SyntaxNode | None) -> _Shape:
    assert test is not None
    condition = Call(at, "@not_strictly_false", None, [_accumulator(at)])
    return Const(at, True), condition, Call(at, "_&&_", None, [_accumulator(at), test]), _accumulator(at)


def _exists(at: int, first: str, test: SyntaxNode | None, made: SyntaxNode | None) -> _Shape:
    assert test is not None
    condition = Call(at, "@not_strictly_false", None, [Call(at, "!_", None, [_accumulator(at)])])
    return Const(at, False), condition, Call(at, "_||_", None, [_accumulator(at), test]), _accumulator(at)


def _exists_one(at: int, first: str, test: SyntaxNode | None, made: SyntaxNode | None) -> _Shape:
    assert test is not None
    more = Call(at, "_+_", None, [_accumulator(at), Const(at, 1)])
    step = Call(at, "_?_:_", None, [test, more, _accumulator(at)])
    return Const(at, 0), Const(at, True), step, Call(at, "_==_", None, [_accumulator(at), Const(at, 1)])


def _to_list(at: int, first: str, test: SyntaxNode | None, made: SyntaxNode | None) -> _Shape:
    assert made is not None
    step: SyntaxNode = Call(at, "_+_", None, [_accumulator(at), ListOf(at, [made])])
    return ListOf(at, []), Const(at, True), _where(at, test, step), _accumulator(at)


def _to_map(at: int, first: str, test: SyntaxNode | None, made: SyntaxNode | None) -> _Shape:
    assert made is not None
    step: SyntaxNode = Call(at, "cel.@mapInsert", None, [_accumulator(at), Ident(at, first), made])
    return MapOf(at, []), Const(at, True), _where(at, test, step), _accumulator(at)


def _to_entries(at: int, first: str, test: SyntaxNode | None, made: SyntaxNode | None) -> _Shape:
    assert made is not None
    step: SyntaxNode = Call(at, "cel.@mapInsert", None, [_accumulator(at), made])
    return MapOf(at, []), Const(at, True), _where(at, test, step), _accumulator(at)


def _where(at: int, test: SyntaxNode | None, step: SyntaxNode) -> SyntaxNode:
    return step if test is None else Call(at, "_?_:_", None, [test, step, _accumulator(at)])


def _accumulator(at: int) -> SyntaxNode:
    return Ident(at, ACCUMULATOR)


_SHAPES: dict[str, Callable[[int, str, SyntaxNode | None, SyntaxNode | None], _Shape]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "map": _to_list,
    "filter": _to_list,
    "transformList": _to_list,
    "transformMap": _to_map,
    "transformMapEntry": _to_entries,
}
