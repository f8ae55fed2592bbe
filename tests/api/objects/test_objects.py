"""Objects over a store: what clients and controllers may rely on."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from api.engine.kind import Kind
from api.engine.status import Cause, StatusError
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.values.ports import Change, CommitResult, Key, Put
from tests.api.engine.conftest import NAMESPACE, WIDGET

from .conftest import OPTIONS, CountingIds, FixedClock

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"


def widget(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1, **spec}}


async def refused(action: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await action
    return caught.value


async def test_a_new_object_gets_what_every_object_has(objects: Objects) -> None:
    written = await objects.create(WIDGET, "default", {**widget(), "status": {"phase": "Lies"}}, OPTIONS)
    metadata = written.body["metadata"]
    assert written.created
    assert metadata["namespace"] == "default"
    assert metadata["uid"] == "00000000-0000-4000-8000-000000000002"
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"] == "3"
    assert written.body["spec"] == {"size": 1, "color": "red"}
    assert "status" not in written.body
    assert await objects.get(WIDGET, "default", "a") == written.body


async def test_a_controller_may_create_with_status_in_one_write(objects: Objects) -> None:
    body = {**widget(), "status": {"phase": "New"}}
    written = await objects.create(WIDGET, "default", body, OPTIONS, with_status=True)
    assert written.body["status"] == {"phase": "New"}
    assert await objects.store.revision() == 3


async def test_the_same_name_twice_is_refused_and_changes_nothing(objects: Objects) -> None:
    await objects.create(WIDGET, "default", widget(), OPTIONS)
    error = await refused(objects.create(WIDGET, "default", widget(size=2), OPTIONS))
    assert (error.code, error.reason, error.message) == (
        409,
        "AlreadyExists",
        'widgets.example.com "a" already exists',
    )
    assert (await objects.get(WIDGET, "default", "a"))["spec"]["size"] == 1


async def test_a_namespace_that_is_missing_or_going_takes_nothing_new(objects: Objects) -> None:
    missing = await refused(objects.create(WIDGET, "nowhere", widget(), OPTIONS))
    assert (missing.code, missing.message) == (404, 'namespaces "nowhere" not found')
    await objects.create(NAMESPACE, "", {"metadata": {"name": "going"}}, OPTIONS)
    written = await objects.delete(NAMESPACE, "", "going", OPTIONS)
    assert not written.deleted
    assert written.body["status"]["phase"] == "Terminating"
    going = await refused(objects.create(WIDGET, "going", widget(), OPTIONS))
    assert (going.code, going.reason) == (403, "Forbidden")
    assert going.message == (
        'widgets.example.com "a" is forbidden: unable to create new content in namespace going because '
        "it is being terminated"
    )
    assert going.causes[0].reason == "NamespaceTerminating"


async def test_a_namespace_goes_when_its_controller_lets_go(objects: Objects) -> None:
    await objects.create(NAMESPACE, "", {"metadata": {"name": "going"}}, OPTIONS)
    await objects.delete(NAMESPACE, "", "going", OPTIONS)

    def finalize(body: dict[str, Any]) -> dict[str, Any]:
        body["spec"]["finalizers"] = []
        return body

    assert await objects.change(NAMESPACE, "", "going", finalize, OPTIONS, subresource="finalize") is not None
    assert await objects.find(NAMESPACE, "", "going") is None


async def test_a_generated_name_that_is_taken_is_drawn_again(objects: Objects, ids: CountingIds) -> None:
    body = {"metadata": {"generateName": "w-"}, "spec": {"size": 1}}
    ids.suffixes = ["aaaaa", "aaaaa", "bbbbb"]
    first = await objects.create(WIDGET, "default", body, OPTIONS)
    second = await objects.create(WIDGET, "default", body, OPTIONS)
    assert (first.body["metadata"]["name"], second.body["metadata"]["name"]) == ("w-aaaaa", "w-bbbbb")
    ids.suffixes = ["aaaaa"] * 8
    taken = await refused(objects.create(WIDGET, "default", body, OPTIONS))
    assert (taken.code, taken.reason, taken.status()["details"]["retryAfterSeconds"]) == (409, "AlreadyExists", 1)
    assert taken.message.endswith("already exists, the server was not able to generate a unique name for the object")


async def test_generation_counts_the_spec_and_nothing_else(objects: Objects) -> None:
    await objects.create(WIDGET, "default", widget(), OPTIONS)
    labelled = await objects.patch(WIDGET, "default", "a", {"metadata": {"labels": {"x": "y"}}}, MERGE, OPTIONS)
    assert labelled.body["metadata"]["generation"] == 1
    status = await objects.patch(WIDGET, "default", "a", {"status": {"ok": True}}, MERGE, OPTIONS, "status")
    assert (status.body["metadata"]["generation"], status.body["status"]) == (1, {"ok": True})
    larger = await objects.patch(WIDGET, "default", "a", {"spec": {"size": 2}}, MERGE, OPTIONS)
    assert (larger.body["metadata"]["generation"], larger.body["status"]) == (2, {"ok": True})


async def test_each_half_of_an_object_is_written_through_its_own_door(objects: Objects) -> None:
    await objects.create(WIDGET, "default", widget(), OPTIONS)
    both = {"spec": {"size": 5}, "status": {"ok": True}, "metadata": {"labels": {"x": "y"}}}
    main = await objects.patch(WIDGET, "default", "a", both, MERGE, OPTIONS)
    assert (main.body["spec"]["size"], main.body.get("status")) == (5, None)
    both = {"spec": {"size": 7}, "status": {"ok": True}, "metadata": {"labels": {"x": "z"}}}
    status = await objects.patch(WIDGET, "default", "a", both, MERGE, OPTIONS, "status")
    assert (status.body["spec"]["size"], status.body["status"]) == (5, {"ok": True})
    assert status.body["metadata"]["labels"] == {"x": "y"}


async def test_a_write_that_changes_nothing_uses_no_revision(objects: Objects, clock: FixedClock) -> None:
    created = await objects.create(WIDGET, "default", widget(), OPTIONS)
    clock.time += 60
    again = await objects.update(WIDGET, "default", "a", created.body, OPTIONS)
    assert again.body == created.body
    assert await objects.store.revision() == 3


async def test_an_update_of_an_older_version_is_a_conflict(objects: Objects) -> None:
    created = await objects.create(WIDGET, "default", widget(), OPTIONS)
    await objects.update(WIDGET, "default", "a", {**created.body, "spec": {"size": 2}}, OPTIONS)
    error = await refused(objects.update(WIDGET, "default", "a", created.body, OPTIONS))
    assert (error.code, error.message) == (
        409,
        'Operation cannot be fulfilled on widgets.example.com "a": the object has been modified; please apply your '
        "changes to the latest version and try again",
    )
    assert (await objects.get(WIDGET, "default", "a"))["spec"]["size"] == 2


@pytest.mark.parametrize("version", [None, "", "0"])
async def test_an_update_of_a_custom_object_says_what_it_replaces(objects: Objects, version: str | None) -> None:
    await objects.create(WIDGET, "default", widget(), OPTIONS)
    body = widget(size=2)
    body["metadata"]["resourceVersion"] = version
    error = await refused(objects.update(WIDGET, "default", "a", body, OPTIONS))
    assert (error.code, error.message) == (
        422,
        'widgets.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an '
        "update",
    )
    missing = await refused(objects.update(WIDGET, "default", "b", widget("b"), OPTIONS))
    assert missing.code == 404


async def test_a_finalizer_holds_an_object_until_it_is_removed(objects: Objects, clock: FixedClock) -> None:
    body = widget()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await objects.create(WIDGET, "default", body, OPTIONS)
    clock.time += 5
    held = await objects.delete(WIDGET, "default", "a", OPTIONS)
    assert not held.deleted
    assert held.body["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:25Z"
    assert held.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held.body["metadata"]["generation"] == 2
    again = await objects.delete(WIDGET, "default", "a", OPTIONS)
    assert again.body == held.body
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    error = await refused(objects.patch(WIDGET, "default", "a", more, MERGE, OPTIONS))
    assert error.message == (
        'Widget.example.com "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the '
        'object is being deleted, found new finalizers []string{"example.com/more"}'
    )
    gone = await objects.patch(WIDGET, "default", "a", {"metadata": {"finalizers": None}}, MERGE, OPTIONS)
    assert gone.deleted
    assert await objects.find(WIDGET, "default", "a") is None


async def test_a_controller_that_removes_the_last_finalizer_removes_the_object(objects: Objects) -> None:
    body = widget()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await objects.create(WIDGET, "default", body, OPTIONS)
    await objects.delete(WIDGET, "default", "a", OPTIONS)

    def release(body: dict[str, Any]) -> dict[str, Any]:
        del body["metadata"]["finalizers"]
        return body

    assert await objects.change(WIDGET, "default", "a", release, OPTIONS) is not None
    assert await objects.find(WIDGET, "default", "a") is None
    assert await objects.change(WIDGET, "default", "a", release, OPTIONS) is None


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [("Background", None), ("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])],
    ids=["background removes at once", "foreground waits for dependents", "orphan waits for the owners to be cut"],
)
async def test_propagation_is_spoken_through_finalizers(objects: Objects, policy: str, finalizers: Any) -> None:
    await objects.create(WIDGET, "default", widget(), OPTIONS)
    written = await objects.delete(WIDGET, "default", "a", OPTIONS, {"propagationPolicy": policy})
    assert written.deleted is (finalizers is None)
    assert written.body["metadata"].get("finalizers") == finalizers


async def test_a_deletion_meant_for_another_object_of_the_name_is_a_conflict(objects: Objects) -> None:
    await objects.create(WIDGET, "default", widget(), OPTIONS)
    error = await refused(objects.delete(WIDGET, "default", "a", OPTIONS, {"preconditions": {"uid": "other"}}))
    assert error.message == (
        'Operation cannot be fulfilled on Widget.example.com "a": the UID in the precondition (other) does not match '
        "the UID in record (00000000-0000-4000-8000-000000000002). The object might have been deleted and then "
        "recreated"
    )


async def test_a_dry_run_does_everything_but_the_commit(objects: Objects) -> None:
    dry = dataclasses.replace(OPTIONS, dry_run=True)
    assert (await objects.create(WIDGET, "default", widget(), dry)).body["spec"]["color"] == "red"
    assert await objects.find(WIDGET, "default", "a") is None
    await objects.create(WIDGET, "default", widget(), OPTIONS)
    assert (await refused(objects.create(WIDGET, "default", widget(), dry))).reason == "AlreadyExists"
    assert (await objects.patch(WIDGET, "default", "a", {"spec": {"size": 9}}, MERGE, dry)).body["spec"]["size"] == 9
    assert (await objects.delete(WIDGET, "default", "a", dry)).deleted
    assert (await objects.get(WIDGET, "default", "a"))["spec"]["size"] == 1
    assert await objects.store.revision() == 3


async def test_admission_rules_see_every_client_write_and_may_refuse_it(objects: Objects) -> None:
    seen: list[tuple[str, str, bool]] = []

    async def rule(review: Review, objects: Objects) -> list[Cause]:
        seen.append((review.operation, review.subresource, review.dry_run))
        if review.new is not None and review.new["spec"]["size"] > 10:
            return [Cause("spec.size", "Invalid value: 11: too large")]
        return []

    objects.rules["example.com", "widgets"] = rule
    dry = dataclasses.replace(OPTIONS, dry_run=True)
    await objects.create(WIDGET, "default", widget(), OPTIONS)
    error = await refused(objects.patch(WIDGET, "default", "a", {"spec": {"size": 11}}, MERGE, dry))
    assert error.message == 'Widget.example.com "a" is invalid: spec.size: Invalid value: 11: too large'
    await objects.delete(WIDGET, "default", "a", OPTIONS)
    assert seen == [("CREATE", "", False), ("UPDATE", "", True), ("DELETE", "", False)]


async def test_several_objects_go_into_one_commit_or_none_does(objects: Objects) -> None:
    created = await objects.create(WIDGET, "default", widget(), OPTIONS)

    def place(body: dict[str, Any]) -> dict[str, Any]:
        body["spec"]["size"] = 4
        body["status"] = {"placed": True}
        return body

    writes: list[Put | Change] = [
        objects.prepare_change(WIDGET, "default", "a", place, OPTIONS, generation=1),
        objects.prepare_new(WIDGET, "default", {**widget("b"), "status": {"new": True}}, OPTIONS),
    ]
    assert isinstance(await objects.store.commit(writes), CommitResult)
    after = await objects.get(WIDGET, "default", "a")
    assert (after["spec"]["size"], after["status"], after["metadata"]["generation"]) == (4, {"placed": True}, 2)
    assert after["metadata"]["resourceVersion"] > created.body["metadata"]["resourceVersion"]
    assert (await objects.get(WIDGET, "default", "b"))["status"] == {"new": True}
    late: list[Put | Change] = [
        objects.prepare_new(WIDGET, "default", widget("c"), OPTIONS),
        objects.prepare_change(WIDGET, "default", "a", place, OPTIONS, generation=1),
    ]
    assert not isinstance(await objects.store.commit(late), CommitResult)
    assert await objects.find(WIDGET, "default", "c") is None


async def test_a_controller_learns_that_what_it_looked_at_has_changed(objects: Objects) -> None:
    await objects.create(WIDGET, "default", widget(), OPTIONS)

    def grow(body: dict[str, Any]) -> dict[str, Any]:
        body["spec"]["size"] += 1
        return body

    assert await objects.change(WIDGET, "default", "a", grow, OPTIONS, generation=7) is None
    assert await objects.change(WIDGET, "default", "a", grow, OPTIONS, uid="other") is None
    changed = await objects.change(WIDGET, "default", "a", grow, OPTIONS, generation=1)
    assert changed is not None and changed["spec"]["size"] == 2


async def test_an_alias_is_the_same_stored_object(objects: Objects) -> None:
    body = {**widget(), "apiVersion": "old.example.com/v1"}
    await objects.create(WIDGET, "default", body, OPTIONS)
    stored = await objects.store.get(Key("example.com", "widgets", "default", "a"))
    assert stored is not None and stored.body["apiVersion"] == "example.com/v1"


async def test_deleting_a_collection_takes_what_the_selector_chooses(objects: Objects) -> None:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        await objects.create(WIDGET, "default", widget(name, color=color), OPTIONS)
    found = await objects.delete_collection(
        WIDGET, "default", OPTIONS, selector=lambda body: body["spec"]["color"] == "red"
    )
    assert [stored.key.name for stored in found] == ["a", "c"]
    assert [body["metadata"]["name"] for body in await objects.list(WIDGET, "default")] == ["b"]


POD = Kind("", "v1", "Pod", "pods", "pod", True, "PodList", builtin=True, status=True)


@pytest.mark.parametrize(
    ("spec", "options", "grace"),
    [
        ({"nodeName": "n"}, None, 30),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 5}, None, 5),
        ({"nodeName": "n"}, {"gracePeriodSeconds": 7}, 7),
        ({"nodeName": "n"}, {"gracePeriodSeconds": 0}, None),
        ({}, None, None),
    ],
    ids=[
        "thirty seconds",
        "as its spec says",
        "as the request says",
        "none when the request says so",
        "none unscheduled",
    ],
)
async def test_a_pod_on_a_node_waits_for_its_kubelet(
    objects: Objects, clock: FixedClock, spec: dict[str, Any], options: Any, grace: int | None
) -> None:
    members = Objects(objects.store, objects.registry, clock, CountingIds(), graceful_pods=True)
    await members.create(POD, "default", {"metadata": {"name": "p"}, "spec": spec}, OPTIONS)
    written = await members.delete(POD, "default", "p", OPTIONS, options)
    assert written.deleted is (grace is None)
    if grace is not None:
        assert written.body["metadata"]["deletionGracePeriodSeconds"] == grace
        assert (await members.delete(POD, "default", "p", OPTIONS, {"gracePeriodSeconds": 0})).deleted
    assert await members.find(POD, "default", "p") is None


@pytest.mark.parametrize(
    "body", [{"metadata": "x"}, {"metadata": ["x"]}, {"metadata": {"name": 5}}, {"metadata": None}]
)
async def test_a_body_of_any_shape_is_refused_and_changes_nothing(objects: Objects, body: dict[str, Any]) -> None:
    revision = await objects.store.revision()
    assert (await refused(objects.create(WIDGET, "default", body, OPTIONS))).code in (400, 422)
    assert (await refused(objects.update(WIDGET, "default", "a", body, OPTIONS))).code in (400, 404)
    assert await objects.store.revision() == revision
