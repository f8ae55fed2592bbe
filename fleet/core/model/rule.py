"""The rules about where the pods of a gang stand, beside the claims of each pod.

A gang has any number of them, and all that are hard hold. The planner turns them into numbers in
fleet/core/placement/packing/space.py, the checker judges them in fleet/core/check/rules.py, and a job says them in the
annotations that fleet/kinds/topology.py reads.
"""

from __future__ import annotations

from dataclasses import dataclass

WHOLE = 0  # the size of a rule whose pods stand together, all of them


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """The pods of some components stand in one domain of a level: as a whole, or in parts of `size` pods each.

    `level`: a level of a place tree, or the key of a node label. `of`: names of components, () for all. A part has of
    each component its share, so three leaders and six workers in parts of 3 are a leader and two workers each. Parts of
    1 stand anywhere on nodes that lie in a domain. `most`: at most so many of the pods in one domain. `even`: in as few
    domains as room and `most` allow, with numbers of parts that differ by one at most. Without `hard`, the pods stand
    in one domain where there is one, else in as few as there are, and no start waits for it.
    """

    level: str
    of: tuple[str, ...] = ()
    size: int = WHOLE
    hard: bool = True
    most: int = 0  # 0: as many as there is room for
    even: bool = False


Rules = tuple[PlacementRule, ...]  # of one gang
