"""The cost of an expression: an upper bound of its steps, from the sizes of its inputs.

A kube-apiserver counts while a rule runs and stops it. The library that runs rules here cannot be stopped. So the bound
is computed before it runs, from the values that it will meet, and a rule that would cost too much is not run at all.
The same computation on the sizes that a schema declares tells which rules could never be run (crdschema.py).

One step is about a tenth of a microsecond. The model is that of the library, measured. The library copies the value
that a loop runs over, that is indexed or that is joined, node by node. `map` and `filter` copy their results so far at
every turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import orjson

from fleet.engine.celsyntax import MATCHES, Expression, Node
from fleet.model.untyped import mapping

REQUEST_BYTES = 3 << 20
_WEIGHT_BYTES = 2  # bytes of JSON that are copied in one step
_STEPS_OF_MATCH = 20  # RE2 takes so many characters × instructions in one step
_PATTERN_SIZE = 50  # assumed of a pattern until it is known; the match itself is charged by what it is
_ITEM_BYTES = 16
_FIELDS_MAX = 50
_DEPTH_MAX = 3  # that the size of a declared object is added up from its fields
_ENDLESS = 10**15
_ALTERNATIVES_MAX = 8
VISITED_MAX = 500_000  # values that are looked at to know what one expression costs


class Size(Protocol):
    """How large a value is. `length`: of its items, entries or characters. `weight`: of all that is in it."""

    @property
    def length(self) -> int: ...
    @property
    def weight(self) -> int: ...
    def field(self, name: str) -> Size: ...
    def entry(self) -> Size: ...  # the result of an index
    def item(self) -> Size: ...  # the items of a loop: of a map its keys


class Made:
    """The size of a value that an expression makes itself; its parts are at most as large."""

    __slots__ = ("_inside", "length", "weight")

    def __init__(self, length: int, weight: int, inside: Size | None = None) -> None:
        self.length, self.weight = min(length, _ENDLESS), min(weight, _ENDLESS)
        self._inside = inside

    def item(self) -> Size:
        return self._inside or Made(self.weight, self.weight)

    def entry(self) -> Size:
        return self.item()

    def field(self, name: str) -> Size:
        return self.item()


ONE = Made(1, 1)


class Either:
    """The size of what is one of several, none of which need be the largest in everything."""

    __slots__ = ("_sizes",)

    def __init__(self, sizes: list[Size]) -> None:
        self._sizes = sizes

    @property
    def length(self) -> int:
        return max(size.length for size in self._sizes)

    @property
    def weight(self) -> int:
        return max(size.weight for size in self._sizes)

    def field(self, name: str) -> Size:
        return either([size.field(name) for size in self._sizes])

    def entry(self) -> Size:
        return either([size.entry() for size in self._sizes])

    def item(self) -> Size:
        return either([size.item() for size in self._sizes])


def either(sizes: list[Size]) -> Size:
    """Of many, only how large they are at most is kept: an expression can double them at every step."""
    distinct = list({id(size): size for size in sizes}.values())
    if len(distinct) > _ALTERNATIVES_MAX:
        return Made(max(size.length for size in distinct), max(size.weight for size in distinct))
    return distinct[0] if len(distinct) == 1 else Either(distinct) if distinct else ONE


class TooMuchWork(Exception):
    """Not even the cost can be computed in reasonable time."""


class Actual:
    """The size of the largest of several values that one place of an expression may meet. `visited` counts the values
    that were looked at, here and in what was derived from here."""

    __slots__ = ("_parts", "_values", "_weight", "visited")

    def __init__(self, values: list[Any], visited: list[int] | None = None) -> None:
        self._values = values
        self._weight = -1
        self._parts: dict[str, Size] = {}
        self.visited = [0] if visited is None else visited
        self.visited[0] += len(values)
        if self.visited[0] > VISITED_MAX:
            raise TooMuchWork

    @property
    def length(self) -> int:
        return max((len(v) for v in self._values if isinstance(v, (dict, list, str))), default=1)

    @property
    def weight(self) -> int:
        if self._weight < 0:
            self._weight = max((weight_of(v) for v in self._values), default=1)
        return self._weight

    def field(self, name: str) -> Size:
        return self._known(
            "." + name, lambda value: (value[name],) if value.__class__ is dict and name in value else ()
        )

    def entry(self) -> Size:
        return self._known("[", lambda v: v.values() if v.__class__ is dict else v if v.__class__ is list else ())

    def item(self) -> Size:
        return self._known("*", lambda value: value if value.__class__ in (dict, list) else ())

    def _known(self, step: str, parts: Callable[[Any], Iterable[Any]]) -> Size:
        found = self._parts.get(step)
        if found is None:
            self.visited[0] += len(self._values)
            inner = [part for value in self._values for part in parts(value)]
            found = self._parts[step] = Actual(inner, self.visited)
        return found


def weight_of(value: Any) -> int:
    if value.__class__ in (dict, list, str):
        return len(orjson.dumps(value)) // _WEIGHT_BYTES + 1
    return 1


def cost_of(expression: Expression, sizes: Mapping[str, Size], *, copies: bool = True) -> int:
    """Steps at most. `copies`: as the library runs it; without them it is about what a kube-apiserver counts."""
    try:
        return min(_Estimate(copies).of(expression.tree, dict(sizes))[0], _ENDLESS)
    except TooMuchWork:
        return _ENDLESS


class _Estimate:
    def __init__(self, copies: bool) -> None:
        self._copies = copies

    def of(self, node: Node, names: dict[str, Size]) -> tuple[int, Size]:
        """(cost, size of the outcome)"""
        match node[0]:
            case "value":
                return 0, Made(node[1], node[1] // _WEIGHT_BYTES + 1)
            case "name":
                return 0, names.get(node[1], ONE)
            case "path":
                return self._path(node, names)
            case "loop":
                return self._loop(node, names)
            case "call":
                return self._call(node, names)
        parts = [self.of(part, names) for part in node[1]]
        cost = max(1, len(parts) - 1) + sum(part[0] for part in parts)
        if node[0] == "all":  # comparing looks at most at all of the smaller; that of several is one of them
            weights = sorted(size.weight for _, size in parts)
            return cost + sum(weights[:-1]), either([size for _, size in parts])
        weight = sum(size.weight for _, size in parts)
        if node[0] == "in":
            return cost + weight, ONE
        if node[0] == "cat":
            joined = Made(sum(size.length for _, size in parts), weight, either([size.item() for _, size in parts]))
            return cost + (weight * len(parts) if self._copies else weight), joined
        inside = either([size for _, size in parts])
        return cost + (weight if self._copies else 0), Made(len(parts), weight + len(parts), inside)

    def _path(self, node: Node, names: dict[str, Size]) -> tuple[int, Size]:
        cost, size = self.of(node[1], names)
        for step, what in node[2]:
            cost += 1
            if step == ".":
                size = size.field(what)
            else:
                cost += self.of(what, names)[0] + (size.weight if self._copies else 0)
                size = size.entry()
        return cost, size

    def _loop(self, node: Node, names: dict[str, Size]) -> tuple[int, Size]:
        _, macro, over, name, bodies = node
        cost, size = self.of(over, names)
        turns = size.length
        inner = {**names, name: size.item()}
        found: list[tuple[int, Size]] = []
        for body in bodies:
            found.append(self.of(body, inner))
            if body[0] == "name":  # a second variable
                inner = {**inner, body[1]: size.entry()}
        cost += turns * (sum(part[0] for part in found) + 3) + (size.weight if self._copies else 0)
        if macro not in ("map", "filter"):
            return cost, ONE
        each = found[-1][1] if macro == "map" else size.item()
        if self._copies:
            cost += turns * turns * (each.weight + 1) // 2
        return cost, Made(turns, turns * (each.weight + 1), each)

    def _call(self, node: Node, names: dict[str, Size]) -> tuple[int, Size]:
        parts = [self.of(part, names) for part in node[2]]
        weight = sum(size.weight for _, size in parts)
        cost = 1 + weight + sum(part[0] for part in parts)
        if node[1] in ("matches", MATCHES) and parts:
            cost += parts[0][1].length * _PATTERN_SIZE // _STEPS_OF_MATCH
        return cost, Made(sum(size.length for _, size in parts), weight)


class Declared:
    """The size of the largest value that a schema lets through; without a bound in the schema, a request bounds it."""

    __slots__ = ("_depth", "_left", "_node", "length")

    def __init__(self, node: Any, left: int = REQUEST_BYTES, depth: int = 0) -> None:
        self._node, self._left, self._depth = node, left, depth
        most, each = left, 1
        if node is None:
            pass
        elif node.type == "array":
            each = least_bytes(node.items) + 1
            most = _bounded(node.max_items, left // each)
        elif node.type == "string":
            most = _bounded(node.max_length, left)
        elif node.type == "object":
            each = 6
            most = len(node.raw.get("properties") or ()) + _bounded(node.max_properties, left // each)
        elif node.type:
            most = 1
        self.length = most

    @property
    def weight(self) -> int:
        whole = self._left // _WEIGHT_BYTES + 1
        if self._node is None or self._node.type == "" or self._depth > _DEPTH_MAX:
            return whole
        if self._node.type == "object":
            if self._node.additional is not None or self._node.preserve or not self._node.known:
                return whole
            fields = mapping(self._node.raw.get("properties"))
            if len(fields) > _FIELDS_MAX:
                return whole
            return min(whole, 1 + sum(self.field(name).weight + len(name) // _WEIGHT_BYTES for name in fields))
        if self._node.type == "array":
            return min(whole, self.length * self.item().weight + 1)
        return min(whole, self.length // _WEIGHT_BYTES + 1)

    def field(self, name: str) -> Size:
        return Declared(self._node.child(name) if self._node is not None else None, self._left, self._depth + 1)

    def entry(self) -> Size:
        if self._node is None or self._node.type == "object":
            return Declared(self._node.additional if self._node is not None else None, self._left, self._depth + 1)
        return Declared(self._node.items, self._left, self._depth + 1)

    def item(self) -> Size:
        if self._node is None or self._node.type == "array":
            # Of many items none is large: a loop over each adds up to no more than one loop over all.
            each = max(_ITEM_BYTES, self._left // max(1, self.length))
            return Declared(self._node.items if self._node is not None else None, each, self._depth + 1)
        return Made(256, 64)  # the keys of a map


def _bounded(declared: Any, most: int) -> int:
    return min(most, declared) if isinstance(declared, int) and declared >= 0 else most


def least_bytes(node: Any, depth: int = 0) -> int:
    """The shortest JSON that a schema lets through."""
    if node is None or depth > 8 or node.type != "object":
        return max(1, (node.min_length or 0) + 2) if node is not None and node.type == "string" else 1
    return 2 + sum(len(name) + 4 + least_bytes(node.child(name), depth + 1) for name in node.required)
