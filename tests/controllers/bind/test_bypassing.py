"""A gang on a leaf waits in its queue unless a user with the right to pass it wrote the policy."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import cluster_policy, hub, member, passing, policy, pytorchjob, tree

QUEUED = {"fleet.io/queueing": "true"}
LABEL = "quota.scheduling.alibabacloud.com/name"


def labelled(body: Body, leaf: str) -> Body:
    return {**body, "metadata": {**body["metadata"], "labels": {LABEL: leaf}}}


def config(required: str) -> Body:
    metadata = {"name": "hub", "namespace": "fleet-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"requireQueue": required}}


def two_leaves(**of_b: Any) -> Body:
    """Leaf child-2 (namespace default) and leaf b (team-b); neither lets anything start."""
    body = tree(max_jobs=0)
    children = body["spec"]["root"]["children"]
    children.append({**children[0], "name": "b", "namespaces": ["team-b"], **of_b})
    return body


async def test_a_policy_that_nobody_with_the_right_wrote_is_one_that_suspends() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), policy(), pytorchjob("one"), pytorchjob("two"))
        await eventually(lambda: "of at most 1 job" in world.message("one") + world.message("two"))
        assert sorted([world.placed("one"), world.placed("two")]) == ["", "cfa"]
        (event,) = world.events("one", "QueueRequired")
        assert event["type"] == "Warning"
        assert event["message"] == (
            "the job waits in its queue, though PropagationPolicy default/example-policy does not say"
            ' spec.suspension.scheduling: nobody with the verb "bypass" on the queue of root/child-2 has written the'
            " policy"
        )
        await settle(700)
        assert world.events("one", "QueueRequired")[0]["count"] == 1


async def test_the_walk_throughs_policy_of_an_administrator_passes_the_queue() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), passing(policy()), pytorchjob("one"))
        assert await world.running("one") == "cfa"
        assert (world.unit("one"), world.events("one", "QueueRequired")) == (None, [])


@pytest.mark.parametrize(
    ("body", "job", "passes"),
    [
        pytest.param(passing(policy(), "root/child-2"), pytorchjob("one"), True, id="the right on its own leaf"),
        pytest.param(passing(policy(), "root/b"), pytorchjob("one"), False, id="the right on another leaf"),
        pytest.param(passing(policy(), "root/child-2"), labelled(pytorchjob("one"), "b"), False, id="a label away"),
        pytest.param(passing(policy()), labelled(pytorchjob("one"), "b"), True, id="a label, and the right on all"),
        pytest.param(policy(), labelled(pytorchjob("one"), "nowhere"), False, id="a label that names no leaf"),
        pytest.param(cluster_policy(), pytorchjob("one"), False, id="a cluster-wide policy without the right"),
        pytest.param(passing(cluster_policy()), pytorchjob("one"), True, id="a cluster-wide policy with the right"),
    ],
)
async def test_the_right_counts_for_the_leaf_that_the_job_is_charged_to(body: Body, job: Body, passes: bool) -> None:
    async with hub(member("cfa")) as world:
        await world.apply(two_leaves(), body, job)
        await eventually(lambda: world.binding("one"))
        await settle()
        assert (world.placed("one"), world.unit("one") is None) == (("cfa", True) if passes else ("", False))


async def test_a_namespace_without_a_leaf_is_outside_quota_as_before() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(namespaces=["team-b"]), policy(), pytorchjob("one"))
        assert await world.running("one") == "cfa"


async def test_a_job_that_runs_when_its_namespace_gets_a_leaf_stays_and_is_charged() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        await world.apply(tree(max_jobs=1))
        unit = await eventually(lambda: world.unit("one"))
        await eventually(lambda: world.phase("one") == "Running")
        assert unit["spec"]["queue"] == world.queues()["root/child-2"]
        assert (await eventually(lambda: world.events("one", "QueueRequired")))[0]["message"].startswith(
            "the job runs on and is charged to its queue"
        )
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "of at most 1 job" in world.message("two"))
        assert (world.state("one"), world.attempt("one"), world.placed("two")) == ("Running", 1, "")
        world.members.finish("one")
        await world.running("two")


async def test_a_job_that_waits_when_its_namespace_gets_a_leaf_goes_into_the_queue() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("large", gpus=9))
        await eventually(lambda: world.binding("large"))
        await settle()
        assert world.unit("large") is None
        await world.apply(tree())
        await eventually(lambda: world.phase("large") == "Enqueued")


async def test_a_policy_that_somebody_with_the_right_writes_lets_what_waits_go() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(), pytorchjob("one"))
        await eventually(lambda: world.message("one"))
        await world.apply(passing(policy()))
        assert await world.running("one") == "cfa"


async def test_a_lazy_policy_without_the_right_queues_what_it_took_before() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(activationPreference="Lazy"), pytorchjob("large", gpus=9))
        await eventually(lambda: world.binding("large"))
        await settle()
        await world.apply(tree())
        await eventually(lambda: world.phase("large") == "Enqueued")


async def test_a_job_whose_policy_is_gone_does_not_pass_the_queue_either() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("large", gpus=9), pytorchjob("runs", workers=0))
        await world.running("runs")
        await world.delete("PropagationPolicy", "example-policy")
        await eventually(lambda: "fleet.io/policy" not in (world.binding("large") or {})["metadata"]["annotations"])
        await world.apply(tree())
        await eventually(lambda: world.phase("large") == "Enqueued")
        assert (world.state("runs"), world.unit("runs")) == ("Running", None)


async def test_a_node_that_requires_the_queue_makes_the_right_void_and_back() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(two_leaves(requireQueue=True), passing(policy(namespace="team-b")))
        await world.apply(pytorchjob("one", namespace="team-b"), passing(policy()), pytorchjob("other"))
        await world.running("other")
        unit = await eventually(lambda: world.unit("one", namespace="team-b"))
        await eventually(lambda: (world.unit("one", namespace="team-b") or unit)["status"].get("message"))
        assert world.events("one", "QueueRequired")[0]["message"].endswith(
            "requireQueue: true at node root/b of the quota tree"
        )
        await world.apply(two_leaves())
        await eventually(lambda: (world.binding("one", namespace="team-b") or {})["spec"].get("clusters"))


async def test_a_hub_that_requires_the_queue_makes_the_right_void_and_back() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), config("true"), passing(policy()), pytorchjob("one"))
        await eventually(lambda: world.message("one"))
        assert (
            'requireQueue: "true" in ConfigMap fleet-system/hub' in world.events("one", "QueueRequired")[0]["message"]
        )
        await world.apply(config("false"))
        assert await world.running("one") == "cfa"
        await world.apply(config("true"))
        await eventually(lambda: world.phase("one") == "Running")
        assert world.attempt("one") == 1


async def test_where_the_hub_requires_the_queue_a_namespace_without_a_leaf_waits_for_one() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(namespaces=["team-b"]), config("true"), passing(policy()), pytorchjob("one"))
        await eventually(lambda: world.message("one"))
        assert world.placed("one") == ""


async def test_a_suspension_that_comes_while_a_job_runs_charges_it() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), passing(policy()), pytorchjob("one"))
        await world.running("one")
        await world.apply(policy(queue=True), pytorchjob("two"))
        await eventually(lambda: "of at most 1 job" in world.message("two"))
        await eventually(lambda: world.phase("one") == "Running")
        assert world.state("one") == "Running"
