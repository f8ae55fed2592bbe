"""What a member has free once some have left: by what changes, and the same as reading the member anew."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.model.leaving import vacated
from fleet.model.member import Member
from fleet.model.unit import Phase, Unit
from fleet.placement.layout import lay_out
from fleet.placement.room import MemberRoom, committed
from fleet.placement.space import Shape, Space
from fleet.placement.vacancy import Vacancy
from tests.core.builders import unit
from tests.core.test_victims import random_world


def slowly(member: Member, space: Space, gone: list[Unit], coming: list[tuple[str, str, Shape]], shape: Shape) -> bool:
    names = {unit.id for unit in gone}
    empty = {member.name: MemberRoom.of(vacated(member, gone), space)}
    room = lay_out(empty, [item for item in coming if item[0] not in names], space).rooms[member.name]
    return room.fit(shape, space.devices) is not None


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_by_what_changes_as_by_reading_anew(seed: int) -> None:
    rng = random.Random(seed)
    world, owner = random_world(rng)
    works = [u for u in world.units.values() if u.phase is Phase.PLACED]
    extra = [
        unit(f"comes{i}").gpus(rng.choice((1, 2, 4))).runs_in("x", visible=0).value for i in range(rng.randint(0, 2))
    ]
    if rng.random() < 0.3:  # whose seats nobody knows
        works = [unit(work.id).gpus(2).runs_in(work.member or "x").value for work in works]
    space = Space([owner.components, *(u.components for u in (*works, *extra))])
    shape = space.shape(owner.components)
    for member in world.members.values():
        here = [u for u in works if u.member == member.name]
        leaving = [u for u in here if rng.random() < 0.3]
        coming = [(u.id, "x", committed(u, space)) for u in (*extra, *here) if u.member == member.name]
        vacancy = Vacancy(member, space, leaving, coming, ())
        for _ in range(4):
            gone = [u for u in here if u not in leaving and rng.random() < 0.5]
            assert vacancy.fits(shape, gone) == slowly(member, space, [*leaving, *gone], coming, shape)
