"""Which nodes and members a pod or a gang may use, as Kubernetes defines it: selectors, taints, tolerations.

Facts about the objects, not a policy of ours: planner and checker both read them here. Everything is total: a term that
makes no sense (an unknown operator, Gt on text) matches nothing, as in kube-scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from fleet.core.model.member import TAINT_CORDON, TAINT_DRAIN, Member, Pool, Taint
from fleet.core.model.unit import NodeClaim, Requirement, Toleration, Unit
from fleet.values.untyped import rows, text

IN_DOMAIN = "fleet.io/domain:"
"""With the name of a level: the label, to node selectors alone, of nodes that lie in a domain of a place tree."""
_REPELLING = ("NoSchedule", "NoExecute")
_INTEGER = re.compile("[+-]?[0-9]{1,63}")  # a label has 63 characters at most


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint. An empty effect covers all effects, an empty key with Exists all keys."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.operator == "Equal" and toleration.key == taint.key and toleration.value == taint.value


def repelled_by(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first NoSchedule or NoExecute taint that no toleration covers, or None. PreferNoSchedule never repels."""
    for taint in taints:
        if taint.effect in _REPELLING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def _integer(text: str) -> int | None:
    """A whole number of 64 bits as Go reads it; `int` reads more, such as "1_0"."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def satisfies(labels: Mapping[str, str], term: Requirement) -> bool:
    """Whether labels satisfy one term of a required node affinity. NotIn holds, too, for a label that is absent."""
    have = labels.get(term.key)
    match term.operator:
        case "In":
            return have is not None and have in term.values
        case "NotIn":
            return have is None or have not in term.values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt":
            left = _integer(have) if have is not None else None
            right = _integer(term.values[0]) if len(term.values) == 1 else None
            if left is None or right is None:
                return False
            return left > right if term.operator == "Gt" else left < right
        case _:
            return False


def pool_takes(pool: Pool, claim: NodeClaim) -> bool:
    """Whether pods with this claim may run on the nodes of this pool: taints, node selector, required affinity."""
    if repelled_by(pool.taints, claim.tolerations) is not None:
        return False
    if not claim.node_selector and not claim.affinity:
        return True
    labels = dict(labels_of(pool))
    if any(labels.get(key) != value for key, value in claim.node_selector):
        return False
    return not claim.affinity or any(all(satisfies(labels, term) for term in terms) for terms in claim.affinity)


def labels_of(pool: Pool) -> tuple[tuple[str, str], ...]:
    """The labels of a pool's nodes, with those for the domains of place trees."""
    if not pool.places:
        return pool.labels
    domains = {f"{IN_DOMAIN}{level}": path for level, path in reversed(pool.places)}
    return (*pool.labels, *domains.items())


class PoolIndex:
    """Pools by their labels and taints. The cost of a question follows from the words of the claim, not from words
    times pools: users write the claims. Sets of pools are bits, the bit of a pool is its place in the sequence."""

    def __init__(self, pools: Sequence[tuple[tuple[tuple[str, str], ...], tuple[Taint, ...]]]) -> None:
        """`pools`: the labels and the taints of each."""
        self._all = (1 << len(pools)) - 1
        self._values: dict[str, dict[str, int]] = {}
        self._taints: dict[tuple[Taint, ...], int] = {}
        for place, (labels, taints) in enumerate(pools):
            self._taints[taints] = self._taints.get(taints, 0) | 1 << place
            for key, value in dict(labels).items():
                having = self._values.setdefault(key, {})
                having[value] = having.get(value, 0) | 1 << place
        self._having = {key: _union(values.values()) for key, values in self._values.items()}

    def repellers(self, tolerations: tuple[Toleration, ...]) -> tuple[Taint | None, ...]:
        """The taint that repels pods with these tolerations, by distinct taints of a pool; None where none does."""
        return tuple([repelled_by(taints, tolerations) for taints in self._taints])

    def takes(self, claim: NodeClaim) -> int:
        """The pools that `pool_takes` holds for."""
        able = self._selected(claim)
        for taint, pools in zip(self.repellers(claim.tolerations), self._taints.values(), strict=True):
            if taint is not None:
                able &= ~pools
        return able

    def _selected(self, claim: NodeClaim) -> int:
        able = self._all
        for key, value in claim.node_selector:
            able &= self._values.get(key, _NO_VALUES).get(value, 0)
        if not claim.affinity or not able:
            return able
        return able & _union(self._matching(terms) for terms in claim.affinity)

    def _matching(self, terms: Iterable[Requirement]) -> int:
        able = self._all
        for term in terms:
            able &= self._satisfying(term)
            if not able:
                break
        return able

    def _satisfying(self, term: Requirement) -> int:
        having, values = self._having.get(term.key, 0), self._values.get(term.key, _NO_VALUES)
        match term.operator:
            case "In":
                return _union(values.get(value, 0) for value in term.values)
            case "NotIn":
                return self._all & ~_union(values.get(value, 0) for value in term.values)
            case "Exists":
                return having
            case "DoesNotExist":
                return self._all & ~having
            case _:
                return _union(pools for value, pools in values.items() if satisfies({term.key: value}, term))


_NO_VALUES: Mapping[str, int] = {}


def _union(sets: Iterable[int]) -> int:
    union = 0
    for one in sets:
        union |= one
    return union


def domain_of(pool: Pool, level: str) -> str:
    """The domain of this level in which the nodes of this pool lie: the path of a place tree, else the value of a node
    label; "" for nodes in none, which no gang that must lie within one uses."""
    for key, path in pool.places:
        if key == level:
            return path
    for key, value in pool.labels:
        if key == level:
            return value
    return pool.domain


# Taints that `fleet cordon` and `fleet drain` write: people know these verbs, not the keys.
_OUT_OF_SERVICE: Mapping[str, str] = {TAINT_CORDON: "were cordoned", TAINT_DRAIN: "were being drained"}


def member_bars(unit: Unit, member: Member) -> str:
    """Why policy keeps the unit out of this member, in a few words; "" if it does not. Readiness is not asked here."""
    if unit.affinity_groups and not any(member.name in group.members for group in unit.affinity_groups):
        return "did not match the policy's cluster affinity"
    taint = repelled_by(member.taints, unit.tolerations)
    if taint is not None:
        return _OUT_OF_SERVICE.get(taint.key) or f"had untolerated taint {{{taint.key}: {taint.value}}}"
    if unit.needs_kind and member.kinds is not None and unit.needs_kind not in member.kinds:
        return f"did not serve {unit.needs_kind}"
    if unit.needs_kind and unit.needs_kind in member.idle_kinds:
        return f"had no controller that acts on {unit.needs_kind}"
    if member.name in unit.excluded:
        return "saw the job fail"
    return ""


def taints_text(taints: object) -> str:
    """The taints of a Cluster as `kubectl taint` writes those of a node; NoSchedule is the cordon of a member."""
    return ",".join(
        f"{text(taint.get('key'))}{'=' + text(taint.get('value')) if taint.get('value') else ''}:"
        f"{text(taint.get('effect'))}"
        for taint in rows(taints)
    )
