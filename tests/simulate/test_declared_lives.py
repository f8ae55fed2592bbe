"""Jobs of kinds that are known by their declaration alone, over a simulated member whose operators read it as well.

The leaf runs one job at a time, so that the start of the second shows that the first has left its quota.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.bindings.conditions import is_true
from fleet.kinds import INTERPRETERS, interpreter_of
from fleet.values.ports import Body, Key
from fleet.wellknown import SCHEDULED
from tests.controllers.world import cluster_policy
from tests.simulate.declarations import DECLARED, JOBS, WIDGET, crd, job, no_end, widget
from tests.simulate.whole import Whole, whole


@pytest.fixture(autouse=True)
def nothing_declared() -> Iterator[None]:
    yield
    INTERPRETERS.declare(())


BATCHES = ("RayJob", "JobSet", "TrainJob", "SparkApplication", "Workflow")  # they come to an end
SUSPENDED = ("RayJob", "RayCluster", "JobSet", "TrainJob", "SparkApplication", "Workflow")


def crds(kind: str) -> list[Body]:
    group, _, version = JOBS[kind][0].partition("/")
    return [] if group == "apps" else [crd(group, version, kind, JOBS[kind][1])]


async def queue(world: Whole, *api: tuple[str, str]) -> None:
    selectors = [{"apiVersion": api_version, "kind": kind} for api_version, kind in api]
    await world.create(cluster_policy("declared", queue=True, resourceSelectors=selectors, failover=None))


async def runs(world: Whole, kind: str, name: str) -> None:
    await world.until(
        lambda: world.phase(kind, name) == "Running",
        f"{name} runs: {world.phase(kind, name)} {world.see(kind, name).get('status')}",
    )


def state(world: Whole, kind: str, name: str) -> str:
    interpreter = interpreter_of(JOBS[kind][0], kind)
    assert interpreter is not None
    return str(interpreter.state(world.see(kind, name).get("status")).state)


def why(world: Whole, kind: str, name: str) -> str:
    """The code of the reason why its unit waits."""
    status = world.see("QueueUnit", f"{name}-{kind.lower()}-rb-qu").get("status") or {}
    return str((status.get("reason") or {}).get("code"))


@pytest.mark.parametrize("kind", JOBS)
async def test_a_gang_queues_runs_and_leaves_when_it_is_deleted(kind: str) -> None:
    async with whole("cfa", crds=crds(kind)) as world:
        await queue(world, (JOBS[kind][0], kind))
        await world.create(job(kind, "first"))
        await runs(world, kind, "first")
        assert world.placed(kind, "first") == "cfa"
        assert is_true(world.see("ResourceBinding", f"first-{kind.lower()}") or {}, "PodsReady")
        await world.until(lambda: state(world, kind, "first") == "Running", "the job on the hub says so")
        await world.create(job(kind, "second"))
        await world.until(lambda: world.phase(kind, "second") == "Enqueued", "the second waits")
        await world.delete(kind, "first")
        await runs(world, kind, "second")
        await world.until(lambda: world.copies(kind) == ["second"], "nothing is left of the first")
        ours = {pod["metadata"]["ownerReferences"][0]["name"] for pod in world.pods()}
        assert ours == {"second"}


async def test_a_status_has_all_that_the_definition_of_its_kind_requires() -> None:
    strict = crds("SparkApplication")[0]
    state_of = {
        "type": "object",
        "required": ["state"],
        "properties": {"state": {"type": "string"}, "errorMessage": {"type": "string"}},
    }
    status = {
        "type": "object",
        "required": ["driverInfo", "seenAt"],
        "properties": {
            "applicationState": state_of,
            "driverInfo": {
                "type": "object",
                "required": ["port", "names"],
                "properties": {"port": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}}},
            },
            "seenAt": {"type": "string", "format": "date-time"},
        },
    }
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    (version,) = strict["spec"]["versions"]
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    async with whole("cfa", crds=[strict]) as world:
        await queue(world, (JOBS["SparkApplication"][0], "SparkApplication"))
        await world.create(job("SparkApplication", "first"))
        await runs(world, "SparkApplication", "first")
        told = world.members["cfa"].world.store.scan("sparkoperator.k8s.io", "sparkapplications")[0].body["status"]
        assert told["driverInfo"] == {"port": 0, "names": []}
        await world.end_pods()
        await world.until(lambda: world.phase("SparkApplication", "first") == "Succeed", "its unit is over")


async def test_an_operator_follows_its_kind_to_another_version() -> None:
    other = crd("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
    async with whole("cfa", crds=[other]) as world:
        await queue(world, ("kubeflow.org/v2beta1", "MPIJob"))
        template = no_end()
        template["spec"]["containers"][0]["name"] = "mpi"
        specs = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
        meta, spec = {"name": "first"}, {"mpiReplicaSpecs": specs}
        await world.create({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": meta, "spec": spec})
        await runs(world, "MPIJob", "first")
        await world.end_pods()
        await world.until(lambda: world.phase("MPIJob", "first") == "Succeed", "its unit is over")


@pytest.mark.parametrize("kind", BATCHES)
async def test_a_gang_succeeds_and_leaves_its_quota_to_the_next_which_fails(kind: str) -> None:
    async with whole("cfa", crds=crds(kind)) as world:
        await queue(world, (JOBS[kind][0], kind))
        await world.create(job(kind, "first"), job(kind, "second"))
        await runs(world, kind, "first")
        await world.end_pods()
        await world.until(lambda: world.phase(kind, "first") == "Succeed", "the unit of the first is over")
        assert state(world, kind, "first") == "Succeeded"
        await runs(world, kind, "second")
        await world.end_pods(exit_code=3)
        await world.until(lambda: world.phase(kind, "second") == "Failed", "the unit of the second is over")
        assert state(world, kind, "second") == "Failed"


@pytest.mark.parametrize("kind", SUSPENDED)
async def test_a_gang_that_its_user_suspends_leaves_its_member_until_it_is_resumed(kind: str) -> None:
    async with whole("cfa", crds=crds(kind)) as world:
        await queue(world, (JOBS[kind][0], kind))
        await world.create(job(kind, "first"))
        await runs(world, kind, "first")
        await world.patch(kind, "first", {"spec": {"suspend": True}})
        await world.until(lambda: world.copies(kind) == [] and world.pods() == [], "nothing of it is in the member")
        await world.until(lambda: why(world, kind, "first") == "Suspended", "it waits")
        assert world.phase(kind, "first") == "Enqueued"
        await world.patch(kind, "first", {"spec": {"suspend": False}})
        await runs(world, kind, "first")


# -- a kind of a user's own


async def declare(world: Whole) -> None:
    """To the hub, and to the member, whose simulated operator reads it too."""
    await world.create(DECLARED)
    for member in world.members.values():
        inside = member.world
        kind = inside.registry.need("config.fleet.io", "workloadinterpreters")
        await inside.objects.create(kind, "", copy.deepcopy(DECLARED), inside.options)


async def test_a_kind_that_a_user_declares_is_a_gang_from_its_policy_to_its_end() -> None:
    async with whole("cfa", crds=[WIDGET]) as world:
        await declare(world)
        await world.until(lambda: interpreter_of("example.com/v1", "Widget"), "the declaration counts")
        await queue(world, ("example.com/v1", "Widget"))
        await world.create(widget("one"), widget("two"))
        await runs(world, "Widget", "one")
        [binding] = [world.see("ResourceBinding", "one-widget")]
        found = {c["name"]: c["replicas"] for c in binding["spec"]["components"]}
        assert found == {"front": 2, "back": 2}
        names = sorted(pod["metadata"]["name"] for pod in world.pods())
        assert names == ["one-back-0", "one-back-1", "one-front-0", "one-front-1"]
        assert world.phase("Widget", "two") == "Enqueued"
        await world.end_pods()
        await world.until(lambda: world.phase("Widget", "one") == "Succeed", "it is over")
        assert world.see("Widget", "one")["status"]["phase"] == "Done"
        await runs(world, "Widget", "two")


async def test_a_widget_that_nobody_declared_goes_to_no_member_and_is_bound_when_it_is_declared() -> None:
    async with whole("cfa", "cfb", crds=[WIDGET]) as world:
        await world.create(DECLARED)
        await world.until(lambda: interpreter_of("example.com/v1", "Widget"), "the declaration counts")
        await queue(world, ("example.com/v1", "Widget"))
        await world.objects.delete(world.kind("WorkloadInterpreter"), "", "widgets.example.com", world.hub.options)
        await world.until(lambda: interpreter_of("example.com/v1", "Widget") is None, "nor does it any more")
        await world.create(widget("one"))

        def told() -> list[Any]:
            events = (stored.body for stored in world.store.scan("", "events", namespace="default"))
            return [e["message"] for e in events if e["reason"] == "ApplyPolicyFailed"]

        await world.until(told, "the job is told")
        assert "no WorkloadInterpreter says what pods a Widget of example.com/v1 has" in told()[0]
        assert world.store.peek(Key("work.karmada.io", "resourcebindings", "default", "one-widget")) is None
        assert world.copies("Widget") == []
        await declare(world)
        await world.until(lambda: world.placed("Widget", "one"), "it is bound")
        assert is_true(world.see("ResourceBinding", "one-widget") or {}, SCHEDULED)
