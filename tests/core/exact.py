"""A third judge of where gangs stand, written apart from planner and checker: CP-SAT over pods, nodes and domains.

It reads the rules by itself, as counts: of each component so many pods on each node, and of each rule so many whole
parts in each domain. It is exact, and for small worlds only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ortools.sat.python import cp_model

from fleet.core.model.amounts import Amounts
from fleet.core.model.matching import domain_of, pool_takes
from fleet.core.model.member import Member, Pool
from fleet.core.model.nesting import flaws
from fleet.core.model.plan import Plan
from fleet.core.model.rule import PlacementRule, Rules
from fleet.core.model.unit import Component, Unit
from fleet.core.snapshot import Snapshot

Gang = tuple[Sequence[Component], Rules]


@dataclass(frozen=True, slots=True)
class _Node:
    pool: Pool
    free: Amounts


def nodes_of(member: Member) -> list[_Node]:
    return [_Node(pool, vector) for pool in member.pools for vector, count in pool.free for _ in range(count)]


class ExactModel:
    """Gangs of one member, all at once."""

    def __init__(self, member: Member, gangs: Iterable[Gang]) -> None:
        self._model = cp_model.CpModel()
        self._nodes = nodes_of(member)
        self._used: list[dict[str, list[cp_model.LinearExpr]]] = [{} for _ in self._nodes]
        for components, rules in gangs:
            self._add(components, rules)
        for node, used in zip(self._nodes, self._used, strict=True):
            for name, terms in used.items():
                self._model.add(sum(terms) <= max(0, node.free[name]))

    def packs(self) -> bool:
        """Whether all the gangs find room, and keep their hard rules."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        status = solver.solve(self._model)
        assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE), solver.status_name(status)
        return status != cp_model.INFEASIBLE

    def use(self, pools: Sequence[Pool], asked: Amounts) -> None:
        """From now on the gangs use just these amounts of the nodes of these pools."""
        here = [used for node, used in zip(self._nodes, self._used, strict=True) if node.pool in pools]
        for name, amount in asked.items_:
            self._model.add(sum(term for used in here for term in used.get(name, [])) == amount)

    def _add(self, components: Sequence[Component], rules: Rules) -> None:
        pods: dict[tuple[str, int], cp_model.LinearExpr] = {}
        for part in components:
            for number, node in enumerate(self._nodes):
                most = part.replicas if pool_takes(node.pool, part.claim) else 0
                pods[part.name, number] = variable = self._model.new_int_var(0, most, f"{part.name} on {number}")
                for name, amount in part.requests.items_:
                    self._used[number].setdefault(name, []).append(amount * variable)
            self._model.add(sum(pods[part.name, number] for number in range(len(self._nodes))) == part.replicas)
        replicas = {part.name: part.replicas for part in components}
        for rule in rules:
            if rule.hard:
                self._keep(rule, rules, replicas, pods)

    def _keep(
        self,
        rule: PlacementRule,
        rules: Rules,
        replicas: Mapping[str, int],
        pods: Mapping[tuple[str, int], cp_model.LinearExpr],
    ) -> None:
        names, parts = _about(rule, replicas)
        if rule.size == 1 and len(names) > 1:  # single pods of each component, which a cap counts together
            for name in names:
                self._keep(replace(rule, of=(name,), most=0), rules, replicas, pods)
            for value in {domain_of(node.pool, rule.level) for node in self._nodes} if rule.most else ():
                here = [at for at, node in enumerate(self._nodes) if domain_of(node.pool, rule.level) == value]
                self._model.add(sum(pods[name, at] for name in names for at in here) <= rule.most)
            return
        around = [rule]  # parts that hold these: a part lies in one domain of each
        for other in rules:
            others, its = _about(other, replicas)
            alone = other.size != 1 or len(others) == 1
            if other is not rule and other.hard and alone and names <= others and parts % its == 0:
                around.append(other)
        domains: dict[tuple[str, ...], list[int]] = {}
        for number, node in enumerate(self._nodes):
            domain = tuple(domain_of(node.pool, one.level) for one in around)
            if all(domain):
                domains.setdefault(domain, []).append(number)
            else:
                for name in names:
                    self._model.add(pods[name, number] == 0)
        whole = {domain: self._model.new_int_var(0, parts, "") for domain in domains}
        for domain, numbers in domains.items():
            for name in names:
                share = replicas[name] // parts
                self._model.add(sum(pods[name, number] for number in numbers) == share * whole[domain])
        values = sorted({domain[0] for domain in domains})
        in_value = {value: sum(whole[domain] for domain in domains if domain[0] == value) for value in values}
        if rule.most:
            for count in in_value.values():
                self._model.add(count <= rule.most // rule.size)
        if rule.even:
            fewer = self._model.new_int_var(0, parts, "")
            for count in in_value.values():
                used = self._model.new_bool_var("")
                self._model.add(count == 0).only_enforce_if(~used)
                self._model.add(count >= fewer).only_enforce_if(used)
                self._model.add(count <= fewer + 1).only_enforce_if(used)


def _about(rule: PlacementRule, replicas: Mapping[str, int]) -> tuple[frozenset[str], int]:
    """The components of a rule that have pods, and its parts."""
    names = frozenset(name for name, count in replicas.items() if count and (not rule.of or name in rule.of))
    pods = sum(replicas[name] for name in names)
    return names, pods // rule.size if rule.size else 1


def illegal(snapshot: Snapshot, plan: Plan) -> list[str]:
    """The members to which a plan sends gangs that have no packing beside the pods on their way there; of members where
    these pods alone have one."""
    starts = {placement.unit: placement.member for placement in plan.placements}
    broken: list[str] = []
    for name in sorted(set(starts.values())):
        coming = [_gang(unit, dict(unit.visible)) for unit in snapshot.backlog.unseen.values() if unit.member == name]
        gangs = [_gang(snapshot.units[key], {}) for key, member in starts.items() if member == name]
        member = snapshot.members[name]
        everything = replace(member, pools=(*member.pools, *member.potential))
        if not ExactModel(everything, [*coming, *gangs]).packs() and ExactModel(everything, coming).packs():
            broken.append(name)
    return broken


def _gang(unit: Unit, seen: Mapping[str, int]) -> Gang:
    """A unit's pods that are not `seen`, and the rules whose parts they still make."""
    left = [replace(part, replicas=max(0, part.replicas - seen.get(part.name, 0))) for part in unit.components]
    faulty = {at for at, _, _ in flaws(unit.rules, left)}
    return left, tuple(rule for at, rule in enumerate(unit.rules) if at not in faulty)
