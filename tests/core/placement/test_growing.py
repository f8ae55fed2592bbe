"""A unit that has its room asks for more: what it lacks, with numbers."""

from __future__ import annotations

from dataclasses import replace

from fleet.core.model.unit import Claim, Component, Nomination, Seat
from fleet.core.placement.growing import NOT_READY, QUOTA, ROOM, Lack, lacks, larger
from fleet.core.quota.guarantee import LEND_LIMIT
from fleet.core.quota.users import USER_MAX
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, UnitBuilder, amounts, member, snapshot, tree, unit

JOBS = {"jobs": 1}


def runs(pods: int = 2, gpu: int = 8, **having: object) -> UnitBuilder:
    return unit("a").gang(pods, gpu=gpu).queue("root/ml").having(**having).runs_in("cfa")


def workers(pods: int, gpu: int = 8, name: str = "worker") -> Component:
    return Component(name, pods, amounts(gpu=gpu, pods=1))


def asked(world: Snapshot, *components: Component) -> Lack | None:
    return lacks(world, "a", components, NOW)


def test_more_pods_come_where_quota_and_room_suffice_and_it_stays_one_job() -> None:
    world = snapshot(runs(), member("cfa").nodes(2), tree(ml={"max": {GPU: 32}, **JOBS}))
    assert asked(world, workers(4)) is None


def test_less_or_the_same_lacks_nothing_even_above_max() -> None:
    world = snapshot(runs(), member("cfa"), tree(ml={"max": {GPU: 8}}))
    assert asked(world, workers(2)) is None
    assert asked(world, workers(1)) is None


def test_quota_along_the_path_refuses_with_numbers() -> None:
    world = snapshot(runs(), member("cfa").nodes(4), tree(ml={"max": {GPU: 20}}))
    assert asked(world, workers(3)) == Lack(QUOTA, "asks for 8 more nvidia.com/gpu; root/ml has 4 of its max 20 left")


def test_a_job_that_is_not_preemptible_grows_within_min_alone() -> None:
    quota = tree(ml={"max": {GPU: 64}, "min": {GPU: 24}})
    world = snapshot(runs(preemptible=False), member("cfa").nodes(4), quota)
    assert asked(world, workers(3)) is None
    said = asked(world, workers(4))
    assert said is not None and said.text == (
        "asks for 16 more nvidia.com/gpu; root/ml has 8 of its min 24 left;"
        " a job that may not be preempted never borrows"
    )


def test_quota_that_others_do_not_lend_is_not_used() -> None:
    others = {"min": {GPU: 16}, "attributes": {LEND_LIMIT: f'{{"{GPU}": 0}}'}}
    world = snapshot(runs(), member("cfa").nodes(2).nodes(2, free_gpu=0), tree(ml={}, others=others))
    said = asked(world, workers(4))
    assert said is not None and said.reason == QUOTA and "16 guaranteed to others and not lent" in said.text


def test_the_limit_of_its_user_refuses() -> None:
    quota = tree(ml={"attributes": {USER_MAX: f'{{"{GPU}": 20}}'}})
    said = asked(snapshot(runs(user="ann"), member("cfa").nodes(4), quota), workers(3))
    assert said == Lack(QUOTA, "asks for 8 more nvidia.com/gpu; user ann has 4 of at most 20 left in root/ml")


def test_its_own_member_must_have_the_room() -> None:
    world = snapshot(runs(), member("cfa").nodes(1).nodes(3, free_gpu=4), member("other").nodes(9))
    assert asked(world, workers(4)) == Lack(
        ROOM,
        "asks for 2 more pods with 8 nvidia.com/gpu; member cfa has room for 1 of them"
        " beside what runs there and what is reserved",
    )
    assert asked(world, workers(3)) is None


def test_pods_that_are_on_their_way_keep_their_room() -> None:
    comes = unit("b").gang(2, gpu=8).runs_in("cfa", visible=0)
    world = snapshot(runs(), comes, member("cfa").nodes(3))
    assert asked(world, workers(3)) is None
    said = asked(world, workers(4))
    assert said is not None and "room for 1 of them" in said.text


def test_pods_that_find_no_node_come_before_more_pods() -> None:
    """Their room lies in pieces: a scheduler that spreads pods left four GPUs on each node."""
    comes = unit("b").gang(1, gpu=8).runs_in("cfa", visible=0)
    world = snapshot(runs(gpu=4), comes, member("cfa").nodes(3, free_gpu=4))
    assert asked(world, workers(3, 4)) == Lack(ROOM, "pods of default/b find no node in member cfa yet")


def test_claimed_room_and_quota_are_kept() -> None:
    waits = unit("b").gang(2, gpu=8).queue("root/ml").having(claim=Claim("cfa", NOW + 60))
    world = snapshot(runs(), waits, member("cfa").nodes(2), tree(ml={}))
    said = asked(world, workers(3))
    assert said is not None and said.reason == ROOM
    tight = replace(world, members={"cfa": member("cfa").nodes(4).value}, tree=tree(ml={"max": {GPU: 32}}))
    said = asked(tight, workers(3))
    assert said is not None and said.text.endswith("root/ml has 0 of its max 32 left")


def test_room_that_a_head_collects_is_kept_and_the_head_is_named() -> None:
    collects = Nomination("cfa", NOW - 60, NOW + 600)
    head = unit("b").gang(4, gpu=8).queue("root/b").since(9000).having(head=collects)
    world = snapshot(runs(), head, member("cfa").nodes(2).nodes(2, free_gpu=0), tree(ml={}, b={}))
    said = asked(world, workers(3))
    assert said == Lack(ROOM, "the room for it in member cfa is reserved for default/b")


def test_units_that_wait_without_a_reservation_do_not_matter() -> None:
    waits = unit("b").gang(2, gpu=8).queue("root/ml").since(30)
    world = snapshot(runs(), waits, member("cfa").nodes(2), tree(ml={}))
    assert asked(world, workers(4)) is None


def test_a_member_that_is_not_ready_gives_nothing() -> None:
    world = snapshot(runs(), member("cfa").nodes(2).not_ready("it does not answer"))
    assert asked(world, workers(3)) == Lack(NOT_READY, "member cfa is not ready: it does not answer")


def seated(pods: int, gpu: int, node_gpus: int = 8) -> Snapshot:
    """Its pods each on a node of their own, of which nothing else holds anything."""
    free, holds = amounts(gpu=node_gpus - gpu, cpu=96, memory=768, pods=110), amounts(gpu=gpu, pods=1)
    seats = tuple(Seat(f"n{number}", 0, free, holds) for number in range(pods))
    return snapshot(runs(pods, gpu, seats=seats), member("cfa").nodes(pods, free_gpu=node_gpus - gpu), tree(ml={}))


def test_pods_that_ask_for_more_come_in_the_place_of_the_old_ones() -> None:
    assert asked(seated(2, 4), workers(2, 8)) is None
    said = asked(seated(2, 4), workers(3, 8))
    assert said is not None and said.text.startswith(
        "asks for 3 pods with 8 nvidia.com/gpu; member cfa has room for 2 of them"
    )


def test_pods_that_ask_for_more_than_any_node_has_are_refused() -> None:
    said = asked(seated(2, 4), workers(2, 16))
    assert said is not None and said.reason == ROOM


def test_another_component_is_more_too() -> None:
    world = snapshot(runs(1), member("cfa").nodes(1), tree(ml={"max": {GPU: 16}}))
    assert asked(world, workers(1), workers(1, 8, "evaluator")) is None
    assert asked(world, workers(1), workers(2, 8, "evaluator")) is not None


def test_the_charge_counts_what_it_gives_up_until_it_is_gone() -> None:
    had = (workers(2, 8), workers(1, 4, "evaluator"))
    assert larger(had, (workers(3, 4),)) == (workers(3, 8), workers(1, 4, "evaluator"))


def test_bad_amounts_are_named() -> None:
    said = asked(snapshot(runs(), member("cfa").nodes(2)), workers(2 + 10**9))
    assert said is not None and "is above" in said.text
