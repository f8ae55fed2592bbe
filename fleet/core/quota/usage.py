"""The algebra of quota: the usage of every node of the tree, and whether one more gang may be charged.

A gang is charged at its leaf and at every ancestor, in every resource it asks for, and as one job. The gang is refused
where used + request > max; a resource that a node's max does not name is unlimited there, and a node that is already
above its max (the max was lowered while work runs) refuses only gangs that would raise the same resource further.
Integers are exact: no amount is ever scaled, rounded or compared with a 32-bit number.

The limits are those of one table (limits.py), each on a charge of work. Work that may not be preempted is charged a
second time, against `min`, since no other leaf could take back its room. The part that a node does not lend counts as
used by the node wherever its usage meets that of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass

from fleet.core.model.amounts import Amounts
from fleet.core.model.unit import Phase, Unit
from fleet.core.quota.guarantee import Guarantees
from fleet.core.quota.limits import FIRM, JOB_COUNTS, Limit, figures, limit_on
from fleet.core.quota.tree import STARTS, QuotaTree
from fleet.core.quota.users import account, split

_NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first limit, from the leaf up, that a request would break."""

    node: str
    charge: str
    request: int
    used: int
    max: int
    reserve: int = 0  # of `used`, what others do not lend
    fleet: bool = False  # `max` is what the fleet has
    user: str = ""  # whose limit below the node it is; "" for the node's own

    @property
    def limit(self) -> Limit:
        """The limit that refuses."""
        return limit_on(self.node, self.charge, self.user)

    @property
    def short(self) -> int:
        return self.used + self.request - self.max


def request_of(unit: Unit) -> Amounts:
    """The charge of a unit at each node: its total, and one of each count of jobs. Amounts below zero (bad input) count
    as zero."""
    charged = {name: amount for name, amount in unit.total.items_ if amount > 0}
    if not unit.preemptible:
        charged |= {FIRM + name: amount for name, amount in charged.items()}
    charged |= dict.fromkeys(JOB_COUNTS, 1)
    return Amounts.of(charged)


def start_of(unit: Unit, tree: QuotaTree | None, request: Amounts) -> Amounts:
    """The charge of a unit that starts, where `request` is its charge once it runs."""
    if tree is None or unit.leaf is None or not tree.starts_one(unit.leaf):
        return request
    return request.plus(Amounts.of({STARTS: 1}))


def account_of(tree: QuotaTree, unit: Unit) -> str | None:
    """Where a unit's work is charged, as `Usage` takes it: its leaf, with its user where the leaf's line caps users;
    None outside quota."""
    if unit.leaf is None or not tree.user_caps or not unit.user or not tree.caps_users(unit.leaf):
        return unit.leaf
    return account(unit.leaf, unit.user)


def charged_path(tree: QuotaTree, name: str) -> tuple[str, ...]:
    """Where work of an account counts: the leaf and its ancestors, each after what its user has there where it caps
    users; for a leaf that was removed from the tree while work of it runs, the ancestors that are left."""
    leaf, user = split(name)
    while leaf and leaf not in tree.nodes:
        leaf = leaf.rpartition("/")[0]
    line = tree.ancestors(leaf)
    if not user:
        return line
    return tuple(at for node in line for at in ((account(node, user), node) if node in tree.user_caps else (node,)))


class Usage:
    """Amounts used per node of one tree. Mutable; `copy()` is cheap enough for one try.

    Work is charged to accounts (`account_of`): a leaf is one. Where a node caps users, its user's usage below it is
    counted as at a node of its own, whose name is an account too."""

    def __init__(self, tree: QuotaTree, promises: Guarantees | None = None) -> None:
        """`promises`: the resources that min binds, and the amounts that are not lent; None: only max counts."""
        self._tree = tree
        self._used: dict[str, dict[str, int]] = {path: {} for path in tree.nodes}
        self._own = set(tree.nodes)  # the nodes whose amounts no copy shares
        self._paths: dict[str, tuple[str, ...]] = {}
        self._capped: dict[str, list[str]] = {}  # of a path, where the user's usage counts
        self._kept: Mapping[str, Mapping[str, int]] = promises.reserves if promises is not None else {}
        self._keeping = {above for path in self._kept for above in tree.ancestors(path)}
        self._fleet = promises.fleet if promises is not None else {}
        promised, bound = (promises.min, promises.resources) if promises is not None else ({}, ())
        self._limits = {
            path: figures(tree, path, {name: promised.get(path, _NOTHING).get(name, 0) for name in bound})
            for path in tree.nodes
        }

    @staticmethod
    def of(tree: QuotaTree, units: Iterable[Unit], promises: Guarantees | None = None) -> Usage:
        """The usage of the placed and evicting units among `units`; units outside quota are charged nowhere."""
        usage = Usage(tree, promises)
        for unit in units:
            name = account_of(tree, unit)
            if name is not None and unit.phase is not Phase.WAITING:
                usage.charge(name, request_of(unit))
        return usage

    def copy(self) -> Usage:
        other = copy(self)
        other._used = dict(self._used)
        other._own, self._own = set(), set()  # a side that changes a shared mapping copies it first
        return other

    def path(self, account: str) -> tuple[str, ...]:
        """Where work of an account counts, from below."""
        line = self._paths.get(account)
        if line is None:
            line = self._paths[account] = charged_path(self._tree, account)
            capped = self._capped[account] = [name for name in line if split(name)[1]]
            for name in capped:
                self._limits[name] = figures(self._tree, name, _NOTHING)
        return line

    def used(self, node: str, resource: str) -> int:
        return self._used.get(node, _NOTHING).get(resource, 0)

    def room(self, node: str, resource: str) -> int | None:
        """The amount that may still be charged there, never below zero; None for unlimited."""
        limit = self._limits[node].get(resource)
        return None if limit is None else max(0, limit - self.used(node, resource))

    def caps(self, account: str) -> list[tuple[str, str]]:
        """Where the user of an account is limited, as (node, resource)."""
        self.path(account)
        return [(node, resource) for node in self._capped[account] for resource in self._limits[node]]

    def caps_refuse(self, account: str, request: Amounts) -> bool:
        """Whether a limit of the user of this account refuses it, whatever its leaf and the nodes above say."""
        self.path(account)
        for node in self._capped[account]:
            used = self._used.get(node, _NOTHING)
            for resource, limit in self._limits[node].items():
                amount = request[resource]
                if amount and used.get(resource, 0) + amount > limit:
                    return True
        return False

    def charge(self, account: str, request: Amounts, times: int = 1) -> None:
        for node in self.path(account):
            if node not in self._own:
                self._own.add(node)
                self._used[node] = dict(self._used.get(node, _NOTHING))
            used = self._used[node]
            for resource, amount in request.items_:
                used[resource] = used.get(resource, 0) + amount * times

    @property
    def withholds(self) -> bool:
        """Whether some node does not lend all that it is promised."""
        return bool(self._kept)

    def lacking(self, account: str, request: Amounts) -> tuple[tuple[str, str, int], ...]:
        """(node, resource, amount): the usage that must leave each node for its max to allow the request. The parts
        that nodes do not lend are not asked here."""
        over = (
            (name, resource, self.used(name, resource) + amount - self._limits[name][resource])
            for name in self.path(account)
            for resource, amount in request.items_
            if resource in self._limits[name]
        )
        return tuple(item for item in over if item[2] > 0)

    def refusal(self, account: str, request: Amounts) -> Refusal | None:
        """The limit that the request would break first, or None: nodes from the leaf up, resources by name."""
        for name in self.path(account):
            limits, used = self._limits[name], self._used.get(name, _NOTHING)
            if not limits:
                continue
            for resource, amount in request.items_:
                limit = limits.get(resource)
                if limit is not None and used.get(resource, 0) + amount > limit:
                    node, user = split(name)
                    return Refusal(node, resource, amount, used.get(resource, 0), limit, user=user)
        return self._unlent(split(account)[0], request) if self._kept else None

    def _unlent(self, leaf: str, request: Amounts) -> Refusal | None:
        """As `refusal`, where what nodes do not lend counts as used by them. Users' limits lend nothing."""
        for resource, amount in request.items_:
            below, before, after = "", 0, 0
            for node in self.path(leaf):
                beside = sum(self._taken(c, resource) for c in self._tree.nodes[node].children if c != below)
                children = sum(self.used(c, resource) for c in self._tree.nodes[node].children)
                beside += self.used(node, resource) - children  # usage of work of leaves that are gone
                kept = self._kept.get(node, {}).get(resource, 0)
                first = amount if not below else 0
                before, after = max(kept, before + beside), max(kept, after + beside + first)
                limit, there = self._limits[node].get(resource), self._fleet.get(resource)
                by_fleet = node == self._tree.root and there is not None and (limit is None or there < limit)
                limit = there if by_fleet else limit
                if limit is not None and after > limit and after > before:
                    used = after - amount
                    return Refusal(node, resource, amount, used, limit, used - self.used(node, resource), by_fleet)
                below = node
        return None

    def _taken(self, node: str, resource: str) -> int:
        """The amount that others must count as used there."""
        if node not in self._keeping:
            return self.used(node, resource)
        children = self._tree.nodes[node].children
        strays = self.used(node, resource) - sum(self.used(child, resource) for child in children)
        inner = strays + sum(self._taken(child, resource) for child in children)
        return max(self._kept.get(node, {}).get(resource, 0), inner)
