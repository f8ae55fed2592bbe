"""A world with heads, and plans for it that each break one rule about them."""

from __future__ import annotations

from fleet.check.violation import Rule
from fleet.model.plan import Head, Placement, Plan
from fleet.model.reason import Code, Reason
from fleet.model.unit import Claim, Nomination, Seat
from fleet.snapshot import Config
from tests.builders import GPU, NOW, UnitBuilder, amounts, member, snapshot, tree, unit

SOON = Nomination("x", NOW - 60, NOW + 600, True)


def _runs(name: str, leaf: str, where: str, node: str) -> UnitBuilder:
    """Four GPUs of a node of eight, for ten minutes more."""
    seat = Seat(node, 0, amounts(gpu=4, cpu=96, memory=768, pods=110), amounts(gpu=4, pods=1))
    made = unit(name).gpus(4).queue(f"root/{leaf}").runs_in(where)
    return made.having(placed_at=NOW - 100, walltime_s=700.0, seats=(seat,))


WORLD = snapshot(
    unit("was").gpus(8).queue("root/a").since(1000).having(head=SOON),
    unit("other").gpus(8).queue("root/a").since(2000),
    unit("young").gpus(8).queue("root/c").since(9),
    unit("old").gpus(8).queue("root/c").since(1000),
    unit("patient").gpus(8).queue("root/d").since(1000).having(head=Nomination("", NOW - 60, NOW - 60)),
    unit("next").gpus(8).queue("root/d").since(2000),
    unit("large").gpus(8, pods=9).queue("root/g").since(1000),
    unit("above").gpus(8, pods=2).queue("root/e").since(1000),
    unit("first").queue("root/f").since(9).priority(1),
    unit("second").gpus(8).queue("root/f").since(1000),
    unit("urgent").gpus(8, pods=2).queue("root/g").since(9).priority(1),
    unit("behind").gpus(8).queue("root/g").since(1000),
    unit("claims").queue("root/h").since(9).priority(1).having(claim=Claim("y", NOW + 60)),
    unit("then").gpus(8).queue("root/h").since(1000),
    unit("small").queue("root/b"),
    unit("soon").queue("root/b").having(walltime_s=500.0),
    unit("mine").queue("root/c"),
    _runs("r", "b", "x", "n"),
    _runs("s", "c", "y", "m"),
    member("x").nodes(1, free_gpu=4),
    member("y").nodes(2).nodes(1, free_gpu=4),
    tree(
        a={}, b={}, c={"max": {GPU: 8}}, d={}, e={"max": {GPU: 12}}, f={"policy": "Block"}, g={}, h={"policy": "Block"}
    ),
    Config(),
)


def plan(*heads: tuple[str, Nomination], starts: tuple[tuple[str, str], ...] = ()) -> Plan:
    waiting = {key for key, one in WORLD.units.items() if one.member is None} - {name for name, _ in starts}
    return Plan(
        tuple(Placement(*start) for start in starts),
        {name: Reason(Code.HELD) for name in waiting},
        heads=tuple(Head(*head) for head in heads),
    )


IN_Y = Nomination("y", NOW, NOW + 600, True)
NOWHERE = Nomination("", NOW - 60, NOW - 60)
UNENTITLED = {
    "large": "no member that it may go to would take it",
    "above": "quota never allows it",
    "second": "default/first is before it and stops root/f",
    "behind": "what was before it uses up the guarantee and the share of root/g",
}
SOUND = (
    plan(("was", SOON), ("patient", NOWHERE), starts=(("soon", "x"), ("small", "y"))),
    plan(("patient", NOWHERE), starts=(("small", "x"), ("mine", "y"))),
    plan(("was", SOON), ("old", IN_Y)),
    plan(("then", IN_Y), starts=(("claims", "y"),)),
    plan(("was", SOON), starts=(("soon", "x"), ("small", "y"), ("mine", "y"))),
    plan(("old", IN_Y), starts=(("small", "y"), ("soon", "x"))),
)
CORRUPTIONS = {
    Rule.HEAD_UNSOUND: (
        plan(("young", IN_Y)),
        plan(("old", Nomination("nowhere", NOW, NOW))),
        plan(("r", SOON)),
        plan(("was", SOON), ("other", IN_Y)),
        plan(("was", SOON), starts=(("was", "y"),)),
        plan(("old", Nomination("y", NOW + 1, NOW + 600))),
    ),
    Rule.HEAD_UNENTITLED: tuple(plan((name, IN_Y)) for name in UNENTITLED),
    Rule.HEAD_DROPPED: (plan(("other", IN_Y)), plan(("next", IN_Y))),
    Rule.HEAD_TAKEN: (plan(("was", SOON), starts=(("small", "x"),)), plan(("was", SOON), starts=(("mine", "x"),))),
    Rule.HEAD_QUOTA: (plan(("was", SOON), ("old", IN_Y), starts=(("mine", "y"),)),),
}
