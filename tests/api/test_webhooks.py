"""Webhooks through the API of a hub: who is asked, with what, in which order, and what becomes of the answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from api.rbac import answering
from fleet.admission.dynamic import Dynamic
from fleet.engine.status import StatusError
from fleet.objects.hooking import AUDITED, may_connect
from fleet.objects.writing import Options, User
from fleet.outgoing import Allowed, Outgoing
from fleet.simulate.wall import RandomIds, WallClock
from fleet.store.memory import MemoryStore
from tests.api.conftest import Hub, open_hub
from tests.api.hooks import Body, Hooks, configuration, hook_server
from tests.testbed.pki import Pki, make_pki

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("hooks") / "pki")


@dataclass
class World:
    hub: Hub
    api: httpx.AsyncClient
    hooks: Hooks

    async def register(self, kind: str, *hooks: Body, name: str = "test") -> httpx.Response:
        plural = f"{kind.lower()}webhookconfigurations"
        answer = await self.api.post(f"{ADMISSION}/{plural}", json=configuration(kind, name, *hooks))
        assert answer.status_code == 201, answer.text
        return answer

    async def create(self, name: str = "made", *, query: str = "", **more: Any) -> httpx.Response:
        body = {"metadata": {"name": name, "labels": {"case": "test"}}, **more}
        return await self.api.post(MAPS + query, json=body)


@pytest.fixture
async def world(tmp_path: Path, pki: Pki) -> AsyncIterator[World]:
    async with (
        open_hub(tmp_path, MemoryStore(WallClock())) as hub,
        hook_server(pki) as hooks,
        Outgoing(Allowed.parse([f"127.0.0.1:{hooks.port}", f"localhost:{hooks.port}"])) as outgoing,
        hub.client() as api,
    ):
        hub.objects.hooks = Dynamic(hub.store, hub.registry, RandomIds(), outgoing, answering(hub.app.authorizer))
        yield World(hub, api, hooks)


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
    asked = [(r["operation"], (r["object"] or {}).get("data"), (r["oldObject"] or {}).get("data"))
             for r in world.hooks.calls("allow")]  # fmt: skip
    assert asked == [
        ("CREATE", {"a": "1"}, None), ("UPDATE", {"a": "2"}, {"a": "1"}), ("UPDATE", {"a": "3"}, {"a": "2"}),
        ("UPDATE", {"a": "3", "b": "4"}, {"a": "3"}), ("DELETE", None, {"a": "3", "b": "4"}),
        ("CREATE", {"b": "4"}, None), ("DELETE", None, {"b": "4"}),
    ]  # fmt: skip


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
        world.api.patch(f"{MAPS}/made", json={"data": {f"k{n}": "1"}},
                        headers={"content-type": "application/merge-patch+json"})
        for n in range(12)
    ]  # fmt: skip
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


POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
    "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "matchConstraints": {"resourceRules": [
            {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "false", "messageExpression": "string(params.data.key)"}],
    },
}  # fmt: skip
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "b"},
    "spec": {
        "policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "s", "namespace": "default", "parameterNotFoundAction": "Deny"},
    },
}  # fmt: skip


RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def grant(world: World, name: str, *rules: Body) -> None:
    """Let alice do what the rules say."""
    await world.api.post(f"{RBAC}/clusterroles", json={"metadata": {"name": name}, "rules": list(rules)})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]
    bound = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
    await world.api.post(f"{RBAC}/clusterrolebindings", json=bound)


@pytest.mark.parametrize("word", ["Validating", "Mutating"])
async def test_a_policy_reads_no_parameters_that_its_author_may_not_read(world: World, word: str) -> None:
    await grant(world, "policies", {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]})
    alice = {"impersonate-user": "alice"}
    for resource, body, verb in (("policies", POLICY, "list"), ("policybindings", BINDING, "get")):
        there = f"{ADMISSION}/{word.lower()}admission{resource}"
        said = _as_mutating(body) if word == "Mutating" else body
        refused = await world.api.post(there, json=said, headers=alice)
        assert refused.status_code == 422
        assert f'"alice" may not {verb} the parameters (secrets) that it names' in refused.json()["message"]
        assert (await world.api.post(there, json=said)).status_code == 201


def _as_mutating(body: Body) -> Body:
    spec = {key: value for key, value in body["spec"].items() if key not in ("validations", "validationActions")}
    if "paramKind" in spec:
        rules = [{**rule, "operations": ["CREATE"]} for rule in spec["matchConstraints"]["resourceRules"]]
        applied = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}
        spec |= {"matchConstraints": {"resourceRules": rules}, "mutations": [applied], "reinvocationPolicy": "Never"}
    kind = body["kind"].replace("Validating", "Mutating")
    return {**body, "kind": kind, "spec": spec}


async def test_a_policy_asks_for_the_rights_of_the_user(world: World) -> None:
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    await grant(world, "maps", maps)
    checks = "authorizer.group('').resource('secrets').namespace('default').check('get')"
    match = {"resourceRules": POLICY["spec"]["matchConstraints"]["resourceRules"]}
    spec = {"matchConstraints": match, "validations": [{"expression": f"{checks}.allowed()", "message": "no"}]}
    there = f"{ADMISSION}/validatingadmission"
    await world.api.post(f"{there}policies", json={"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    await world.api.post(f"{there}policybindings", json={"metadata": {"name": "b"}, "spec": bound})
    alice = {"impersonate-user": "alice"}
    refused = await world.api.post(MAPS, json={"metadata": {"name": "a"}}, headers=alice)
    assert refused.status_code == 422 and refused.json()["message"].endswith("denied request: no")
    await grant(world, "secrets", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})
    assert (await world.api.post(MAPS, json={"metadata": {"name": "a"}}, headers=alice)).status_code == 201


async def test_the_status_of_a_policy_says_what_is_wrong_for_the_kinds_that_it_names(world: World) -> None:
    rules = [{"operations": ["*"], "apiGroups": ["apps", ""], "apiVersions": ["v1"],
              "resources": ["deployments", "configmaps", "pods/exec"]}]  # fmt: skip
    spec: Body = {
        "matchConstraints": {"resourceRules": rules},
        "variables": [{"name": "wanted", "expression": "object.spec.replicas"}],
        "validations": [
            {"expression": "object.metadata.name != 'a'"},
            {"expression": "object.data.x == 'a'", "messageExpression": "'wanted: ' + variables.wanted"},
        ],
    }
    there = f"{ADMISSION}/validatingadmissionpolicies"
    made = (await world.api.post(there, json={"metadata": {"name": "p"}, "spec": spec})).json()
    warnings = made["status"]["typeChecking"]["expressionWarnings"]
    assert [warning["fieldRef"] for warning in warnings] == [
        "spec.validations[1].expression", "spec.validations[1].messageExpression",
    ]  # fmt: skip
    assert warnings[0]["warning"].startswith(
        "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'data'\n | object.data.x"
    )
    assert "applied to '(string, int)'" in warnings[1]["warning"]
    assert made["status"]["observedGeneration"] == 1
    spec["validations"].pop()
    changed = (await world.api.put(f"{there}/p", json={"metadata": made["metadata"], "spec": spec})).json()
    assert changed["status"] == {"observedGeneration": 2, "typeChecking": {}}
    merge = {"content-type": "application/merge-patch+json"}
    labelled = await world.api.patch(f"{there}/p", json={"metadata": {"labels": {"a": "b"}}}, headers=merge)
    assert labelled.json()["status"] == changed["status"]


async def test_the_policy_of_the_page_labels_jobs(world: World) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/webhooks-and-policies.md").read_text()
    written = next(text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "MutatingAdmission" in text)
    policy, binding = yaml.safe_load_all(written)
    for body, plural in ((policy, "mutatingadmissionpolicies"), (binding, "mutatingadmissionpolicybindings")):
        assert (await world.api.post(f"{ADMISSION}/{plural}", json=body)).status_code == 201
    pod = {"containers": [{"name": "a", "image": "i"}], "restartPolicy": "Never"}
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    for given, found in (({}, "default"), ({"cost-centre": "own"}, "own")):
        metadata = {"name": f"job-{found}", "labels": given}
        made = await world.api.post(jobs, json={"metadata": metadata, "spec": {"template": {"spec": pod}}})
        assert made.json()["metadata"]["labels"]["cost-centre"] == found, made.text


async def test_a_policy_changes_no_options_of_a_connection_that_has_no_schema(world: World) -> None:
    rules = [{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]}]
    seen = "JSONPatch{op: 'replace', path: '/command', value: object.command + ['-v']}"
    mutations = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{seen}]"}},
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{container: 'a'}"}},
    ]
    kind = world.hub.registry.need("", "pods")
    options = {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["ls"]}
    user = User("alice")
    there = f"{ADMISSION}/mutatingadmission"
    for name, said in (("patch", mutations[:1]), ("apply", mutations[1:])):
        match = {"resourceRules": rules}
        spec = {"matchConstraints": match, "mutations": said, "reinvocationPolicy": "Never"}
        made = await world.api.post(f"{there}policies", json={"metadata": {"name": name}, "spec": spec})
        assert made.status_code == 201, made.text
    await world.api.post(f"{there}policybindings", json={"metadata": {"name": "p"}, "spec": {"policyName": "patch"}})
    changed, _ = await may_connect(world.hub.objects.hooks, kind, "default", "p", "exec", user, options)
    assert changed["command"] == ["ls", "-v"] and options["command"] == ["ls"]
    await world.api.post(f"{there}policybindings", json={"metadata": {"name": "a"}, "spec": {"policyName": "apply"}})
    with pytest.raises(StatusError, match="no corresponding type for /v1, Kind=PodExecOptions"):
        await may_connect(world.hub.objects.hooks, kind, "default", "p", "exec", user, options)
