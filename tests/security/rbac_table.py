"""What tests/security/test_rbac_like_kubernetes.py puts on both servers and asks both: roles, bindings, requests."""

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
                "verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource,
                "namespace": self.namespace, "name": self.name,
            }
        }  # fmt: skip


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
]  # fmt: skip
PATHS_WANTED = [
    *(Wanted(verb, path=path) for verb in ("get", "post") for path in (
        "/metrics", "/metrics/", "/logs", "/logs/", "/logs/x", "/a", "/ab", "/b", "/b*c", "/bxc", "/", "", "*",
        "/healthz",
    )),
]  # fmt: skip


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
        "apiVersion": f"{GROUP}/v1", "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": to}, "subjects": subjects,
    }  # fmt: skip
    return (f"{API}/namespaces/{namespace}/rolebindings" if namespace else f"{API}/clusterrolebindings"), body


def _selects(**labels: str) -> Body:
    return {"matchLabels": labels}


def _matches(key: str, operator: str, *values: str) -> Body:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def _labelled(**labels: str) -> Body:
    return {"labels": labels}


# name -> selectors of an aggregated role, over part-pods (app=x, tier=one), part-maps (app=y) and part-jobs (app=)
AGGREGATED: dict[str, list[Body]] = {
    "labels": [_selects(app="x")],
    "two-labels": [_selects(app="x", tier="two")],
    "in": [_matches("app", "In", "x", "y")],
    "not-in": [{"matchExpressions": [
        {"key": "app", "operator": "NotIn", "values": ["x"]}, {"key": "app", "operator": "Exists"}]}],
    "exists": [_matches("tier", "Exists")],
    "not-there": [{"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}],
    "not-there-but-app": [{"matchExpressions": [
        {"key": "app", "operator": "Exists"}, {"key": "tier", "operator": "DoesNotExist"}]}],
    "several": [_selects(app="x"), _selects(app="y")],
    "everything": [{}],
    "nested": [_selects(level="one")],
    "circle-1": [_selects(circle="2"), _selects(app="x")],
    "circle-2": [_selects(circle="1")],
    "nobody": [_selects(app="none")],
}  # fmt: skip
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
        more = {"metadata": _LEVEL.get(name, {}), "aggregationRule": {"clusterRoleSelectors": selectors}}
        # The controller overwrites what a role had, but not with nothing, and roles in a circle keep each other's.
        yield role(f"sum-{name}", [] if name in _WITHOUT_OWN else [OWN_RULE], **more)
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
    "account here": _account(A, "here"), "account here of b": _account(B, "here"),
    "account there": _account(B, "there"), "account there of a": _account(A, "there"),
    "account wide": _account(B, "wide"), "account default": _account(A, "default"),
    "account any": _account(B, "any"), "account without groups": (f"system:serviceaccount:{B}:any", ()),
    "group team": ("x", ("team",)), "group Team": ("x", ("Team",)), "user team": ("team", ()),
    "odd": ("odd:name@x", ()), "star": ("*", ()), "nobody": ("nobody", ()),
    "known": ("x", ("system:authenticated",)), "unknown": ("system:anonymous", ("system:unauthenticated",)),
    "masters": ("x", ("system:masters",)), "user masters": ("system:masters", ()),
    "of-nothing": ("of-nothing", ()), "same-name": ("same-name", ()), "only groups": ("", ("team",)),
}  # fmt: skip
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
    name = who.partition("-")[2]
    if who.startswith(("role-", "in-", "all-")):
        return WANTED if name in RULES else list(dict.fromkeys((*PATHS_WANTED, *FEW_WANTED)))
    return FEW_WANTED


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
    _post("an aggregated role", "wide", role("n", None, aggregationRule={"clusterRoleSelectors": [_selects(a="b")]})),
    _post("an aggregated role", "whole", role("n", None, aggregationRule={"clusterRoleSelectors": [_selects(a="b")]})),
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
    Try("patcher: an apply that creates", "patcher", "PATCH",
        f"/api/v1/namespaces/{A}/configmaps/new?dryRun=All&fieldManager=t",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}, APPLY),
    Try("patcher: an apply of what is there", "patcher", "PATCH",
        f"/api/v1/namespaces/{A}/configmaps/one?dryRun=All&fieldManager=t",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}, APPLY),
]  # fmt: skip

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
    _bad("aggregation of an unknown operator", role("n", None, aggregationRule={
        "clusterRoleSelectors": [_matches("a", "Like", "b")]})),
    _bad("aggregation by no values", role("n", None, aggregationRule={"clusterRoleSelectors": [_matches("a", "In")]})),
    _bad("aggregation by too many values", role("n", None, aggregationRule={
        "clusterRoleSelectors": [_matches("a", "Exists", "b")]})),
    _bad("aggregation by everything", role("n", None, aggregationRule={"clusterRoleSelectors": [{}]})),
    _bad("paths and resources", role("n", [{**rule("get", "pods"), "nonResourceURLs": ["/x"]}])),
    _bad("rules without verbs", role("n", [rule("", "pods")], A)),
]  # fmt: skip

_MAPS = f"/api/v1/namespaces/{A}/configmaps"
# (method, path): asked as an administrator and as the users below
PATHS: list[tuple[str, str]] = [
    *((method, path) for method in ("GET", "DELETE", "PUT", "PATCH", "POST") for path in (
        f"/api/v1/namespaces/{A}/namespaces/{B}", f"/api/v1/namespaces/{A}/namespaces/{A}",
        f"/api/v1/namespaces/{A}/namespaces", f"/api/v1/namespaces/{A}/namespaces/{B}/status",
        f"/api/v1/namespaces/{A}/namespaces/{B}/finalize", f"/api/v1/namespaces/{A}/nodes",
        f"/api/v1/namespaces/{A}/nodes/x", f"/api/v1/namespaces/{A}/nodes/x/status",
        f"{API}/namespaces/{A}/clusterroles", f"{API}/namespaces/{A}/clusterroles/whole",
        f"{API}/namespaces/{A}/clusterrolebindings/whole", f"{API}/namespaces/{A}", f"{API}/namespaces/{A}/status",
        f"/apis/batch/v1/namespaces/{A}", "/api/v1/configmaps/one", "/api/v1/configmaps",
        f"{_MAPS}/one/status", f"{_MAPS}/one/scale", f"{_MAPS}/one/nothing", f"{_MAPS}/one/status/more",
        f"/api/v1/namespaces/{A}/status", f"/api/v1/namespaces/{A}/finalize/x", f"/api/v1/namespaces/{A}/nothing",
    )),
    *(("GET", path) for path in (
        _MAPS, f"{_MAPS}/", f"{_MAPS}/one", f"{_MAPS}/one/", f"{_MAPS}//", f"{_MAPS}//one", f"/{_MAPS}",
        f"//{_MAPS}/one",
        f"/api/v1//namespaces/{A}/configmaps", f"/api/v1/namespaces//{A}/configmaps", "/api/v1/namespaces//configmaps",
        f"/api//v1/namespaces/{A}/configmaps", f"/api/v1/namespaces/{A}//configmaps/one",
        f"/api/v1/namespaces/{A}%2Fconfigmaps", f"/api/v1/namespaces/{A}/configmaps%2Fone", f"{_MAPS}/%6Fne",
        f"/api/v1/namespaces/{A}/../{B}/configmaps", f"/api/v1/namespaces/{A}/%2e%2e/{B}/configmaps",
        f"{_MAPS}/..", f"{_MAPS}/.", f"{_MAPS}/../configmaps/one", f"/api/v1/./namespaces/{A}/configmaps",
        f"{_MAPS}/one%00", f"{_MAPS}/one;x=y", f"/API/v1/namespaces/{A}/configmaps",
        f"/api/V1/namespaces/{A}/configmaps",
        f"/api/v1/namespaces/{A}/ConfigMaps", f"/api/v1/Namespaces/{A}/configmaps", f"/api/v1/namespaces/{A.upper()}",
        f"/api/v2/namespaces/{A}/configmaps", f"/apis/v1/namespaces/{A}/configmaps",
        f"/apis//v1/namespaces/{A}/configmaps",
        f"/apis/none.example.com/v1/namespaces/{A}/things", "/api/v1/nothing", "/api/v1/namespaces",
        "/api/v1/namespaces/",
        f"/api/v1/namespaces/{A}", f"/api/v1/namespaces/{A}/", "/api/v1/", "/api/", "/apis/", f"{API}/",
        f"/apis/{GROUP}/",
        f"{_MAPS}?fieldSelector=metadata.name%3Done", f"{_MAPS}?fieldSelector=metadata.name%3Dtwo",
        f"{_MAPS}?fieldSelector=metadata.name%3D%3Done", f"{_MAPS}?fieldSelector=metadata.name!%3Done",
        f"{_MAPS}?fieldSelector=metadata.name%3Done,metadata.namespace%3D{A}",
        f"{_MAPS}?fieldSelector=metadata.namespace%3D{A},metadata.name%3Done",
        f"{_MAPS}?fieldSelector=metadata.name%3Done,metadata.name%3Dtwo", f"{_MAPS}?fieldSelector=metadata.name%3D..",
        f"{_MAPS}?fieldSelector=metadata.name%3D", f"{_MAPS}?labelSelector=metadata.name%3Done",
        f"{_MAPS}?fieldSelector=metadata.name%3Done&watch=1&timeoutSeconds=1",
        f"{_MAPS}?watch=1&timeoutSeconds=1", f"{_MAPS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dtwo",
        f"{_MAPS}/one?watch=false", "/version", "/metrics", "/nothing", "/", "/logs/x",
    )),
    ("DELETE", f"{_MAPS}?fieldSelector=metadata.name%3Dnone&dryRun=All"), ("DELETE", f"{_MAPS}?dryRun=All"),
    ("OPTIONS", _MAPS), ("OPTIONS", f"{_MAPS}/one"), ("TRACE", _MAPS), ("BREW", f"{_MAPS}/one"), ("HEAD", "/version"),
    ("POST", "/version"), ("DELETE", "/api"), ("PUT", "/apis"),
    *(("POST", path) for path in (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews",
        f"/apis/authorization.k8s.io/v1/namespaces/{A}/subjectaccessreviews",
        f"/apis/authorization.k8s.io/v1/namespaces/{A}/selfsubjectaccessreviews",
        f"/apis/authorization.k8s.io/v1/namespaces/{A}/localsubjectaccessreviews/x",
        f"/apis/authentication.k8s.io/v1/namespaces/{A}/tokenreviews", "/apis/authentication.k8s.io/v1/tokenreviews/x",
    )),
]  # fmt: skip
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
        ("impersonate-user", "jane"), ("impersonate-extra-scopes", "view"), ("impersonate-extra-scopes", "edit")],
    "another extra": [("impersonate-user", "jane"), ("impersonate-extra-other", "view")],
    "an encoded extra": [("impersonate-user", "jane"), ("impersonate-extra-s%63opes", "view")],
    "an account": [("impersonate-user", f"system:serviceaccount:{A}:robot")],
    "an account with a group": [
        ("impersonate-user", f"system:serviceaccount:{A}:robot"), ("impersonate-group", "dev")],
    "an account of another namespace": [("impersonate-user", f"system:serviceaccount:{B}:robot")],
    "another account": [("impersonate-user", f"system:serviceaccount:{A}:other")],
    "an account that is none": [("impersonate-user", f"system:serviceaccount:{A}:Robot:x")],
    "an account without a namespace": [("impersonate-user", "system:serviceaccount::robot")],
    "a name beyond ASCII": [("impersonate-user", "jané")],
}  # fmt: skip

_AT = "/apis/authorization.k8s.io/v1"
_RESOURCE = {"verb": "get", "resource": "pods", "namespace": A}
_SPEC = {"user": "u", "resourceAttributes": _RESOURCE}
# what -> (path, body)
REVIEWS: dict[str, tuple[str, Any]] = {
    "no spec": (f"{_AT}/subjectaccessreviews", {}),
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
        f"{_AT}/subjectaccessreviews", {"spec": {"user": "u", "resourceAttributes": {**_RESOURCE, "verb": ["get"]}}}),
    "a name that is null": (
        f"{_AT}/subjectaccessreviews", {"spec": {"user": "u", "resourceAttributes": {**_RESOURCE, "name": None}}}),
    "a path that is a number": (
        f"{_AT}/subjectaccessreviews", {"spec": {"user": "u", "nonResourceAttributes": {"verb": "get", "path": 1}}}),
    "both kinds of attributes": (
        f"{_AT}/subjectaccessreviews", {"spec": {**_SPEC, "nonResourceAttributes": {"verb": "get", "path": "/"}}}),
    "a name of its own": (f"{_AT}/subjectaccessreviews", {"metadata": {"name": "x"}, "spec": _SPEC}),
    "metadata that is text": (f"{_AT}/subjectaccessreviews", {"metadata": "x", "spec": _SPEC}),
    "self, no attributes": (f"{_AT}/selfsubjectaccessreviews", {"spec": {}}),
    "self, null": (f"{_AT}/selfsubjectaccessreviews", {"spec": None}),
    "rules without a namespace": (f"{_AT}/selfsubjectrulesreviews", {"spec": {}}),
    "rules of a number": (f"{_AT}/selfsubjectrulesreviews", {"spec": {"namespace": 7}}),
    "local": (f"{_AT}/namespaces/{A}/localsubjectaccessreviews", {"spec": _SPEC}),
    "local, named so": (
        f"{_AT}/namespaces/{A}/localsubjectaccessreviews", {"metadata": {"namespace": A}, "spec": _SPEC}),
    "local, named otherwise": (
        f"{_AT}/namespaces/{A}/localsubjectaccessreviews", {"metadata": {"namespace": B}, "spec": _SPEC}),
    "local about another namespace": (f"{_AT}/namespaces/{B}/localsubjectaccessreviews", {"spec": _SPEC}),
    "local about no namespace": (
        f"{_AT}/namespaces/{A}/localsubjectaccessreviews",
        {"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}}),
    "local about a path": (
        f"{_AT}/namespaces/{A}/localsubjectaccessreviews",
        {"spec": {"user": "u", "nonResourceAttributes": {"verb": "get", "path": "/"}}}),
    "a token that is a number": ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": 5}}),
    "no token": ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}}),
    "audiences that are text": (
        "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x", "audiences": "a"}}),
}  # fmt: skip
