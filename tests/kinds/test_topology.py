"""Jobs that say where their pods stand: the rules that every way of saying it means."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.core.model.rule import PlacementRule as Rule
from fleet.kinds.topology import placement_asked, ranges_in_parts
from fleet.kinds.topologywords import PlacementRequest
from tests.kinds.placed import EXCLUSIVE, job, jobset, kind_of, template, volcano

RACK, BLOCK, HOST = "topology.kubernetes.io/rack", "topology.kubernetes.io/block", "kubernetes.io/hostname"
KUEUE, KAI, TASKS = "kueue.x-k8s.io/podset-", "kai.scheduler/topology-", "volcano.sh/task-topology-"
Body = dict[str, Any]
ALL: Body = {"PS": (2, {}), "Worker": (8, {})}


def asked(body: Body) -> PlacementRequest:
    return placement_asked(kind_of(body), body)


def rules(body: Body) -> list[Rule]:
    request = asked(body)
    assert request.flaws == ()
    return [one.rule for one in request.rules]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(job(), [], id="nothing"),
        pytest.param(job({"fleet.io/required-topology": RACK}), [Rule(RACK)], id="required"),
        pytest.param(
            job({"fleet.io/required-topology": RACK, "fleet.io/preferred-topology": HOST}),
            [Rule(RACK), Rule(HOST, hard=False)],
            id="required and preferred together",
        ),
        pytest.param(
            job({"fleet.io/required-topology": f"{BLOCK}, {RACK}@worker"}, **ALL),
            [Rule(BLOCK), Rule(RACK, ("worker",))],
            id="two levels, one of a component",
        ),
        pytest.param(
            job({"fleet.io/preferred-topology": f"{RACK}@Worker+ps"}, Chief={}, **ALL),
            [Rule(RACK, ("ps", "worker"), hard=False)],
            id="components in any order and spelling",
        ),
        pytest.param(
            job({"fleet.io/required-topology": f"{RACK}@worker+ps"}, **ALL), [Rule(RACK)], id="all components by name"
        ),
        pytest.param(
            job(PS=(2, {}), Worker=(8, {"fleet.io/required-topology": RACK})),
            [Rule(RACK, ("worker",))],
            id="on a pod template",
        ),
        pytest.param(
            job(Worker=(8, {"fleet.io/required-topology": RACK})), [Rule(RACK)], id="on the only template of a job"
        ),
        pytest.param(
            job({"fleet.io/required-topology": RACK}, Worker={"fleet.io/required-topology": RACK}),
            [Rule(RACK)],
            id="twice the same",
        ),
        pytest.param(
            job(PS=(0, {"fleet.io/required-topology": RACK}), Worker=(8, {})), [], id="of a component without pods"
        ),
        pytest.param(
            job({"fleet.io/slices": f"{BLOCK}=4,{RACK}=2"}), [Rule(BLOCK, size=4), Rule(RACK, size=2)], id="two layers"
        ),
        pytest.param(
            job({"fleet.io/slices": f"{RACK}=4@worker"}, **ALL), [Rule(RACK, ("worker",), 4)], id="slices of one"
        ),
        pytest.param(job({"fleet.io/most-per-domain": f"{RACK}=6"}), [Rule(RACK, size=1, most=6)], id="a cap alone"),
        pytest.param(
            job({"fleet.io/most-per-domain": f"{RACK}=6", "fleet.io/slices": f"{RACK}=2,{HOST}=1"}),
            [Rule(RACK, size=2, most=6), Rule(HOST, size=1)],
            id="a cap on slices of the same level is one rule",
        ),
        pytest.param(
            job({"fleet.io/most-per-domain": f"{RACK}=6", "fleet.io/even-topology": RACK}),
            [Rule(RACK, size=1, most=6, even=True)],
            id="evenly under a cap",
        ),
        pytest.param(job({"fleet.io/even-topology": RACK}), [Rule(RACK, size=1, even=True)], id="evenly"),
        pytest.param(
            job(PS=(2, {}), Worker=(8, {f"{KUEUE}required-topology": RACK})),
            [Rule(RACK, ("worker",))],
            id="Kueue's required, of a podset",
        ),
        pytest.param(job({f"{KUEUE}required-topology": RACK}, **ALL), [Rule(RACK)], id="Kueue's on the job"),
        pytest.param(
            job(Worker=(8, {f"{KUEUE}preferred-topology": RACK})), [Rule(RACK, hard=False)], id="Kueue's preferred"
        ),
        pytest.param(job(Worker=(8, {f"{KUEUE}unconstrained-topology": "true"})), [], id="Kueue's unconstrained"),
        pytest.param(
            job(
                Worker=(
                    8,
                    {
                        f"{KUEUE}required-topology": BLOCK,
                        f"{KUEUE}slice-required-topology": RACK,
                        f"{KUEUE}slice-size": "4",
                    },
                )
            ),
            [Rule(RACK, size=4), Rule(BLOCK)],
            id="Kueue's slices within a podset",
        ),
        pytest.param(
            job(
                Worker=(
                    8,
                    {
                        f"{KUEUE}slice-required-topology-constraints": (
                            f'[{{"topology":"{BLOCK}","size":8}},{{"topology":"{RACK}","size":4}},'
                            f'{{"topology":"{HOST}","size":2}}]'
                        )
                    },
                )
            ),
            [Rule(BLOCK, size=8), Rule(RACK, size=4), Rule(HOST, size=2)],
            id="Kueue's three layers",
        ),
        pytest.param(
            job(
                Chief={f"{KUEUE}required-topology": RACK, f"{KUEUE}group-name": "g"},
                PS=(2, {}),
                Worker=(8, {f"{KUEUE}required-topology": RACK, f"{KUEUE}group-name": "g"}),
            ),
            [Rule(RACK, ("chief", "worker"))],
            id="Kueue's group of leader and workers",
        ),
        pytest.param(
            job({f"{KAI}required-placement": BLOCK, f"{KAI}preferred-placement": RACK, "kai.scheduler/topology": "t"}),
            [Rule(BLOCK), Rule(RACK, hard=False)],
            id="KAI's required and preferred",
        ),
        pytest.param(
            job({f"{TASKS}affinity": "ps,worker"}, Chief={}, **ALL),
            [Rule(HOST, ("ps", "worker"), hard=False)],
            id="a PS beside its workers",
        ),
        pytest.param(
            job({f"{TASKS}affinity": "chief,evaluator;ps"}, Chief={}, Evaluator={}, **ALL),
            [Rule(HOST, ("chief", "evaluator"), hard=False), Rule(HOST, ("ps",), hard=False)],
            id="tasks apart from each other",
        ),
    ],
)
def test_a_job_means_these_rules(body: Body, expected: list[Rule]) -> None:
    assert rules(body) == expected


def kueue(**named: str) -> Body:
    return job(Worker=(8, {f"{KUEUE}{name.replace('_', '-')}": value for name, value in named.items()}))


@pytest.mark.parametrize(
    ("body", "field", "why"),
    [
        (job({"fleet.io/required-topology": "no label"}), "metadata.annotations[fleet.io/required-topology]", "no lab"),
        (job({"fleet.io/required-topology": ""}), "metadata.annotations[fleet.io/required-topology]", "name part"),
        (job({"fleet.io/required-topology": f"{RACK}=2"}), "metadata.annotations[fleet.io/required-topology]", "alone"),
        (
            job({"fleet.io/required-topology": f"{RACK}@evaluator"}, **ALL),
            "metadata.annotations[fleet.io/required-topology]",
            "'evaluator' is no component of the job: ps, worker",
        ),
        (
            job(Worker={"fleet.io/required-topology": f"{RACK}@ps"}, PS={}),
            "spec.tfReplicaSpecs.Worker.template.metadata.annotations[fleet.io/required-topology]",
            "is about worker alone",
        ),
        (job({"fleet.io/required-topology": f"{RACK}="}), "metadata.annotations[fleet.io/required-topology]", "alone"),
        (job({"fleet.io/slices": RACK}), "metadata.annotations[fleet.io/slices]", "is not LEVEL=PODS"),
        (job({"fleet.io/slices": f"{RACK}=-1"}), "metadata.annotations[fleet.io/slices]", "is not LEVEL=PODS"),
        (job({"fleet.io/slices": f"{RACK}=2,{RACK}=4"}), "metadata.annotations[fleet.io/slices]", "twice"),
        (job({"fleet.io/most-per-domain": f"{RACK}=0"}), "metadata.annotations[fleet.io/most-per-domain]", "at least"),
        (
            kueue(required_topology=RACK, unconstrained_topology="true"),
            f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}unconstrained-topology]",
            "contradicts",
        ),
        (
            kueue(unconstrained_topology="yes"),
            f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}unconstrained-topology]",
            "true",
        ),
        (
            kueue(slice_required_topology=RACK),
            f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}slice-size]",
            "at least 1",
        ),
        (
            kueue(slice_size="4"),
            f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}slice-size]",
            "no meaning without",
        ),
        (
            kueue(slice_required_topology_constraints="[]"),
            f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}slice-required-topology-constraints]",
            "JSON list of one to 3",
        ),
        (
            kueue(
                slice_required_topology_constraints='[{"topology":"block","size":8},{"topology":"rack","size":3}]',
            ),
            f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}slice-required-topology-constraints]",
            "3 pods of rack do not divide the 8",
        ),
        (
            kueue(slice_required_topology_constraints='[{"topology":"rack","size":4}]', slice_size="2"),
            f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}slice-required-topology-constraints]",
            "give one of them",
        ),
        (
            kueue(group_name="g", slice_required_topology=RACK, slice_size="2"),
            f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}slice-required-topology]",
            "cannot stand beside",
        ),
        (
            job(
                Chief={f"{KUEUE}group-name": "g"},
                Worker=(8, {f"{KUEUE}group-name": "g", f"{KUEUE}required-topology": RACK}),
            ),
            f"spec.tfReplicaSpecs.Chief.template.metadata.annotations[{KUEUE}required-topology]",
            "all templates of group g",
        ),
        (job({f"{TASKS}affinity": "ps,worker"}), f"metadata.annotations[{TASKS}affinity]", "'ps' is no component"),
    ],
)
def test_what_cannot_be_meant_has_its_field(body: Body, field: str, why: str) -> None:
    flaws = asked(body).flaws
    assert [flaw.field for flaw in flaws] == [field]
    assert why in flaws[0].why


def test_what_no_rule_can_say_is_warned_of() -> None:
    annotations = {f"{TASKS}affinity": "ps,worker;ps,chief", f"{TASKS}anti-affinity": "ps"}
    request = asked(job(annotations, Chief={}, **ALL))
    assert [one.rule for one in request.rules] == [Rule(HOST, ("ps", "worker"), hard=False)] and not request.flaws
    assert [(warning.field, warning.why.partition(",")[0]) for warning in request.warnings] == [
        (f"metadata.annotations[{TASKS}affinity]", "ps"),
        (f"metadata.annotations[{TASKS}anti-affinity]", "is not read by the hub; Volcano in the member reads it"),
    ]


def test_each_rule_knows_the_field_that_asks_for_it() -> None:
    found = asked(job({"fleet.io/required-topology": f"{BLOCK},{RACK}"}, Worker={f"{KUEUE}required-topology": HOST}))
    assert [(one.field, one.native) for one in found.rules] == [
        ("metadata.annotations[fleet.io/required-topology]", False),
        ("metadata.annotations[fleet.io/required-topology]", False),
        (f"spec.tfReplicaSpecs.Worker.template.metadata.annotations[{KUEUE}required-topology]", False),
    ]


# -- words of a kind


PARTS = {"totalPartitions": 2, "partitionSize": 4}
NEAR = Rule("tier-1", hard=False)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (volcano(), []),
        (volcano({"mode": "hard", "highestTierAllowed": 2}), [Rule("tier-2"), NEAR]),
        (volcano({"highestTierAllowed": 1}), [Rule("tier-1")]),
        (volcano({"highestTierName": "rack"}), [Rule("rack")]),
        (volcano({"mode": "soft"}), [NEAR]),
        (volcano({"mode": "soft", "highestTierAllowed": 2}), [Rule("tier-2", hard=False), NEAR]),
        (volcano({"mode": "soft", "highestTierName": "rack"}), [Rule("rack", hard=False)]),
        (volcano({"mode": "hard"}), []),
        (
            volcano({"highestTierAllowed": 2}, {**PARTS, "networkTopology": {"highestTierAllowed": 1}}),
            [Rule("tier-2"), NEAR, Rule("tier-1", ("worker",), 4)],
        ),
        (volcano(None, {**PARTS, "networkTopology": {"mode": "soft", "highestTierAllowed": 1}}), []),
        (volcano(None, PARTS), []),
    ],
)
def test_a_volcano_job_means_these_rules(body: Body, expected: list[Rule]) -> None:
    assert rules(body) == expected
    assert all(one.native and one.field.endswith("networkTopology") for one in asked(body).rules)


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (volcano({"mode": "near", "highestTierAllowed": 1}), [("spec.networkTopology.mode", False)]),
        (
            volcano({"highestTierAllowed": 1, "highestTierName": "rack"}),
            [("spec.networkTopology.highestTierName", False)],
        ),
        (volcano({"mode": "hard"}), [("spec.networkTopology", True)]),
        (
            volcano(None, {"totalPartitions": 3, "partitionSize": 4}),
            [("spec.tasks[1].partitionPolicy", False)],
        ),
        (
            volcano(None, {**PARTS, "networkTopology": {"mode": "soft", "highestTierAllowed": 1}}),
            [("spec.tasks[1].partitionPolicy.networkTopology.mode", True)],
        ),
        (
            volcano(None, {**PARTS, "networkTopology": {"highestTierName": "rack", "highestTierAllowed": 1}}),
            [("spec.tasks[1].partitionPolicy.networkTopology.highestTierName", False)],
        ),
        (volcano(minAvailable=10), [("spec.minAvailable", False)]),
        (volcano(minAvailable=6), []),
    ],
)
def test_volcanos_webhook_has_its_say_on_the_hub(body: Body, faults: list[tuple[str, bool]]) -> None:
    assert [(fault.path, fault.warns) for fault in kind_of(body).faults(body)] == faults


def test_each_job_of_a_jobset_has_a_domain_of_its_own() -> None:
    both = [Rule(RACK, ("driver",), 1, most=1), Rule(RACK, ("workers",), 2, most=2)]
    assert rules(jobset({EXCLUSIVE: RACK})) == both
    assert rules(jobset({}, {EXCLUSIVE: RACK})) == both[1:]
    assert [one.field for one in asked(jobset({EXCLUSIVE: RACK}, {EXCLUSIVE: BLOCK})).rules] == [
        f"metadata.annotations[{EXCLUSIVE}]",
        f"metadata.annotations[{EXCLUSIVE}]",
        f"spec.replicatedJobs[1].template.metadata.annotations[{EXCLUSIVE}]",
    ]


LWS = "leaderworkerset.sigs.k8s.io"


def leaderworkerset(own: Body, of_worker: Body | None = None, *, leader: Body | None = None, sub: int = 0) -> Body:
    """Three groups of four pods."""
    inner: Body = {"size": 4, "workerTemplate": template(of_worker)}
    if leader is not None:
        inner["leaderTemplate"] = template(leader)
    if sub:
        inner["subGroupPolicy"] = {"subGroupSize": sub}
    spec = {"replicas": 3, "leaderWorkerTemplate": inner}
    meta = {"name": "l", "annotations": own}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (leaderworkerset({f"{LWS}/exclusive-topology": RACK}, leader={}), [Rule(RACK, size=4, most=4)]),
        (leaderworkerset({f"{LWS}/exclusive-topology": RACK}), [Rule(RACK, size=4, most=4)]),
        (
            leaderworkerset({f"{LWS}/subgroup-exclusive-topology": RACK}, sub=2),
            [Rule(RACK, size=2, most=2)],
        ),
        (leaderworkerset({f"{LWS}/subgroup-exclusive-topology": RACK}, leader={}, sub=2), []),
        (leaderworkerset({}, {f"{KUEUE}required-topology": RACK}), [Rule(RACK, size=4)]),
        (leaderworkerset({}, {f"{KUEUE}required-topology": RACK}, leader={}), [Rule(RACK, ("worker",), 3)]),
        (
            leaderworkerset(
                {},
                {f"{KUEUE}required-topology": RACK, f"{KUEUE}group-name": "g"},
                leader={f"{KUEUE}required-topology": RACK, f"{KUEUE}group-name": "g"},
            ),
            [Rule(RACK, size=4)],
        ),
        (leaderworkerset({}, {"fleet.io/required-topology": RACK}), [Rule(RACK)]),
    ],
)
def test_groups_of_a_leaderworkerset_stand_apart(body: Body, expected: list[Rule]) -> None:
    assert rules(body) == expected


# -- sizes


def deployment(slices: str, least: int) -> Body:
    meta = {"name": "d", "annotations": {"fleet.io/slices": slices, "fleet.io/min-replicas": str(least)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {"replicas": 16, "template": template()},
    }


@pytest.mark.parametrize(
    ("slices", "least", "expected"),
    [
        (f"{RACK}=4", 4, {"main": (4, 4)}),
        (f"{RACK}=4", 5, {"main": (8, 4)}),
        (f"{BLOCK}=8,{RACK}=4", 1, {"main": (8, 8)}),
        (f"{RACK}=1", 5, {"main": (5, 1)}),
        (f"{RACK}=8", 9, {}),
    ],
)
def test_an_elastic_job_is_offered_whole_parts(slices: str, least: int, expected: dict[str, tuple[int, int]]) -> None:
    body = deployment(slices, least)
    assert {name: tuple(found) for name, found in ranges_in_parts(kind_of(body), body).items()} == expected


def test_a_component_that_shares_its_parts_with_others_has_one_size() -> None:
    tasks = [{"name": name, "replicas": 4, "minAvailable": 2, "template": template()} for name in ("a", "b")]
    body = volcano(tasks=tasks)
    body["metadata"]["annotations"] = {"fleet.io/slices": f"{RACK}=4"}
    assert set(kind_of(body).ranges(body)) == {"a", "b"}
    assert ranges_in_parts(kind_of(body), body) == {}
