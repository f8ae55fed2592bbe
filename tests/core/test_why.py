"""Why a unit waits: the one reason that people see, word for word."""

from __future__ import annotations

import pytest

from fleet.model.reason import Code
from fleet.snapshot import Snapshot
from tests.core.builders import GPU, NOW, member, snapshot, tree, unit
from tests.core.test_decide import plan_of


def reason(world: Snapshot, name: str) -> tuple[Code, str]:
    found = plan_of(world).reasons[name]
    return found.code, found.text


REASONS = {
    "quota": (
        snapshot(
            unit("r").gpus(6).queue("root/child-2").runs_in("x"),
            unit("a").gpus(3).queue("root/child-2"),
            member("x").nodes(9),
            tree(**{"child-2": {"max": {GPU: 8}}}),
        ),
        Code.QUOTA_EXHAUSTED,
        "quota root/child-2 is exhausted: nvidia.com/gpu requested 3, used 6, max 8; short by 1."
        " It waits for running jobs of that quota to finish.",
    ),
    "quota in memory, for people": (
        snapshot(
            unit("a").gang(1, memory=64).queue("root/ml"),
            unit("r").gang(1, memory=1536).queue("root/ml").runs_in("x"),
            member("x").nodes(9),
            tree(ml={"max": {"memory": 1588 << 30}}),
        ),
        Code.QUOTA_EXHAUSTED,
        "quota root/ml is exhausted: memory requested 64 GiB, used 1.5 TiB, max 1.55 TiB; short by 12 GiB."
        " It waits for running jobs of that quota to finish.",
    ),
    "more than quota ever allows": (
        snapshot(unit("a").gpus(4, pods=4).queue("root/ml"), member("x").nodes(9), tree(ml={"max": {GPU: 8}})),
        Code.QUOTA_EXHAUSTED,
        "it is larger than quota root/ml allows at all: nvidia.com/gpu requested 16, max 8."
        " It needs a smaller gang or a higher max.",
    ),
    "max-jobs": (
        snapshot(
            unit("r").queue("root/child-2").runs_in("x"),
            unit("a").queue("root/child-2"),
            member("x").nodes(9),
            tree(**{"child-2": {"jobs": 1}}),
        ),
        Code.MAX_JOBS,
        "root/child-2 already runs 1 of at most 1 jobs; starts when one finishes",
    ),
    "no leaf": (
        snapshot(unit("a").queue("root/gone"), member("x").nodes(1), tree(ml={})),
        Code.NO_LEAF,
        "root/gone is no leaf of the quota tree: ask an administrator to add it, or use another",
    ),
    "no tree": (
        snapshot(unit("a").queue("root/ml"), member("x").nodes(1)),
        Code.NO_LEAF,
        "there is no quota tree, and the job asks for queue root/ml: apply an ElasticQuotaTree",
    ),
    "an inner node is no queue": (
        snapshot(unit("a").queue("root/org"), member("x").nodes(1), tree(org__ml={})),
        Code.NO_LEAF,
        "root/org is no leaf of the quota tree: ask an administrator to add it, or use another",
    ),
    "closest member, in slots": (
        snapshot(
            unit("a").gpus(8, pods=3), member("cfa").nodes(1).nodes(4, free_gpu=6), member("cfb").nodes(9, free_gpu=7)
        ),
        Code.NO_MEMBER_FITS,
        "no member fits the whole gang of 3 pods; closest is cfa: short by 2 slots of 8 nvidia.com/gpu",
    ),
    "closest member, by CPU": (
        snapshot(unit("a").gang(2, gpu=1, cpu=8, memory=64), member("x").nodes(1, free_cpu=8).nodes(9, free_cpu=1)),
        Code.NO_MEMBER_FITS,
        "no member fits the whole gang of 2 pods; closest is x:"
        " short by 1 slot of 1 nvidia.com/gpu, 8 CPU, 64 GiB memory",
    ),
    "one pod": (
        snapshot(unit("a").gpus(8), member("x").nodes(3, free_gpu=1)),
        Code.NO_MEMBER_FITS,
        "no member fits the one pod; closest is x: short by 1 slot of 8 nvidia.com/gpu",
    ),
    "larger than everything": (
        snapshot(unit("a").gpus(8, pods=6), member("x").nodes(4), member("y").nodes(2)),
        Code.TOO_LARGE,
        "the gang of 6 pods is larger than any member that may take it, even an empty one;"
        " closest is x: short by 2 slots of 8 nvidia.com/gpu",
    ),
    "no members": (
        snapshot(unit("a")),
        Code.NO_MEMBERS,
        "no member cluster has joined yet; join one with `fleet join`",
    ),
    "no member allowed": (
        snapshot(unit("a").only_in("y"), member("x").nodes(1), member("z").nodes(1)),
        Code.NO_MEMBER_ALLOWED,
        "no member may take it: 2 members: not in the policy's cluster affinity",
    ),
    "the job failed in the only member": (
        snapshot(unit("a").having(excluded=frozenset({"x"})), member("x").nodes(1)),
        Code.NO_MEMBER_ALLOWED,
        "no member may take it: 1 member: the job failed there",
    ),
    "member not ready": (
        snapshot(unit("a"), member("x").nodes(1).not_ready("no answer for 40 s")),
        Code.MEMBER_NOT_READY,
        "no member that may take it is ready: x (no answer for 40 s)",
    ),
    "back-off": (
        snapshot(unit("a").having(backoff_until=NOW + 60, attempts=2), member("x").nodes(1)),
        Code.BACK_OFF,
        "backs off until 1970-01-12T13:47:40Z after attempt 2",
    ),
    "held": (
        snapshot(unit("a").having(held=True), member("x").nodes(1)),
        Code.HELD,
        "held by a person; starts after it is released",
    ),
    "behind in a Block queue": (
        snapshot(
            unit("first").gpus(8).queue("root/ml").since(99),
            unit("a").queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"max": {GPU: 4}, "policy": "Block"}),
        ),
        Code.BEHIND_IN_QUEUE,
        "number 2 in queue root/ml, which starts jobs strictly in order: waits for default/first (QuotaExhausted)",
    ),
    "others of this cycle took the room": (
        snapshot(unit("first").gpus(8).since(99), unit("a").gpus(8), member("x").nodes(1)),
        Code.LOST_TO_OTHERS,
        "the room it would fit into goes to jobs ahead of it; closest now is x: short by 1 slot of 8 nvidia.com/gpu",
    ),
    "no pods": (
        snapshot(unit("a").having(components=()), member("x").nodes(1)),
        Code.BAD_UNIT,
        "components: a gang needs at least one component",
    ),
    "replicas below zero": (
        snapshot(unit("a").gpus(1, pods=-2), member("x").nodes(1)),
        Code.BAD_UNIT,
        "components[0].replicas: -2 is below zero",
    ),
    "no nodes at all": (
        snapshot(unit("a"), member("x")),
        Code.NO_MEMBER_FITS,
        "no member fits the one pod; closest is x: short by 1 slot of 1 nvidia.com/gpu",
    ),
}


@pytest.mark.parametrize("story", REASONS)
def test_why_it_waits(story: str) -> None:
    world, code, text = REASONS[story]
    assert reason(world, "a") == (code, text)
