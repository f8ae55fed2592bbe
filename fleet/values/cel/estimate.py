"""The largest cost that an expression can have for what its schema lets through, as Kubernetes estimates it.

The estimate decides which rules a CRD may hold, so it follows cel-go's (checker/cost.go) and Kubernetes' own
(pkg/cel/library/cost.go) to the unit, also where they are odd.
"""

from __future__ import annotations

from fleet.values.cel.costs import FUNCTIONS, INF, TENTH, UNKNOWN, Size, plus, scaled, times, union
from fleet.values.cel.tree import ACCUMULATOR, Bind, Call, Const, Ident, ListOf, Loop, MapOf, Select, Struct, SyntaxNode
from fleet.values.cel.types import Type

_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


def estimate(tree: SyntaxNode, root: Type) -> int:
    """Of an expression over `self` and `oldSelf` of the type `root`."""
    return _Estimate(root).cost(tree)


class _Local:
    """What is known of a variable. `path`: its type by the schema; `entry`: the sizes of its keys and values."""

    __slots__ = ("entry", "path", "size")

    def __init__(self, path: Type | None, size: Size | None, entry: tuple[Size, Size] | None = None) -> None:
        self.path, self.size, self.entry = path, size, entry


class _Estimate:
    def __init__(self, root: Type) -> None:
        self.root = root
        self.sizes: dict[int, Size] = {}
        self.entries: dict[int, tuple[Size, Size]] = {}
        self.paths: dict[int, Type | None] = {}
        self.locals: dict[str, _Local] = {}

    def cost(self, node: SyntaxNode) -> int:
        found: int = getattr(self, f"_{type(node).__name__.lower()}")(node)
        return min(INF, found)

    # -- sizes

    def size(self, node: SyntaxNode) -> Size:
        return self.known_size(node) or UNKNOWN

    def known_size(self, node: SyntaxNode) -> Size | None:
        found = self.sizes.get(id(node)) or _literal_size(node)
        if found is not None:
            return found
        path = self.paths.get(id(node))
        if path is not None and path.shape is not None:
            return 0, path.shape.most
        if node.type.kind in _SCALARS:
            return 1, 1
        if isinstance(node, Ident) and node.name in self.locals:
            return self.locals[node.name].size
        return None

    def entry(self, node: SyntaxNode) -> tuple[Size, Size] | None:
        found = self.entries.get(id(node))
        if found is None and isinstance(node, Ident) and node.name in self.locals:
            return self.locals[node.name].entry
        return found

    def item_size(self, node: SyntaxNode) -> Size | None:
        """Of the items of a list, where the schema or the list itself says it."""
        path = self.paths.get(id(node))
        shape = path.params[0].shape if path is not None and path.kind == "list" else None
        return (0, shape.most) if shape is not None else None

    # -- nodes

    def _const(self, node: Const) -> int:
        return 0

    def _ident(self, node: Ident) -> int:
        local = self.locals.get(node.name)
        if local is not None:
            self.paths[id(node)] = local.path
        else:
            self.paths[id(node)] = self.root
        return 1

    def _select(self, node: Select) -> int:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        path = self.paths.get(id(node.operand))
        if path is not None:
            inner = path.params[1] if path.kind == "map" else (path.fields or {}).get(node.name)
            self.paths[id(node)] = inner
        return cost + (1 if node.optional or node.operand.type.kind in ("map", "struct", "param") else 0)

    def _listof(self, node: ListOf) -> int:
        cost = sum(map(self.cost, node.items))
        self.entries[id(node)] = ((1, 1), self._widest(node.items))
        return cost + 10

    def _mapof(self, node: MapOf) -> int:
        cost = sum(self.cost(key) + self.cost(value) for key, value, _ in node.entries)
        keys, values = [entry[0] for entry in node.entries], [entry[1] for entry in node.entries]
        self.entries[id(node)] = (self._widest(keys), self._widest(values))
        return cost + 30

    def _widest(self, nodes: list[SyntaxNode]) -> Size:
        sizes = [self.size(node) for node in nodes]
        return (min(size[0] for size in sizes), max(size[1] for size in sizes)) if sizes else (0, 0)

    def _struct(self, node: Struct) -> int:
        return 40 + sum(self.cost(value) for _, _, value, _ in node.fields)

    def _bind(self, node: Bind) -> int:
        cost = self.cost(node.value) + 10
        before = dict(self.locals)
        self.locals[node.name] = _Local(
            self.paths.get(id(node.value)), self.known_size(node.value), self.entry(node.value)
        )
        cost += self.cost(node.result)
        self.locals = before
        self._copy(node, node.result)
        return cost

    def _copy(self, to: SyntaxNode, given: SyntaxNode) -> None:
        size, entry = self.known_size(given), self.entry(given)
        if size is not None:
            self.sizes[id(to)] = size
        if entry is not None:
            self.entries[id(to)] = entry

    def _loop(self, node: Loop) -> int:
        cost = self.cost(node.over) + self.cost(node.start)
        before = dict(self.locals)
        self.locals[ACCUMULATOR] = _Local(None, self.known_size(node.start), self.entry(node.start))
        path = self.paths.get(id(node.over))
        entry = self.entry(node.over)
        key, value = entry if entry is not None else (None, None)
        listed = node.over.type.kind == "list"
        names: tuple[Type | None, Type | None] = (self.root, self.root)  # without a path Kubernetes takes the root
        if path is not None:
            names = None, None
            if path.kind in ("list", "map"):
                names = (None if path.kind == "list" else path.params[0]), path.params[-1]
        if node.second:
            self.locals[node.first] = _Local(names[0], key)
            self.locals[node.second] = _Local(names[1], value)
        else:
            self.locals[node.first] = _Local(names[1] if listed else names[0], value if listed else key)
        turn = self.cost(node.condition) + self.cost(node.step)
        self.locals = {**before, ACCUMULATOR: self.locals[ACCUMULATOR]}
        cost += self.cost(node.result)
        self.locals = before
        turns = self.size(node.over)
        if isinstance(node.start, Const):
            self.sizes[id(node)] = (1, 1)
        else:
            self.sizes[id(node)] = turns
            step_entry = self.entry(node.step)
            if step_entry is not None:
                self.entries[id(node)] = step_entry
        return cost + times(turns[1], turn)

    def _call(self, node: Call) -> int:
        if node.function == "dyn" and node.args:
            cost = 1 + self.cost(node.args[0])
            self._copy(node, node.args[0])
            return cost
        args = [self.cost(arg) for arg in node.args]
        target = self.cost(node.target) if node.target is not None else 0
        if node.function == "_?_:_":
            return self._conditional(node, args)
        if node.function in ("_&&_", "_||_"):
            return plus(*args)
        called, result = 0, None
        for overload in node.overloads:
            part, size = self._overload(node, overload)
            called = max(called, part)
            if size is not None:
                result = size if result is None else union(result, size)
            self._indexed(node, overload)
        if node.function == "_[_]":
            entry = self.entry(node.args[0])
            result = entry[1] if entry is not None else result
        if result is None:
            result = self.known_size(node)
        if result is not None:
            self.sizes[id(node)] = result
        return target + plus(*args) + called

    def _conditional(self, node: Call, args: list[int]) -> int:
        self.sizes[id(node)] = union(self.size(node.args[1]), self.size(node.args[2]))
        one, other = self.entry(node.args[1]), self.entry(node.args[2])
        if one is not None and other is not None:
            self.entries[id(node)] = (union(one[0], other[0]), union(one[1], other[1]))
        return args[0] + max(args[1], args[2])

    def _indexed(self, node: Call, overload: str) -> None:
        if overload not in ("_[_](list(A), int)", "_[_](map(A, B), A)"):
            return
        path = self.paths.get(id(node.args[0]))
        if path is not None:
            self.paths[id(node)] = path.params[-1] if path.kind in ("list", "map") else None
        else:
            self.paths[id(node)] = self.root

    def _overload(self, node: Call, overload: str) -> tuple[int, Size | None]:
        handler = FUNCTIONS.get(node.function)
        if handler is not None:
            return handler(self, node, overload)
        if overload in _SCANS:
            return scaled(self.size(node.operands[_SCANS[overload]])[1], TENTH), None
        if overload in ("_+_(string, string)", "_+_(bytes, bytes)", "_+_(list(A), list(A))"):
            return self._joined(node, overload)
        if node.function in ("_==_", "_!=_") or (
            node.function in ("_<_", "_<=_", "_>_", "_>=_")
            and overload.endswith(("(string, string)", "(bytes, bytes)"))
        ):
            return self._compared(node)
        return 1, None

    def _joined(self, node: Call, overload: str) -> tuple[int, Size]:
        one, other = map(self.size, node.args)
        result = (plus(one[0], other[0]), plus(one[1], other[1]))
        entries = [self.entry(arg) for arg in node.args]
        if entries[0] is not None and entries[1] is not None:
            self.entries[id(node)] = (union(entries[0][0], entries[1][0]), union(entries[0][1], entries[1][1]))
        return (1 if "list" in overload else scaled(result[1], TENTH)), result

    def _compared(self, node: Call) -> tuple[int, None]:
        one, other = node.args
        if node.function == "_==_" and one.type is other.type and one.type.name in _ATOMS:
            return 1, None
        if node.function == "_==_" and one.type is other.type and one.type.name == "kubernetes.NamedFormat":
            return scaled(64, TENTH), None
        return scaled(min(self.size(one)[1], self.size(other)[1]), TENTH), None


_ATOMS = frozenset(
    {
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.URL",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    }
)
# overload -> which operand is read once
_SCANS = {
    "format(string, list(dyn))": 0,
    "bytes(string)": 0,
    "string(bytes)": 0,
    "strings.quote(string)": 0,
    "startsWith(string, string)": 1,
    "endsWith(string, string)": 1,
}


def _literal_size(node: SyntaxNode) -> Size | None:
    if isinstance(node, Const):
        length = len(node.value) if isinstance(node.value, str | bytes) else 1
        return length, length
    if isinstance(node, ListOf):
        return len(node.items), len(node.items)
    if isinstance(node, MapOf):
        return len(node.entries), len(node.entries)
    return None
