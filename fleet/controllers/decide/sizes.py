"""The sizes of an elastic unit, made of its binding and its pods. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fleet.bindings import binding as b
from fleet.bindings.components import WANTED, components_of, wanted_of
from fleet.bindings.conditions import is_true
from fleet.bindings.elastic import SHRUNK_AT, ranges_of, resized
from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Component, ElasticSizes, Seat, Step, Unit
from fleet.kinds.interpreter import Range
from fleet.values.ports import Body
from fleet.values.times import seconds
from fleet.values.untyped import text
from fleet.wellknown import GANG_WHOLE

STEPS_MOST = 200  # of one component; a larger one gives up more at once
_NUMBER = re.compile(r"-(\d{1,4})$")  # of a replica; longer ones are names by chance


def waiting_sizes(unit: Unit, binding: Body) -> Unit:
    """The waiting unit at its least, with all that it asks for; the very unit where its job is not elastic."""
    ranges = ranges_of(binding)
    if not ranges:
        return unit
    least = {name: found.least for name, found in ranges.items()}
    sizes = ElasticSizes(unit.components, _steps(unit, ranges))
    return replace(unit, components=resized(unit.components, least), sizes=sizes)


def placed_sizes(unit: Unit, binding: Body) -> Unit:
    """The placed unit with its sizes, but for its surplus (`with_surplus`)."""
    ranges = ranges_of(binding)
    if not ranges:
        return unit
    asks = tuple(wanted_of(binding)) if grows_by_plan(binding) else ()
    shrunk_at = seconds(text(b.status_of(binding).get(SHRUNK_AT)))
    settled = is_true(binding, GANG_WHOLE)
    return replace(unit, sizes=ElasticSizes(asks, _steps(unit, ranges), settled=settled, shrunk_at=shrunk_at))


def grows_by_plan(binding: Body) -> bool:
    """Whether its job asks for more replicas that the plan may give it one by one. All else that a job asks for while
    it runs is given whole or not at all (growing.py): other pods, and what nobody could take back."""
    if not b.spec_of(binding).get(WANTED) or not ranges_of(binding) or not b.preemptible(binding):
        return False
    has = {part.name: replace(part, replicas=0) for part in components_of(binding)}
    return has == {part.name: replace(part, replicas=0) for part in wanted_of(binding)}


def with_surplus(unit: Unit, binding: Body, pods: Sequence[PodView]) -> Unit:
    """The unit with the steps down to its least. Its last component gives up replicas first, each component those whose
    pods have the highest numbers: an operator probably takes these. Where names have no numbers, the newest."""
    if unit.sizes is None:
        return unit
    ranges, seats = ranges_of(binding), {seat.node: seat for seat in unit.seats}
    charges = {part.name.lower(): part.replicas for part in components_of(binding)}
    surplus: list[Step] = []
    leaving = 0
    for part in reversed(unit.components):
        name, size = part.name.lower(), part.replicas
        own_pods = sorted((pod for pod in pods if pod.component.lower() == name), key=_number)
        for fewer in _downward(part, ranges.get(name)):
            leaving += size - fewer >= charges.get(name, size)
            surplus.append(Step(part.name, fewer, *_shown(own_pods[size - fewer : size], seats)))
            size -= fewer
    return replace(unit, sizes=replace(unit.sizes, surplus=tuple(surplus), leaving=leaving))


def _downward(part: Component, found: Range | None) -> Iterator[int]:
    """By how many replicas a component becomes smaller each time, down to its least."""
    steps = (part.replicas - found.least) // found.step if found is not None else 0
    each = -(-steps // STEPS_MOST)
    while found is not None and steps > 0:
        yield found.step * min(each, steps)
        steps -= each


def _steps(unit: Unit, ranges: Mapping[str, Range]) -> tuple[tuple[str, int], ...]:
    parts = (part.name for part in unit.components)
    return tuple((name, ranges[name.lower()].step) for name in parts if name.lower() in ranges)


def _shown(pods: Sequence[PodView], seats: Mapping[str, Seat]) -> tuple[int, tuple[Seat, ...]]:
    """How many of the pods the inventory shows, and what they hold by node."""
    held: dict[str, Amounts] = {}
    for pod in pods:
        if pod.holds_room and pod.node in seats:
            held[pod.node] = held.get(pod.node, NOTHING).plus(pod.requests)
    visible = sum(bool(pod.node) and pod.phase != "Failed" for pod in pods)
    return visible, tuple(replace(seats[node], holds=amounts) for node, amounts in held.items())


def _number(pod: PodView) -> tuple[int, float, str]:
    found = _NUMBER.search(pod.name)
    return int(found[1]) if found is not None else -1, pod.since, pod.name
