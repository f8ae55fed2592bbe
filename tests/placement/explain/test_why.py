"""Why a unit waits: the one reason that people see, word for word."""

from __future__ import annotations

import pytest

from fleet.model.reason import Code
from fleet.snapshot import Snapshot
from tests.builders import GPU, NOW, NodeClaim, member, snapshot, tree, unit
from tests.decide.test_decide import plan_of


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
        "insufficient unused quota for nvidia.com/gpu in root/child-2: requested 3, used 6, max 8; 1 more needed."
        " Waits for jobs there to finish.",
    ),
    "quota in memory, for people": (
        snapshot(
            unit("a").gang(1, memory=64).queue("root/ml"),
            unit("r").gang(1, memory=1536).queue("root/ml").runs_in("x"),
            member("x").nodes(9),
            tree(ml={"max": {"memory": 1588 << 30}}),
        ),
        Code.QUOTA_EXHAUSTED,
        "insufficient unused quota for memory in root/ml: requested 64 GiB, used 1.5 TiB, max 1.55 TiB;"
        " 12 GiB more needed. Waits for jobs there to finish.",
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
        "there is no quota tree: apply an ElasticQuotaTree",
    ),
    "a namespace without a leaf": (
        snapshot(unit("a").queue("namespace ml"), member("x").nodes(1), tree(ml={})),
        Code.NO_LEAF,
        "no leaf of the quota tree has namespace ml: ask an administrator to add it to one",
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
        "no member has room for all 3 pods at once. Closest is cfa: 2 pods find no node with 8 nvidia.com/gpu free",
    ),
    "closest member, by CPU": (
        snapshot(unit("a").gang(2, gpu=1, cpu=8, memory=64), member("x").nodes(1, free_cpu=8).nodes(9, free_cpu=1)),
        Code.NO_MEMBER_FITS,
        "no member has room for all 2 pods at once. Closest is x: 1 pod finds no node with 8 CPU free",
    ),
    "GPUs suffice, memory does not": (
        snapshot(
            unit("r").gang(3, memory=700).runs_in("x"),
            unit("a").gang(4, gpu=2, cpu=8, memory=512),
            member("x").nodes(1).nodes(3, free_memory=68),
        ),
        Code.NO_MEMBER_FITS,
        "no member has room for all 4 pods at once. Closest is x: 3 pods find no node with 512 GiB memory free",
    ),
    "CPU and memory are short": (
        snapshot(unit("a").gang(2, gpu=2, cpu=8, memory=512), member("x").nodes(2, free_cpu=1, free_memory=68)),
        Code.NO_MEMBER_FITS,
        "no member has room for all 2 pods at once. Closest is x: 2 pods find no node with 8 CPU, 512 GiB memory free",
    ),
    "GPUs are free on one node, memory on another": (
        snapshot(
            unit("a").gang(1, gpu=8, cpu=8, memory=512), member("x").nodes(1, free_gpu=0).nodes(1, free_memory=68)
        ),
        Code.NO_MEMBER_FITS,
        "no member has room for the pod. Closest is x: no node has 8 nvidia.com/gpu, 512 GiB memory free",
    ),
    "the nodes that its labels name are full": (
        snapshot(
            unit("a").gang(1, cpu=8, claim=NodeClaim(node_selector=(("zone", "b"),))).gang(1, gpu=1),
            member("x").nodes(1, free_gpu=0, labels={"zone": "b"}),
            member("y").nodes(1, labels={"zone": "b"}).not_ready("no answer"),
            member("z").nodes(1),
        ),
        Code.NO_MEMBER_FITS,
        "no member has room for all 2 pods at once. Closest is x: 1 pod finds no node with 1 nvidia.com/gpu free",
    ),
    "some of its nodes are cordoned": (
        snapshot(unit("a").gpus(8, pods=3), member("x").nodes(2).nodes(2, free_gpu=0).having(unschedulable=2)),
        Code.NO_MEMBER_FITS,
        "no member has room for all 3 pods at once. Closest is x: 1 pod finds no node with 8 nvidia.com/gpu free;"
        " 2 node(s) there were unschedulable or not ready",
    ),
    "the nodes that match are full, others are not": (
        snapshot(
            unit("a").gang(2, gpu=8, claim=NodeClaim(node_selector=(("zone", "b"),))),
            member("x").nodes(2, free_gpu=1, labels={"zone": "b"}).nodes(3),
        ),
        Code.NO_MEMBER_FITS,
        "no member has room for all 2 pods at once. Closest is x: 2 pods find no node with 8 nvidia.com/gpu free"
        " among the 2 of 5 nodes that match it",
    ),
    "one pod": (
        snapshot(unit("a").gpus(8), member("x").nodes(3, free_gpu=1)),
        Code.NO_MEMBER_FITS,
        "no member has room for the pod. Closest is x: no node has 8 nvidia.com/gpu free",
    ),
    "larger than everything": (
        snapshot(unit("a").gpus(8, pods=6), member("x").nodes(4), member("y").nodes(2)),
        Code.TOO_LARGE,
        "no member has room for all 6 pods at once, even when empty."
        " Closest is x: 2 pods find no node with 8 nvidia.com/gpu",
    ),
    "no members": (
        snapshot(unit("a")),
        Code.NO_MEMBERS,
        "no member has joined yet; join one with `fleet join`",
    ),
    "no member allowed": (
        snapshot(unit("a").only_in("y"), member("x").nodes(1), member("z").nodes(1)),
        Code.NO_MEMBER_ALLOWED,
        "0/2 members are available: 2 member(s) did not match the policy's cluster affinity",
    ),
    "the job failed in the only member": (
        snapshot(unit("a").having(excluded=frozenset({"x"})), member("x").nodes(1)),
        Code.NO_MEMBER_ALLOWED,
        "0/1 members are available: 1 member(s) saw the job fail",
    ),
    "member not ready": (
        snapshot(unit("a"), member("x").nodes(1).not_ready("no answer for 40 s")),
        Code.MEMBER_NOT_READY,
        "no member that may run it is ready: x (no answer for 40 s)",
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
        "position 2 in queue root/ml, which starts jobs in strict order: waits for default/first (QuotaExhausted)",
    ),
    "others of this cycle took the room": (
        snapshot(unit("first").gpus(8).since(99), unit("a").gpus(8), member("x").nodes(1)),
        Code.LOST_TO_OTHERS,
        "the room for it in x goes to default/first. Closest is x: no node has 8 nvidia.com/gpu free",
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
        "0/0 nodes are available: the members have no nodes",
    ),
}


@pytest.mark.parametrize("story", REASONS)
def test_why_it_waits(story: str) -> None:
    world, code, text = REASONS[story]
    assert reason(world, "a") == (code, text)
