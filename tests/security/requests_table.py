"""The requests that tests/security/test_rbac_like_kubernetes.py makes of both servers, and who makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.security.rbac_table import (
    API,
    GROUP,
    ROLES_OF_A,
    A,
    B,
    Body,
    account,
    binding,
    matches,
    role,
    rule,
    selects,
    user,
)


@dataclass(frozen=True)
class Try:
    """A request under impersonation. `who` names a user without groups; other headers may be given."""

    what: str
    who: str
    method: str
    path: str
    body: Any = None
    media: str = "application/json"


MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
_RB, _CRB, _CR = f"{API}/namespaces/{A}/rolebindings", f"{API}/clusterrolebindings", f"{API}/clusterroles"


def _post(what: str, who: str, made: tuple[str, Body]) -> Try:
    return Try(f"{who}: {what}", who, "POST", f"{made[0]}?dryRun=All", made[1])


def _patch(what: str, who: str, path: str, body: Any) -> Try:
    return Try(f"{who}: {what}", who, "PATCH", f"{path}?dryRun=All", body, MERGE)


GRANTS = [
    _post("a role she holds", "granter", role("n", [rule("get", "pods")], A)),
    _post("a part of a named right", "granter", role("n", [rule("get", "secrets", names="s")], A)),
    _post("another name", "granter", role("n", [rule("get", "secrets", names="s other")], A)),
    _post("all names", "granter", role("n", [rule("get", "secrets")], A)),
    _post("more verbs", "granter", role("n", [rule("get delete watch", "pods")], A)),
    _post("all verbs that she holds", "granter", role("n", [rule("*", "jobs", "batch")], A)),
    _post("verbs of all", "granter", role("n", [rule("list approve", "jobs", "batch")], A)),
    _post("another group", "granter", role("n", [rule("get", "jobs", "batch apps")], A)),
    _post("a subresource", "granter", role("n", [rule("get", "pods/log")], A)),
    _post("everything", "granter", role("n", [rule("*", "*", "*")], A)),
    _post("no rules", "granter", role("n", [], A)),
    _post("in another namespace", "granter", role("n", [rule("get", "pods")], B)),
    _post("a ClusterRole", "granter", role("n", [rule("get", "pods")])),
    _post("a rule of nothing", "granter", role("n", [rule("get", "")], A)),
    _post("paths in a Role", "wide", role("n", [rule("get", urls="/metrics")], A)),
    _post("anything", "escalator", role("n", [rule("*", "*", "*")], A)),
    _post("a Role of that name", "named-escalator", role("special", [rule("*", "*", "*")], A)),
    _post("a path she holds", "wide", role("n", [rule("get", urls="/metrics")])),
    _post("a path below", "wide", role("n", [rule("get", urls="/logs/x/*")])),
    _post("all paths", "wide", role("n", [rule("get", urls="*")])),
    _post("a path with stars", "wide", role("n", [rule("get", urls="/logs/** /logs*")])),
    _post("an aggregated role", "wide", role("n", None, aggregationRule={"clusterRoleSelectors": [selects(a="b")]})),
    _post("an aggregated role", "whole", role("n", None, aggregationRule={"clusterRoleSelectors": [selects(a="b")]})),
    _post("everything", "root-in-a", role("n", [rule("*", "*", "*")], A)),
    _post("cluster-wide", "root-in-a", role("n", [rule("get", "pods")])),
    _post("a Role she holds", "granter", binding("n", "Role", "plain", [user("x")], A)),
    _post("a Role she does not hold", "granter", binding("n", "Role", "strong", [user("x")], A)),
    _post("a ClusterRole she holds", "granter", binding("n", "ClusterRole", "mine", [user("x")], A)),
    _post("a ClusterRole she does not hold", "granter", binding("n", "ClusterRole", "victim", [user("x")], A)),
    _post("an empty ClusterRole", "granter", binding("n", "ClusterRole", "c-nothing", [user("x")], A)),
    _post("an aggregated ClusterRole", "granter", binding("n", "ClusterRole", "sum-labels", [user("x")], A)),
    _post("a large aggregated ClusterRole", "granter", binding("n", "ClusterRole", "sum-in", [user("x")], A)),
    _post("a missing Role", "granter", binding("n", "Role", "gone", [user("x")], A)),
    _post("a missing ClusterRole", "granter", binding("n", "ClusterRole", "gone", [user("x")], A)),
    _post("everywhere", "granter", binding("n", "ClusterRole", "mine", [user("x")])),
    _post("what she may bind", "binder", binding("n", "Role", "write", [user("x")], A)),
    _post("the ClusterRole she may bind", "binder", binding("n", "ClusterRole", "c-write", [user("x")], A)),
    _post("another", "binder", binding("n", "Role", "strong", [user("x")], A)),
    _post("what she may escalate", "escalator", binding("n", "Role", "strong", [user("x")], A)),
    _post("what is hers", "wide", binding("n", "ClusterRole", "mine", [user("x")])),
    _post("what is not hers", "wide", binding("n", "ClusterRole", "victim", [user("x")])),
    _post("a path", "wide", binding("n", "ClusterRole", "c-metrics", [user("x")])),
    _post("all of a", "root-in-a", binding("n", "ClusterRole", "whole", [user("x")], A)),
    _patch("a label on a role beyond her", "wide", f"{_CR}/victim", {"metadata": {"labels": {"app": "x"}}}),
    _patch("a label on her role", "wide", f"{_CR}/mine", {"metadata": {"labels": {"app": "x"}}}),
    _patch("a finalizer on a role beyond her", "wide", f"{_CR}/victim", {"metadata": {"finalizers": ["a.b/c"]}}),
    _patch("a label on an aggregated role", "wide", f"{_CR}/sum-labels", {"metadata": {"labels": {"a": "b"}}}),
    _patch("an end of aggregation", "wide", f"{_CR}/sum-labels", {"aggregationRule": None, "rules": []}),
    _patch("a label on a role beyond her", "granter", f"{ROLES_OF_A}/strong", {"metadata": {"labels": {"a": "b"}}}),
    _patch("an annotation on her role", "granter", f"{ROLES_OF_A}/plain", {"metadata": {"annotations": {"a": "b"}}}),
    _patch("nothing on a role beyond her", "granter", f"{ROLES_OF_A}/strong", {}),
    _patch("fewer rules", "granter", f"{ROLES_OF_A}/strong", {"rules": []}),
    _patch("another rule", "granter", f"{ROLES_OF_A}/plain", {"rules": [rule("get", "secrets")]}),
    _patch("a Role of that name", "named-escalator", f"{ROLES_OF_A}/plain", {"rules": [rule("*", "*", "*")]}),
    _patch("subjects beyond her", "granter", f"{_RB}/strong", {"subjects": [user("granter")]}),
    _patch("no subjects", "granter", f"{_RB}/strong", {"subjects": []}),
    Try("granter: delete of a role beyond her", "granter", "DELETE", f"{ROLES_OF_A}/strong?dryRun=All"),
    Try("granter: delete of a binding beyond her", "granter", "DELETE", f"{_RB}/strong?dryRun=All"),
    Try(
        "patcher: an apply that creates",
        "patcher",
        "PATCH",
        f"/api/v1/namespaces/{A}/configmaps/new?dryRun=All&fieldManager=t",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}},
        APPLY,
    ),
    Try(
        "patcher: an apply of what is there",
        "patcher",
        "PATCH",
        f"/api/v1/namespaces/{A}/configmaps/one?dryRun=All&fieldManager=t",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}},
        APPLY,
    ),
]

_REF = {"apiGroup": GROUP, "kind": "Role", "name": "plain"}


def _bad(what: str, made: tuple[str, Body], **change: Any) -> Try:
    return Try(what, "", "POST", f"{made[0]}?dryRun=All", {**made[1], **change})


_IN_A, _WIDE = binding("n", "Role", "plain", [user("x")], A), binding("n", "ClusterRole", "mine", [user("x")])
REFUSED = [
    _bad("a kind of no role", _IN_A, roleRef={**_REF, "kind": "Foo"}),
    _bad("a kind in lower case", _IN_A, roleRef={**_REF, "kind": "role"}),
    _bad("no kind", _IN_A, roleRef={"apiGroup": GROUP, "name": "plain"}),
    _bad("another group", _IN_A, roleRef={**_REF, "apiGroup": "v1"}),
    _bad("no group", _IN_A, roleRef={"kind": "Role", "name": "plain"}),
    _bad("no name", _IN_A, roleRef={**_REF, "name": ""}),
    _bad("a name that is a path", _IN_A, roleRef={**_REF, "name": "../x"}),
    _bad("no roleRef", _IN_A, roleRef={}),
    _bad("a Role everywhere", _WIDE, roleRef=_REF),
    _bad("a subject of no kind", _IN_A, subjects=[{"name": "x"}]),
    _bad("a subject of another kind", _IN_A, subjects=[{"kind": "Robot", "name": "x"}]),
    _bad("a user of another group", _IN_A, subjects=[{**user("x"), "apiGroup": "v1"}]),
    _bad("a user without a group", _IN_A, subjects=[{"kind": "User", "name": "x"}]),
    _bad("a user without a name", _IN_A, subjects=[user("")]),
    _bad("an account with a group", _IN_A, subjects=[{**account("x"), "apiGroup": GROUP}]),
    _bad("an account of a bad name", _IN_A, subjects=[account("X_y", A)]),
    _bad("an account of no namespace", _WIDE, subjects=[account("x")]),
    _bad("an account of its own namespace", _IN_A, subjects=[account("x")]),
    _bad("no subjects", _IN_A, subjects=None),
    _bad("subjects that are no list", _IN_A, subjects={"kind": "User"}),
    _bad("an empty aggregation", role("n", [], aggregationRule={})),
    _bad(
        "aggregation of an unknown operator",
        role("n", None, aggregationRule={"clusterRoleSelectors": [matches("a", "Like", "b")]}),
    ),
    _bad("aggregation by no values", role("n", None, aggregationRule={"clusterRoleSelectors": [matches("a", "In")]})),
    _bad(
        "aggregation by too many values",
        role("n", None, aggregationRule={"clusterRoleSelectors": [matches("a", "Exists", "b")]}),
    ),
    _bad("aggregation by everything", role("n", None, aggregationRule={"clusterRoleSelectors": [{}]})),
    _bad("paths and resources", role("n", [{**rule("get", "pods"), "nonResourceURLs": ["/x"]}])),
    _bad("rules without verbs", role("n", [rule("", "pods")], A)),
]

_MAPS = f"/api/v1/namespaces/{A}/configmaps"
# (method, path): asked as an administrator and as the users below
PATHS: list[tuple[str, str]] = [
    *(
        (method, path)
        for method in ("GET", "DELETE", "PUT", "PATCH", "POST")
        for path in (
            f"/api/v1/namespaces/{A}/namespaces/{B}",
            f"/api/v1/namespaces/{A}/namespaces/{A}",
            f"/api/v1/namespaces/{A}/namespaces",
            f"/api/v1/namespaces/{A}/namespaces/{B}/status",
            f"/api/v1/namespaces/{A}/namespaces/{B}/finalize",
            f"/api/v1/namespaces/{A}/nodes",
            f"/api/v1/namespaces/{A}/nodes/x",
            f"/api/v1/namespaces/{A}/nodes/x/status",
            f"{API}/namespaces/{A}/clusterroles",
            f"{API}/namespaces/{A}/clusterroles/whole",
            f"{API}/namespaces/{A}/clusterrolebindings/whole",
            f"{API}/namespaces/{A}",
            f"{API}/namespaces/{A}/status",
            f"/apis/batch/v1/namespaces/{A}",
            "/api/v1/configmaps/one",
            "/api/v1/configmaps",
            f"{_MAPS}/one/status",
            f"{_MAPS}/one/scale",
            f"{_MAPS}/one/nothing",
            f"{_MAPS}/one/status/more",
            f"/api/v1/namespaces/{A}/status",
            f"/api/v1/namespaces/{A}/finalize/x",
            f"/api/v1/namespaces/{A}/nothing",
        )
    ),
    *(
        ("GET", path)
        for path in (
            _MAPS,
            f"{_MAPS}/",
            f"{_MAPS}/one",
            f"{_MAPS}/one/",
            f"{_MAPS}//",
            f"{_MAPS}//one",
            f"/{_MAPS}",
            f"//{_MAPS}/one",
            f"/api/v1//namespaces/{A}/configmaps",
            f"/api/v1/namespaces//{A}/configmaps",
            "/api/v1/namespaces//configmaps",
            f"/api//v1/namespaces/{A}/configmaps",
            f"/api/v1/namespaces/{A}//configmaps/one",
            f"/api/v1/namespaces/{A}%2Fconfigmaps",
            f"/api/v1/namespaces/{A}/configmaps%2Fone",
            f"{_MAPS}/%6Fne",
            f"/api/v1/namespaces/{A}/../{B}/configmaps",
            f"/api/v1/namespaces/{A}/%2e%2e/{B}/configmaps",
            f"{_MAPS}/..",
            f"{_MAPS}/.",
            f"{_MAPS}/../configmaps/one",
            f"/api/v1/./namespaces/{A}/configmaps",
            f"{_MAPS}/one%00",
            f"{_MAPS}/one;x=y",
            f"/API/v1/namespaces/{A}/configmaps",
            f"/api/V1/namespaces/{A}/configmaps",
            f"/api/v1/namespaces/{A}/ConfigMaps",
            f"/api/v1/Namespaces/{A}/configmaps",
            f"/api/v1/namespaces/{A.upper()}",
            f"/api/v2/namespaces/{A}/configmaps",
            f"/apis/v1/namespaces/{A}/configmaps",
            f"/apis//v1/namespaces/{A}/configmaps",
            f"/apis/none.example.com/v1/namespaces/{A}/things",
            "/api/v1/nothing",
            "/api/v1/namespaces",
            "/api/v1/namespaces/",
            f"/api/v1/namespaces/{A}",
            f"/api/v1/namespaces/{A}/",
            "/api/v1/",
            "/api/",
            "/apis/",
            f"{API}/",
            f"/apis/{GROUP}/",
            f"{_MAPS}?fieldSelector=metadata.name%3Done",
            f"{_MAPS}?fieldSelector=metadata.name%3Dtwo",
            f"{_MAPS}?fieldSelector=metadata.name%3D%3Done",
            f"{_MAPS}?fieldSelector=metadata.name!%3Done",
            f"{_MAPS}?fieldSelector=metadata.name%3Done,metadata.namespace%3D{A}",
            f"{_MAPS}?fieldSelector=metadata.namespace%3D{A},metadata.name%3Done",
            f"{_MAPS}?fieldSelector=metadata.name%3Done,metadata.name%3Dtwo",
            f"{_MAPS}?fieldSelector=metadata.name%3D..",
            f"{_MAPS}?fieldSelector=metadata.name%3D",
            f"{_MAPS}?labelSelector=metadata.name%3Done",
            f"{_MAPS}?fieldSelector=metadata.name%3Done&watch=1&timeoutSeconds=1",
            f"{_MAPS}?watch=1&timeoutSeconds=1",
            f"{_MAPS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dtwo",
            f"{_MAPS}/one?watch=false",
            "/version",
            "/metrics",
            "/nothing",
            "/",
            "/logs/x",
        )
    ),
    ("DELETE", f"{_MAPS}?fieldSelector=metadata.name%3Dnone&dryRun=All"),
    ("DELETE", f"{_MAPS}?dryRun=All"),
    ("OPTIONS", _MAPS),
    ("OPTIONS", f"{_MAPS}/one"),
    ("TRACE", _MAPS),
    ("BREW", f"{_MAPS}/one"),
    ("HEAD", "/version"),
    ("POST", "/version"),
    ("DELETE", "/api"),
    ("PUT", "/apis"),
    *(
        ("POST", path)
        for path in (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "/apis/authorization.k8s.io/v1/localsubjectaccessreviews",
            f"/apis/authorization.k8s.io/v1/namespaces/{A}/subjectaccessreviews",
            f"/apis/authorization.k8s.io/v1/namespaces/{A}/selfsubjectaccessreviews",
            f"/apis/authorization.k8s.io/v1/namespaces/{A}/localsubjectaccessreviews/x",
            f"/apis/authentication.k8s.io/v1/namespaces/{A}/tokenreviews",
            "/apis/authentication.k8s.io/v1/tokenreviews/x",
        )
    ),
]
PATH_USERS = ("", "root-in-a", "one-map", "nobody")

# Headers of impersonation, as asked by the user "actor", and for what each is refused or who results
ACTING: dict[str, list[tuple[str, str]]] = {
    "a user": [("impersonate-user", "jane")],
    "another user": [("impersonate-user", "joe")],
    "a user with a group": [("impersonate-user", "jane"), ("impersonate-group", "dev")],
    "a group of more": [("impersonate-user", "jane"), ("impersonate-group", "dev"), ("impersonate-group", "ops")],
    "masters": [("impersonate-user", "jane"), ("impersonate-group", "system:masters")],
    "authenticated, given": [("impersonate-user", "jane"), ("impersonate-group", "system:authenticated")],
    "unauthenticated, given": [("impersonate-user", "jane"), ("impersonate-group", "system:unauthenticated")],
    "nobody": [("impersonate-user", "system:anonymous")],
    "a group alone": [("impersonate-group", "dev")],
    "a uid alone": [("impersonate-uid", "u-1")],
    "an extra alone": [("impersonate-extra-scopes", "view")],
    "an empty user": [("impersonate-user", "")],
    "a uid": [("impersonate-user", "jane"), ("impersonate-uid", "u-1")],
    "another uid": [("impersonate-user", "jane"), ("impersonate-uid", "u-2")],
    "an extra": [("impersonate-user", "jane"), ("impersonate-extra-scopes", "view")],
    "another value of an extra": [("impersonate-user", "jane"), ("impersonate-extra-scopes", "edit")],
    "two values of an extra": [
        ("impersonate-user", "jane"),
        ("impersonate-extra-scopes", "view"),
        ("impersonate-extra-scopes", "edit"),
    ],
    "another extra": [("impersonate-user", "jane"), ("impersonate-extra-other", "view")],
    "an encoded extra": [("impersonate-user", "jane"), ("impersonate-extra-s%63opes", "view")],
    "an account": [("impersonate-user", f"system:serviceaccount:{A}:robot")],
    "an account with a group": [("impersonate-user", f"system:serviceaccount:{A}:robot"), ("impersonate-group", "dev")],
    "an account of another namespace": [("impersonate-user", f"system:serviceaccount:{B}:robot")],
    "another account": [("impersonate-user", f"system:serviceaccount:{A}:other")],
    "an account that is none": [("impersonate-user", f"system:serviceaccount:{A}:Robot:x")],
    "an account without a namespace": [("impersonate-user", "system:serviceaccount::robot")],
    "a name beyond ASCII": [("impersonate-user", "jané")],
}

_AT = "/apis/authorization.k8s.io/v1"
_RESOURCE = {"verb": "get", "resource": "pods", "namespace": A}
_SPEC = {"user": "u", "resourceAttributes": _RESOURCE}
# what -> (path, body)
REVIEWS: dict[str, tuple[str, Any]] = {
    "no spec": (f"{_AT}/subjectaccessreviews", {}),
    "nulls, as clients write them": (
        f"{_AT}/subjectaccessreviews",
        {"metadata": {"creationTimestamp": None, "name": None}, "spec": {**_SPEC, "groups": None, "extra": None}},
    ),
    "a spec that is text": (f"{_AT}/subjectaccessreviews", {"spec": "x"}),
    "a spec that is a list": (f"{_AT}/subjectaccessreviews", {"spec": []}),
    "groups that are a number": (f"{_AT}/subjectaccessreviews", {"spec": {**_SPEC, "groups": 5}}),
    "groups of numbers": (f"{_AT}/subjectaccessreviews", {"spec": {**_SPEC, "groups": [5]}}),
    "groups of null": (f"{_AT}/subjectaccessreviews", {"spec": {**_SPEC, "groups": [None]}}),
    "a user that is a number": (f"{_AT}/subjectaccessreviews", {"spec": {**_SPEC, "user": 5}}),
    "a user that is an object": (f"{_AT}/subjectaccessreviews", {"spec": {**_SPEC, "user": {}}}),
    "no user": (f"{_AT}/subjectaccessreviews", {"spec": {"resourceAttributes": _RESOURCE}}),
    "extra that is a list": (f"{_AT}/subjectaccessreviews", {"spec": {**_SPEC, "extra": []}}),
    "extra of text": (f"{_AT}/subjectaccessreviews", {"spec": {**_SPEC, "extra": {"a": "b"}}}),
    "attributes that are text": (f"{_AT}/subjectaccessreviews", {"spec": {"user": "u", "resourceAttributes": "x"}}),
    "attributes that are a list": (f"{_AT}/subjectaccessreviews", {"spec": {"user": "u", "resourceAttributes": []}}),
    "a verb that is a list": (
        f"{_AT}/subjectaccessreviews",
        {"spec": {"user": "u", "resourceAttributes": {**_RESOURCE, "verb": ["get"]}}},
    ),
    "a name that is null": (
        f"{_AT}/subjectaccessreviews",
        {"spec": {"user": "u", "resourceAttributes": {**_RESOURCE, "name": None}}},
    ),
    "a path that is a number": (
        f"{_AT}/subjectaccessreviews",
        {"spec": {"user": "u", "nonResourceAttributes": {"verb": "get", "path": 1}}},
    ),
    "both kinds of attributes": (
        f"{_AT}/subjectaccessreviews",
        {"spec": {**_SPEC, "nonResourceAttributes": {"verb": "get", "path": "/"}}},
    ),
    "a name of its own": (f"{_AT}/subjectaccessreviews", {"metadata": {"name": "x"}, "spec": _SPEC}),
    "metadata that is text": (f"{_AT}/subjectaccessreviews", {"metadata": "x", "spec": _SPEC}),
    "self, no attributes": (f"{_AT}/selfsubjectaccessreviews", {"spec": {}}),
    "self, null": (f"{_AT}/selfsubjectaccessreviews", {"spec": None}),
    "rules without a namespace": (f"{_AT}/selfsubjectrulesreviews", {"spec": {}}),
    "rules of a number": (f"{_AT}/selfsubjectrulesreviews", {"spec": {"namespace": 7}}),
    "local": (f"{_AT}/namespaces/{A}/localsubjectaccessreviews", {"spec": _SPEC}),
    "local, named so": (
        f"{_AT}/namespaces/{A}/localsubjectaccessreviews",
        {"metadata": {"namespace": A}, "spec": _SPEC},
    ),
    "local, named otherwise": (
        f"{_AT}/namespaces/{A}/localsubjectaccessreviews",
        {"metadata": {"namespace": B}, "spec": _SPEC},
    ),
    "local about another namespace": (f"{_AT}/namespaces/{B}/localsubjectaccessreviews", {"spec": _SPEC}),
    "local about no namespace": (
        f"{_AT}/namespaces/{A}/localsubjectaccessreviews",
        {"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    "local about a path": (
        f"{_AT}/namespaces/{A}/localsubjectaccessreviews",
        {"spec": {"user": "u", "nonResourceAttributes": {"verb": "get", "path": "/"}}},
    ),
    "a token that is a number": ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": 5}}),
    "no token": ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}}),
    "audiences that are text": (
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"spec": {"token": "x", "audiences": "a"}},
    ),
}
