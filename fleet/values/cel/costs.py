"""What a call of each function can cost at most, as Kubernetes estimates it (pkg/cel/library/cost.go)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from fleet.values.cel.tree import Call, Const, SyntaxNode
from fleet.values.cel.words import UInt

INF = (1 << 64) - 1
_REGEX_SIZE = 128  # that is assumed of the form of a name
Size = tuple[int, int]
UNKNOWN: Size = (0, INF)
TENTH, QUARTER = 0.1, 0.25


class Sizes(Protocol):
    """What is known of the values that an expression meets: (least, most) items or characters."""

    def size(self, node: SyntaxNode) -> Size: ...
    def item_size(self, node: SyntaxNode) -> Size | None: ...


Handler = Callable[[Sizes, Call, str], tuple[int, Size | None]]


def times(one: int, other: int) -> int:
    return min(INF, one * other)


def plus(*parts: int) -> int:
    return min(INF, sum(parts))


def scaled(size: int, factor: float) -> int:
    return INF if size * factor >= float(INF) else math.ceil(size * factor)


def union(one: Size, other: Size) -> Size:
    return min(one[0], other[0]), max(one[1], other[1])


def _fixed(cost: int) -> Handler:
    return lambda found, node, overload: (cost, None)


def _scan(operand: int, factor: float = TENTH, keeps: bool = False) -> Handler:
    """Reads an operand once or twice. `keeps`: the outcome is as long as the operand."""

    def handle(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
        size = found.size(node.operands[operand])
        return scaled(size[1], factor), size if keeps else None

    return handle


def _matches(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    if node.target is None:  # Kubernetes knows only the member by its cost
        return 1, None
    text, pattern = map(found.size, node.operands[:2])
    cost = times(scaled(plus(text[1], 1), TENTH), scaled(pattern[1], QUARTER))
    return cost, (0, text[1]) if node.function != "matches" else None


def _contains(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    text, part = map(found.size, node.operands)
    return times(scaled(text[1], TENTH), scaled(part[1], TENTH)), None


def _within(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    return (found.size(node.args[1])[1], None) if "list" in overload else (1, None)


def _of_list(sizes: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    """Each item once; texts also by their length."""
    target = node.operands[0]
    size = sizes.size(target)[1]
    if not target.type.params:
        return scaled(size, TENTH), None
    each = 1
    if target.type.params[0].kind in ("string", "bytes"):
        each = plus(1, scaled((sizes.item_size(target) or UNKNOWN)[1], TENTH))
    return times(size, each), None


def _replace(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    size, old, new = map(found.size, node.operands[:3])
    count, kept = 0, size[1]
    if old[0] == 0:
        count = plus(size[1], 1)
    elif new[1] > old[0]:
        count, kept = math.ceil(size[1] / old[0]), 0
    return scaled(size[1], 2 * TENTH), (0, plus(times(count, new[1]), kept))


def _split(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    size = found.size(node.operands[0])
    most = size[1]
    if len(node.args) > 1 and isinstance(node.args[1], Const):
        most = int(node.args[1].value) % (1 << 64)
    return scaled(size[1], 2 * TENTH), (0, most)


def _join(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    target = node.operands[0]
    count = found.size(target)[1]
    whole = times(count, (found.item_size(target) or UNKNOWN)[1])
    if node.args:
        whole = plus(whole, times(found.size(node.args[0])[1], max(0, count - 1)))
    return scaled(whole, TENTH), (0, whole)


def _makes(factor: float, squared: bool = False) -> Handler:
    """A list of the size of the first operand."""

    def handle(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
        measured = node.args[0] if node.function == "@sortByAssociatedKeys" else node.operands[0]
        low, high = found.size(measured)
        if squared:
            low, high = times(low, low), times(high, high)
        more = TENTH if squared and ("(string)" in overload or "(bytes)" in overload) else 0.0
        return plus(scaled(high, factor + more), 11), (low, high)

    return handle


def _slice(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    start, end = node.args
    last = _whole(end, found.size(node.operands[0])[1])
    count = (last - _whole(start, 0)) % (1 << 64)
    return plus(count, 11), (count, count)


def _range(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    count = _whole(node.args[0], INF)
    return plus(count, 11), (count, count)


def _flatten(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    depth = _whole(node.args[0], INF) if node.args else 1
    size = found.size(node.operands[0])
    return plus(scaled(size[1], float(depth)), 11), size


def _whole(node: SyntaxNode, otherwise: int) -> int:
    value: Any = node.value if isinstance(node, Const) else None
    return int(value) % (1 << 64) if type(value) in (int, UInt) else otherwise


def _sets(factor: float) -> Handler:
    def handle(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
        one, other = map(found.size, node.args)
        return plus(scaled(times(one[1], other[1]), factor), 1), None

    return handle


def _ip(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    return (1, None) if "CIDR" in overload else (scaled(found.size(node.args[0])[1], TENTH), None)


def _contained(base: int) -> Handler:
    def handle(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
        read = scaled(found.size(node.args[0])[1], TENTH) if overload.endswith("string)") else 0
        return base + read, None

    return handle


def _selector(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    length = found.size(node.args[0])[1]
    return plus(10, scaled(length, TENTH), scaled(scaled(length, 0.5), 50.0)), None


def _validate(found: Sizes, node: Call, overload: str) -> tuple[int, Size | None]:
    return scaled(scaled(found.size(node.args[0])[1], TENTH), _REGEX_SIZE * QUARTER), None


_ONES = """
serviceAccount path group resource subresource namespace name allowed reason error errored masked prefixLength family
isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast format.named sign asInteger isInteger
asApproximateFloat isGreaterThan isLessThan compareTo add sub major minor patch getScheme getHostname getHost getPort
getEscapedPath getQuery
"""
FUNCTIONS: dict[str, Handler] = {
    **dict.fromkeys(_ONES.split(), _fixed(1)),
    "check": _fixed(350_000),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _of_list),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _scan(0, keeps=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _scan(0)),
    "ip.isCanonical": _scan(0, 2 * TENTH),
    "ip": _ip,
    "matches": _matches,
    "find": _matches,
    "findAll": _matches,
    "contains": _contains,
    "@in": _within,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "containsIP": _contained(4),
    "containsCIDR": _contained(7),
    "validate": _validate,
    "slice": _slice,
    "lists.range": _range,
    "reverse": _makes(1.0),
    "flatten": _flatten,
    "distinct": _makes(2.0, True),
    "sort": _makes(2.0, True),
    "@sortByAssociatedKeys": _makes(2.0, True),
    "sets.contains": _sets(1.0),
    "sets.intersects": _sets(1.0),
    "sets.equivalent": _sets(2.0),
}
