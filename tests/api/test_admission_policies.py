"""Admission policies through the API of a hub: rights, the status, and what a policy may change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from api.engine.status import StatusError
from api.objects.hooking import may_connect
from api.objects.writing import User
from tests.api.hooks import Body
from tests.api.hookworld import ADMISSION, MAPS, World, pki, world

__all__ = ["pki", "world"]  # fixtures


POLICY: Body = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "matchConstraints": {
            "resourceRules": [
                {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
            ]
        },
        "validations": [{"expression": "false", "messageExpression": "string(params.data.key)"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "b"},
    "spec": {
        "policyName": "p",
        "validationActions": ["Deny"],
        "paramRef": {"name": "s", "namespace": "default", "parameterNotFoundAction": "Deny"},
    },
}


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
    rules = [
        {
            "operations": ["*"],
            "apiGroups": ["apps", ""],
            "apiVersions": ["v1"],
            "resources": ["deployments", "configmaps", "pods/exec"],
        }
    ]
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
        "spec.validations[1].expression",
        "spec.validations[1].messageExpression",
    ]
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
