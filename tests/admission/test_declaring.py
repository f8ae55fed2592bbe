"""WorkloadInterpreters: which are refused, and what they change for policies and jobs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from api.engine.crd import kind_of
from api.objects.definitions import definitions
from fleet.admission.interpreters import DeclarationLoader
from fleet.kinds import INTERPRETERS
from fleet.wellknown import FINALIZER_BINDING
from tests.admission.conftest import THE_HUB, Body, Hub
from tests.admission.policies import gang, policy
from tests.simulate.declarations import DECLARED, JOBS, SERVED, WIDGET, crd, job, widget


@pytest.fixture(autouse=True)
def nothing_declared() -> Iterator[None]:
    yield
    INTERPRETERS.declare(())


def declared(**spec: Any) -> Body:
    body = copy.deepcopy(DECLARED)
    body["spec"].update(spec)
    return body


def component(**more: Any) -> Body:
    return {"name": "a", "template": "object.spec.pod", **more}


def for_widgets() -> Body:
    return policy(resourceSelectors=[{"apiVersion": "example.com/v1", "kind": "Widget"}], **gang())


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (declared(components=[component(replicas="object.spec.")]), "spec.components[0].replicas", "expected"),
        (declared(components=[component(replicas="nonsense.n")]), "spec.components[0].replicas", "knows object here"),
        (declared(components=[component(template="spec.pod")]), "spec.components[0].template", "begins with object."),
        (
            declared(components=[component(replicas="object.a.map(x, object.b.map(y, y)).size()")]),
            "spec.components[0].replicas",
            "may take too long",
        ),
        (declared(components=[component(), component()]), "spec.components[1].name", "has this name"),
        (declared(suspend="spec.suspend"), "spec.suspend", "begins with object."),
        (declared(state=[{"state": "Running", "when": "object.spec.on"}]), "spec.state[0].when", "knows status here"),
        (declared(target={"group": "", "kind": "Pod"}), "spec.target", "kind of the hub's own"),
        (declared(target={"group": "work.karmada.io", "kind": "ResourceBinding"}), "spec.target", "the hub's own"),
        (declared(target={"group": "config.fleet.io", "kind": "WorkloadInterpreter"}), "spec.target", "the hub's own"),
    ],
)
async def test_a_declaration_that_cannot_be_meant_is_refused(hub: Hub, body: Body, field: str, says: str) -> None:
    refusal = await hub.refused(body)
    assert [cause.field for cause in refusal.causes] == [field]
    assert says in refusal.causes[0].message


async def test_the_schema_names_what_is_no_declaration_at_all(hub: Hub) -> None:
    for spec in ({}, {"target": {"group": "a", "kind": "B"}, "components": []}, {"components": "all"}):
        assert (await hub.refused({**DECLARED, "spec": spec})).code == 422


async def test_a_kind_is_declared_once_and_keeps_its_target(hub: Hub) -> None:
    stored = await hub.create(declared())
    again = declared()
    again["metadata"] = {"name": "again"}
    refusal = await hub.refused(again)
    assert "WorkloadInterpreter widgets.example.com declares this kind already" in refusal.causes[0].message
    stored = copy.deepcopy(stored)
    stored["spec"]["target"] = {"group": "example.com", "kind": "Gadget"}
    assert (await hub.refused(stored, "update")).causes[0].field == "spec.target"
    shipped = declared(target={"group": "apps", "kind": "Deployment"})
    shipped["metadata"] = {"name": "deployments.apps"}
    await hub.create(shipped)  # in place of the one that Fleet ships


async def test_a_gang_of_an_undeclared_kind_is_refused_at_its_policy_until_it_is_declared(hub: Hub) -> None:
    refusal = await hub.refused(for_widgets())
    assert [cause.field for cause in refusal.causes] == ["spec.resourceSelectors[0].kind"]
    assert "no WorkloadInterpreter says what pods a Widget of example.com/v1 has" in refusal.causes[0].message
    await hub.create(declared())
    DeclarationLoader(hub.store).load()
    await hub.create(for_widgets())
    without = policy(resourceSelectors=[{"apiVersion": "example.com/v1", "kind": "Widget"}])
    without["metadata"]["name"] = "without"
    assert "customSchedulingType" in (await hub.refused(without)).causes[0].field


async def test_a_declaration_with_live_gangs_stays(hub: Hub) -> None:
    stored = await hub.create(declared())
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "one", "namespace": "default", "uid": "u"}
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "one-widget", "namespace": "default", "finalizers": [FINALIZER_BINDING]},
        "spec": {"resource": reference, "gang": True, "components": []},
    }
    made = await hub.made(binding)
    refusal = await hub.refused(stored, "delete")
    assert refusal.code == 403
    assert "1 gang of Widget (example.com) is not over; delete them first" in refusal.message
    finished = {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    kind = hub.registry.need("work.karmada.io", "resourcebindings")
    await hub.objects.change(
        kind,
        "default",
        "one-widget",
        lambda body: {**body, "status": {"conditions": [finished]}},
        THE_HUB,
        uid=made["metadata"]["uid"],
    )
    await hub.delete(stored)


async def test_jobs_of_a_declared_kind_are_checked_as_any_job_is(hub: Hub) -> None:
    made = kind_of(WIDGET, definitions())
    assert made is not None
    hub.registry.put(made)
    await hub.create(declared())
    DeclarationLoader(hub.store).load()
    empty = widget("empty")
    empty["spec"]["parts"] = []
    assert "a job has at least one pod" in (await hub.refused(empty)).causes[0].message
    bad = widget("bad")
    bad["spec"]["parts"][0]["pod"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "lots"
    [cause] = (await hub.refused(bad)).causes
    assert cause.field == "spec.parts[0].pod.spec.containers[0].resources.limits[cpu]"
    marked = widget("marked")
    marked["spec"]["parts"][1]["pod"]["metadata"]["labels"]["fleet.io/binding"] = "mine"
    [cause] = (await hub.refused(marked)).causes
    assert cause.field == "spec.parts[1].pod.metadata.labels[fleet.io/binding]"


async def test_a_deployment_selects_its_own_pods(hub: Hub) -> None:
    await hub.create(job("Deployment", "good"))
    bad = {**job("Deployment", "bad"), "spec": {**SERVED, "selector": {"matchLabels": {"other": "1"}}}}
    assert "does not match template" in (await hub.refused(bad)).causes[0].message


async def test_a_job_without_pod_template_says_its_size(hub: Hub) -> None:
    api_version, plural, _, _ = JOBS["Workflow"]
    group, _, version = api_version.partition("/")
    made = kind_of(crd(group, version, "Workflow", plural), definitions())
    assert made is not None
    hub.registry.put(made)
    await hub.create(job("Workflow", "good"))
    silent = job("Workflow", "silent")
    silent["metadata"]["annotations"] = {}
    assert "the annotation fleet.io/size" in (await hub.refused(silent)).causes[0].message
    wrong = job("Workflow", "wrong")
    wrong["metadata"]["annotations"]["fleet.io/size"] = "big"
    [cause] = (await hub.refused(wrong)).causes
    assert cause.field == "metadata.annotations[fleet.io/size]"
    rack = job("Workflow", "rack")
    rack["metadata"]["annotations"]["fleet.io/required-topology"] = "rack"
    assert "have no template" in (await hub.refused(rack)).causes[0].message
