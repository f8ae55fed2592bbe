"""Webhooks through the API of a hub: who is asked, with what, in which order, and what becomes of the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.objects.hooking import AUDITED
from api.objects.writing import Options, User
from tests.api.hooks import Body
from tests.api.hookworld import ADMISSION, MAPS, World, pki, world

__all__ = ["pki", "world"]  # fixtures


async def test_a_denial_reaches_the_client_and_nothing_is_stored(world: World) -> None:
    await world.register("Validating", world.hooks.hook("deny"))
    refused = await world.create()
    assert refused.status_code == 400
    assert refused.json()["message"] == 'admission webhook "deny.example.com" denied the request: not today'
    assert (await world.api.get(f"{MAPS}/made")).status_code == 404


async def test_a_change_is_stored_and_belongs_to_no_manager(world: World) -> None:
    await world.register("Mutating", world.hooks.hook("label-one"))
    made = (await world.create()).json()
    assert made["metadata"]["labels"] == {"case": "test", "one": "set"}
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:labels"]
    assert "f:case" in owned and "f:one" not in owned


async def test_a_webhook_may_repair_an_object_that_would_be_refused_and_may_spoil_none(world: World) -> None:
    await world.register("Mutating", world.hooks.hook("repaired"))
    assert (await world.create(data={"not a key!": "x"})).json()["data"] == {"good": "x"}
    await world.api.delete(f"{ADMISSION}/mutatingwebhookconfigurations/test")
    await world.register("Mutating", world.hooks.hook("wrong-data"))
    assert (await world.create("other")).status_code == 422


async def test_every_way_to_write_asks(world: World) -> None:
    await world.register("Validating", world.hooks.hook("allow"))
    await world.create(data={"a": "1"})
    path, merge = f"{MAPS}/made", {"content-type": "application/merge-patch+json"}
    body = {"metadata": {"name": "made"}, "data": {"a": "2"}}
    await world.api.put(path, json=body)
    await world.api.patch(path, json={"data": {"a": "3"}}, headers=merge)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"b": "4"}}
    media = {"content-type": "application/apply-patch+yaml"}
    await world.api.patch(f"{path}?fieldManager=m", json=applied, headers=media)
    await world.api.delete(path)
    await world.api.patch(f"{path}?fieldManager=m", json=applied, headers=media)
    await world.api.delete(MAPS)
    asked = [
        (r["operation"], (r["object"] or {}).get("data"), (r["oldObject"] or {}).get("data"))
        for r in world.hooks.calls("allow")
    ]
    assert asked == [
        ("CREATE", {"a": "1"}, None),
        ("UPDATE", {"a": "2"}, {"a": "1"}),
        ("UPDATE", {"a": "3"}, {"a": "2"}),
        ("UPDATE", {"a": "3", "b": "4"}, {"a": "3"}),
        ("DELETE", None, {"a": "3", "b": "4"}),
        ("CREATE", {"b": "4"}, None),
        ("DELETE", None, {"b": "4"}),
    ]


async def test_mutating_webhooks_are_called_in_order_and_again_where_they_ask_for_it(world: World) -> None:
    first = world.hooks.hook("counted", reinvocationPolicy="IfNeeded")
    await world.register("Mutating", first, name="a")
    await world.register("Mutating", world.hooks.hook("label-one"), name="b")
    await world.register("Validating", world.hooks.hook("allow"), name="c")
    made = (await world.create()).json()
    assert [path for path, _ in world.hooks.asked] == ["counted", "label-one", "counted", "allow"]
    assert made["data"] == {"calls": "2"}
    assert world.hooks.calls("allow")[0]["object"]["data"] == {"calls": "2"}


async def test_a_webhook_that_nobody_changed_after_is_called_once(world: World) -> None:
    hooks = [world.hooks.hook("label-one"), world.hooks.hook("counted", reinvocationPolicy="IfNeeded")]
    await world.register("Mutating", *hooks)
    assert (await world.create()).json()["data"] == {"calls": "1"}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("garbage", "received invalid webhook response: the answer is not JSON"),
        ("absent", "received invalid webhook response: webhook response was absent"),
        ("broken", "failed to call webhook: the server answers HTTP 500"),
        ("redirect", "it redirects (HTTP 302)"),
        ("huge", "its answer is larger than 4194304 bytes"),
        ("slow", "context deadline exceeded"),
        ("other-uid", "got another one"),
        ("undecodable", "received undecodable patch in webhook response"),
    ],
)
async def test_a_webhook_that_fails_refuses_or_is_ignored_as_its_policy_says(
    world: World, path: str, said: str
) -> None:
    kind = "Mutating" if path == "undecodable" else "Validating"
    await world.register(kind, world.hooks.hook(path, failurePolicy="Fail", timeoutSeconds=1))
    refused = await world.create()
    assert refused.status_code == 500 and refused.json()["reason"] == "InternalError"
    begin = f'Internal error occurred: failed calling webhook "{path}.example.com": '
    assert refused.json()["message"].startswith(begin) and said in refused.json()["message"]
    assert "SECRET" not in refused.text
    there = f"{ADMISSION}/{kind.lower()}webhookconfigurations/test"
    change = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    await world.api.patch(there, json=change, headers={"content-type": "application/json-patch+json"})
    assert (await world.create()).status_code == 201


async def test_a_server_with_another_certificate_is_not_asked(world: World, tmp_path: Path) -> None:
    hook = world.hooks.hook("allow")
    await world.register("Validating", {**hook, "clientConfig": {"url": world.hooks.url("allow")}})
    assert "its certificate is not trusted" in (await world.create()).json()["message"]
    assert world.hooks.asked == []


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/x", "https://169.254.169.254/latest", "https://10.0.0.1/x"])
async def test_an_address_that_the_administrator_does_not_allow_is_out_of_reach(world: World, url: str) -> None:
    await world.register("Validating", {**world.hooks.hook("allow"), "clientConfig": {"url": url}})
    refused = await world.create()
    assert refused.status_code == 500
    assert "its address is not public, and the administrator does not allow it" in refused.json()["message"]


async def test_a_service_leads_to_a_webhook_where_the_hub_can_reach_it(world: World) -> None:
    hook = world.hooks.hook("allow")
    service = {"namespace": "default", "name": "kubernetes", "path": "/allow", "port": world.hooks.port}
    hook["clientConfig"] = {"service": service, "caBundle": hook["clientConfig"]["caBundle"]}
    await world.register("Validating", hook)
    assert 'service "kubernetes" not found' in (await world.create()).json()["message"]
    spec: Body = {"ports": [{"port": world.hooks.port}], "clusterIP": "None"}
    services = "/api/v1/namespaces/default/services"
    await world.api.post(services, json={"metadata": {"name": "kubernetes"}, "spec": spec})
    assert 'no endpoints available for service "kubernetes"' in (await world.create()).json()["message"]
    await world.api.delete(f"{services}/kubernetes")
    spec = {"type": "ExternalName", "externalName": "localhost"}
    await world.api.post(services, json={"metadata": {"name": "kubernetes"}, "spec": spec})
    assert (await world.create()).status_code == 201
    assert len(world.hooks.calls("allow")) == 1


async def test_a_dry_run_asks_only_those_that_allow_it_and_stores_nothing(world: World) -> None:
    await world.register("Mutating", world.hooks.hook("label-one", sideEffects="NoneOnDryRun"))
    made = await world.create(query="?dryRun=All")
    assert made.json()["metadata"]["labels"]["one"] == "set"
    assert world.hooks.calls("label-one")[0]["dryRun"] is True
    assert (await world.api.get(f"{MAPS}/made")).status_code == 404


async def test_selectors_and_conditions_choose_the_objects(world: World) -> None:
    labelled = {"matchLabels": {"case": "test"}}
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
    named = [{"name": "named", "expression": "object.metadata.name == 'made'"}]
    await world.register(
        "Validating",
        world.hooks.hook("allow", objectSelector=labelled, matchConditions=named),
        world.hooks.hook("warn", namespaceSelector=elsewhere),
        world.hooks.hook("deny", matchConditions=[{"name": "none", "expression": "request.operation == 'CONNECT'"}]),
    )
    assert (await world.create("made")).status_code == 201
    assert (await world.create("other")).status_code == 201
    assert [(path, request["name"]) for path, request in world.hooks.asked] == [("allow", "made")]


async def test_a_condition_that_cannot_be_evaluated_follows_the_failure_policy(world: World) -> None:
    broken = [{"name": "broken", "expression": "object.data.missing == 'x'"}]
    await world.register("Validating", world.hooks.hook("allow", matchConditions=broken), name="fails")
    refused = await world.create()
    assert refused.status_code == 403 and "no such key: " in refused.json()["message"]
    await world.api.delete(f"{ADMISSION}/validatingwebhookconfigurations/fails")
    ignored = world.hooks.hook("allow", matchConditions=broken, failurePolicy="Ignore")
    await world.register("Validating", ignored)
    assert (await world.create()).status_code == 201 and world.hooks.asked == []


async def test_warnings_reach_the_client_once(world: World) -> None:
    await world.register("Validating", world.hooks.hook("warn"), world.hooks.hook("warn", "other"))
    made = await world.create()
    assert made.headers.get_list("warning") == ['299 - "mind the gap"', '299 - "and the door"']


async def test_annotations_reach_the_audit_record(world: World) -> None:
    await world.register("Validating", world.hooks.hook("annotate"))
    broken = world.hooks.hook("broken", failurePolicy="Ignore")
    await world.register("Mutating", broken, name="open")
    record: dict[str, str] = {}
    token = AUDITED.set(record)
    try:
        kind = world.hub.registry.need("", "configmaps")
        await world.hub.objects.create(kind, "default", {"metadata": {"name": "made"}}, Options(User("u"), "test"))
    finally:
        AUDITED.reset(token)
    assert record == {
        "annotate.example.com/seen": "yes",
        "failed-open.mutating.webhook.admission.k8s.io/round_0_index_0": "broken.example.com",
    }


async def test_the_hubs_own_writes_ask_nobody(world: World) -> None:
    await world.register("Validating", world.hooks.hook("deny"))
    kind = world.hub.registry.need("", "configmaps")
    own = Options(User("system:fleet", hub=True), "fleet")
    await world.hub.objects.create(kind, "default", {"metadata": {"name": "made"}}, own)
    await world.hub.objects.delete(kind, "default", "made", own)
    assert world.hooks.asked == []


async def test_configurations_are_never_asked_about(world: World) -> None:
    everything = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    await world.register("Validating", world.hooks.hook("deny", rules=everything))
    assert (await world.create()).status_code == 400
    gone = await world.api.delete(f"{ADMISSION}/validatingwebhookconfigurations/test")
    assert gone.status_code == 200


async def test_writers_that_meet_lose_nothing_while_a_webhook_is_asked(world: World) -> None:
    """Each asks the webhook outside the writer's lock; whoever loses to another one asks again about the newer body."""
    await world.create(data={"n": "0"})
    await world.register("Mutating", world.hooks.hook("counted"))
    patches = [
        world.api.patch(
            f"{MAPS}/made", json={"data": {f"k{n}": "1"}}, headers={"content-type": "application/merge-patch+json"}
        )
        for n in range(12)
    ]
    answers = await asyncio.gather(*patches)
    assert [answer.status_code for answer in answers] == [200] * 12
    data = (await world.api.get(f"{MAPS}/made")).json()["data"]
    assert {f"k{n}" for n in range(12)} <= data.keys() and data["calls"] == "12"


async def test_a_deletion_cannot_be_changed(world: World) -> None:
    await world.create()
    await world.register("Mutating", world.hooks.hook("label-one"))
    refused = await world.api.delete(f"{MAPS}/made")
    assert refused.status_code == 500 and "attempted to modify the object" in refused.json()["message"]


async def test_a_generated_name_is_given_after_all_changes(world: World) -> None:
    await world.register("Mutating", world.hooks.hook("label-one"))
    await world.register("Validating", world.hooks.hook("allow"))
    made = await world.api.post(MAPS, json={"metadata": {"generateName": "gen-", "labels": {"a": "b"}}})
    name = made.json()["metadata"]["name"]
    first, last = world.hooks.calls("label-one")[0], world.hooks.calls("allow")[0]
    assert "name" not in first["object"]["metadata"] and "uid" not in first["object"]["metadata"]
    assert last["object"]["metadata"]["name"] == name and last["name"] == name
