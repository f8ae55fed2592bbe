"""ValidatingAdmissionPolicies for two servers: policies with a binding and requests, and policies that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.api.likeness import MERGE, Ask

Body = dict[str, Any]
GROUP = "admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/hooked/configmaps"
RULES = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]


@dataclass(frozen=True)
class PolicyCase:
    """A policy with its binding, for ConfigMaps whose label `case` is the name; and requests about one of these.
    `accepted`: what may differ."""

    name: str
    spec: Body
    binding: Body
    asks: tuple[Ask, ...]
    accepted: frozenset[str] = frozenset()
    mutating: bool = False

    def bodies(self) -> list[Body]:
        """The policy and its binding."""
        word = "Mutating" if self.mutating else "Validating"
        policy = {
            "apiVersion": GROUP,
            "kind": f"{word}AdmissionPolicy",
            "metadata": {"name": self.name},
            "spec": {
                "matchConstraints": {
                    "resourceRules": RULES,
                    "objectSelector": {"matchLabels": {"case": self.name}},
                },
                **self.spec,
            },
        }
        binding = {
            "apiVersion": GROUP,
            "kind": f"{word}AdmissionPolicyBinding",
            "metadata": {"name": f"{self.name}-bound"},
            "spec": {
                "policyName": self.name,
                **({} if self.mutating else {"validationActions": ["Deny"]}),
                **self.binding,
            },
        }
        return [policy, binding]


def _create(name: str, data: Body | None, what: str = "create") -> Ask:
    return Ask(what, "POST", MAPS, {"metadata": {"name": f"of-{name}", "labels": {"case": name}}, "data": data})


def _case(
    name: str,
    *validations: Body | str,
    asks: Sequence[Ask] = (),
    binding: Body | None = None,
    accepted: Sequence[str] = (),
    **spec: Any,
) -> PolicyCase:
    listed = [item if isinstance(item, dict) else {"expression": item} for item in validations]
    return PolicyCase(
        name,
        {**({"validations": listed} if listed else {}), **spec},
        binding or {},
        tuple(asks) or (_create(name, {"a": "1"}),),
        frozenset(accepted),
    )


FALSE = "object.data.a == '2'"
PARAMS: Body = {"apiVersion": "v1", "kind": "ConfigMap"}
OF_PARAMS: Body = {"name": "params", "parameterNotFoundAction": "Deny"}
POLICIES = [
    _case("holds", "object.data.a == '1'"),
    _case("denies", FALSE),
    _case("says-why", {"expression": FALSE, "message": " a must be 2 "}),
    _case("computes-why", {"expression": FALSE, "message": "unused", "messageExpression": "'a is ' + object.data.a"}),
    _case("cannot-compute-why", {"expression": FALSE, "message": "fixed", "messageExpression": "'' + object.data.b"}),
    _case("empty-why", {"expression": FALSE, "messageExpression": "'  '"}),
    _case("forbids", {"expression": FALSE, "reason": "Forbidden"}),
    _case("too-large", {"expression": FALSE, "reason": "RequestEntityTooLarge"}),
    _case("second-denies", "true", {"expression": FALSE, "message": "second"}),
    _case("fails", "object.data.missing == 'x'"),
    _case("fails-ignored", "object.data.missing == 'x'", failurePolicy="Ignore"),
    _case("warns", {"expression": FALSE, "message": "a"}, binding={"validationActions": ["Warn"]}),
    _case("audits", FALSE, binding={"validationActions": ["Audit"]}),
    _case("condition-false", FALSE, matchConditions=[{"name": "c", "expression": "request.name == 'other'"}]),
    _case("condition-fails", FALSE, matchConditions=[{"name": "c", "expression": "object.data.missing == 'x'"}]),
    _case(
        "variables",
        {"expression": "variables.b == '2'", "messageExpression": "'b is ' + variables.b"},
        variables=[
            {"name": "a", "expression": "object.data.a"},
            {"name": "b", "expression": "variables.a + variables.a"},
        ],
    ),
    _case("unused-variable", "true", variables=[{"name": "a", "expression": "object.data.missing"}]),
    _case(
        "params",
        {"expression": "object.data.a == params.data.a", "messageExpression": "'not ' + params.data.a"},
        paramKind=PARAMS,
        binding={"paramRef": {**OF_PARAMS, "namespace": "hooked"}},
    ),
    _case(
        "params-of-its-namespace", "object.data.a == params.data.a", paramKind=PARAMS, binding={"paramRef": OF_PARAMS}
    ),
    _case("params-missing", "true", paramKind=PARAMS, binding={"paramRef": {**OF_PARAMS, "name": "no"}}),
    _case(
        "params-missing-allowed",
        FALSE,
        paramKind=PARAMS,
        binding={"paramRef": {"name": "no", "parameterNotFoundAction": "Allow"}},
    ),
    _case(
        "params-by-label",
        "object.data.a == params.data.a",
        paramKind=PARAMS,
        binding={"paramRef": {"selector": {"matchLabels": {"kind": "params"}}, "parameterNotFoundAction": "Deny"}},
    ),
    _case("without-params", "params == null", paramKind=PARAMS),
    _case("namespace", "namespaceObject.metadata.name == 'elsewhere'"),
    _case(
        "request",
        {
            "expression": "false",
            "messageExpression": "request.operation + ' ' + request.name + ' by ' + "
            "request.userInfo.username + ' of ' + request.resource.resource",
        },
    ),
    _case("no-old-object", {"expression": "oldObject != null"}),
    _case(
        "bound-elsewhere",
        FALSE,
        binding={"matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}},
    ),
    _case("excluded", FALSE, binding={"matchResources": {"excludeResourceRules": RULES}}),
    _case("named", FALSE, binding={"matchResources": {"resourceRules": [{**RULES[0], "resourceNames": ["of-named"]}]}}),
    _case("annotates", auditAnnotations=[{"key": "a", "valueExpression": "'a is ' + object.data.a"}]),
    _case("annotation-fails", auditAnnotations=[{"key": "a", "valueExpression": "'' + object.data.missing"}]),
    _case(
        "updates",
        "request.operation != 'UPDATE' || object.data.a == oldObject.data.a",
        asks=(
            _create("updates", {"a": "1"}),
            Ask("change", "PATCH", f"{MAPS}/of-updates", {"data": {"a": "2"}}, MERGE),
            Ask("add", "PATCH", f"{MAPS}/of-updates", {"data": {"b": "2"}}, MERGE),
            Ask("delete", "DELETE", f"{MAPS}/of-updates"),
        ),
    ),
    _case("authorized", "!authorizer.group('').resource('secrets').namespace('hooked').check('get').allowed()"),
    _case(
        "an-account-is-not-authorized",
        "authorizer.serviceAccount('hooked', 'x').group('').resource('secrets')"
        ".namespace('hooked').name('s').check('get').allowed()",
    ),
    _case("an-accounts-path", "authorizer.serviceAccount('hooked', 'x').path('/metrics').check('get').allowed()"),
    _case("a-path", "!authorizer.path('/metrics').check('get').allowed()"),
    _case("no-path", "authorizer.path(' ').check('get').allowed()"),
    _case("no-account", "authorizer.serviceAccount('hooked', 'A B').path('/metrics').check('get').allowed()"),
    _case("the-requested-resource", "authorizer.requestResource.check('create').errored()"),
    _case(
        "an-authorized-condition",
        FALSE,
        matchConditions=[{"name": "c", "expression": "!authorizer.requestResource.check('create').allowed()"}],
    ),
    _case("a-call-costs-too-much", " && ".join(["authorizer.requestResource.check('create').allowed()"] * 3)),
    _case("a-policy-costs-too-much", *["authorizer.requestResource.check('create').allowed()"] * 30),
    _case(
        "conditions-cost-too-much",
        FALSE,
        matchConditions=[
            {"name": f"c{n}", "expression": "authorizer.requestResource.check('create').allowed()"} for n in range(9)
        ],
    ),
    _case("typed-namespace", "namespaceObject.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')"),
    _case(
        "keeps",
        "request.operation != 'DELETE'",
        asks=(_create("keeps", {"a": "1"}), Ask("delete", "DELETE", f"{MAPS}/of-keeps")),
    ),
]
LAST = _case("last-policy", FALSE)


def _spec(**fields: Any) -> Body:
    spec = {"matchConstraints": {"resourceRules": RULES}, "validations": [{"expression": "true"}], **fields}
    return {key: value for key, value in spec.items() if value is not None}


def _rule(**fields: Any) -> Body:
    return _spec(matchConstraints={"resourceRules": [{**RULES[0], **fields}]})


def _bound(**fields: Any) -> Body:
    return {"policyName": "p", "validationActions": ["Deny"], **fields}


REF = {"name": "n", "parameterNotFoundAction": "Deny"}
# what -> (the first word of its kind, spec)
WRITTEN: dict[str, tuple[str, Body]] = {
    "a policy": ("", _spec()),
    "without constraints": ("", _spec(matchConstraints=None)),
    "without rules": ("", _spec(matchConstraints={"resourceRules": []})),
    "without validations": ("", _spec(validations=None)),
    "an unknown failure policy of a policy": ("", _spec(failurePolicy="Perhaps")),
    "a rule with a wrong operation": ("", _rule(operations=["X"])),
    "a name twice": ("", _rule(resourceNames=["a", "a"])),
    "an empty expression": ("", _spec(validations=[{"expression": " "}])),
    "an empty message": ("", _spec(validations=[{"expression": "true", "message": " "}])),
    "a message of two lines": ("", _spec(validations=[{"expression": "true", "message": "a\nb"}])),
    "an empty message expression": ("", _spec(validations=[{"expression": "true", "messageExpression": " "}])),
    "an unknown reason": ("", _spec(validations=[{"expression": "true", "reason": "Why"}])),
    "a parameter kind": ("", _spec(paramKind=PARAMS)),
    "a parameter kind without a version": ("", _spec(paramKind={"apiVersion": "", "kind": "ConfigMap"})),
    "a parameter kind with a wrong version": ("", _spec(paramKind={"apiVersion": "a/b/c", "kind": "ConfigMap"})),
    "a parameter kind without a kind": ("", _spec(paramKind={"apiVersion": "v1", "kind": ""})),
    "a variable": ("", _spec(variables=[{"name": "a", "expression": "1"}])),
    "a variable with a wrong name": ("", _spec(variables=[{"name": "a-b", "expression": "1"}])),
    "a variable with a reserved name": ("", _spec(variables=[{"name": "for", "expression": "1"}])),
    "an annotation with a wrong key": ("", _spec(auditAnnotations=[{"key": "a b", "valueExpression": "'x'"}])),
    "an annotation without an expression": ("", _spec(auditAnnotations=[{"key": "a", "valueExpression": " "}])),
    "a message that asks for rights": (
        "",
        _spec(
            validations=[
                {"expression": "true", "messageExpression": "authorizer.requestResource.check('get').reason()"}
            ]
        ),
    ),
    "a validation that asks for rights": (
        "",
        _spec(validations=[{"expression": "authorizer.requestResource.check('get').allowed()"}]),
    ),
    "an unknown part of the request": ("", _spec(validations=[{"expression": "request.user == 'a'"}])),
    "a name that is a number": ("", _spec(validations=[{"expression": "request.userInfo.groups == 3"}])),
    "a binding": ("Binding", _bound()),
    "a binding without actions": ("Binding", _bound(validationActions=[])),
    "a binding with an unknown action": ("Binding", _bound(validationActions=["Cry"])),
    "a binding that denies and warns": ("Binding", _bound(validationActions=["Deny", "Warn"])),
    "a binding with a wrong name": ("Binding", _bound(policyName="A B")),
    "a binding with parameters": ("Binding", _bound(paramRef=REF)),
    "parameters without a name": ("Binding", _bound(paramRef={"parameterNotFoundAction": "Deny"})),
    "parameters without an action": ("Binding", _bound(paramRef={"name": "n"})),
    "parameters with an unknown action": ("Binding", _bound(paramRef={**REF, "parameterNotFoundAction": "Cry"})),
    "parameters by name and label": ("Binding", _bound(paramRef={**REF, "selector": {}})),
}


def written(what: str) -> Ask:
    word, spec = WRITTEN[what]
    kind = f"ValidatingAdmissionPolicy{word}"
    plural = "validatingadmissionpolicybindings" if word else "validatingadmissionpolicies"
    body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": "written"}, "spec": spec}
    return Ask(what, "POST", f"/apis/{GROUP}/{plural}?dryRun=All", body)
