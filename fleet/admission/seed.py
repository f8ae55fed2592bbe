"""The content of a fresh hub: namespaces, roles, and the kinds that Fleet brings, as CRDs.

Idempotent, and nothing but a few lists on every start after the first. A later change of an administrator stays; a CRD
of Fleet's own without such a change follows the version of Fleet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

from api.engine.crd import GROUP, RESOURCE, crd_of
from api.engine.kind import Kind
from api.engine.status import StatusError
from api.objects.objects import Objects
from api.objects.writing import Options, User
from fleet.admission.internal import INTERNAL_GROUPS
from fleet.values.ports import Body
from fleet.values.wellknown import SYSTEM_USER
from fleet.wellknown import ANNOTATION_SEEDED, CONFIG, FIELD_MANAGER, HUB_CONFIG, SYSTEM_NAMESPACE, SYSTEM_NAMESPACES
from fleet.wellknown.readyroles import JOB_LOGS, READY_ROLES, SHELLS

NAMESPACES = ("default", *SYSTEM_NAMESPACES)

_OPTIONS = Options(user=User(SYSTEM_USER, ("system:masters",), hub=True), manager=FIELD_MANAGER)
_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Body:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


# By name: "*" would take their statuses in, which are the controllers'.
_KUBEFLOW_JOBS = ["jaxjobs", "mpijobs", "paddlejobs", "pytorchjobs", "pytorchjobs/scale", "tfjobs", "xgboostjobs"]
_JOBS = [_rule(["kubeflow.org", "batch"], ["*"], [*_READ])]
# Of the other kinds that users write: Kubernetes' own as in its roles of the same names, and the kinds that Fleet
# brings a declaration of, by the names of their CRDs.
_WORKLOADS = {
    "apps": [
        "daemonsets",
        "deployments",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ],
    "argoproj.io": ["workflows"],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["cronjobs"],
    "batch.volcano.sh": ["jobs"],
    "jobset.x-k8s.io": ["jobsets"],
    "leaderworkerset.x-k8s.io": ["leaderworkersets"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
    "ray.io": ["rayclusters", "rayjobs"],
    "resource.k8s.io": ["resourceclaims", "resourceclaimtemplates"],
    "sparkoperator.k8s.io": ["sparkapplications"],
    "trainer.kubeflow.org": ["trainjobs"],
}
_VIEW = [
    _rule(
        [""],
        [
            "configmaps",
            "endpoints",
            "events",
            "namespaces",
            "persistentvolumeclaims",
            "pods",
            "pods/log",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "serviceaccounts",
            "services",
            "resourcequotas",
            "limitranges",
        ],
        _READ,
    ),
    _rule(["events.k8s.io"], ["events"], _READ),
    *_JOBS,
    *JOB_LOGS,
    *(
        _rule([group], [*names, *(f"{name}/status" for name in names if "/" not in name)], _READ)
        for group, names in _WORKLOADS.items()
    ),
    _rule(["apps"], ["controllerrevisions"], _READ),
    _rule(["discovery.k8s.io"], ["endpointslices"], _READ),
    _rule(["policy.one.alibabacloud.com", "policy.karmada.io"], ["propagationpolicies", "overridepolicies"], _READ),
    _rule(["work.karmada.io"], ["resourcebindings", "resourcebindings/status"], _READ),
    _rule(["scheduling.x-k8s.io"], ["queueunits", "queueunits/status", "queues"], _READ),
    _rule([CONFIG], ["notificationreceivers"], _READ),
]
_EDIT = [
    *_VIEW,
    SHELLS,
    _rule(
        [""],
        [
            "configmaps",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
        ],
        [*_READ, *_WRITE],
    ),
    _rule([""], ["events"], ["create", "patch", "update"]),
    _rule(["kubeflow.org"], _KUBEFLOW_JOBS, [*_READ, *_WRITE]),
    _rule(["batch"], ["jobs"], [*_READ, *_WRITE]),
    *(_rule([group], names, [*_READ, *_WRITE]) for group, names in _WORKLOADS.items()),
    _rule(
        ["policy.one.alibabacloud.com", "policy.karmada.io"],
        ["propagationpolicies", "overridepolicies"],
        [*_READ, *_WRITE],
    ),
]
_ADMIN = [
    *_EDIT,
    _rule([_RBAC], ["roles", "rolebindings"], [*_READ, *_WRITE]),
    _rule(["authorization.k8s.io"], ["localsubjectaccessreviews"], ["create"]),
    _rule([CONFIG], ["notificationreceivers"], [*_READ, *_WRITE]),
]
_BASIC = [
    _rule(["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
    _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
]
_PUBLIC_PATHS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY_PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC_PATHS]

_ROLES: dict[str, list[Body]] = {
    "cluster-admin": [_rule(["*"], ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}],
    "admin": _ADMIN,
    "edit": _EDIT,
    "view": _VIEW,
    **READY_ROLES,
    "system:basic-user": _BASIC,
    "system:discovery": [{"nonResourceURLs": _DISCOVERY_PATHS, "verbs": ["get"]}],
    "system:public-info-viewer": [{"nonResourceURLs": _PUBLIC_PATHS, "verbs": ["get"]}],
}
_BINDINGS = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
}


async def seed(objects: Objects, own: Iterable[Kind] | None = None) -> None:
    """Bring everything that is missing into being. Any number of processes may do so at once. `own`: the kinds of this
    version of Fleet, where the registry has followed the stored definitions already, which may be older."""
    await _create_missing(objects, "", "namespaces", [_object("v1", "Namespace", name) for name in NAMESPACES])
    accounts = [_object("v1", "ServiceAccount", "default", namespace) for namespace in NAMESPACES]
    await _create_missing(objects, "", "serviceaccounts", accounts)
    roles = [{**_role_object("ClusterRole", name), "rules": rules} for name, rules in _ROLES.items()]
    await _create_missing(objects, _RBAC, "clusterroles", roles)
    await _create_missing(objects, _RBAC, "clusterrolebindings", [_binding(name) for name in _BINDINGS])
    await _seed_crds(objects, objects.registry if own is None else own)


async def hub_of_database(objects: Objects, hub_id: str, *, record: bool = True) -> str:
    """The id of the hub that the database is of: `hub_id` where none was recorded yet. With `record` it is from now on.
    An id from another data directory would not know what this hub has put into members."""
    kind = objects.registry.need("", "configmaps")
    known = await objects.find(kind, SYSTEM_NAMESPACE, HUB_CONFIG)
    if known is None and record:
        body = _object("v1", "ConfigMap", HUB_CONFIG, SYSTEM_NAMESPACE)
        await _create(objects, kind, {**body, "data": {"id": hub_id}})
        known = await objects.find(kind, SYSTEM_NAMESPACE, HUB_CONFIG)
    return str(((known or {}).get("data") or {}).get("id") or hub_id)


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Body:
    metadata: Body = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _role_object(kind: str, name: str) -> Body:
    body = _object(f"{_RBAC}/v1", kind, name)
    body["metadata"]["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    return body


def _binding(name: str) -> Body:
    return {
        **_role_object("ClusterRoleBinding", name),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in _BINDINGS[name]],
    }


async def _create_missing(objects: Objects, group: str, resource: str, bodies: list[Body]) -> None:
    kind = objects.registry.need(group, resource)
    there = {_name(body) for body in await objects.list(kind)}
    for body in bodies:
        if _name(body) not in there:
            await _create(objects, kind, body)


def _name(body: Body) -> tuple[str, str]:
    return body["metadata"].get("namespace") or "", body["metadata"]["name"]


async def _create(objects: Objects, kind: Kind, body: Body) -> None:
    try:
        await objects.create(kind, body["metadata"].get("namespace") or "", body, _OPTIONS)
    except StatusError as error:
        if error.code != 409:  # another process was first
            raise


async def _seed_crds(objects: Objects, own: Iterable[Kind]) -> None:
    """Custom kinds as CRD objects. The hub's own ones always follow the version of Fleet."""
    crds = objects.registry.need(GROUP, RESOURCE)
    there = {body["metadata"]["name"]: body for body in await objects.list(crds)}
    for kind in [kind for kind in own if not kind.builtin]:
        body = crd_of(kind)
        body["metadata"]["annotations"] = {ANNOTATION_SEEDED: _digest(body["spec"])}
        stored = there.get(body["metadata"]["name"])
        if stored is None:
            await _create(objects, crds, body)
            continue
        seeded = (stored["metadata"].get("annotations") or {}).get(ANNOTATION_SEEDED)
        untouched = seeded == _digest(stored["spec"]) or kind.group in INTERNAL_GROUPS
        if untouched and stored["spec"] != body["spec"]:
            await objects.change(crds, "", body["metadata"]["name"], _replaces(body), _OPTIONS)


def _replaces(body: Body) -> Any:
    def change(stored: Body) -> Body:
        stored["spec"] = body["spec"]
        stored["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
        return stored

    return change


def _digest(spec: Body) -> str:
    return hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
