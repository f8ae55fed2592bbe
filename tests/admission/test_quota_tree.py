"""ElasticQuotaTree: every flaw of a tree is named by its field; one tree, in kube-system; a leaf with work stays."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.objects.objects import Objects
from fleet.admission.filling import filled
from fleet.core.quota.parse import DEPTH_MAX, BadTree, parse_tree, validate_tree
from fleet.wellknown import QUOTA
from tests.admission.conftest import THE_HUB, Body, Hub
from tests.admission.quota_trees import ROOT, leaf, manifest, tree

# Examples are few and small; a loaded machine must not make them fail.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


FLAWS = [
    pytest.param({}, "spec.root", "Required", id="no root"),
    pytest.param(tree(min={"cpu": 1}), "spec.root.min", "cpu, nvidia.com/gpu", id="root min is not max"),
    pytest.param(tree(min={**ROOT, "memory": 1}), "spec.root.min", "memory", id="root min names more than max"),
    pytest.param(
        tree(leaf("a", min={"cpu": 3}, max={"cpu": 2})), "spec.root.children[0].min[cpu]", "max (2)", id="min above max"
    ),
    pytest.param(
        tree(leaf("a", min={"cpu": 60}), leaf("b", min={"cpu": "50"})),
        "spec.root.min[cpu]",
        "110000m, more than the 100000m that root has",
        id="children's min above the parent's",
    ),
    pytest.param(tree(leaf("a", min={"memory": 1})), "spec.root.min[memory]", "0", id="a min that the parent lacks"),
    pytest.param(tree(leaf("a"), leaf("a")), "spec.root.children[1].name", "spec.root.children[0]", id="two names"),
    pytest.param(tree(leaf("root")), "spec.root.children[0].name", "spec.root,", id="the root's name again"),
    pytest.param(tree(leaf("")), "spec.root.children[0].name", "Required", id="no name"),
    pytest.param(tree(leaf("a/b")), "spec.root.children[0].name", '"/"', id="a slash in a name"),
    pytest.param(
        tree(leaf("a", "x"), leaf("b", "x")),
        "spec.root.children[1].namespaces[0]",
        "root/a",
        id="a namespace on two leaves",
    ),
    pytest.param(tree(leaf("a", "x", "x")), "spec.root.children[0].namespaces[1]", "Duplicate", id="twice on one"),
    pytest.param(
        tree(leaf("a", "x", children=[leaf("b")])),
        "spec.root.children[0].namespaces",
        "leaves only",
        id="a namespace on an inner node",
    ),
    pytest.param(
        tree(leaf("a", max={"nvidia.com/gpu": "many"})),
        "spec.root.children[0].max[nvidia.com/gpu]",
        '"many"',
        id="no quantity",
    ),
    pytest.param(
        tree(leaf("a", requireQueue="yes")),
        "spec.root.children[0].requireQueue",
        "true or false",
        id="a choice that is none",
    ),
    pytest.param(tree(leaf("a", max={"cpu": -1})), "spec.root.children[0].max[cpu]", "negative", id="negative"),
    pytest.param(tree(leaf("a", max={"cpu": "1e99"})), "spec.root.children[0].max[cpu]", "larger", id="too large"),
    pytest.param(
        tree(leaf("a", attributes={"fleet.io/user-max": "8"})),
        "spec.root.children[0].attributes[fleet.io/user-max]",
        "JSON object",
        id="no limits of users",
    ),
    pytest.param(
        tree(leaf("a", attributes={"fleet.io/user-max-by-name": '{"ann": {"cpu": "x"}}'})),
        "spec.root.children[0].attributes[fleet.io/user-max-by-name]",
        "ann: cpu",
        id="no limits of ann",
    ),
    pytest.param(
        tree(leaf("a", attributes={"fleet.io/oversell-rate": "0.5"})),
        "spec.root.children[0].attributes[fleet.io/oversell-rate]",
        "from 1 to 100",
        id="sold below",
    ),
    pytest.param(
        tree(leaf("a", attributes={"preempt-policy": "Sometimes"})),
        "spec.root.children[0].attributes[preempt-policy]",
        "PreemptLowerPriority",
        id="no such policy",
    ),
    pytest.param(
        tree(leaf("a", attributes={"quota.scheduling.koordinator.sh/shared-weight": "-2"})),
        "spec.root.children[0].attributes[quota.scheduling.koordinator.sh/shared-weight]",
        "above zero",
        id="no weight",
    ),
    pytest.param(tree(leaf("a", max={"cpu": [1]})), "spec.root.children[0].max[cpu]", "quantity", id="a list"),
]


@pytest.mark.parametrize(("spec", "field", "says"), FLAWS)
def test_a_flaw_is_named_by_its_field(spec: Body, field: str, says: str) -> None:
    flaws = validate_tree(spec)
    assert [flaw.field for flaw in flaws] == [field], flaws
    assert says in flaws[0].message
    with pytest.raises(BadTree, match="spec"):
        parse_tree(spec)


def test_a_tree_that_is_too_deep_is_refused_and_not_followed() -> None:
    node = leaf("bottom")
    for level in range(DEPTH_MAX + 5):
        node = {"name": f"n{level}", "children": [node]}
    assert any("Too deep" in flaw.message for flaw in validate_tree(tree(node)))


def test_amounts_are_exact_whether_written_as_numbers_or_as_strings() -> None:
    spec = tree(leaf("a", "x", max={"memory": "400000Gi", "kube-queue/max-jobs": 10000000000, "cpu": 0.5}))
    parsed = parse_tree(spec, {"root/a": "Block"})
    node = parsed.nodes["root/a"]
    assert node.max == {"memory": 400000 * 2**30, "kube-queue/max-jobs": 10**10, "cpu": 500}
    assert (node.parent, node.namespaces, node.policy) == ("root", ("x",), "Block")
    assert parsed.nodes["root"].children == ("root/a",) and parsed.nodes["root"].policy == "Priority"


def test_an_oversold_node_may_use_so_many_times_its_max_exactly() -> None:
    limits = {"memory": "3", "kube-queue/max-jobs": 3, "nvidia.com/gpu": 10**18 + 1}
    node = parse_tree(
        tree(leaf("a", max=limits, min={"nvidia.com/gpu": 1}, attributes={"fleet.io/oversell-rate": "1.5"}))
    )
    assert node.nodes["root/a"].max == {
        "memory": 4,
        "kube-queue/max-jobs": 4,
        "nvidia.com/gpu": 15 * 10**17 + 1,
    }
    assert node.nodes["root/a"].min == {"nvidia.com/gpu": 1}


_AMOUNT = st.one_of(st.integers(0, 9), st.sampled_from(["1", "2", "500m", "x"]))
_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu"]), _AMOUNT, max_size=2)
_NODES = st.recursive(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abcde")},
        optional={"min": _AMOUNTS, "max": _AMOUNTS, "namespaces": st.lists(st.sampled_from("xyz"), max_size=2)},
    ),
    lambda node: st.fixed_dictionaries(
        {"name": st.sampled_from("abcde"), "children": st.lists(node, max_size=3)},
        optional={"min": _AMOUNTS, "max": _AMOUNTS},
    ),
    max_leaves=6,
)


@UNHURRIED
@given(_NODES)
def test_a_tree_either_has_flaws_in_fields_that_exist_or_keeps_every_promise(root: Body) -> None:
    flaws = validate_tree({"root": root})
    for flaw in flaws:
        assert flaw.field.startswith("spec.root") and flaw.message
    if flaws:
        return
    parsed = parse_tree({"root": root})
    nodes = parsed.nodes
    assert nodes[parsed.root].min == nodes[parsed.root].max
    hung = [namespace for node in nodes.values() for namespace in node.namespaces]
    assert len(hung) == len(set(hung))
    assert len({node.name for node in nodes.values()}) == len(nodes)
    for node in nodes.values():
        assert not (node.namespaces and node.children)
        assert all(node.min[r] <= node.max[r] for r in node.min if r in node.max)
        for resource in {r for child in node.children for r in nodes[child].min}:
            assert sum(nodes[child].min.get(resource, 0) for child in node.children) <= node.min.get(resource, 0)


async def test_the_walk_throughs_tree_is_taken(hub: Hub) -> None:
    body = await hub.create(manifest(tree(leaf("child-2", "default", max={"kube-queue/max-jobs": 1}))))
    assert body["spec"]["root"]["children"][0]["max"] == {"kube-queue/max-jobs": 1}


async def test_a_tree_stands_in_kube_system_and_there_is_one(hub: Hub) -> None:
    refusal = await hub.refused(manifest(tree(), namespace="default"))
    assert refusal.code == 422 and refusal.causes[0].field == "metadata.namespace"
    assert "kube-system" in refusal.message
    await hub.create(manifest(tree()))
    refusal = await hub.refused(manifest(tree(), name="another"))
    assert (refusal.code, refusal.reason) == (409, "Conflict") and "kube-system/elasticquotatree" in refusal.message


async def test_all_flaws_come_in_one_answer(hub: Hub) -> None:
    refusal = await hub.refused(manifest(tree(leaf("a", max={"cpu": "?"}), leaf("a", min={"cpu": 5}, max={"cpu": 1}))))
    assert refusal.code == 422
    assert {cause.field for cause in refusal.causes} == {
        "spec.root.children[0].max[cpu]",
        "spec.root.children[1].name",
        "spec.root.children[1].min[cpu]",
    }


async def test_an_unknown_field_in_a_node_is_refused(hub: Hub) -> None:
    refusal = await hub.refused(manifest(tree(leaf("a", maximum={}))))
    assert refusal.code == 400 and 'unknown field "spec.root.children[0].maximum"' in refusal.message


@pytest.mark.parametrize("phase", ["Enqueued", "Dequeued", "Running", ""])
async def test_a_leaf_with_work_cannot_go(hub: Hub, phase: str) -> None:
    stored = await hub.create(manifest(tree(leaf("a", "default"), leaf("b"))))
    await _unit(hub, "root/a", phase)
    without = deepcopy(stored)
    without["spec"]["root"]["children"] = [leaf("b")]
    refusal = await hub.refused(without, "update")
    assert refusal.code == 422 and refusal.causes[0].field == "spec.root.children[0]"
    assert "root/a" in refusal.message and "default/job" in refusal.message
    inner = deepcopy(stored)
    inner["spec"]["root"]["children"][0] = {"name": "a", "children": [leaf("c", "default")]}
    assert (await hub.refused(inner, "update")).code == 422


async def test_a_leaf_whose_work_is_over_may_go_and_limits_may_change_under_work(hub: Hub) -> None:
    stored = await hub.create(manifest(tree(leaf("a", "default"), leaf("b"))))
    await _unit(hub, "root/a", "Succeed")
    smaller = deepcopy(stored)
    smaller["spec"]["root"]["children"] = [leaf("b", max={"cpu": 1})]
    assert len((await hub.update(smaller))["spec"]["root"]["children"]) == 1


async def _unit(hub: Hub, leaf_path: str, phase: str) -> None:
    queue = await hub.made(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "Queue",
            "metadata": {
                "name": "q",
                "namespace": "kube-queue",
                "annotations": {"kube-queue/quota-fullname": leaf_path},
            },
            "spec": {"queuePolicy": "Block"},
        }
    )
    unit = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"queue": queue["metadata"]["name"]},
        "status": {"phase": phase},
    }
    kind = hub.registry.need("scheduling.x-k8s.io", "queueunits")
    await hub.objects.create(kind, "default", unit, THE_HUB, with_status=True)


@pytest.mark.parametrize("name", ["视觉", "team a", "a.", ".a", "a..b", "a._b", "ä", "a:b", "a\tb"])
async def test_a_name_of_which_no_queue_can_be_made_is_refused_with_the_rule(hub: Hub, name: str) -> None:
    refusal = await hub.refused(manifest(tree(leaf("good"), leaf(name, children=[leaf("below")]))))
    (cause,) = refusal.causes
    assert cause.field == "spec.root.children[1].name" and "the name of its Queue is made of it" in cause.message


@pytest.mark.parametrize("name", ["Vision", "a_b", "a.b", "-a", "9", "x" * 300])
async def test_a_name_of_which_a_queue_can_be_made_is_accepted(hub: Hub, name: str) -> None:
    made = await hub.create(manifest(tree(leaf(name))))
    assert [child["name"] for child in made["spec"]["root"]["children"]] == [name]


async def test_a_name_that_was_stored_before_the_rule_may_stay_but_no_other_comes(hub: Hub) -> None:
    before = Objects(hub.store, hub.registry, hub.objects.clock, hub.objects.ids, fill=filled)
    kind = hub.registry.need(QUOTA, "elasticquotatrees")
    stored = (await before.create(kind, "kube-system", manifest(tree(leaf("视觉"), leaf("b"))), THE_HUB)).body
    stored["spec"]["root"]["children"][1]["name"] = "c"
    stored = await hub.update(stored)
    stored["spec"]["root"]["children"][1]["name"] = "team a"
    assert [c.field for c in (await hub.refused(stored, "update")).causes] == ["spec.root.children[1].name"]
