"""The charge of a gang: the components that it was admitted with, and more where its member runs more.

One comparison answers everywhere whether a job asks for more than it was given: at admission, for the manifests that
are sent, and for the pods that a member shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.unit import Component
from fleet.values.quantity import texts_of


@dataclass(frozen=True, slots=True)
class ChargeExcess:
    """A component that asks for more than it is charged; `text` says of what."""

    component: str
    text: str


def beyond(asked: Iterable[Component], charged: Iterable[Component]) -> list[ChargeExcess]:
    """Every component that has more replicas, or asks for more of a resource by replica, than is charged."""
    known = {component.name.lower(): component for component in charged}
    excesses: list[ChargeExcess] = []
    for component in asked:
        admitted = known.get(component.name.lower())
        if admitted is None:
            excesses.append(ChargeExcess(component.name, f"{component.name} was not admitted"))
        elif component.replicas > admitted.replicas:
            text = f"{component.replicas} replicas of {component.name}, {admitted.replicas} admitted"
            excesses.append(ChargeExcess(component.name, text))
        else:
            excesses.extend(_more_by_replica(component, admitted))
    return excesses


def _more_by_replica(component: Component, admitted: Component) -> list[ChargeExcess]:
    more = [name for name, amount in component.requests.items_ if amount > admitted.requests[name]]
    asked, had = texts_of(component.requests), texts_of(admitted.requests)
    return [
        ChargeExcess(
            component.name, f"{component.name} asks for {asked[name]} {name} a pod, {had.get(name, '0')} admitted"
        )
        for name in more
    ]


def running(components: Sequence[Component], pods: Iterable[tuple[str, Amounts]]) -> Sequence[Component]:
    """The components that a gang is charged while `pods` (component, requests) run: as many replicas, and as much a
    replica, as it was admitted with, or as its pods show where that is more. The same sequence where nothing is."""
    shown: dict[str, list[Amounts]] = {}
    for name, requests in pods:
        shown.setdefault(name.lower(), []).append(requests)
    found = [_grown(component, shown.pop(component.name.lower(), [])) for component in components]
    found += [_grown(Component(name, 0, NOTHING), pods) for name, pods in sorted(shown.items())]
    return components if list(components) == found else tuple(found)


def _grown(component: Component, pods: Sequence[Amounts]) -> Component:
    if len(pods) <= component.replicas and all(pod.fits(component.requests) for pod in pods):
        return component
    largest = dict(component.requests)
    for pod in pods:
        largest |= {name: amount for name, amount in pod.items() if amount > largest.get(name, 0)}
    return replace(component, replicas=max(component.replicas, len(pods)), requests=Amounts.of(largest))
