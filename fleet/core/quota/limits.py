"""Every limit of the quota tree, in one table: whom it binds, what of a unit counts there, its figure, and what people
read of it and do about it.

A limit holds at a node: for all work below it, or for that of each user there. Work counts under *charges*: each
resource it asks for under the resource's own name; the same again behind FIRM, if it may not be preempted; and one for
each count, such as the number of jobs. A limit is found by where work counts and by its charge, so no two rows may bind
the same charge of the same work. `Usage` adds charges up and compares them with the figures, whatever they mean; the
checker does so by sums of its own; reasons, proposals and the numbers that people see follow from the rows.

What other nodes do not lend is no row, since it has no figure. It makes more of a node count as used, by the part of
the promises below that is kept and lies idle, and so a `max` refuses earlier: the refusal is by MAX, with its
`reserve`. At the root the capacity of the fleet stands in for a `max` that is larger, for these resources alone.

Limits on jobs that wait are no rows either. They bind when a job is made, and no decision asks (waiting.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import Unit
from fleet.core.quota.tree import MAX_JOBS, STARTS, QuotaNode, QuotaTree
from fleet.core.quota.users import account, split, with_cap

FIRM = "firm:"  # before a resource: its usage by work that may not be preempted


class LimitKind(StrEnum):
    MAX = "max"
    JOBS = "jobs"
    STARTS = "starts"
    MIN = "min"
    USER = "user max"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on one resource, or count, at a node. `user`: whose work it binds; "" for all work below the node."""

    kind: LimitKind
    node: str
    resource: str
    user: str = ""

    @property
    def entry(self) -> LimitEntry:
        return LIMITS[self.kind]

    @property
    def account(self) -> str:
        """Where the work that it binds is added up."""
        return account(self.node, self.user) if self.user else self.node

    @property
    def text(self) -> str:
        """max of root/vision, max of user ann at root/vision"""
        word = self.entry.word
        return f"{word} of user {self.user} at {self.node}" if self.user else f"{word} of {self.node}"

    def counts(self, unit: Unit) -> bool:
        """Whether the work of a unit counts in it."""
        below = unit.leaf is not None and f"{unit.leaf}/".startswith(f"{self.node}/")
        return below and self.user in ("", unit.user) and not (self.entry.firm and unit.preemptible)

    def stated(self, tree: QuotaTree) -> int | None:
        """The figure as the tree sets it; None for no limit, and for one that has no figure to set."""
        stated = self.entry.stated
        return stated(tree, self) if stated is not None else None

    def raised(self, tree: QuotaTree, to: int) -> QuotaTree:
        """The tree with another figure."""
        raised, node = self.entry.raised, tree.nodes[self.node]
        return QuotaTree(tree.root, {**tree.nodes, self.node: raised(node, self, to)}) if raised is not None else tree


# (tree, node, user, what `min` promises the node of every resource that some min names) -> figures by charge
Figures = Callable[[QuotaTree, str, str, Mapping[str, int]], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class LimitEntry:
    """One row of the table.

    `code`: of the reason of a unit that the limit refuses; no other row has it. `word`: the field that sets the figure.
    `figures`: those that bind at a node now. `by_user`: each binds the work of one user below the node. `counts`: the
    charge, where a unit counts as one; "" where all resources count that no other row counts. `firm`: only work that
    may not be preempted counts. `of_starts`: only the starts of this decision count. `stated`, `raised`: the figure as
    it is set, and the node with another; None where nobody sets it. `why`: the whole of a reason without amounts.
    """

    code: Code
    word: str
    figures: Figures
    by_user: bool = False
    counts: str = ""
    firm: bool = False
    of_starts: bool = False
    stated: Callable[[QuotaTree, Limit], int | None] | None = None
    raised: Callable[[QuotaNode, Limit, int], QuotaNode] | None = None
    why: str = ""


def _max(tree: QuotaTree, node: str, user: str, promised: Mapping[str, int]) -> Mapping[str, int]:
    return {name: amount for name, amount in tree.nodes[node].max.items() if name != MAX_JOBS}


def _max_jobs(tree: QuotaTree, node: str, user: str, promised: Mapping[str, int]) -> Mapping[str, int]:
    most = tree.nodes[node].max.get(MAX_JOBS)
    return {} if most is None else {MAX_JOBS: most}


def _max_stated(tree: QuotaTree, limit: Limit) -> int | None:
    return tree.nodes[limit.node].max.get(limit.resource)


def _max_raised(node: QuotaNode, limit: Limit, to: int) -> QuotaNode:
    return replace(node, max={**node.max, limit.resource: to})


def _one_start(tree: QuotaTree, node: str, user: str, promised: Mapping[str, int]) -> Mapping[str, int]:
    return {STARTS: 1} if tree.nodes[node].one_at_a_time else {}


def _min(tree: QuotaTree, node: str, user: str, promised: Mapping[str, int]) -> Mapping[str, int]:
    return {FIRM + name: amount for name, amount in promised.items()}


def _min_stated(tree: QuotaTree, limit: Limit) -> int | None:
    return tree.nodes[limit.node].min.get(limit.resource, 0)


def _min_raised(node: QuotaNode, limit: Limit, to: int) -> QuotaNode:
    return replace(node, min={**node.min, limit.resource: to})


def _of_user(tree: QuotaTree, node: str, user: str, promised: Mapping[str, int]) -> Mapping[str, int]:
    caps = tree.user_caps.get(node)
    return caps.of(user) if caps is not None else {}


def _user_stated(tree: QuotaTree, limit: Limit) -> int | None:
    return _of_user(tree, limit.node, limit.user, {}).get(limit.resource)


def _user_raised(node: QuotaNode, limit: Limit, to: int) -> QuotaNode:
    return replace(node, attributes=with_cap(node.attributes, limit.user, limit.resource, to))


LIMITS: Mapping[LimitKind, LimitEntry] = {
    LimitKind.MAX: LimitEntry(Code.QUOTA_EXHAUSTED, "max", _max, stated=_max_stated, raised=_max_raised),
    LimitKind.JOBS: LimitEntry(
        Code.MAX_JOBS, "max", _max_jobs, counts=MAX_JOBS, stated=_max_stated, raised=_max_raised
    ),
    LimitKind.STARTS: LimitEntry(
        Code.NOT_ITS_TURN,
        "",
        _one_start,
        counts=STARTS,
        of_starts=True,
        why="{node} starts one job at a time, and another one starts now",
    ),
    LimitKind.MIN: LimitEntry(Code.MIN_EXHAUSTED, "min", _min, firm=True, stated=_min_stated, raised=_min_raised),
    LimitKind.USER: LimitEntry(
        Code.USER_LIMIT, "max", _of_user, by_user=True, stated=_user_stated, raised=_user_raised
    ),
}

COUNTS = frozenset(entry.counts for entry in LIMITS.values() if entry.counts)  # charges of which a unit has one
JOB_COUNTS = frozenset(entry.counts for entry in LIMITS.values() if entry.counts and not entry.of_starts)
_KINDS = {(entry.by_user, entry.counts or (FIRM if entry.firm else "")): kind for kind, entry in LIMITS.items()}
_OF_CODES = {entry.code: kind for kind, entry in LIMITS.items()}
_OF_USERS = tuple(entry.figures for entry in LIMITS.values() if entry.by_user)
_OF_ALL = tuple(entry.figures for entry in LIMITS.values() if not entry.by_user)


def figures(tree: QuotaTree, name: str, promised: Mapping[str, int]) -> dict[str, int]:
    """All figures that bind work at a node, or that of a user there, by charge. `name`: the account."""
    node, user = split(name)
    binding: dict[str, int] = {}
    for of_row in _OF_USERS if user else _OF_ALL:
        binding.update(of_row(tree, node, user, promised))
    return binding


def limit_on(node: str, charge: str, user: str = "") -> Limit:
    """The limit that binds a charge there."""
    by_user, prefix = bool(user), FIRM if charge.startswith(FIRM) else ""
    kind = _KINDS.get((by_user, charge)) or _KINDS.get((by_user, prefix)) or _KINDS[by_user, ""]
    return Limit(kind, node, charge.removeprefix(FIRM), user)


def limit_of(reason: Reason) -> Limit | None:
    """The limit that a reason is about; None for another reason."""
    kind, numbers = _OF_CODES.get(reason.code), reason.numbers
    if kind is None or "node" not in numbers:
        return None
    return Limit(kind, str(numbers["node"]), str(numbers.get("resource")), str(numbers.get("user", "")))
