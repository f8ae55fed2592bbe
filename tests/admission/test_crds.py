"""CRDs: users add kinds by applying them, Fleet's own are CRDs too, and a deleted CRD takes its objects with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from typing import Any

import pytest

from api.kindfiles import load_kinds
from fleet.admission.seed import seed
from fleet.engine.crd import crd_of, kind_of, validate
from fleet.engine.patch import MERGE
from fleet.engine.registry import Registry
from fleet.objects.crds import follow_crds, load_crds
from fleet.objects.definitions import definitions
from tests.admission.conftest import USER, Body, Hub

TRIES = 2000


def widget_crd(**spec: Any) -> Body:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [version],
                 "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}, **spec},
    }  # fmt: skip


def widget(name: str = "w", size: object = 1, **metadata: Any) -> Body:
    metadata["name"] = name
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": size}}


async def until(holds: Callable[[], Awaitable[object] | object]) -> None:
    """Wait for a condition, with a bound; followers act within milliseconds."""
    for _ in range(TRIES):
        found = holds()
        if await found if isinstance(found, Awaitable) else found:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not in time")


@pytest.fixture
async def following(hub: Hub) -> AsyncIterator[Hub]:
    await load_crds(hub.store, hub.registry)
    task = asyncio.create_task(follow_crds(hub.store, hub.registry))
    yield hub
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def first(versions: Body, **changes: Any) -> Body:
    return {"versions": [{**versions["spec"]["versions"][0], **changes}]}


CRD = widget_crd()
REFUSED = [
    pytest.param({**CRD, "metadata": {"name": "wrong"}}, "metadata.name", id="a name that is not plural.group"),
    pytest.param(widget_crd(scope="Galaxy"), "spec.scope", id="no such scope"),
    pytest.param(widget_crd(versions=[]), "spec.versions", id="no storage version"),
    pytest.param(widget_crd(**first(CRD, schema={})), "spec.versions[0].schema.openAPIV3Schema", id="no schema"),
    pytest.param(widget_crd(**first(CRD, schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}})),
                 "spec.versions[0].schema.openAPIV3Schema.properties[spec].type", id="a field without a type"),
    pytest.param(widget_crd(**first(CRD, schema={"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "array"}}}})), "spec.versions[0].schema.openAPIV3Schema.properties[spec].items",
        id="a list of nothing"),
    pytest.param(widget_crd(conversion={"strategy": "Webhook"}), "spec.conversion.strategy", id="a webhook"),
    pytest.param(widget_crd(preserveUnknownFields=True), "spec.preserveUnknownFields", id="a schema that is none"),
    pytest.param(widget_crd(**first(CRD, additionalPrinterColumns=[
        {"name": "A", "type": "string", "jsonPath": "spec.a"}])),
        "spec.versions[0].additionalPrinterColumns[0].jsonPath", id="a path that is none"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "field"), REFUSED)
async def test_a_definition_that_cannot_be_served_is_refused(hub: Hub, body: Body, field: str) -> None:
    refusal = await hub.refused(body)
    assert refusal.code == 422 and field in [cause.field for cause in refusal.causes], refusal.causes


async def test_a_user_adds_a_kind_and_it_is_established(following: Hub) -> None:
    hub = following
    await hub.create(widget_crd())
    await until(lambda: hub.registry.resource("example.com", "widgets"))
    kind = hub.registry.need("example.com", "widgets")
    assert (kind.kind, kind.singular, kind.list_kind, kind.status) == ("Widget", "widget", "WidgetList", True)
    assert kind.short_names == ("wd",) and [column.name for column in kind.columns] == ["Size"]
    assert (await hub.create(widget()))["spec"]["size"] == 1
    assert (await hub.refused(widget("x", "large"))).causes[0].field == "spec.size"
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    stored = await hub.objects.get(crds, "", "widgets.example.com")
    conditions = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert stored["status"]["acceptedNames"]["plural"] == "widgets" and stored["status"]["storedVersions"] == ["v1"]


async def test_a_changed_schema_holds_for_the_next_write(following: Hub) -> None:
    hub = following
    stored = await hub.create(widget_crd())
    await until(lambda: hub.registry.resource("example.com", "widgets"))
    before = hub.registry.need("example.com", "widgets")
    changed = deepcopy(stored)
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["size"] = {"type": "string"}
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    await hub.objects.patch(crds, "", changed["metadata"]["name"], {"spec": changed["spec"]}, MERGE, USER)
    await until(lambda: hub.registry.need("example.com", "widgets") is not before)
    assert (await hub.create(widget(size="large")))["spec"]["size"] == "large"


async def test_a_deleted_definition_takes_its_objects_with_it(following: Hub) -> None:
    hub = following
    await hub.create(widget_crd())
    await until(lambda: hub.registry.resource("example.com", "widgets"))
    kind = hub.registry.need("example.com", "widgets")
    await hub.create(widget("free"))
    await hub.create(widget("held", finalizers=["example.com/hold"]))
    written = await hub.delete(widget_crd())
    assert not written.deleted  # its finalizer keeps it until its objects are gone

    async def only_the_held_one_goes() -> bool:
        left = {w["metadata"]["name"]: w["metadata"].get("deletionTimestamp") for w in await hub.objects.list(kind)}
        return set(left) == {"held"} and bool(left["held"])

    await until(only_the_held_one_goes)

    def let_go(body: Body) -> Body:
        body["metadata"]["finalizers"] = []
        return body

    await hub.objects.change(kind, "default", "held", let_go, USER)
    await until(lambda: hub.registry.resource("example.com", "widgets") is None)
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    assert await hub.objects.find(crds, "", "widgets.example.com") is None


async def test_a_process_that_starts_later_knows_the_same_kinds(following: Hub) -> None:
    await following.create(widget_crd())
    fresh = Registry(load_kinds())
    await load_crds(following.store, fresh)
    assert fresh.need("example.com", "widgets").kind == "Widget"


async def test_names_in_use_are_not_accepted(following: Hub) -> None:
    hub = following
    other = widget_crd(names={"plural": "gadgets", "kind": "Widget"})
    other["metadata"]["name"] = "gadgets.example.com"
    await hub.create(widget_crd())
    await until(lambda: hub.registry.resource("example.com", "widgets"))
    await hub.create(other)
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")

    async def judged() -> object:
        return (await hub.objects.get(crds, "", "gadgets.example.com")).get("status")

    await until(judged)
    conditions = (await hub.objects.get(crds, "", "gadgets.example.com"))["status"]["conditions"]
    assert {c["type"]: c["status"] for c in conditions} == {"NamesAccepted": "False", "Established": "False"}
    assert hub.registry.resource("example.com", "gadgets") is None


async def test_a_definition_cannot_take_the_place_of_a_built_in_kind(hub: Hub) -> None:
    body = widget_crd(group="batch.k8s.io", names={"plural": "jobs", "kind": "Job"})
    body["metadata"]["name"] = "jobs.batch.k8s.io"
    await hub.create(body)  # another group is another kind
    body = widget_crd(group="scheduling.k8s.io", names={"plural": "priorityclasses", "kind": "PriorityClass"})
    body["metadata"]["name"] = "priorityclasses.scheduling.k8s.io"
    assert (await hub.refused(body)).code == 403


async def test_the_hubs_own_definitions_stay(hub: Hub) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    own = deepcopy(await hub.objects.get(crds, "", "resourcebindings.work.karmada.io"))
    refusal = await hub.refused(own, "delete")
    assert refusal.code == 403 and "the hub works with this kind" in refusal.message
    own["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object"}
    assert (await hub.refused(own, "update")).code == 403


async def test_every_custom_kind_is_a_definition_and_means_the_same_when_read_back(hub: Hub) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    for kind in hub.registry:
        if kind.builtin:
            continue
        stored = await hub.objects.get(crds, "", kind.group_resource)
        assert validate(stored) == [] and stored["spec"] == crd_of(kind)["spec"]
        assert kind_of(stored, definitions(), kind) == kind


async def test_seeding_again_writes_nothing_and_keeps_what_an_administrator_changed(hub: Hub) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    jobs = deepcopy(await hub.objects.get(crds, "", "pytorchjobs.kubeflow.org"))
    jobs["spec"]["names"]["shortNames"] = ["ptj"]
    await hub.update(jobs)
    roles = hub.registry.need("rbac.authorization.k8s.io", "clusterroles")
    await hub.objects.delete(roles, "", "view", USER)
    view = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "view"}}
    await hub.create({**view, "rules": []})
    before = await hub.store.revision()
    await seed(hub.objects)
    assert await hub.store.revision() == before


async def test_seeding_brings_back_what_is_missing_and_mends_an_old_version(hub: Hub) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")

    def older(body: Body) -> Body:
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object"}
        return body

    await hub.objects.change(crds, "", "queueunits.scheduling.x-k8s.io", older, USER)
    namespaces = hub.registry.need("", "namespaces")
    for name in ("default", "kube-system", "kube-queue", "fleet-system"):
        assert (await hub.objects.get(namespaces, "", name))["status"]["phase"] == "Active"
    await seed(hub.objects)
    stored = await hub.objects.get(crds, "", "queueunits.scheduling.x-k8s.io")
    assert stored["spec"] == crd_of(hub.registry.need("scheduling.x-k8s.io", "queueunits"))["spec"]
