"""What the annotations of other projects say of where pods stand: Kueue's, KAI's, and Volcano's task topology.

Kueue's and KAI's may stand on the job, for all its pods, or on a pod template. There they are about the pods of one
group of the job, which is all of them in most kinds (`groups` of a declaration).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from fleet.core.model.rule import WHOLE, PlacementRule
from fleet.kinds.interpreter import AskedRule, Template
from fleet.kinds.topologywords import AskedPlace, TopologyCaveat, TopologyFlaw, Word
from fleet.values.untyped import digits, mapping, text
from fleet.wellknown import (
    KAI_PREFERRED_TOPOLOGY,
    KAI_TOPOLOGY,
    KUEUE_GROUP,
    KUEUE_LAYERS,
    KUEUE_PREFERRED_TOPOLOGY,
    KUEUE_SLICE_SIZE,
    KUEUE_SLICES,
    KUEUE_TOPOLOGY,
    KUEUE_UNCONSTRAINED,
    VOLCANO_AFFINITY,
    VOLCANO_ANTI_AFFINITY,
)

_REQUIRED, _PREFERRED = (KUEUE_TOPOLOGY, KAI_TOPOLOGY), (KUEUE_PREFERRED_TOPOLOGY, KAI_PREFERRED_TOPOLOGY)
HOST = "kubernetes.io/hostname"  # the level of a node
_LAYERS_MAX = 3
_DIGITS_MAX = 6


def peers_rules(places: Sequence[AskedPlace], templates: Sequence[Template], groups: int) -> Iterator[Word]:
    """The rules of these annotations, their flaws, and what no rule can say. `groups`: in how many groups alike the
    pods of the job are."""
    pods = {template.name: template.replicas for template in templates}
    for place in places:
        yield from _single(place)
        yield from _slices(place)
    yield from _joined(places, pods, groups)
    yield from _tasks(places[0])


def _single(place: AskedPlace) -> Iterator[TopologyFlaw]:
    """The flaws of annotations that exclude each other."""
    said = place.annotations.get(KUEUE_UNCONSTRAINED)
    if said not in (None, "true", "false"):
        yield place.flaw(KUEUE_UNCONSTRAINED, 'must be "true" or "false"')
    constraints = (KUEUE_TOPOLOGY, KUEUE_PREFERRED_TOPOLOGY, KUEUE_SLICES, KUEUE_LAYERS)
    other = next((name for name in constraints if name in place.annotations), "")
    if said == "true" and other:
        yield place.flaw(KUEUE_UNCONSTRAINED, f"contradicts {other}")


def _slices(place: AskedPlace) -> Iterator[Word]:
    """Parts of the pods, in one layer or several."""
    annotations = place.annotations
    sliced = next((name for name in (KUEUE_SLICES, KUEUE_LAYERS) if name in annotations), "")
    if KUEUE_GROUP in annotations and sliced:
        yield place.flaw(sliced, f"cannot stand beside {KUEUE_GROUP}")
        return
    if KUEUE_LAYERS in annotations:
        if KUEUE_SLICES in annotations or KUEUE_SLICE_SIZE in annotations:
            yield place.flaw(KUEUE_LAYERS, f"says what {KUEUE_SLICES} says: give one of them")
            return
        yield from _layers(place)
    elif KUEUE_SLICES in annotations:
        if size := digits(annotations.get(KUEUE_SLICE_SIZE), _DIGITS_MAX):
            rule = PlacementRule(annotations[KUEUE_SLICES], place.of, size)
            yield _level(place, KUEUE_SLICES) or place.wish(rule, KUEUE_SLICES)
        else:
            yield place.flaw(KUEUE_SLICE_SIZE, "must be the pods of each slice, a whole number, at least 1")
    elif KUEUE_SLICE_SIZE in annotations:
        yield place.flaw(KUEUE_SLICE_SIZE, f"has no meaning without {KUEUE_SLICES}")


def _layers(place: AskedPlace) -> Iterator[Word]:
    form = f'must be a JSON list of one to {_LAYERS_MAX} {{"topology": LEVEL, "size": PODS}}'
    try:
        listed = orjson.loads(text(place.annotations[KUEUE_LAYERS]))
    except orjson.JSONDecodeError:
        listed = None
    if not isinstance(listed, list) or not 1 <= len(listed) <= _LAYERS_MAX:
        yield place.flaw(KUEUE_LAYERS, form)
        return
    above = 0
    for entry in listed:
        level, size = text(mapping(entry).get("topology")), mapping(entry).get("size")
        if size.__class__ is not int or size < 1:
            yield place.flaw(KUEUE_LAYERS, form)
        elif flaw := place.level_flaw(KUEUE_LAYERS, level):
            yield flaw
        elif above and above % size:
            yield place.flaw(KUEUE_LAYERS, f"{size} pods of {level} do not divide the {above} of the layer above")
        else:
            above = size
            yield place.wish(PlacementRule(level, place.of, size), KUEUE_LAYERS)


def _joined(places: Sequence[AskedPlace], pods: Mapping[str, int], groups: int) -> Iterator[Word]:
    """Pods that stand together, of one template, or of the templates that name one group."""
    joined: dict[str, list[AskedPlace]] = {}
    for at, place in enumerate(places):
        name = text(place.annotations.get(KUEUE_GROUP)) if place.of else ""
        joined.setdefault(f"={name}" if name else str(at), []).append(place)
    for members in joined.values():
        first = members[0]
        of = tuple(one for place in members for one in place.of)
        for names, hard in ((_REQUIRED, True), (_PREFERRED, False)):
            for name in names:
                said = {text(place.annotations.get(name)) for place in members}
                if len(said) > 1:
                    unlike = next(place for place in members if text(place.annotations.get(name)) != max(said))
                    yield TopologyFlaw(
                        unlike.field(name),
                        unlike.annotations.get(name),
                        f"all templates of group {first.annotations[KUEUE_GROUP]!s:.60} ask for the same level",
                    )
                elif name in first.annotations:
                    rule = PlacementRule(first.annotations[name], of, _share(of, pods, groups, hard=hard), hard)
                    yield _level(first, name) or first.wish(rule, name)


def _share(of: Sequence[str], pods: Mapping[str, int], groups: int, *, hard: bool) -> int:
    """The size of the parts in which these pods stand: one part for each group of the job."""
    if not of or groups < 2 or not hard:
        return WHOLE
    return sum(pods.get(name, 0) for name in of) // groups


def _level(place: AskedPlace, name: str) -> TopologyFlaw | None:
    return place.level_flaw(name, text(place.annotations[name]))


def _tasks(job: AskedPlace) -> Iterator[Word]:
    """Volcano's wishes for tasks on one node, which are preferences there: PS beside workers."""
    near: list[AskedRule] = []
    for names in _task_lists(job, VOLCANO_AFFINITY):
        crossed = [one for one in near if _cross(set(one.rule.of), set(names))]
        if flaw := job.unknown_component(VOLCANO_AFFINITY, names):
            yield flaw
        elif crossed:
            why = f"{','.join(names)} shares a part of {','.join(crossed[0].rule.of)}, which no rule of the hub can say"
            yield TopologyCaveat(job.field(VOLCANO_AFFINITY), f"{why}; Volcano in the member reads it")
        else:
            near.append(job.wish(PlacementRule(HOST, names, hard=False), VOLCANO_AFFINITY))
            yield near[-1]
    if any(_task_lists(job, VOLCANO_ANTI_AFFINITY)):
        why = "is not read by the hub; Volcano in the member reads it"
        yield TopologyCaveat(job.field(VOLCANO_ANTI_AFFINITY), why)


def _task_lists(job: AskedPlace, name: str) -> list[tuple[str, ...]]:
    said: Any = job.annotations.get(name)
    parts = text(said).split(";")
    lists = [tuple(one.strip().lower() for one in part.split(",") if one.strip()) for part in parts]
    return [names for names in lists if names]


def _cross(some: set[str], other: set[str]) -> bool:
    return bool(some & other) and not some <= other and not other <= some
