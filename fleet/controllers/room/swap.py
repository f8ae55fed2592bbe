"""The exchange of placeholders for the pods of the job, so that no other pod gets the room in between. Pure.

A pod of the job waits at a gate. First the node of a placeholder becomes its nominated node: the scheduler keeps that
room against pods of equal or lower priority. Then the placeholder is deleted, and the gate taken off. A gated pod is
not attempted, so its nomination stands while placeholders go. (Without the gate, the first deletion wakes all pods,
and those whose placeholder still stands fail and lose their nomination: a part of the gang then loses its room.)

The nomination and the name of the placeholder are written into the pod's status in one request. So after a crash at
any line it is known which pod got whose place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fleet.core.model.pod import PodView


class Pair(NamedTuple):
    """A gated pod of the job, and the placeholder whose room it gets."""

    pod: PodView
    placeholder: PodView


class Exchange(NamedTuple):
    pairs: Sequence[Pair]
    free: Sequence[PodView]  # gated pods whose placeholder is gone, or that have none: their gate comes off


def exchange(pods: Iterable[PodView]) -> Exchange:
    """The next step for the pods of one attempt in its member, as they are seen now."""
    by_component: dict[str, list[PodView]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: pod.name):
        if not pod.terminating:
            by_component[pod.component].append(pod)
    pairs: list[Pair] = []
    free: list[PodView] = []
    for members in by_component.values():
        standing = [pod for pod in members if pod.placeholder and pod.node]
        gated = [pod for pod in members if pod.gated and not pod.placeholder]
        taken, alone = _paired(gated, standing)
        pairs += taken
        free += alone
    return Exchange(tuple(pairs), tuple(free))


def _paired(gated: Sequence[PodView], standing: Sequence[PodView]) -> tuple[list[Pair], list[PodView]]:
    left = {placeholder.name: placeholder for placeholder in standing}
    pairs = [Pair(pod, left.pop(pod.takes)) for pod in gated if pod.takes in left]
    free = [pod for pod in gated if pod.takes and pod not in {pair.pod for pair in pairs}]
    unnamed = [pod for pod in gated if not pod.takes]
    pairs += [Pair(pod, placeholder) for pod, placeholder in zip(unnamed, left.values(), strict=False)]
    return pairs, free + unnamed[len(left) :]
