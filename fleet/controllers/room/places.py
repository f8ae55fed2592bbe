"""The places of a gang in its member, whatever holds them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from fleet.core.model.pod import PodView

ENDED = ("Succeeded", "Failed")


class Placeholder(NamedTuple):
    """One place. `refused`: why it has no node; `since`: epoch seconds of its creation; `over`:
    it will hold nothing any more."""

    name: str
    has_node: bool
    refused: str = ""
    since: float = 0.0
    over: bool = False


def of_pod(pod: PodView) -> Placeholder:
    """A placeholder."""
    return Placeholder(pod.name, bool(pod.node), pod.reason if not pod.node else "", pod.since, pod.phase in ENDED)


def trouble(
    names: Collection[str], places: Mapping[str, Placeholder], now: float, since: float, held_s: float, refused_s: float
) -> str:
    """Why the room is not held and is not waited for any longer; "" while it may come. `held_s`: seconds that the hub
    waits from `since` on; `refused_s`: that a place may be without a node."""
    refused = [place for place in places.values() if place.refused and not place.has_node]
    if refused and now >= min(place.since for place in refused) + refused_s:
        return f"{refused[0].name}: {refused[0].refused}"
    if now < since + held_s:
        return ""
    held = sum(1 for place in places.values() if place.has_node)
    return f"only {held} of {len(names)} pods had a node within {held_s:.0f} s"
