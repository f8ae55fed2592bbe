"""What tests/security/test_rbac_like_kubernetes.py puts on both servers, and the reviews that it asks both for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
API = f"/apis/{GROUP}/v1"
A, B = "tenant-a", "tenant-b"


def rule(verbs: str, resources: str = "", groups: str = "", names: str = "", urls: str = "") -> Body:
    """Lists given as words; "core" is the group without a name."""
    out: Body = {"verbs": verbs.split()}
    if resources:
        out["apiGroups"] = [group if group != "core" else "" for group in (groups or "core").split()]
        out["resources"] = resources.split()
    if names:
        out["resourceNames"] = names.split()
    if urls:
        out["nonResourceURLs"] = urls.split()
    return out


RULES: dict[str, list[Body]] = {
    "read": [rule("get list watch", "pods configmaps")],
    "write": [rule("create update patch delete", "configmaps")],
    "collection": [rule("deletecollection", "configmaps")],
    "log": [rule("get", "pods/log")],
    "no-such-wildcard": [rule("get", "pods/*")],
    "status-of-all": [rule("get patch", "*/status", "*")],
    "scale-of-all": [rule("get update", "*/scale", "apps batch")],
    "all-of-core": [rule("get list", "*")],
    "jobs-of-all-groups": [rule("list create", "jobs", "*")],
    "all-verbs": [rule("*", "jobs", "batch")],
    "named": [rule("get update list watch delete", "configmaps", names="one two")],
    "named-and-create": [rule("create deletecollection", "configmaps", names="one")],
    "all-but-urls": [rule("*", "*", "*")],
    "two-rules": [rule("get", "secrets"), rule("list", "nodes namespaces"), rule("bind", "clusterroles", GROUP)],
    "case": [rule("GET List", "Pods pods", "Core core")],
    "proxy": [rule("get create", "nodes/proxy services/proxy pods/proxy")],
    "nothing": [],
}
PATH_RULES: dict[str, list[Body]] = {
    "metrics": [rule("get", urls="/metrics /logs/*")],
    "every-path": [rule("post", urls="*")],
    "stars": [rule("get", urls="/a** /b*c")],
    "mixed": [rule("get", urls="/metrics"), rule("get", "pods")],
}


@dataclass(frozen=True)
class Wanted:
    """What a SubjectAccessReview asks for: a resource, or a path."""

    verb: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    group: str = ""
    path: str | None = None

    def attributes(self) -> Body:
        if self.path is not None:
            return {"nonResourceAttributes": {"verb": self.verb, "path": self.path}}
        resource, _, subresource = self.resource.partition("/")
        return {
            "resourceAttributes": {
                "verb": self.verb,
                "group": self.group,
                "resource": resource,
                "subresource": subresource,
                "namespace": self.namespace,
                "name": self.name,
            }
        }


WANTED = [
    *(Wanted(verb, "pods", where) for verb in ("get", "list", "GET", "*") for where in (A, B, "")),
    *(Wanted(verb, "configmaps", A, name) for name in ("one", "no", "") for verb in ("get", "update", "delete")),
    *(Wanted("list", "configmaps", A, name) for name in ("one", "no", "")),
    *(Wanted(verb, "configmaps", A) for verb in ("create", "deletecollection", "patch")),
    Wanted("create", "configmaps", A, "one"),
    Wanted("get", "pods/log", A, "p"),
    Wanted("get", "pods/log", "", "p"),
    Wanted("get", "pods/status", A, "p"),
    Wanted("get", "pods/*", A, "p"),
    Wanted("patch", "deployments/status", A, "d", "apps"),
    Wanted("update", "deployments/scale", A, "d", "apps"),
    Wanted("update", "jobs/scale", A, "d", "kubeflow.org"),
    Wanted("get", "scale", A, "d", "apps"),
    Wanted("list", "jobs", A, group="batch"),
    Wanted("create", "jobs", A, group="kubeflow.org"),
    Wanted("suspend", "jobs", A, "j", "batch"),
    Wanted("list", "jobs/status", A, "j", "batch"),
    Wanted("get", "secrets", A, "s"),
    Wanted("list", "nodes"),
    Wanted("list", "namespaces"),
    Wanted("get", "namespaces", A, A),
    Wanted("get", "nodes/proxy", "", "n"),
    Wanted("create", "services/proxy", A, "s"),
    Wanted("bind", "clusterroles", A, "edit", GROUP),
    Wanted("*", "*", A, group="*"),
    Wanted("get", "", A),
]
PATHS_WANTED = [
    *(
        Wanted(verb, path=path)
        for verb in ("get", "post")
        for path in (
            "/metrics",
            "/metrics/",
            "/logs",
            "/logs/",
            "/logs/x",
            "/a",
            "/ab",
            "/b",
            "/b*c",
            "/bxc",
            "/",
            "",
            "*",
            "/healthz",
        )
    ),
]


def role(name: str, rules: list[Body] | None, namespace: str = "", **more: Any) -> tuple[str, Body]:
    """(path to post to, body) of a Role, or of a ClusterRole without a namespace."""
    metadata: Body = {"name": name, **more.pop("metadata", {})}
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Role" if namespace else "ClusterRole", "metadata": metadata, **more}
    if rules is not None:
        body["rules"] = rules
    return (f"{API}/namespaces/{namespace}/roles" if namespace else f"{API}/clusterroles"), body


def user(name: str) -> Body:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> Body:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(name: str, namespace: str = "") -> Body:
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}


def binding(name: str, kind: str, to: str, subjects: list[Body], namespace: str = "") -> tuple[str, Body]:
    """(path to post to, body) of a RoleBinding, or of a ClusterRoleBinding without a namespace."""
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": to},
        "subjects": subjects,
    }
    return (f"{API}/namespaces/{namespace}/rolebindings" if namespace else f"{API}/clusterrolebindings"), body


def selects(**labels: str) -> Body:
    return {"matchLabels": labels}


def matches(key: str, operator: str, *values: str) -> Body:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def _labelled(**labels: str) -> Body:
    return {"labels": labels}


# name -> selectors of an aggregated role, over part-pods (app=x, tier=one), part-maps (app=y) and part-jobs (app=)
AGGREGATED: dict[str, list[Body]] = {
    "labels": [selects(app="x")],
    "two-labels": [selects(app="x", tier="two")],
    "in": [matches("app", "In", "x", "y")],
    "not-in": [
        {
            "matchExpressions": [
                {"key": "app", "operator": "NotIn", "values": ["x"]},
                {"key": "app", "operator": "Exists"},
            ]
        }
    ],
    "exists": [matches("tier", "Exists")],
    "not-there": [{"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}],
    "not-there-but-app": [
        {"matchExpressions": [{"key": "app", "operator": "Exists"}, {"key": "tier", "operator": "DoesNotExist"}]}
    ],
    "several": [selects(app="x"), selects(app="y")],
    "everything": [{}],
    "nested": [selects(level="one")],
    "circle-1": [selects(circle="2"), selects(app="x")],
    "circle-2": [selects(circle="1")],
    "nobody": [selects(app="none")],
}
_LEVEL = {"several": _labelled(level="one"), "circle-1": _labelled(circle="1"), "circle-2": _labelled(circle="2")}
_WITHOUT_OWN = ("nobody", "two-labels", "not-there", "circle-1", "circle-2")
OWN_RULE = rule("get", "own-rule-of-an-aggregated-role")


def world() -> Iterator[tuple[str, Body]]:
    """Everything that both servers are given, in order, by an administrator."""
    for name in (A, B):
        yield "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for where, name in ((A, "one"), (A, "two"), (B, "other")):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        yield f"/api/v1/namespaces/{where}/configmaps", body
    for name, rules in RULES.items():
        yield role(name, rules, A)
        yield role(f"c-{name}", rules)
        yield binding(f"role-{name}", "Role", name, [user(f"role-{name}")], A)
        yield binding(f"in-{name}", "ClusterRole", f"c-{name}", [user(f"in-{name}")], A)
        yield binding(f"all-{name}", "ClusterRole", f"c-{name}", [user(f"all-{name}")])
    for name, rules in PATH_RULES.items():
        yield role(f"c-{name}", rules)
        yield binding(f"in-{name}", "ClusterRole", f"c-{name}", [user(f"in-{name}")], A)
        yield binding(f"all-{name}", "ClusterRole", f"c-{name}", [user(f"all-{name}")])
    subjects = [
        account("here"),
        account("there", B),
        account("default", A),
        group("team"),
        user("odd:name@x"),
        user("*"),
    ]
    yield binding("many", "Role", "read", subjects, A)
    yield binding("accounts", "ClusterRole", "c-log", [account("wide", B), group(f"system:serviceaccounts:{B}")])
    yield binding("known", "Role", "read", [group("system:authenticated")], B)
    yield binding("missing", "Role", "gone", [user("of-nothing")], A)
    yield binding("missing", "ClusterRole", "gone", [user("of-nothing")])
    yield binding("same-name", "ClusterRole", "read", [user("same-name")], A)  # a Role "read" exists, no ClusterRole
    yield role("part-pods", [rule("get", "pods")], metadata=_labelled(app="x", tier="one"))
    yield role("part-maps", [rule("get", "configmaps")], metadata=_labelled(app="y"))
    yield role("part-jobs", [rule("get", "jobs", "batch")], metadata=_labelled(app=""))
    for name, selectors in AGGREGATED.items():
        aggregation = {"clusterRoleSelectors": selectors}
        # The controller overwrites what a role had, but not with nothing, and roles in a circle keep each other's.
        own = [] if name in _WITHOUT_OWN else [OWN_RULE]
        yield role(f"sum-{name}", own, metadata=_LEVEL.get(name, {}), aggregationRule=aggregation)
        yield binding(f"sum-{name}", "ClusterRole", f"sum-{name}", [user(f"sum-{name}")])
    yield from _grantors()


ROLES_OF_A = f"{API}/namespaces/{A}/roles"
_MANAGE = "create update patch get list delete"


def _grantors() -> Iterator[tuple[str, Body]]:
    """Users who may write roles and bindings, and hold some rights besides."""
    writes, reads = rule(_MANAGE, "roles rolebindings", GROUP), rule("get list", "pods")
    yield role("granter", [writes, reads, rule("*", "jobs", "batch"), rule("get", "secrets", names="s t")], A)
    yield binding("granter", "Role", "granter", [user("granter")], A)
    yield role("escalator", [writes, rule("escalate", "roles", GROUP)], A)
    yield binding("escalator", "Role", "escalator", [user("escalator")], A)
    yield role("named-escalator", [writes, rule("escalate", "roles", GROUP, names="special")], A)
    yield binding("named-escalator", "Role", "named-escalator", [user("named-escalator")], A)
    yield role("binder", [writes, rule("bind", "roles clusterroles", GROUP, names="write c-write")], A)
    yield binding("binder", "Role", "binder", [user("binder")], A)
    wide = rule(_MANAGE, "clusterroles clusterrolebindings", GROUP)
    yield role("wide", [wide, rule("get", "pods"), rule("get", urls="/metrics /logs/*")])
    yield binding("wide", "ClusterRole", "wide", [user("wide")])
    yield role("victim", [rule("get", "secrets")])
    yield role("mine", [rule("get", "pods")])
    yield role("plain", [rule("get", "pods")], A)
    yield role("strong", [rule("delete", "pods")], A)
    yield binding("strong", "Role", "strong", [user("somebody")], A)
    yield role("whole", [rule("*", "*", "*"), rule("*", urls="*")])
    yield binding("whole", "ClusterRole", "whole", [user("whole")])
    yield role("root-in-a", [rule("*", "*", "*")], A)
    yield binding("root-in-a", "Role", "root-in-a", [user("root-in-a")], A)
    yield role("patcher", [rule("patch get", "configmaps")], A)
    yield binding("patcher", "Role", "patcher", [user("patcher")], A)
    yield role("one-map", [rule("get list watch", "configmaps", names="one")], A)
    yield binding("one-map", "Role", "one-map", [user("one-map")], A)
    acts = [
        rule("impersonate", "users", names="jane jané system:anonymous"),
        rule("impersonate", "groups", names="dev system:unauthenticated system:authenticated"),
        rule("impersonate", "uids", "authentication.k8s.io", "u-1"),
        rule("impersonate", "userextras/scopes", "authentication.k8s.io", "view"),
    ]
    yield role("actor", acts)
    yield binding("actor", "ClusterRole", "actor", [user("actor")])
    yield role("actor", [rule("impersonate", "serviceaccounts", names="robot")], A)
    yield binding("actor", "Role", "actor", [user("actor")], A)


def _account(namespace: str, name: str) -> tuple[str, tuple[str, ...]]:
    return f"system:serviceaccount:{namespace}:{name}", (
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
    )


# who -> (user, groups)
WHO: dict[str, tuple[str, tuple[str, ...]]] = {
    **{f"{how}-{name}": (f"{how}-{name}", ()) for name in RULES for how in ("role", "in", "all")},
    **{f"{how}-{name}": (f"{how}-{name}", ()) for name in PATH_RULES for how in ("in", "all")},
    **{f"sum-{name}": (f"sum-{name}", ()) for name in AGGREGATED},
    "account here": _account(A, "here"),
    "account here of b": _account(B, "here"),
    "account there": _account(B, "there"),
    "account there of a": _account(A, "there"),
    "account wide": _account(B, "wide"),
    "account default": _account(A, "default"),
    "account any": _account(B, "any"),
    "account without groups": (f"system:serviceaccount:{B}:any", ()),
    "group team": ("x", ("team",)),
    "group Team": ("x", ("Team",)),
    "user team": ("team", ()),
    "odd": ("odd:name@x", ()),
    "star": ("*", ()),
    "nobody": ("nobody", ()),
    "known": ("x", ("system:authenticated",)),
    "unknown": ("system:anonymous", ("system:unauthenticated",)),
    "masters": ("x", ("system:masters",)),
    "user masters": ("system:masters", ()),
    "of-nothing": ("of-nothing", ()),
    "same-name": ("same-name", ()),
    "only groups": ("", ("team",)),
}
CONCERNED = ("role-read", "in-read", "in-write", "all-write", "role-write", "account here", "group team", "known")
FEW_WANTED = [
    *(Wanted("get", resource, where) for resource in ("pods", "configmaps", "secrets") for where in (A, B, "")),
    Wanted("get", "jobs", A, "j", "batch"),
    Wanted("get", "pods/log", B, "p"),
    Wanted("get", "own-rule-of-an-aggregated-role", A),
    Wanted("delete", "clusterroles", "", "x", GROUP),
    Wanted("get", path="/metrics"),
    Wanted("get", path="/api"),
]


def wanted_of(who: str) -> list[Wanted]:
    """What is asked about one of WHO: everything that could tell rules of that kind apart."""
    how, _, name = who.partition("-")
    if how in ("role", "in", "all") and name in RULES:  # of a ClusterRole a third for each way in which it is bound
        return {"role": WANTED, "in": WANTED[::3], "all": WANTED[1::3]}[how]
    if how in ("in", "all") and name in PATH_RULES:
        return list(dict.fromkeys((*PATHS_WANTED, *FEW_WANTED)))
    return FEW_WANTED
