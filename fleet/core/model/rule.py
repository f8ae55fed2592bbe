"""The rules about where the pods of a gang stand, beside the claims of each pod.

A gang has any number of them, and all of them hold. The planner turns them into numbers in
fleet/core/placement/packing/space.py, the checker judges them in fleet/core/check/nodes.py, and a job says them in the
annotations that fleet/kinds/topology.py reads.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """All pods of a gang stand on nodes with one value of the node label `level`: in one rack, zone or block."""

    level: str  # the key of a node label


Rules = tuple[PlacementRule, ...]  # of one gang
