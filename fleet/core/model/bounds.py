"""The bounds of one decision: how far each search and each model goes, and what happens where it ends.

A plan's certificate names every bound that ended a search (`Certificate.bounds`), by its name here. So a plan says
whether it might have been better, had a search gone on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """All bounds, as counts. None of them is a time: times are parts of the snapshot's `solve_limit_s`."""

    # The largest requests of a gang.
    replicas: int = 1_000_000
    """Replicas of one component. A larger gang is refused as bad."""
    amount: int = 1 << 62
    """An amount of one resource, in its smallest unit. A larger request is refused as bad."""
    weighed_devices: int = 1024
    """Devices of one kind that add to the worth of a gang. A larger amount is no device, and adds nothing."""

    # Packing pods onto nodes.
    packing_steps: int = 15_000
    """Steps of the search for a packing of several gangs, some 15 ms. The best packing until then stands."""
    packing_nodes: int = 64
    """Nodes of that search. A member with more is packed gang by gang."""
    packing_pods: int = 512
    """Pods of that search. More pods are packed gang by gang."""
    packing_kinds: int = 48
    """Kinds of pods of that search. More kinds are packed gang by gang."""
    node_sets: int = 300
    """Sets of pods that are considered for one node of that search."""
    refining_steps: int = 20_000
    """States times patterns of the search for one gang of several kinds of pods. Past it, the gang has no room."""
    patterns: int = 512
    """Ways to use one node in that search. Past it, the gang has no room."""
    gang_steps: int = 100_000
    """Steps of all searches for gangs of one kind, some 0.1 s. Past it, the gangs find no room, and are set aside."""
    search_steps: int = 400_000
    """Steps of all searches for single gangs, some 0.4 s. Past it, gangs find room by filling alone, and the kinds of
    gangs that took most are set aside."""
    layouts: int = 4
    """Orders in which pods on their way are laid out. If none of them fits all, the last one stands."""

    # Reservations.
    span_steps: int = 2000
    """Steps in which a reservation counts gangs on the nodes where they do most harm. Past it, it refuses the gangs."""
    heads: int = 16
    """Heads with a reservation at the same time. The heads after them keep their turn."""
    heads_remembered: int = 1_000
    """Heads whose turn is remembered. Others become heads again later."""
    head_looks: int = 4
    """Heads without a member, and heads with one, that look for a better one in one decision; others in later ones."""
    head_members: int = 8
    """Members that one head looks at closely: the members that lack least."""

    # Starting in service order.
    fill_rounds: int = 8
    """Rounds of filling up in the layout of the next cycle. Further starts come in the next cycle."""

    # The linked model.
    bands: int = 12
    """Priority bands. Gangs of lower bands start only by filling up."""
    links: int = 256
    """Kinds of gangs in a row, in the chain of a strict queue. Gangs behind them start only by filling up."""
    capped_users: int = 300
    """Users with rows of their own. Where more would need rows, none has any, and decoding drops the excess."""
    slot_sizes: int = 12
    """Sizes of pods with a row of slots; and of the rows for racks of one member, sizes of slots, sizes of gangs, and
    sets of nodes that a claim may use. Others have rows that allow too much."""
    variables: int = 200_000
    """Classes and lanes of a question. A larger question is not asked."""
    bound_lanes: int = 6_000
    """Lanes that may be told apart by reservations. Past it, reservations have no rows of room, and decoding drops the
    excess."""
    span_terms: int = 60_000
    """Terms in rows of quota beside reservations. Past it, these have no rows, and decoding drops the excess."""
    span_tries: int = 2_000
    """Tries to find how many gangs leave a reservation its room. Past them, other reservations have no row of room."""
    node_variables: int = 6_000
    """Pod variables of a question. Past it, no further member is modelled node by node."""
    small_node_variables: int = 1_000
    """Pod variables up to which all members are modelled node by node as soon as one is. It ends no search."""
    answers: int = 8
    """Questions to the solver about the units that start. The best answer until then stands."""
    decodes: int = 8
    """Rounds of one packing, each without the units that a strict queue stops. Past it, the packing places nothing."""
    packings: int = 16
    """Further packings of an answer, each with the gangs first that found no place before."""
    packed_again: int = 8_000
    """Gangs of these packings in all. Past it, no other order is tried."""
    members_anew: int = 12
    """Searches for a packing of all gangs of one member, after one answer. Past them, no member is packed anew."""

    # Victims.
    preemptors: int = 10_000
    """Gangs that are looked at because they may take room back. Others are looked at in the next cycle."""
    hopeless: int = 200
    """Kinds of gangs for which no room can be made, after which no other kind is looked at in this cycle."""
    tries: int = 1_000
    """Sets of victims that are tried out in one decision, for one gang at a time; and gangs alike of one account that
    are looked at. Past it, gangs wait for the next cycle."""
    tries_together: int = 500
    """Sets of victims that are tried out in one decision, for several gangs."""
    victim_members: int = 8
    """Members in which the victims of one gang are looked for: the members that promise most."""
    single_victims: int = 12
    """Cheaper victims that are tried alone in a member, once one is known that suffices alone."""
    together: int = 8
    """Gangs whose victims are chosen as a whole."""
    victims: int = 1_000
    """Units that may leave, of one question about victims. A larger question covers fewer members, or is not asked."""
    cells: int = 8_000
    """Demands times places of one question about victims. A larger question covers fewer members, or is not asked."""
    alone_nodes: int = 16
    """Nodes alike that a question about victims tells apart, where different pods meet on them."""
    questions: int = 24
    """Questions to the solver about the victims of single gangs."""
    questions_together: int = 12
    """Questions to the solver about the victims of several gangs."""
    cuts: int = 8
    """Answers to one question about victims that turn out not to suffice."""

    # Sizes of elastic units.
    size_tries: int = 300
    """Layouts of members that are tried for the sizes of units that give up room. Past it, the other units go to their
    least, and no unit is looked for in another member."""

    # The checker.
    check_tries: int = 64
    """Gangs for which all others on the same nodes are packed anew. Past them, a gang that does not fit is refused."""
    check_orders: int = 4
    """Orders in which the checker packs the gangs of a member. Past them, only a search for several gangs is left."""
    check_steps: int = 100_000
    """Steps of the checker's search for one gang; more than the planner takes, since nodes may be used otherwise. Past
    them, the gang has no room in the order that is tried."""

    # The size of a reason.
    causes: int = 6
    """Causes that a reason about nodes names. It counts the others."""


BOUNDS = Bounds()
