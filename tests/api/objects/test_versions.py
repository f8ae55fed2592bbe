"""A custom kind of several versions: what holds of any object, and of objects that were stored under another CRD."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.engine.conversion import complete, rewritten
from api.engine.crd import kind_of
from api.engine.kind import Kind
from api.objects.crds import follow_crds, load_crds
from api.objects.definitions import definitions
from api.objects.objects import Objects
from tests.admission.conftest import Hub
from tests.api.objects.conftest import OPTIONS

Body = dict[str, Any]
GROUP = "shapes.example.com"
NAME = f"shapes.{GROUP}"
SHARED = {"size": {"type": "integer"}, "tags": {"type": "object", "additionalProperties": {"type": "string"}}}
OWN: dict[str, Body] = {
    "v1": {"color": {"type": "string", "default": "red"}},
    "v2": {"corners": {"type": "integer", "default": 4}},
}
WITHIN_S = 20.0


def shape_crd(storage: str = "v1", *names: str, **more: Body) -> Body:
    """`names`: its versions; `more`: properties of the spec of a version."""
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "selectableFields": [{"jsonPath": ".spec.size"}],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {**SHARED, **OWN[name], **more.get(name, {})}},
                    },
                }
            },
        }
        for name in names or ("v1", "v2")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": "shapes", "kind": "Shape"},
            "versions": versions,
        },
    }


def shape(version: str, name: str = "s", **spec: Any) -> Body:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Shape", "metadata": {"name": name}, "spec": spec}


def in_version(kind: Kind, version: str) -> Kind:
    assert kind.family is not None
    return kind.family.kinds[f"{GROUP}/{version}"]


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(),
        "tags": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
        "color": st.text(max_size=3),
    },
)


@settings(max_examples=50, deadline=None)
@given(spec=SPECS)
def test_a_round_trip_loses_nothing_that_both_versions_have(spec: Body) -> None:
    kind = kind_of(shape_crd(), definitions())
    assert kind is not None
    there = rewritten(in_version(kind, "v2"), shape("v1", **spec))
    assert there["apiVersion"] == f"{GROUP}/v2"
    complete(in_version(kind, "v2"), there)
    back = rewritten(kind, there)
    assert back == shape("v1", **{key: value for key, value in spec.items() if key in SHARED})


@pytest.fixture
async def following(hub: Hub) -> AsyncIterator[Hub]:
    await load_crds(hub.store, hub.registry)
    task = asyncio.create_task(follow_crds(hub.store, hub.registry))
    yield hub
    task.cancel()


async def known(hub: Hub, storage: str, versions: int, *, new: bool = False) -> Kind:
    """The kind, once the hub knows it so; `new`: with the field of the changed schema."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            kind = hub.registry.resource(GROUP, "shapes")
            if kind is not None and kind.version == storage and len(kind.versions) == versions:
                assert kind.schema is not None
                if not new or "edge" in kind.schema["properties"]["spec"]["properties"]:
                    return kind
            await asyncio.sleep(0.01)


async def replaced(hub: Hub, body: Body) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    await hub.objects.patch(crds, "", NAME, {"spec": body["spec"]}, "application/merge-patch+json", OPTIONS)


async def test_a_write_that_changes_nothing_moves_an_object_into_the_new_storage_version(following: Hub) -> None:
    objects: Objects = following.objects
    await following.create(shape_crd())
    kind = await known(following, "v1", 2)
    await objects.create(kind, "", shape("v1", size=1, color="blue"), OPTIONS)
    await replaced(following, shape_crd("v2"))
    kind = await known(following, "v2", 2)
    page = await objects.store.list(GROUP, "shapes")
    before = page.items[0]
    assert before.body["apiVersion"] == f"{GROUP}/v1"
    assert (await objects.get(kind, "", "s"))["spec"] == {"size": 1}, "a conversion adds no defaults"
    await objects.patch(kind, "", "s", {}, "application/merge-patch+json", OPTIONS)
    after = await objects.store.get(before.key)
    assert after is not None and after.revision > before.revision
    assert after.body["apiVersion"] == f"{GROUP}/v2" and after.body["spec"] == {"size": 1, "corners": 4}
    await objects.patch(kind, "", "s", {}, "application/merge-patch+json", OPTIONS)
    again = await objects.store.get(before.key)
    assert again is not None and again.revision == after.revision, "the second one has nothing to do"


async def test_a_controller_changes_an_object_in_the_version_in_which_it_is_stored(following: Hub) -> None:
    objects: Objects = following.objects
    await following.create(shape_crd())
    await objects.create(await known(following, "v1", 2), "", shape("v1", size=1), OPTIONS)
    await replaced(following, shape_crd("v2"))
    kind = await known(following, "v2", 2)

    def larger(body: Body) -> Body:
        body["spec"]["size"] += 1
        return body

    changed = await objects.change(kind, "", "s", larger, OPTIONS)
    assert changed is not None
    assert changed["apiVersion"] == f"{GROUP}/v1" and changed["spec"] == {"size": 2, "color": "red"}


async def test_what_is_older_than_a_default_shows_it_also_after_a_restart(following: Hub) -> None:
    objects: Objects = following.objects
    await following.create(shape_crd("v1", "v1"))
    await objects.create(await known(following, "v1", 1), "", shape("v1", "old"), OPTIONS)
    await replaced(following, shape_crd("v1", "v1", v1={"edge": {"type": "string", "default": "thin"}}))
    kind = await known(following, "v1", 1, new=True)
    await objects.create(kind, "", shape("v1", "young"), OPTIONS)
    wanted = {"color": "red", "edge": "thin"}
    assert [body["spec"] for body in await objects.list(kind)] == [wanted, wanted]
    following.registry.drop(GROUP, "shapes")
    await load_crds(following.store, following.registry)
    kind = following.registry.need(GROUP, "shapes")
    found = await objects.list(kind, selector=lambda body: body["spec"].get("edge") == "thin")
    assert [body["spec"] for body in found] == [wanted, wanted]


async def test_a_selector_sees_an_object_in_the_version_asked_for(following: Hub) -> None:
    objects: Objects = following.objects
    await following.create(shape_crd())
    kind = await known(following, "v1", 2)
    for size in (1, 2):
        await objects.create(kind, "", shape("v1", f"s{size}", size=size, color="blue"), OPTIONS)
    seen: list[Body] = []

    def large(body: Body) -> bool:
        seen.append(body)
        return bool(body["spec"]["size"] > 1)

    found = await objects.list(in_version(kind, "v2"), selector=large)
    assert [body["metadata"]["name"] for body in found] == ["s2"]
    assert {body["apiVersion"] for body in seen} == {f"{GROUP}/v2"} and all("color" not in b["spec"] for b in seen)
