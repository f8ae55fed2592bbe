"""The cost of an expression of a WorkloadInterpreter: an upper bound of its steps, from the sizes of its inputs.

An interpreter's expressions run over every job, dozens of times. So each must be affordable over a job with lists of a
nominal size before the interpreter is taken; what it takes over a real job is bounded as it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fleet.values.cel.syntax import Expression, Node

_WEIGHT_BYTES = 2  # bytes of JSON that are copied in one step
_STEPS_OF_MATCH = 20  # RE2 takes so many characters × instructions in one step
_PATTERN_SIZE = 50  # assumed of a pattern until it is known; the match itself is charged by what it is
_ENDLESS = 10**15
_ALTERNATIVES_MAX = 8
_ONE_OF = frozenset({"or", "orValue", "value", "greatest"})  # their outcome is one of their parts, as it is
_NUMBERS = frozenset({"int", "uint", "double", "size", "hasValue", "jvmBytes"})  # or true or false


class Size(Protocol):
    """How large a value is. `length`: of its items, entries or characters. `weight`: of all that is in it."""

    @property
    def length(self) -> int: ...
    @property
    def weight(self) -> int: ...
    def field(self, name: str) -> Size: ...
    def entry(self) -> Size: ...  # the result of an index
    def item(self) -> Size: ...  # the items of a loop: of a map its keys


class ComputedSize:
    """The size of a value that an expression makes itself; its parts are at most as large."""

    __slots__ = ("_inside", "length", "weight")

    def __init__(self, length: int, weight: int, inside: Size | None = None) -> None:
        self.length, self.weight = min(length, _ENDLESS), min(weight, _ENDLESS)
        self._inside = inside

    def item(self) -> Size:
        return self._inside or ComputedSize(self.weight, self.weight)

    def entry(self) -> Size:
        return self.item()

    def field(self, name: str) -> Size:
        return self.item()


ONE = ComputedSize(1, 1)


class SizeUnion:
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
        return ComputedSize(max(size.length for size in distinct), max(size.weight for size in distinct))
    return distinct[0] if len(distinct) == 1 else SizeUnion(distinct) if distinct else ONE


def cost_of(expression: Expression, sizes: Mapping[str, Size]) -> int:
    """Steps at most."""
    return min(_Estimate().of(expression.tree, dict(sizes))[0], _ENDLESS)


class _Estimate:
    def of(self, node: Node, names: dict[str, Size]) -> tuple[int, Size]:
        """(cost, size of the outcome)"""
        match node[0]:
            case "value":
                return 0, ComputedSize(node[1], node[1] // _WEIGHT_BYTES + 1)
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
            joined = ComputedSize(
                sum(size.length for _, size in parts), weight, either([size.item() for _, size in parts])
            )
            return cost + weight * len(parts), joined
        inside = either([size for _, size in parts])
        return cost + weight, ComputedSize(len(parts), weight + len(parts), inside)

    def _path(self, node: Node, names: dict[str, Size]) -> tuple[int, Size]:
        cost, size = self.of(node[1], names)
        for step, what in node[2]:
            cost += 1
            if step == ".":
                size = size.field(what)
            else:
                cost += self.of(what, names)[0] + size.weight
                size = size.entry()
        return cost, size

    def _loop(self, node: Node, names: dict[str, Size]) -> tuple[int, Size]:
        _, macro, over, name, bodies = node
        cost, size = self.of(over, names)
        turns = size.length
        inner = {**names, name: size.item()}
        parts: list[tuple[int, Size]] = []
        for body in bodies:
            parts.append(self.of(body, inner))
            if body[0] == "name":  # a second variable
                inner = {**inner, body[1]: size.entry()}
        cost += turns * (sum(part[0] for part in parts) + 3) + size.weight
        if macro not in ("map", "filter"):
            return cost, ONE
        each = parts[-1][1] if macro == "map" else size.item()
        cost += turns * turns * (each.weight + 1) // 2
        return cost, ComputedSize(turns, turns * (each.weight + 1), each)

    def _call(self, node: Node, names: dict[str, Size]) -> tuple[int, Size]:
        parts = [self.of(part, names) for part in node[2]]
        weight = sum(size.weight for _, size in parts)
        cost = 1 + weight + sum(part[0] for part in parts)
        if node[1] in _ONE_OF:
            return cost - weight, either([size for _, size in parts])
        if node[1] in _NUMBERS:
            return cost, ONE
        if node[1] == "matches" and parts:
            cost += parts[0][1].length * _PATTERN_SIZE // _STEPS_OF_MATCH
        return cost, ComputedSize(sum(size.length for _, size in parts), weight)
