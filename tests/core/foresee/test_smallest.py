"""The smallest change that starts a waiting unit: it starts it, and one step less does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from fleet.core.decide import decide
from fleet.core.foresee.answer import NoChangeCause, StartAnswer
from fleet.core.foresee.certain import starts
from fleet.core.foresee.change import (
    AnotherMember,
    BackoffEnd,
    Change,
    ChangeKind,
    FewerReplicas,
    HigherPriority,
    Lift,
    MoreNodes,
    MoreQuota,
    Raise,
    UnitRelease,
    applied,
    less,
    text,
)
from fleet.core.foresee.edits import CordonMember, edited
from fleet.core.foresee.explanation import changes
from fleet.core.foresee.more_quota import promised
from fleet.core.foresee.smallest import least, smallest
from fleet.core.foresee.trialedits import edits_of
from fleet.core.model.member import TAINT_CORDON, TAINT_DRAIN, Taint
from fleet.core.model.reason import Code
from fleet.core.model.unit import Toleration
from fleet.core.quota.limits import Limit, LimitKind
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.users import USER_MAX, waiting_limits
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GIB, GPU, NOW, NodeClaim, member, snapshot, tree, unit
from tests.worlds import worlds


def started(world: Snapshot, name: str, change: Change) -> bool:
    after, now = applied(world, name, change, NOW)
    return starts(decide(after, now=now, seed=0, solver=None), name)


def of_kind(answer: StartAnswer, kind: type[Change]) -> list[Change]:
    return [change for change in answer.changes if isinstance(change, kind)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(worlds())
def test_applying_a_change_starts_the_unit_and_one_step_less_does_not(world: Snapshot) -> None:
    plan = decide(world, now=NOW, seed=0, solver=None)
    for name in sorted(plan.reasons)[:2]:
        answer = smallest(world, name, now=NOW)
        if answer.starts:
            assert starts(plan, name) and not answer.changes
            continue
        assert answer.reason == plan.reasons[name] and not starts(plan, name)
        assert not {type(change) for change in answer.changes} & {kind for kind, _ in answer.without}
        for change in answer.changes:
            assert started(world, name, change), change
            assert text(change)
            edits = edits_of(change, world.units[name])
            assert not edits or starts(decide(edited(world, edits), now=NOW, seed=0, solver=None), name), edits
            for smaller in less(change, world.tree):
                assert not started(world, name, smaller), (change, smaller)


def test_a_quota_that_is_short_is_raised_by_what_is_short() -> None:
    world = snapshot(
        member("m").nodes(4),
        tree(a={"max": {GPU: 16}}),
        unit("runs").gpus(8).queue("root/a").runs_in("m"),
        unit("u").gpus(8, pods=2).queue("root/a"),
    )
    answer = smallest(world, "u", now=NOW)
    assert answer.reason is not None and answer.reason.code is Code.QUOTA_EXHAUSTED
    assert of_kind(answer, MoreQuota) == [MoreQuota((Raise(Limit(LimitKind.MAX, "root/a", GPU), 8, 24),))]
    assert of_kind(answer, FewerReplicas) == [FewerReplicas(0, "worker", 1, 2)]


def test_several_nodes_on_the_way_up_grow_together() -> None:
    world = snapshot(
        member("m").nodes(4),
        tree(org={"max": {GPU: 10}}, org__c={"max": {GPU: 12}}, b={}),
        unit("runs").gpus(8).queue("root/org/c").runs_in("m"),
        unit("u").gpus(8).queue("root/org/c"),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreQuota)
    assert isinstance(change, MoreQuota)
    assert {(given.limit.node, given.by) for given in change.raises} == {("root/org/c", 4), ("root/org", 6)}


def test_who_may_run_no_more_jobs_needs_one_job_more() -> None:
    world = snapshot(
        member("m").nodes(4), tree(a={"jobs": 1}), unit("runs").queue("root/a").runs_in("m"), unit("u").queue("root/a")
    )
    answer = smallest(world, "u", now=NOW)
    assert [text(change) for change in answer.changes] == ["raise max of root/a by 1 job, to 2"]


def test_a_cap_of_a_user_is_raised_for_that_user_alone() -> None:
    capped = tree(a={"attributes": {USER_MAX: '{"nvidia.com/gpu": 8, "cpu": "500m"}'}})
    world = snapshot(
        member("m").nodes(4),
        capped,
        unit("runs").gpus(8).queue("root/a").having(user="alice").runs_in("m"),
        unit("u").gpus(4).queue("root/a").having(user="alice"),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreQuota)
    assert text(change) == "raise max of user alice at root/a by 4 nvidia.com/gpu, to 12"
    after, _ = applied(world, "u", change, NOW)
    assert after.tree is not None
    assert after.tree.user_caps["root/a"].of("alice") == {GPU: 12, "cpu": 500}
    assert after.tree.user_caps["root/a"].of("bob") == {GPU: 8, "cpu": 500}


def test_a_raised_cap_of_a_user_keeps_how_many_jobs_of_hers_may_wait() -> None:
    capped = tree(a={"attributes": {USER_MAX: '{"nvidia.com/gpu": 8, "fleet.io/max-waiting-jobs": 3}'}})
    world = snapshot(
        member("m").nodes(4),
        capped,
        unit("runs").gpus(8).queue("root/a").having(user="alice").runs_in("m"),
        unit("u").gpus(4).queue("root/a").having(user="alice"),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreQuota)
    after, _ = applied(world, "u", change, NOW)
    assert after.tree is not None
    attributes = after.tree.nodes["root/a"].attributes
    assert [limit.of("alice") for limit in waiting_limits(attributes, None)] == [3]


def test_memory_is_raised_in_whole_gibibytes_and_processors_in_whole_ones() -> None:
    world = snapshot(
        member("m").nodes(4),
        tree(a={"max": {"memory": 10 * GIB + 5, "cpu": 1500}}),
        unit("u").gang(1, cpu=3, memory=12).queue("root/a"),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreQuota)
    assert text(change) == "raise max of root/a by 2 CPU, to 3.5 and raise max of root/a by 2 GiB memory, to 12 GiB"


def test_more_of_min_starts_whom_others_with_a_better_right_keep_out() -> None:
    world = snapshot(
        member("m").nodes(1), tree(b={}), unit("first").gpus(8).priority(5), unit("u").gpus(8).queue("root/b")
    )
    answer = smallest(world, "u", now=NOW)
    assert answer.reason is not None and answer.reason.code is Code.LOST_TO_OTHERS
    [change] = of_kind(answer, MoreQuota)
    assert text(change).startswith("raise min of root/b by 8 nvidia.com/gpu, to 8")


def test_no_promise_is_proposed_of_what_the_root_of_a_hubs_tree_does_not_name() -> None:
    """A hub refuses a tree whose root has memory as its min and not as its max."""
    made = tree(b={"min": {GPU: 8}})
    root = replace(made.nodes["root"], min={GPU: 16}, max={GPU: 16})
    whole = QuotaTree("root", {**made.nodes, "root": root})
    world = snapshot(
        member("m").nodes(2),
        unit("runs").gang(1, gpu=8, memory=16).queue("root/b").runs_in("m"),
        unit("u").gang(1, gpu=8, memory=16).queue("root/b"),
    )
    free, bound = (promised(world, world.units["u"], at, "root/b", every=True) for at in (made, whole))
    assert "memory" in {increase.limit.resource for increase in free}
    assert {increase.limit.resource for increase in bound} == {GPU}


def test_a_promise_to_work_without_devices_is_of_what_it_asks_for() -> None:
    world = snapshot(
        member("m").nodes(1, gpu=0, cpu=8),
        tree(b={}),
        unit("first").gang(1, cpu=8).priority(5),
        unit("u").gang(1, cpu=8).queue("root/b"),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreQuota)
    assert text(change).startswith("raise min of root/b by 8 CPU, to 8")


def test_the_order_of_a_queue_is_passed_with_the_least_priority() -> None:
    world = snapshot(
        member("m").nodes(1),
        tree(a={"policy": "Block"}),
        unit("ahead").gpus(8, pods=2).queue("root/a").priority(3).since(60),
        unit("u").gpus(8).queue("root/a").since(30),
    )
    answer = smallest(world, "u", now=NOW)
    assert answer.reason is not None
    assert of_kind(answer, HigherPriority) == [HigherPriority(4, 0)]


def test_of_several_members_that_it_is_kept_from_the_one_with_room_is_named() -> None:
    world = snapshot(
        member("full").nodes(1, free_gpu=0),
        member("other").nodes(1, free_gpu=0),
        member("tainted").nodes(1).having(taints=(Taint("team", "ml"),)),
        member("down").nodes(1).not_ready(),
        unit("u").gpus(8).only_in("full"),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), AnotherMember)
    assert change == AnotherMember("down", (Lift.AFFINITY, Lift.NOT_READY))
    assert text(change) == "let it go to member down: add it to the policy's cluster affinity, when it is ready again"


def test_a_person_can_ask_what_if_a_cordoned_member_took_jobs_again() -> None:
    cordoned = member("m").nodes(1).having(taints=(Taint(TAINT_CORDON),))
    world = snapshot(cordoned, unit("u").gpus(8))
    [change] = of_kind(smallest(world, "u", now=NOW), AnotherMember)
    assert text(change) == "member m uncordoned"
    assert edits_of(change, world.units["u"]) == (CordonMember("m", cordoned=False),)


def test_nodes_are_of_the_pool_that_needs_the_fewest() -> None:
    world = snapshot(
        member("m").nodes(2, gpu=4, free_gpu=0, labels={"kind": "small"}).nodes(1, free_gpu=0),
        unit("u").gpus(4, pods=4),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreNodes)
    assert isinstance(change, MoreNodes) and (change.pool, change.nodes) == (1, 2)


def test_a_unit_that_backs_off_or_is_held_is_told_what_comes_after() -> None:
    world = snapshot(
        member("m").nodes(1),
        unit("backs-off").having(backoff_until=NOW + 60),
        unit("held").having(held=True),
        unit("held-too").gpus(8, pods=3).having(held=True),
    )
    assert smallest(world, "backs-off", now=NOW).changes == (BackoffEnd(NOW + 60),)
    assert smallest(world, "held", now=NOW).changes == (UnitRelease("held"),)
    answer = smallest(world, "held-too", now=NOW)
    assert answer.changes == () and answer.without == ((ChangeKind.RELEASE, NoChangeCause.NONE),)
    assert answer.then is not None and answer.then.code is Code.TOO_LARGE


def test_a_release_is_not_offered_where_it_changes_nothing() -> None:
    world = snapshot(member("m").nodes(1), unit("large").having(held=True, held_why="too large", release_helps=False))
    answer = smallest(world, "large", now=NOW)
    assert answer.changes == () and answer.without == ((ChangeKind.RELEASE, NoChangeCause.NONE),)
    assert answer.reason is not None and answer.reason.text == "held: too large"
    assert answer.then is None


def test_nothing_is_said_of_changes_to_a_unit_whose_turn_its_queue_decides() -> None:
    """A higher priority may bring it among the first jobs that its queue considers, and no snapshot tells."""
    behind = unit("u").gpus(8).having(held=True, held_why="root/a considers its first job only", waits_turn=True)
    answer = smallest(snapshot(member("m").nodes(1), behind), "u", now=NOW)
    assert answer.reason is not None and answer.reason.code is Code.NOT_ITS_TURN
    assert (answer.changes, answer.without) == ((), ())


def test_a_unit_that_starts_needs_no_change() -> None:
    answer = smallest(snapshot(member("m").nodes(1), unit("u")), "u", now=NOW)
    assert answer == StartAnswer(True, None, decisions=2, certain=frozenset({None}))


def test_a_search_that_may_ask_for_no_more_decisions_says_so() -> None:
    world = snapshot(member("m").nodes(1, free_gpu=0), unit("u").gpus(8, pods=4))
    answer = smallest(world, "u", now=NOW, decisions=2)
    assert answer.decisions == 2 and NoChangeCause.SPENT in dict(answer.without).values()
    stopped = smallest(world, "u", now=NOW, enough=lambda: True)
    assert stopped.decisions == 1 and NoChangeCause.SPENT in dict(stopped.without).values()


def test_the_cheapest_change_stands_first() -> None:
    world = snapshot(
        member("m").nodes(4),
        tree(a={"max": {GPU: 31}}),
        unit("u").gpus(8, pods=4).queue("root/a"),
    )
    assert [type(change) for change in smallest(world, "u", now=NOW).changes] == [MoreQuota, FewerReplicas]


def test_halving_ends_where_one_less_does_not_work_whatever_happens_elsewhere() -> None:
    for works in ({5, 6, 7, 8, 9, 10}, {3, 7, 8, 10}, {10}, {1, 10}):
        for hints in ([], [5], [9, 2], [100, -3]):
            found = least(0, 10, works.__contains__, hints)
            assert found in works and found - 1 not in works


def test_a_member_that_would_have_to_grow_or_to_be_cleared_counts_as_another_one() -> None:
    """Room that an autoscaler could add, and room that reclaim frees, is room."""
    grows = snapshot(
        member("full").nodes(1, free_gpu=0),
        member("grows").nodes(1, free_gpu=0).could_add(1).having(taints=(Taint("team", "ml"),)),
        unit("u").gpus(8).only_in("full"),
    )
    lifts = (Lift.AFFINITY, Lift.TAINT)
    assert of_kind(smallest(grows, "u", now=NOW), AnotherMember) == [AnotherMember("grows", lifts)]
    cleared = snapshot(
        Config(reclaim=True, protection_s=0.0),
        tree(a={"min": {GPU: 8}}, b={}),
        member("full").nodes(1, free_gpu=0),
        member("lent").nodes(1, free_gpu=0),
        unit("borrows").gpus(8).queue("root/b").runs_in("lent"),
        unit("u").gpus(8).queue("root/a").only_in("full"),
    )
    answer = smallest(cleared, "u", now=NOW)
    assert of_kind(answer, AnotherMember) == [AnotherMember("lent", (Lift.AFFINITY,))]
    told = [change["text"] for change in changes(answer, cleared.units["u"])["changes"]]
    assert "let it go to member lent: add it to the policy's cluster affinity (preempts 1 job)" in told


@pytest.mark.parametrize("key", [TAINT_CORDON, TAINT_DRAIN, "node.kubernetes.io/unschedulable"])
def test_nobody_is_advised_to_tolerate_a_cordon_or_a_drain(key: str) -> None:
    taints = Taint("team", "ml"), Taint(key, effect="NoExecute" if key == TAINT_DRAIN else "NoSchedule")
    free = snapshot(
        member("full").nodes(1, free_gpu=0),
        member("cordoned").nodes(1).having(taints=taints),
        unit("u").gpus(8),
    )
    lifts = [AnotherMember("cordoned", (Lift.CORDON, Lift.TAINT))] if key == TAINT_CORDON else []
    assert of_kind(smallest(free, "u", now=NOW), AnotherMember) == lifts
    tolerating = unit("u").gpus(8).having(tolerations=(Toleration(key, "Exists"),))
    free = snapshot(*(member("cordoned").nodes(1).having(taints=taints), tolerating))
    assert of_kind(smallest(free, "u", now=NOW), AnotherMember) == [AnotherMember("cordoned", (Lift.TAINT,))]


def test_a_cordoned_member_that_has_the_room_is_told_and_a_drained_one_is_not() -> None:
    cordon, drain = Taint(TAINT_CORDON, effect="NoSchedule"), Taint(TAINT_DRAIN, effect="NoExecute")
    for taints, told in (((cordon,), ["member quiet uncordoned"]), ((cordon, drain), [])):
        world = snapshot(
            member("full").nodes(1, free_gpu=0), member("quiet").nodes(1).having(taints=taints), unit("u").gpus(8)
        )
        assert [text(change) for change in of_kind(smallest(world, "u", now=NOW), AnotherMember)] == told


def test_nodes_more_come_beside_all_that_a_pool_names() -> None:
    made = member("m").nodes(1).value
    (vector, _) = made.pools[0].free[0]
    twice = replace(made, pools=(replace(made.pools[0], free=((vector, 1), (vector, 2))),))
    world = replace(snapshot(unit("u").gpus(8, pods=4)), members={"m": twice})
    answer = smallest(world, "u", now=NOW)
    [change] = of_kind(answer, MoreNodes)
    assert isinstance(change, MoreNodes) and change.nodes == 1
    after, _ = applied(world, "u", change, NOW)
    assert after.members["m"].pools[0].free == ((vector, 4),)


def test_nodes_beside_those_that_could_be_added_are_enough() -> None:
    """Only the nodes that could be added have the label that one of its pods asks for."""
    labelled = NodeClaim(node_selector=(("kind", "new"),))
    world = snapshot(
        member("m").nodes(1, free_gpu=0).could_add(1, labels={"kind": "new"}),
        unit("u").gpus(8, pods=2).gang(1, gpu=8, claim=labelled),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreNodes)
    assert isinstance(change, MoreNodes) and change.nodes == 2


def test_limits_of_those_ahead_in_a_strict_queue_are_raised_whatever_they_are_about() -> None:
    """The head is kept by GPUs, and by what its user may have; the one behind it asks for neither."""
    world = snapshot(
        member("m").nodes(4),
        tree(
            org={"max": {GPU: 4}},
            org__c={"policy": "Block", "attributes": {USER_MAX: '{"memory": "8Gi"}'}},
        ),
        unit("head").gang(1, gpu=8, memory=16).queue("root/org/c").since(900).having(user="ann"),
        unit("u").gang(1, cpu=1).queue("root/org/c").having(user="bob"),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreQuota)
    assert isinstance(change, MoreQuota)
    assert {(r.limit, r.by) for r in change.raises} == {
        (Limit(LimitKind.MAX, "root/org", GPU), 4),
        (Limit(LimitKind.USER, "root/org/c", "memory", "ann"), 8 * GIB),
    }


def test_where_a_limit_and_a_promise_are_short_both_are_raised() -> None:
    world = snapshot(
        member("m").nodes(1),
        tree(b={"attributes": {USER_MAX: '{"nvidia.com/gpu": 4}'}}),
        unit("first").gpus(8).priority(5),
        unit("u").gpus(8).queue("root/b").having(user="ann"),
    )
    answer = smallest(world, "u", now=NOW)
    assert answer.reason is not None and answer.reason.code is Code.USER_LIMIT
    [change] = of_kind(answer, MoreQuota)
    assert isinstance(change, MoreQuota)
    assert {(r.limit.kind, r.by) for r in change.raises} == {(LimitKind.USER, 4), (LimitKind.MIN, 8)}


def test_min_is_raised_at_every_node_where_it_is_used_up() -> None:
    """The other leaf uses more than its min with work that may not be preempted: the root's is used up, too."""
    quota = tree(a={}, b={"min": {GPU: 4}})
    world = snapshot(
        member("m").nodes(4),
        quota,
        unit("firm").gpus(8).queue("root/b").runs_in("m").having(preemptible=False),
        unit("u").gpus(8).queue("root/a").having(preemptible=False),
    )
    answer = smallest(world, "u", now=NOW)
    assert answer.reason is not None and answer.reason.code is Code.MIN_EXHAUSTED
    [change] = of_kind(answer, MoreQuota)
    assert isinstance(change, MoreQuota)
    assert {(r.limit, r.by, r.to) for r in change.raises} == {
        (Limit(LimitKind.MIN, "root/a", GPU), 8, 8),
        (Limit(LimitKind.MIN, "root", GPU), 16, 16),
    }
    assert answer.decisions <= 24 + 24


def test_a_promise_of_what_nobody_was_promised_so_far_counts_against_those_ahead() -> None:
    """A job that asks for CPU stands within its min of GPUs alone, until CPU is promised too."""
    world = snapshot(
        member("m").nodes(1, cpu=48),
        tree(a={"min": {GPU: 4}}, b={}),
        unit("ahead").gang(1, gpu=4, cpu=48).queue("root/a").priority(5),
        unit("u").gang(1, gpu=2, cpu=8).queue("root/b"),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreQuota)
    assert isinstance(change, MoreQuota)
    assert "cpu" in {r.limit.resource for r in change.raises if r.limit.kind is LimitKind.MIN}
    assert started(world, "u", change)


def test_those_ahead_in_a_strict_queue_may_need_another_promise_than_who_waits_for_them() -> None:
    world = snapshot(
        member("m").nodes(4),
        tree(a={"policy": "Block"}, b={"min": {GPU: 4, "cpu": 4000}}),
        unit("head").gang(1, gpu=8, cpu=12).queue("root/a").since(900).having(preemptible=False),
        unit("u").gang(1, gpu=1).queue("root/a"),
    )
    answer = smallest(world, "u", now=NOW)
    assert answer.reason is not None and answer.reason.code is Code.BEHIND_IN_QUEUE
    [change] = of_kind(answer, MoreQuota)
    assert isinstance(change, MoreQuota)
    assert {(r.limit, r.by) for r in change.raises} == {
        (Limit(LimitKind.MIN, "root/a", GPU), 8),
        (Limit(LimitKind.MIN, "root/a", "cpu"), 12_000),
    }


def test_where_more_is_promised_than_there_is_a_raise_says_what_of_it_holds() -> None:
    """Of 32 promised GPUs 16 are there, so half of each min holds."""
    world = snapshot(
        member("m").nodes(2),
        tree(a={"min": {GPU: 8}}, b={"min": {GPU: 24}}),
        unit("u").gpus(8).queue("root/a").having(preemptible=False),
    )
    [change] = of_kind(smallest(world, "u", now=NOW), MoreQuota)
    assert started(world, "u", change)
    assert all(not started(world, "u", smaller) for smaller in less(change, world.tree))
    assert text(change) == (
        "raise min of root/a by 16 nvidia.com/gpu, to 24 "
        "(8 of which hold, 4 now: 48 are promised in all, and 16 are there) "
        "(which takes: raise min of root by 48 nvidia.com/gpu, to 48)"
    )
