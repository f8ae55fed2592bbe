"""The hub's knowledge that a member's tasks get, and the state that they report: values."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.member import Taint
from fleet.members.allowance import BYTES_MAX, OBJECTS_MAX
from fleet.members.discovery import Catalogue
from fleet.members.planting import HubTrees, PlaceState
from fleet.members.potential import NodeGroup


@dataclass(frozen=True, slots=True)
class MemberLimits:
    """Times in seconds."""

    probe_every_s: float = 3.0
    probe_s: float = 5.0
    lost_after_s: float = 10.0
    discover_every_s: float = 10.0
    concurrency: int = 16
    request_s: float = 15.0
    kept_bytes: int = BYTES_MAX
    kept_objects: int = OBJECTS_MAX
    too_much_s: float = 120.0  # from when it showed more than that until it is listed again


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The settings of a member in its Cluster object."""

    ready: bool
    reason: str  # ClusterReady | ClusterNotReachable | InventoryIncomplete, or that of a Refusal
    message: str
    version: str = ""
    nodes: int = 0
    nodes_ready: int = 0
    allocatable: Amounts = NOTHING
    allocated: Amounts = NOTHING
    allocating: Amounts = NOTHING
    catalogue: Catalogue = field(default_factory=Catalogue, compare=False)
    places: PlaceState = field(default_factory=PlaceState)
    settled: bool = True  # False while a connection that was just begun may yet succeed


@dataclass(frozen=True, slots=True)
class Traits:
    """The hub's knowledge of a member from its Cluster object."""

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    provider: str = ""
    region: str = ""
    zone: str = ""
    price: int = 0
    potential: tuple[NodeGroup, ...] = ()
    trees: HubTrees = field(default_factory=HubTrees)
