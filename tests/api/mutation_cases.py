"""MutatingAdmissionPolicies for two servers: policies with a binding and requests, and policies that are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.api.likeness import MERGE, Ask, Said
from tests.api.policy_cases import GROUP, MAPS, PARAMS, REF, RULES, Body, PolicyCase

DEPLOYMENTS = "/apis/apps/v1/namespaces/hooked/deployments"
_OF_DEPLOYMENTS = [{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}]
_CHANGES = ["CREATE", "UPDATE"]


def _rules(rules: list[Body]) -> list[Body]:
    return [{**rule, "operations": _CHANGES} for rule in rules]


def _mutation(text: str) -> Body:
    if text.strip().startswith("Object"):
        return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}


def _map(name: str, **data: str) -> Ask:
    body = {"metadata": {"name": f"of-{name}", "labels": {"case": name}}, "data": {"a": "1", **data}}
    return Ask("create", "POST", MAPS, body)


def _deployment(name: str) -> Ask:
    labels = {"case": name}
    pod = {"containers": [{"name": "one", "image": "i:1"}, {"name": "two", "image": "i:2", "args": ["x"]}]}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return Ask("create", "POST", DEPLOYMENTS, {"metadata": {"name": f"of-{name}", "labels": labels}, "spec": spec})


def _case(
    name: str,
    *mutations: str,
    asks: Sequence[Ask] = (),
    deployment: bool = False,
    binding: Body | None = None,
    accepted: Sequence[str] = (),
    **spec: Any,
) -> PolicyCase:
    rules = _rules(_OF_DEPLOYMENTS if deployment else RULES)
    match = {"resourceRules": rules, "objectSelector": {"matchLabels": {"case": name}}}
    said = {
        "matchConstraints": match,
        "mutations": [_mutation(one) for one in mutations],
        "reinvocationPolicy": "Never",
        **spec,
    }
    asked = tuple(asks) or ((_deployment if deployment else _map)(name),)
    return PolicyCase(name, said, binding or {}, asked, frozenset(accepted), mutating=True)


ADD = '[JSONPatch{op: "add", path: "/metadata/labels/x", value: "y"}]'
LABEL = 'Object{metadata: Object.metadata{labels: {"x": "y"}}}'
POD = "Object.spec.template.spec"


def _pod(fields: str) -> str:
    return f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {POD}{{{fields}}}}}}}}}"


def comparable(said: Said) -> Said:
    """An answer without what a hub adds to a Deployment, and without the accounts of fields that Go leaves empty; and
    without the status of a policy, which a controller writes in a cluster."""
    kind = said.body.get("kind") if isinstance(said.body, dict) else None
    if kind not in ("Deployment", "ValidatingAdmissionPolicy"):
        return said
    body = json.loads(json.dumps(said.body))
    if kind == "ValidatingAdmissionPolicy":
        body.pop("status")
        return Said(said.code, body, said.warnings)
    body["metadata"].pop("managedFields")
    body["metadata"].pop("annotations", None)
    return Said(said.code, body)


MUTATIONS = [
    _case("adds-a-label", LABEL),
    _case("adds-by-patch", ADD),
    _case("two-mutations", LABEL, 'Object{data: {"x": object.metadata.labels.x}}'),
    _case("an-empty-object", "Object{}"),
    _case("no-operations", "true ? [] : " + ADD),
    _case(
        "escapes",
        '[JSONPatch{op: "add", path: "/metadata/annotations", value: {}}, JSONPatch{op: "add", path: '
        '"/metadata/annotations/" + jsonpatch.escapeKey("a.b/c~d"), value: string(1)}]',
    ),
    _case(
        "all-operations",
        '[JSONPatch{op: "test", path: "/data/a", value: "1"}, '
        'JSONPatch{op: "copy", from: "/data/a", path: "/data/b"}, JSONPatch{op: "move", from: "/data/a", path: '
        '"/data/c"}, JSONPatch{op: "replace", path: "/data/b", value: "2"}, '
        'JSONPatch{op: "remove", path: "/metadata/labels"}]',
    ),
    _case("a-test-fails", '[JSONPatch{op: "test", path: "/data/a", value: "2"}] + ' + ADD),
    _case("a-path-is-missing", '[JSONPatch{op: "remove", path: "/data/none"}]', accepted=("message", "details")),
    _case("no-such-operation", '[JSONPatch{op: "grow", path: "/data/a"}]', accepted=("message", "details")),
    _case("an-unknown-field-by-patch", '[JSONPatch{op: "add", path: "/spec", value: 3}]'),
    _case("a-wrong-type-by-patch", '[JSONPatch{op: "add", path: "/data", value: 3}]'),
    _case(
        "an-object-by-patch",
        '[JSONPatch{op: "add", path: "/metadata/annotations", value: Object.metadata.annotations{a: "b"}}]',
    ),
    _case("an-unknown-field", "Object{spec: Object.spec{a: 1}}"),
    _case("a-wrong-type", "Object{data: 3}"),
    _case("a-wrong-value", 'Object{data: {"a": 3}}'),
    _case("a-wrong-name", "Object{metadata: Object.spec{labels: {}}}"),
    _case("fails", "Object{data: {'a': object.data.missing}}"),
    _case("fails-ignored", "Object{data: {'a': object.data.missing}}", LABEL, failurePolicy="Ignore"),
    _case("condition-false", LABEL, matchConditions=[{"name": "c", "expression": "request.name == 'other'"}]),
    _case("condition-fails", LABEL, matchConditions=[{"name": "c", "expression": "object.data.missing == 'x'"}]),
    _case("optional-fields", "Object{?data: optional.of({'b': '2'}), ?metadata: optional.none()}"),
    _case(
        "variables",
        "Object{data: {'b': variables.b}}",
        "Object{data: {'c': variables.b}}",
        variables=[
            {"name": "a", "expression": "object.data.a"},
            {"name": "b", "expression": "variables.a + string(size(object.data))"},
        ],
    ),
    _case(
        "params",
        "Object{data: {'b': params.data.a}}",
        paramKind=PARAMS,
        binding={"paramRef": {"name": "params", "namespace": "hooked", "parameterNotFoundAction": "Deny"}},
    ),
    _case("params-missing", LABEL, paramKind=PARAMS, binding={"paramRef": {**REF, "name": "no"}}),
    _case(
        "the-request",
        "Object{data: {'b': request.operation + ' ' + request.resource.resource + ' ' + "
        "namespaceObject.metadata.name}}",
    ),
    _case(
        "again",
        "Object{data: {'n': string(int(object.data.n) + 1)}}",
        reinvocationPolicy="IfNeeded",
        asks=[_map("again", n="0")],
    ),
    _case(
        "webhook-and-policy",
        "Object{data: {'n': string(int(object.data.n) + 1)}}",
        reinvocationPolicy="IfNeeded",
        asks=[_map("webhook-and-policy", n="5")],
    ),  # a case of webhooks has the same name, and the same label
    _case("not-again", "Object{data: {'n': string(int(object.data.n) + 1)}}", asks=[_map("not-again", n="0")]),
    _case(
        "on-update",
        "Object{data: {'n': string(int(object.data.n) + 1)}}",
        asks=[
            _map("on-update", n="0"),
            Ask("change", "PATCH", f"{MAPS}/of-on-update", {"data": {"b": "2"}}, MERGE),
            Ask("get", "GET", f"{MAPS}/of-on-update"),
            Ask("delete", "DELETE", f"{MAPS}/of-on-update"),
        ],
    ),
    _case("bad-outcome", "Object{data: {'not a key!': 'x'}}"),
    _case(
        "merges-containers",
        _pod(
            f"containers: [{POD}.containers{{name: 'two', image: 'j'}}, {POD}.containers{{name: 'three', image: 'k'}}]"
        ),
        deployment=True,
    ),
    _case("atomic", _pod(f"containers: [{POD}.containers{{name: 'two', args: ['y']}}]"), deployment=True),
    _case(
        "no-identity",
        _pod(f"containers: [{POD}.containers{{image: 'y'}}]"),
        deployment=True,
        accepted=("code", "message", "details"),
    ),  # there the key has a default: the object is refused instead
    _case(
        "duplicates",
        _pod(f"containers: [{POD}.containers{{name: 'y'}}, {POD}.containers{{name: 'y'}}]"),
        deployment=True,
    ),
    _case(
        "makes-room-for-defaults",
        _pod(
            f"initContainers: [{POD}.initContainers{{name: 'mesh', image: 'i', ports: "
            f"[{POD}.initContainers.ports{{containerPort: 8080}}], restartPolicy: 'Always'}}]"
        ),
        deployment=True,
    ),
    _case(
        "replicas",
        "Object{spec: Object.spec{replicas: 3, strategy: Object.spec.strategy{rollingUpdate: "
        "Object.spec.strategy.rollingUpdate{maxSurge: '50%'}}}}",
        deployment=True,
    ),
    _case("a-number-as-text", "Object{spec: Object.spec{replicas: '3'}}", deployment=True),
    _case("deep-unknown", _pod("nodes: 3"), deployment=True),
    _case(
        "resources",
        _pod(
            f"containers: object.spec.template.spec.containers.map(c, {POD}.containers{{name: c.name, "
            f"resources: {POD}.containers.resources{{limits: {{'cpu': '1.50'}}}}}})"
        ),
        deployment=True,
    ),
    _case(
        "wrong-type-of-a-field-by-patch",
        '[JSONPatch{op: "add", path: "/spec/replicas", value: "x"}]',
        deployment=True,
        accepted=("message", "details"),
    ),
]
LAST_MUTATION = _case("last-mutation", LABEL)


def _spec(*mutations: Body, **fields: Any) -> Body:
    spec = {
        "matchConstraints": {"resourceRules": _rules(RULES)},
        "reinvocationPolicy": "Never",
        "mutations": list(mutations) or [_mutation(LABEL)],
        **fields,
    }
    return {key: value for key, value in spec.items() if value is not None}


def _of(text: str) -> Body:
    return _spec(_mutation(text))


# what -> (the last word of its kind, spec)
WRITTEN_MUTATIONS: dict[str, tuple[str, Body]] = {
    "a mutation": ("", _spec()),
    "without mutations": ("", {**_spec(), "mutations": []}),
    "without a policy of reinvocation": ("", _spec(reinvocationPolicy=None)),
    "an unknown policy of reinvocation": ("", _spec(reinvocationPolicy="Perhaps")),
    "all operations": ("", _spec(matchConstraints={"resourceRules": RULES})),
    "a deletion": ("", _spec(matchConstraints={"resourceRules": [{**RULES[0], "operations": ["DELETE"]}]})),
    "without a type of patch": ("", _spec({"applyConfiguration": {"expression": LABEL}})),
    "an unknown type of patch": ("", _spec({"patchType": "Merge", "applyConfiguration": {"expression": LABEL}})),
    "the other patch": ("", _spec({"patchType": "JSONPatch", "applyConfiguration": {"expression": LABEL}})),
    "the other patch too": ("", _spec({**_mutation(LABEL), "jsonPatch": {"expression": ADD}})),
    "an empty expression of a patch": ("", _spec({"patchType": "JSONPatch", "jsonPatch": {"expression": " "}})),
    "an expression of another type": ("", _of("Object.spec{}")),
    "operations of no patch": ("", _spec({**_mutation("["), "jsonPatch": {"expression": "[1]"}})),
    "an empty list": ("", _spec({**_mutation("["), "jsonPatch": {"expression": "[]"}})),
    "a message that is none": ("", _of("Object{spec: Foo{}}")),
    "a wrong field of an operation": ("", _of('[JSONPatch{op: 1, path: "/a"}]')),
    "an optional field that is none": ("", _of("Object{?spec: 1}")),
    "a variable that is a message": ("", _of("object{}")),
    "a message of a plain type": ("", _of("Object{spec: int{}}")),
    "messages in a variable": ("", _spec(variables=[{"name": "a", "expression": "Object{}"}])),
    "messages in a condition": ("", _spec(matchConditions=[{"name": "a", "expression": "Object{} == Object{}"}])),
    "a field of a message": ("", _of("Object{spec: Object{a: [1]}.a.map(x, x + 1)}")),
    "an unclosed message": ("", _of("Object{spec: 1")),
    "a field of the request": ("", _of("Object{spec: request.foo}")),
    "a field of the namespace": ("", _of("Object{spec: namespaceObject.metadata.uid}")),
    "a number for the request": ("", _of("Object{spec: request.name + 1}")),
    "an unknown variable": ("", _of("Object{spec: params}")),
    "an authorizer": ("", _of("authorizer.requestResource.check('get').allowed() ? Object{} : Object{a: 1}")),
    "a wrong authorizer": ("", _of("Object{a: authorizer.check('get')}")),
    "a binding of mutations": ("Binding", {"policyName": "p"}),
    "a binding to a deletion": (
        "Binding",
        {"policyName": "p", "matchResources": {"resourceRules": [{**RULES[0], "operations": ["DELETE"]}]}},
    ),
    "a binding to nothing": ("Binding", {"policyName": ""}),
}


def written_mutation(what: str) -> Ask:
    word, spec = WRITTEN_MUTATIONS[what]
    kind = f"MutatingAdmissionPolicy{word}"
    plural = "mutatingadmissionpolicybindings" if word else "mutatingadmissionpolicies"
    body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": "written"}, "spec": spec}
    return Ask(what, "POST", f"/apis/{GROUP}/{plural}?dryRun=All", body)
