"""Server-side apply and managedFields: who owns what, who is told, who wins."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from api.engine.status import StatusError
from api.objects.objects import Objects
from api.objects.writing import Options
from tests.api.engine.conftest import WIDGET

from .conftest import OPTIONS, FixedClock

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


def config(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


def by(manager: str, *, force: bool = False) -> Options:
    return dataclasses.replace(OPTIONS, manager=manager, force=force)


async def apply(objects: Objects, manager: str, *, force: bool = False, **spec: Any) -> dict[str, Any]:
    written = await objects.patch(WIDGET, "default", "a", config(**spec), APPLY, by(manager, force=force))
    return written.body


def owners(body: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {(m["manager"], m["operation"]): m["fieldsV1"] for m in body["metadata"]["managedFields"]}


async def test_an_apply_creates_what_is_missing_and_owns_what_it_names(objects: Objects) -> None:
    written = await objects.patch(WIDGET, "default", "a", config(size=2, tags={"x": "y"}), APPLY, by("me"))
    assert written.created
    assert written.body["spec"] == {"size": 2, "tags": {"x": "y"}, "color": "red"}
    assert written.body["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "example.com/v1",
            "time": "2023-11-14T22:13:20Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:size": {}, "f:tags": {"f:x": {}}}},
        }
    ]


async def test_applying_the_same_again_changes_nothing(objects: Objects, clock: FixedClock) -> None:
    first = await apply(objects, "me", size=2, parts=[{"name": "p", "weight": 1}], marks=["m"])
    await objects.patch(WIDGET, "default", "a", {"metadata": {"labels": {"x": "y"}}}, MERGE, by("other"))
    clock.time += 60
    before = await objects.get(WIDGET, "default", "a")
    again = await apply(objects, "me", size=2, parts=[{"name": "p", "weight": 1}], marks=["m"])
    assert again == before
    assert again["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]


async def test_what_is_no_longer_applied_goes_unless_somebody_else_owns_it(objects: Objects) -> None:
    await apply(objects, "me", size=2, note="n", tags={"a": "1", "b": "2"}, parts=[{"name": "p"}, {"name": "q"}])
    await apply(objects, "you", tags={"b": "2"}, size=2)
    body = await apply(objects, "me", size=2, parts=[{"name": "q"}])
    assert body["spec"] == {"size": 2, "color": "red", "tags": {"b": "2"}, "parts": [{"name": "q"}]}
    assert owners(body)["you", "Apply"] == {"f:spec": {"f:size": {}, "f:tags": {"f:b": {}}}}


async def test_defaults_that_nobody_applied_stay_when_their_neighbours_go(objects: Objects) -> None:
    await apply(objects, "me", size=2, note="n")
    assert (await apply(objects, "me", size=2))["spec"] == {"size": 2, "color": "red"}


async def test_another_value_for_an_owned_field_is_a_conflict_that_names_owner_and_field(objects: Objects) -> None:
    await objects.create(WIDGET, "default", config(size=2), by("x"))
    with pytest.raises(StatusError) as caught:
        await apply(objects, "me", size=3)
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "x" using example.com/v1: .spec.size',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "x" using example.com/v1',
                    "field": ".spec.size",
                }
            ]
        },
        "code": 409,
    }
    assert (await objects.get(WIDGET, "default", "a"))["spec"]["size"] == 2


async def test_several_conflicts_are_listed_by_owner(objects: Objects) -> None:
    await apply(objects, "x", size=2, parts=[{"name": "p", "weight": 1}])
    with pytest.raises(StatusError) as caught:
        await apply(objects, "me", size=3, parts=[{"name": "p", "weight": 2}])
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "x":\n- .spec.parts[name="p"].weight\n- .spec.size'
    )


async def test_force_takes_the_field_over(objects: Objects) -> None:
    await apply(objects, "x", size=2, note="n")
    body = await apply(objects, "me", force=True, size=3)
    assert body["spec"]["size"] == 3
    assert owners(body) == {
        ("me", "Apply"): {"f:spec": {"f:size": {}}},
        ("x", "Apply"): {"f:spec": {"f:note": {}}},
    }


async def test_the_same_value_is_shared_without_a_conflict(objects: Objects) -> None:
    await apply(objects, "x", size=2)
    assert owners(await apply(objects, "me", size=2)) == {
        ("me", "Apply"): {"f:spec": {"f:size": {}}},
        ("x", "Apply"): {"f:spec": {"f:size": {}}},
    }
    body = await apply(objects, "x", note="mine")
    assert body["spec"] == {"size": 2, "color": "red", "note": "mine"}


async def test_items_of_a_map_list_merge_by_their_key_and_keep_their_order(objects: Objects) -> None:
    await apply(objects, "x", size=1, parts=[{"name": "a", "weight": 1}, {"name": "b", "weight": 2}])
    body = await apply(objects, "me", size=1, parts=[{"name": "c"}, {"name": "b", "words": ["w"]}])
    assert body["spec"]["parts"] == [
        {"name": "a", "weight": 1},
        {"name": "c"},
        {"name": "b", "weight": 2, "words": ["w"]},
    ]
    body = await apply(objects, "x", size=1, parts=[{"name": "b", "weight": 2}])
    assert body["spec"]["parts"] == [{"name": "c"}, {"name": "b", "weight": 2, "words": ["w"]}]


async def test_every_update_says_who_changed_what(objects: Objects, clock: FixedClock) -> None:
    await objects.create(WIDGET, "default", config(size=2, tags={"a": "1"}, parts=[{"name": "p"}]), by("x"))
    clock.time += 60
    await objects.patch(WIDGET, "default", "a", {"status": {"ok": True}}, MERGE, by("observer"), "status")
    clock.time += 60
    body = (await objects.patch(WIDGET, "default", "a", {"spec": {"size": 3}}, MERGE, by("y"))).body
    assert body["metadata"]["managedFields"] == [
        {
            "manager": "x",
            "operation": "Update",
            "apiVersion": "example.com/v1",
            "time": "2023-11-14T22:13:20Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    ".": {},
                    "f:tags": {".": {}, "f:a": {}},
                    "f:parts": {".": {}, 'k:{"name":"p"}': {".": {}, "f:name": {}}},
                    "f:color": {},
                }
            },
        },
        {
            "manager": "observer",
            "operation": "Update",
            "apiVersion": "example.com/v1",
            "time": "2023-11-14T22:14:20Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {".": {}, "f:ok": {}}},
            "subresource": "status",
        },
        {
            "manager": "y",
            "operation": "Update",
            "apiVersion": "example.com/v1",
            "time": "2023-11-14T22:15:20Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:size": {}}},
        },
    ]


async def test_removed_fields_have_no_owner(objects: Objects) -> None:
    await objects.create(WIDGET, "default", config(size=2, note="n"), by("x"))
    body = (await objects.patch(WIDGET, "default", "a", {"spec": {"note": None}}, MERGE, by("y"))).body
    assert owners(body) == {("x", "Update"): {"f:spec": {".": {}, "f:size": {}, "f:color": {}}}}


async def test_the_status_is_applied_by_itself(objects: Objects) -> None:
    await apply(objects, "me", size=2)
    status = {**config(size=9), "status": {"ok": True}}
    body = (await objects.patch(WIDGET, "default", "a", status, APPLY, by("me"), "status")).body
    assert (body["spec"]["size"], body["status"]) == (2, {"ok": True})
    assert [(m["manager"], m.get("subresource")) for m in body["metadata"]["managedFields"]] == [
        ("me", None),
        ("me", "status"),
    ]
    status = {**config(size=9), "status": {"better": True}}
    body = (await objects.patch(WIDGET, "default", "a", status, APPLY, by("me"), "status")).body
    assert body["status"] == {"better": True}


async def test_an_applied_field_that_is_unknown_is_refused(objects: Objects) -> None:
    with pytest.raises(StatusError) as caught:
        await apply(objects, "me", size=2, colour="red")
    assert caught.value.message == (
        "failed to create typed patch object (/a; example.com/v1, Kind=Widget): "
        ".spec.colour: field not declared in schema"
    )


async def test_a_finalizer_that_is_no_longer_applied_is_let_go(objects: Objects) -> None:
    body = {**config(size=1), "metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    await objects.patch(WIDGET, "default", "a", body, APPLY, by("me"))
    await objects.delete(WIDGET, "default", "a", OPTIONS)
    written = await objects.patch(WIDGET, "default", "a", config(size=1), APPLY, by("me"))
    assert written.deleted
    assert await objects.find(WIDGET, "default", "a") is None
