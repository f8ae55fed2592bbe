"""The parts that rules are read from: the annotations of one place, and what became of one word in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fleet.core.model.rule import PlacementRule
from fleet.kinds.interpreter import AskedRule
from fleet.values.names import qualified_name_problems


class TopologyFlaw(NamedTuple):
    """A value that cannot be meant, with its field."""

    field: str
    value: Any
    why: str


class TopologyCaveat(NamedTuple):
    """A wish that no rule can say, with its field: the hub does not honour it."""

    field: str
    why: str


Word = AskedRule | TopologyFlaw | TopologyCaveat


class PlacementRequest(NamedTuple):
    """What a job says of where its pods stand."""

    rules: tuple[AskedRule, ...]
    flaws: tuple[TopologyFlaw, ...]
    warnings: tuple[TopologyCaveat, ...]


class AskedPlace(NamedTuple):
    """The annotations of a job, or of a pod template. `of`: the component of the template, () for the job; `names`: the
    components of the job."""

    where: str
    annotations: Mapping[str, Any]
    of: tuple[str, ...]
    names: frozenset[str]

    def field(self, name: str) -> str:
        return f"{self.where}.annotations[{name}]"

    def wish(self, rule: PlacementRule, name: str) -> AskedRule:
        """The rule, which the annotation of this name asks for."""
        return AskedRule(rule, self.field(name), self.annotations[name])

    def flaw(self, name: str, why: str) -> TopologyFlaw:
        return TopologyFlaw(self.field(name), self.annotations.get(name), why)

    def unknown_component(self, name: str, components: Iterable[str]) -> TopologyFlaw | None:
        """The flaw of components that the job does not have."""
        unknown = next((one for one in components if one not in self.names), None)
        if unknown is None:
            return None
        return self.flaw(name, f"{unknown[:60]!r} is no component of the job: {', '.join(sorted(self.names))}")

    def level_flaw(self, name: str, level: str) -> TopologyFlaw | None:
        """The flaw of a level that is no name of one."""
        problems = qualified_name_problems(level)
        return self.flaw(name, f"{level[:60]!r}: {'; '.join(problems)}") if problems else None
