"""The requests that tests/api/test_like_a_kube_apiserver.py asks both servers, in order."""

from __future__ import annotations

from typing import Any

from tests.api.likeness import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, Ask

NS = "/api/v1/namespaces"
MAPS, SECRETS = f"{NS}/like/configmaps", f"{NS}/like/secrets"
WIDGETS = "/apis/like.example.com/v1/namespaces/like/widgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/like/roles"
STRICT = "fieldValidation=Strict"

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.like.example.com"},
    "spec": {
        "group": "like.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "maximum": 9},
                                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                                    "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                                    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["id"],
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {"id": {"type": "string"}, "weight": {"type": "integer"}},
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}


def cm(name: str, data: Any = None, **metadata: Any) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return body if data is None else {**body, "data": data}


def widget(name: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    body = {"apiVersion": "like.example.com/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}
    return body if spec is None else {**body, "spec": spec}


def w(spec: Any, **metadata: Any) -> dict[str, Any]:
    return widget("w", spec, **metadata)


def x(spec: Any, **metadata: Any) -> dict[str, Any]:
    return widget("x", spec, **metadata)


def op(kind: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **more}


CONFIG_MAPS = [
    Ask("create a ConfigMap", "POST", MAPS, cm("a", {"k": "v"}, labels={"app": "x"}), keep="a"),
    Ask("create it again", "POST", MAPS, cm("a")),
    Ask("create with a long label", "POST", MAPS, cm("b", labels={"a": "b" * 64})),
    Ask("create without a name", "POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
    Ask("create with a bad name", "POST", MAPS, cm("A_b")),
    Ask("create with a bad label", "POST", MAPS, cm("b", labels={"x y": "a b"})),
    Ask("create with a resourceVersion", "POST", MAPS, cm("b", resourceVersion="1")),
    Ask("create in another namespace", "POST", MAPS, cm("b", namespace="other")),
    Ask("create in a missing namespace", "POST", f"{NS}/none/configmaps", cm("b")),
    Ask("create of another kind", "POST", MAPS, {**cm("b"), "kind": "Secret"}),
    Ask("create of another version", "POST", MAPS, {**cm("b"), "apiVersion": "v2"}),
    Ask("create with data of a wrong type", "POST", MAPS, cm("b", {"k": 1})),
    Ask("create with a bad key", "POST", MAPS, cm("b", {"a/b": "1"})),
    Ask("create with an unknown field, strict", "POST", f"{MAPS}?{STRICT}", {**cm("b"), "spec": {}}),
    Ask("create with an unknown field, warned", "POST", f"{MAPS}?dryRun=All", {**cm("b"), "spec": {}}),
    Ask("create from broken JSON", "POST", MAPS, b'{"kind":'),
    Ask("create from a list", "POST", MAPS, b"[]"),
    Ask("create from nothing", "POST", MAPS, b""),
    Ask("create from another media type", "POST", MAPS, b"a", "text/csv"),
    Ask("create with a dryRun of something", "POST", f"{MAPS}?dryRun=Some", cm("b")),
    Ask("get it", "GET", f"{MAPS}/a"),
    Ask("get a missing one", "GET", f"{MAPS}/none"),
    Ask("get it as a table", "GET", f"{MAPS}/a", accept=TABLE),
    Ask("update it without a revision", "PUT", f"{MAPS}/a", cm("a", {"k": "w"})),
    Ask("update it with a stale revision", "PUT", f"{MAPS}/a", cm("a", {"k": "z"}, resourceVersion="{a.rv}")),
    Ask("update it with another uid", "PUT", f"{MAPS}/a", cm("a", uid="11111111-2222-3333-4444-555555555555")),
    Ask("update it under another name", "PUT", f"{MAPS}/a", cm("b")),
    Ask("update a missing one", "PUT", f"{MAPS}/none", cm("none")),
    Ask("merge patch it", "PATCH", f"{MAPS}/a", {"data": {"m": "1", "k": None}}, MERGE),
    Ask("merge patch with a number", "PATCH", f"{MAPS}/a", {"data": {"m": 1}}, MERGE),
    Ask("merge patch with a list", "PATCH", f"{MAPS}/a", [], MERGE),
    Ask("merge patch a stale revision", "PATCH", f"{MAPS}/a", {"metadata": {"resourceVersion": "{a.rv}"}}, MERGE),
    Ask("merge patch of its name", "PATCH", f"{MAPS}/a", {"metadata": {"name": "b"}}, MERGE),
    Ask("merge patch of its uid", "PATCH", f"{MAPS}/a", {"metadata": {"uid": "x"}}, MERGE),
    Ask("merge patch a missing one", "PATCH", f"{MAPS}/none", {}, MERGE),
    Ask("merge patch of an unknown field", "PATCH", f"{MAPS}/a?{STRICT}", {"spec": {"x": 1}}, MERGE),
    Ask("strategic patch it", "PATCH", f"{MAPS}/a", {"metadata": {"labels": {"app": None, "b": "c"}}}, STRATEGIC),
    Ask("strategic patch with a number", "PATCH", f"{MAPS}/a", {"data": {"m": 1}}, STRATEGIC),
    Ask("strategic patch with text for a map", "PATCH", f"{MAPS}/a", {"data": "x"}, STRATEGIC),
    Ask("strategic patch with text for finalizers", "PATCH", f"{MAPS}/a", {"metadata": {"finalizers": "x"}}, STRATEGIC),
    Ask("strategic patch with a wrong directive", "PATCH", f"{MAPS}/a", {"data": {"$patch": "drop"}}, STRATEGIC),
    Ask("strategic patch with a list", "PATCH", f"{MAPS}/a", [], STRATEGIC),
    Ask("JSON patch it", "PATCH", f"{MAPS}/a", [op("add", "/data/j", value="1")], JSON_PATCH),
    Ask("JSON patch: replace a missing key", "PATCH", f"{MAPS}/a", [op("replace", "/data/no", value="1")], JSON_PATCH),
    Ask("JSON patch: remove a missing key", "PATCH", f"{MAPS}/a", [op("remove", "/data/nothing")], JSON_PATCH),
    Ask("JSON patch: add below nothing", "PATCH", f"{MAPS}/a", [op("add", "/no/no", value="1")], JSON_PATCH),
    Ask("JSON patch: a test that fails", "PATCH", f"{MAPS}/a", [op("test", "/data/j", value="2")], JSON_PATCH),
    Ask("JSON patch: an unknown operation", "PATCH", f"{MAPS}/a", [op("twist", "/data/j")], JSON_PATCH),
    Ask("JSON patch with an object", "PATCH", f"{MAPS}/a", {"op": "add"}, JSON_PATCH),
    Ask("patch of another media type", "PATCH", f"{MAPS}/a", {}),
    Ask("apply without a manager", "PATCH", f"{MAPS}/a", cm("a"), APPLY),
    Ask("apply it", "PATCH", f"{MAPS}/a?fieldManager=one", cm("a", {"mine": "1"}), APPLY),
    Ask("apply what another owns", "PATCH", f"{MAPS}/a?fieldManager=two", cm("a", {"mine": "2"}), APPLY),
    Ask("apply it by force", "PATCH", f"{MAPS}/a?fieldManager=two&force=true", cm("a", {"mine": "2"}), APPLY),
    Ask("apply less", "PATCH", f"{MAPS}/a?fieldManager=two", cm("a"), APPLY),
    Ask("apply a new one", "PATCH", f"{MAPS}/new?fieldManager=one", cm("new", {"k": "v"}), APPLY),
    Ask("apply a wrong type", "PATCH", f"{MAPS}/a?fieldManager=one", cm("a", {"k": 1}), APPLY),
    Ask("apply an unknown field", "PATCH", f"{MAPS}/a?fieldManager=one", {**cm("a"), "spec": {"x": 1}}, APPLY),
    Ask("apply with managedFields", "PATCH", f"{MAPS}/a?fieldManager=one", cm("a", managedFields=[{}]), APPLY),
    Ask("force of a merge patch", "PATCH", f"{MAPS}/a?force=true", {}, MERGE),
    Ask("list", "GET", f"{MAPS}"),
    Ask("list by label", "GET", f"{MAPS}?labelSelector=b%3Dc"),
    Ask("list by a bad label selector", "GET", f"{MAPS}?labelSelector=a%20b"),
    Ask("list by field", "GET", f"{MAPS}?fieldSelector=metadata.name%3Dnew"),
    Ask("list by a field that cannot be selected", "GET", f"{MAPS}?fieldSelector=data.k%3Dv"),
    Ask("list with a limit", "GET", f"{MAPS}?limit=1"),
    Ask("list with a bad limit", "GET", f"{MAPS}?limit=x"),
    Ask("list with a bad continue", "GET", f"{MAPS}?continue=x"),
    Ask("list as a table", "GET", MAPS, accept=TABLE),
    Ask("list in a missing namespace", "GET", f"{NS}/none/configmaps"),
    Ask("list of a bad revision", "GET", f"{MAPS}?resourceVersion=x"),
    Ask("watch what happened", "GET", MAPS + "?watch=true&resourceVersion={a.rv}&timeoutSeconds=1"),
    Ask("watch by label", "GET", MAPS + "?watch=true&resourceVersion={a.rv}&timeoutSeconds=1&labelSelector=b"),
    Ask("watch a bad revision", "GET", f"{MAPS}?watch=true&resourceVersion=x"),
    Ask("delete with a wrong uid", "DELETE", f"{MAPS}/a", {"preconditions": {"uid": "x"}}),
    Ask("delete with two policies", "DELETE", f"{MAPS}/a", {"propagationPolicy": "Orphan", "orphanDependents": True}),
    Ask("delete with a bad policy", "DELETE", f"{MAPS}/a?propagationPolicy=Maybe"),
    Ask("delete it, dry", "DELETE", f"{MAPS}/new?dryRun=All"),
    Ask("delete it", "DELETE", f"{MAPS}/new"),
    Ask("delete it again", "DELETE", f"{MAPS}/new"),
    Ask("delete one with a finalizer: create", "POST", MAPS, cm("held", finalizers=["x.io/a"])),
    Ask("delete one with a finalizer", "DELETE", f"{MAPS}/held"),
    Ask(
        "add a finalizer while it goes",
        "PATCH",
        f"{MAPS}/held",
        {"metadata": {"finalizers": ["x.io/a", "x.io/b"]}},
        MERGE,
    ),
    Ask("take the last finalizer", "PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, MERGE),
    Ask("it is gone", "GET", f"{MAPS}/held"),
    Ask("delete the collection by label", "DELETE", f"{MAPS}?labelSelector=b%3Dc"),
    Ask("delete the collection", "DELETE", MAPS),
    Ask("delete the empty collection", "DELETE", MAPS),
    Ask("post to an object", "POST", f"{MAPS}/a", cm("a")),
    Ask("put to a collection", "PUT", MAPS, cm("a")),
    Ask("an unknown resource", "GET", f"{NS}/like/nothings"),
    Ask("an unknown group", "GET", "/apis/none.example.com/v1/things"),
    Ask("an unknown path", "GET", "/nowhere"),
    Ask("an unknown subresource", "GET", f"{MAPS}/a/status"),
]

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
OTHER_SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}}
SECRETS_TABLE = [
    Ask("create a Secret", "POST", SECRETS, {**SECRET, "stringData": {"a": "x"}, "data": {"a": "eQ==", "b": "eg=="}}),
    Ask("create a Secret that is not base64", "POST", SECRETS, {**OTHER_SECRET, "data": {"a": "?"}}),
    Ask("merge patch its stringData", "PATCH", f"{SECRETS}/s", {"stringData": {"c": "y"}}, MERGE),
    Ask("JSON patch its stringData", "PATCH", f"{SECRETS}/s", [op("add", "/stringData", value={"d": "z"})], JSON_PATCH),
    Ask("strategic patch its stringData", "PATCH", f"{SECRETS}/s", {"stringData": {"e": "y"}}, STRATEGIC),
    Ask("update it without a type", "PUT", f"{SECRETS}/s", {**SECRET, "stringData": {"f": "1"}}),
    Ask("merge patch its type away", "PATCH", f"{SECRETS}/s", {"type": None}, MERGE),
    Ask("change its type", "PATCH", f"{SECRETS}/s", {"type": "other"}, MERGE),
    Ask("apply a Secret", "PATCH", f"{SECRETS}/t?fieldManager=one", {**OTHER_SECRET, "stringData": {"a": "x"}}, APPLY),
    Ask("apply it with data", "PATCH", f"{SECRETS}/t?fieldManager=one", {**OTHER_SECRET, "data": {"a": "eQ=="}}, APPLY),
    Ask("freeze it", "PATCH", f"{SECRETS}/t", {"immutable": True}, MERGE),
    Ask("change it frozen", "PATCH", f"{SECRETS}/t", {"stringData": {"a": "1"}}, MERGE),
    Ask("list Secrets as a table", "GET", SECRETS, accept=TABLE),
]

WIDGETS_TABLE = [
    Ask("create a custom object", "POST", WIDGETS, w({"size": 1, "parts": [{"id": "a"}]}), keep="w"),
    Ask("create one without what is required", "POST", WIDGETS, x({})),
    Ask("create one with much wrong", "POST", WIDGETS, x({"size": 10, "color": "green", "name": "Toolong1"})),
    Ask("create one with wrong types", "POST", WIDGETS, x({"size": "1", "tags": []})),
    Ask("create one with parts twice", "POST", WIDGETS, x({"size": 1, "parts": [{"id": "a"}, {"id": "a"}]})),
    Ask("create one with an unknown field, strict", "POST", f"{WIDGETS}?{STRICT}", x({"size": 1, "no": 1})),
    Ask("create one with an unknown field", "POST", f"{WIDGETS}?dryRun=All", x({"size": 1, "no": 1})),
    Ask("create one of another version", "POST", WIDGETS, {**x({"size": 1}), "apiVersion": "like.example.com/v2"}),
    Ask("create one with a bad name", "POST", WIDGETS, widget("X_", {"size": 1})),
    Ask("update it without a revision, custom", "PUT", f"{WIDGETS}/w", w({"size": 2})),
    Ask("update it with a bad revision, custom", "PUT", f"{WIDGETS}/w", w({"size": 2}, resourceVersion="x")),
    Ask("update it with its revision, custom", "PUT", f"{WIDGETS}/w", w({"size": 2}, resourceVersion="{w.rv}")),
    Ask("update it with a stale revision, custom", "PUT", f"{WIDGETS}/w", w({"size": 3}, resourceVersion="{w.rv}")),
    Ask("update a missing one, custom", "PUT", f"{WIDGETS}/none", widget("none", {"size": 3})),
    Ask(
        "update a missing one with a revision, custom",
        "PUT",
        f"{WIDGETS}/none",
        widget("none", {"size": 3}, resourceVersion="5"),
    ),
    Ask(
        "update its status without a revision",
        "PUT",
        f"{WIDGETS}/w/status",
        {**w({"size": 2}), "status": {"phase": "A"}},
    ),
    Ask(
        "merge patch its status", "PATCH", f"{WIDGETS}/w/status", {"status": {"phase": "B"}, "spec": {"size": 5}}, MERGE
    ),
    Ask("merge patch a custom object", "PATCH", f"{WIDGETS}/w", {"spec": {"size": 4, "no": 1}}, MERGE),
    Ask("merge patch one to be invalid", "PATCH", f"{WIDGETS}/w", {"spec": {"size": 40}}, MERGE),
    Ask("merge patch an unknown field, strict", "PATCH", f"{WIDGETS}/w?{STRICT}", {"spec": {"no": 1}}, MERGE),
    Ask("strategic patch a custom object", "PATCH", f"{WIDGETS}/w", {}, STRATEGIC),
    Ask(
        "apply a custom object",
        "PATCH",
        f"{WIDGETS}/w?fieldManager=one&force=true",
        w({"size": 4, "parts": [{"id": "b", "weight": 1}]}),
        APPLY,
    ),
    Ask(
        "apply with parts twice",
        "PATCH",
        f"{WIDGETS}/w?fieldManager=one",
        w({"size": 4, "parts": [{"id": "b"}, {"id": "b"}]}),
        APPLY,
    ),
    Ask("apply an invalid one", "PATCH", f"{WIDGETS}/w?fieldManager=one", w({"size": 40}), APPLY),
    Ask("apply a wrong type, custom", "PATCH", f"{WIDGETS}/w?fieldManager=one", w({"size": "x"}), APPLY),
    Ask("apply a map for text, custom", "PATCH", f"{WIDGETS}/w?fieldManager=one", w({"name": {"a": 1}}), APPLY),
    Ask("apply a list for a map, custom", "PATCH", f"{WIDGETS}/w?fieldManager=one", w({"tags": ["a"]}), APPLY),
    Ask("apply text for a list, custom", "PATCH", f"{WIDGETS}/w?fieldManager=one", w({"parts": "x"}), APPLY),
    Ask("merge patch a label of a number, custom", "PATCH", f"{WIDGETS}/w", {"metadata": {"labels": {"a": 1}}}, MERGE),
    Ask("list custom objects as a table", "GET", WIDGETS, accept=TABLE),
    Ask("delete a custom object", "DELETE", f"{WIDGETS}/w"),
]

CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
BINDING = {
    **ROLE,
    "kind": "RoleBinding",
    "metadata": {"name": "rb"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    "subjects": [{"kind": "User", "name": "u"}],
}
NO_VERBS = {"apiGroups": [""], "resources": ["pods"], "verbs": []}
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "like-two"}}
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}}
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/like/leases"

OTHERS = [
    Ask("create a PriorityClass", "POST", CLASSES, CLASS),
    Ask("create one that is too high", "POST", CLASSES, {**CLASS, "metadata": {"name": "top"}, "value": 2_000_000_000}),
    Ask("change its value", "PATCH", f"{CLASSES}/high", {"value": 8}, MERGE),
    Ask("describe it", "PATCH", f"{CLASSES}/high", {"description": "d"}, STRATEGIC),
    Ask("update it without a revision, class", "PUT", f"{CLASSES}/high", CLASS),
    Ask("list classes as a table", "GET", f"{CLASSES}?fieldSelector=metadata.name%3Dhigh", accept=TABLE),
    Ask("delete the class", "DELETE", f"{CLASSES}/high"),
    Ask("create a Role", "POST", ROLES, {**ROLE, "rules": [RULE]}),
    Ask("create a Role without verbs", "POST", ROLES, {**ROLE, "metadata": {"name": "q"}, "rules": [NO_VERBS]}),
    Ask("create a Role with text for rules", "POST", ROLES, {**ROLE, "rules": "x"}),
    Ask("update it without a revision, role", "PUT", f"{ROLES}/r", {**ROLE, "rules": []}),
    Ask("create a RoleBinding", "POST", f"{RBAC}/namespaces/like/rolebindings", BINDING),
    Ask("change its roleRef", "PATCH", f"{RBAC}/namespaces/like/rolebindings/rb", {"roleRef": {"name": "s"}}, MERGE),
    Ask("create a Namespace", "POST", NS, NAMESPACE),
    Ask("create a Namespace with a long name", "POST", NS, {**NAMESPACE, "metadata": {"name": "n" * 64}}),
    Ask("create a Namespace with a dot", "POST", NS, {**NAMESPACE, "metadata": {"name": "a.b"}}),
    Ask("update it without a revision, namespace", "PUT", f"{NS}/like-two", NAMESPACE),
    Ask("delete the default Namespace", "DELETE", f"{NS}/default"),
    Ask("delete the Namespace", "DELETE", f"{NS}/like-two"),
    Ask("create in it", "POST", f"{NS}/like-two/configmaps", cm("late")),
    Ask("delete all Namespaces", "DELETE", NS),
    Ask("create a ServiceAccount", "POST", f"{NS}/like/serviceaccounts", ACCOUNT),
    Ask("create a Lease", "POST", LEASES, {**LEASE, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 10}}),
    Ask(
        "create a Lease that lasts no time",
        "POST",
        LEASES,
        {**LEASE, "metadata": {"name": "m"}, "spec": {"leaseDurationSeconds": 0}},
    ),
    Ask("update it without a revision, lease", "PUT", f"{LEASES}/l", LEASE),
    Ask("get the CRD's names", "GET", f"{CRDS}/widgets.like.example.com", accept=TABLE),
    Ask("create a CRD with a wrong name", "POST", CRDS, {**CRD, "metadata": {"name": "gadgets.like.example.com"}}),
    Ask("update the CRD without a revision", "PUT", f"{CRDS}/widgets.like.example.com", CRD),
    Ask("change the CRD's scope", "PATCH", f"{CRDS}/widgets.like.example.com", {"spec": {"scope": "Cluster"}}, MERGE),
    Ask(
        "ask who may",
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "like"}},
        },
    ),
]

TABLE_OF_ASKS = [*CONFIG_MAPS, *SECRETS_TABLE, *WIDGETS_TABLE, *OTHERS]
