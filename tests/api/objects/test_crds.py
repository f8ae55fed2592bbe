"""CRDs: users add kinds by applying them, and a deleted CRD takes its objects with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy

import pytest

from api.engine.patch import MERGE
from api.engine.registry import Registry
from api.objects.crds import follow_crds, load_crds
from fleet.admission.kindfiles import load_kinds
from tests.admission.conftest import USER, Body, Hub
from tests.api.objects.widgets import widget, widget_crd

TRIES = 2000


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
