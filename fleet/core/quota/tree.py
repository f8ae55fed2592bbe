"""The quota tree: the limits and promises of its nodes. (The algebra over it is in usage.py.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fleet.core.model.unit import Unit
from fleet.core.quota.users import UserCaps, user_caps
from fleet.values.quantity import BadQuantity

MAX_JOBS = "kube-queue/max-jobs"
STARTS = "fleet.io/starts"  # one for each unit that a decision starts below a node that starts one at a time
PRIORITY_THAT_BLOCKS = 4  # of an Intelligent queue that does not say


@dataclass(frozen=True, slots=True)
class QuotaNode:
    """`path` is the full name from the root, "root/child-2". In `max` a missing resource is unlimited; in `min` it is
    zero. Amounts are base units (see fleet/core/model/amounts.py)."""

    path: str
    name: str
    parent: str | None
    min: Mapping[str, int] = field(default_factory=dict)
    max: Mapping[str, int] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    policy: str = "Priority"  # of its Queue: Priority | Block | Intelligent
    threshold: int = PRIORITY_THAT_BLOCKS  # of an Intelligent queue: a unit of this priority or above blocks it
    require_queue: bool = False  # no policy takes gangs past the queues of the leaves below it
    one_at_a_time: bool = False  # one decision starts one unit below it at most, as its Queue says


@dataclass(frozen=True, slots=True)
class QuotaTree:
    """All nodes by path; `root` is the path of the root. A tree that is none (see `problems`) can be made, so that it
    can be reported; everything here ends on it all the same."""

    root: str
    nodes: Mapping[str, QuotaNode]
    _leaf_by_namespace: Mapping[str, str] = field(init=False, repr=False, compare=False, default_factory=dict)
    _user_caps: Mapping[str, UserCaps] = field(init=False, repr=False, compare=False, default_factory=dict)
    _capped: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        index: dict[str, str] = {}
        for path in sorted(self.nodes):
            node = self.nodes[path]
            if not node.children:
                for namespace in node.namespaces:
                    index.setdefault(namespace, path)
        object.__setattr__(self, "_leaf_by_namespace", index)
        caps = _caps(self.nodes)
        capped = frozenset(path for path in self.nodes if caps and not caps.keys().isdisjoint(self.ancestors(path)))
        object.__setattr__(self, "_user_caps", caps)
        object.__setattr__(self, "_capped", capped)

    @property
    def user_caps(self) -> Mapping[str, UserCaps]:
        """Limits per user, by path of the node that sets them."""
        return self._user_caps

    def leaf_of(self, namespace: str) -> str | None:
        """The leaf that a namespace hangs on, or None."""
        return self._leaf_by_namespace.get(namespace)

    def is_leaf(self, path: str) -> bool:
        return path in self.nodes and not self.nodes[path].children

    def ancestors(self, path: str) -> tuple[str, ...]:
        """The node itself, its parent, …, the root. Empty for a path that is not in the tree."""
        line: list[str] = []
        at: str | None = path
        while at is not None and at in self.nodes and at not in line:
            line.append(at)
            at = self.nodes[at].parent
        return tuple(line)

    def stopped_by(self, unit: Unit) -> bool:
        """Whether no other unit of its leaf may start before `unit`, when it is first and cannot start."""
        node = self.nodes.get(unit.leaf or "")
        if node is None:
            return False
        return node.policy == "Block" or (node.policy == "Intelligent" and unit.priority >= node.threshold)

    def starts_one(self, leaf: str) -> bool:
        """Whether one decision starts one unit at most of the leaf, or below a node above it."""
        return any(self.nodes[node].one_at_a_time for node in self.ancestors(leaf))

    def in_any_number(self) -> QuotaTree:
        """The tree that starts as many units at once as there is room for."""
        if not any(node.one_at_a_time for node in self.nodes.values()):
            return self
        return QuotaTree(self.root, {path: replace(node, one_at_a_time=False) for path, node in self.nodes.items()})

    def queue_required_by(self, path: str) -> str:
        """The node, of those from here up to the root, that lets no policy pass the queue; "" for none."""
        return next((node for node in self.ancestors(path) if self.nodes[node].require_queue), "")

    def caps_users(self, path: str) -> bool:
        """Whether the node, or what is left above one that was removed, limits what a user has below it."""
        while path and path not in self.nodes:
            path = path.rpartition("/")[0]
        return path in self._capped

    def problems(self) -> tuple[tuple[str, str], ...]:
        """The faults that keep the nodes from being a tree, as (field, problem); empty for a tree. Amounts are not
        judged: a max below min, or below what runs, is a limit like any other."""
        problems: list[tuple[str, str]] = []
        if self.root not in self.nodes:
            return (("tree.root", f"{self.root!r} is not among the nodes"),)
        for path in sorted(self.nodes):
            node, where = self.nodes[path], f"tree.nodes[{path}]"
            if node.path != path:
                problems.append((f"{where}.path", f"is {node.path!r}, but the node is kept under {path!r}"))
            if (node.parent is None) != (path == self.root):
                problems.append((f"{where}.parent", "exactly the root has no parent"))
            elif node.parent is not None and node.parent not in self.nodes:
                problems.append((f"{where}.parent", f"{node.parent!r} is not among the nodes"))
            elif self.ancestors(path)[-1] != self.root:
                problems.append((f"{where}.parent", "leads round in a circle, not to the root"))
            try:
                user_caps(node.attributes)
            except BadQuantity as error:
                problems.append((f"{where}.attributes", str(error)))
            for child in node.children:
                if child not in self.nodes or self.nodes[child].parent != path:
                    problems.append((f"{where}.children", f"{child!r} is not a node with this parent"))
        return tuple(problems)


def _caps(nodes: Mapping[str, QuotaNode]) -> dict[str, UserCaps]:
    caps_by_path: dict[str, UserCaps] = {}
    for path, node in nodes.items():
        try:
            caps = user_caps(node.attributes)
        except BadQuantity:
            continue  # `problems` names it
        if caps is not None:
            caps_by_path[path] = caps
    return caps_by_path
