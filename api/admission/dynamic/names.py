"""The names that expressions of webhooks and policies may use: their types, and their values for one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from api.admission.dynamic.matching import Resource, as_resource, own
from api.admission.dynamic.review import request_of
from api.objects.hooking import HookRequest
from api.objects.writing import User
from fleet.values.cel.declare import overloads
from fleet.values.cel.kubernetes import AuthorizerQuestion
from fleet.values.cel.messages import message_type
from fleet.values.cel.types import (
    AUTHORIZER,
    BOOL,
    DYN,
    INT,
    RESOURCE_CHECK,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from fleet.values.cel.values import Evaluation
from fleet.values.ports import Body

# Whether a user may do what a question says (kubernetes.Authorizer): whether it is allowed, the reason, an error.
Authorize = Callable[[User, Mapping[str, str]], tuple[bool, str, str]]
REQUESTED = "authorizer.requestResource"
_SHOWN_OF_NAMESPACE = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
)


def _struct(name: str, /, **fields: Type) -> Type:
    return Type("struct", f"kubernetes.{name}", fields=fields)


_TEXTS, _TEXT_BY_KEY = list_of(STRING), map_of(STRING, STRING)
_KIND = _struct("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE = _struct("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER = _struct("UserInfo", username=STRING, uid=STRING, groups=_TEXTS, extra=map_of(STRING, _TEXTS))
REQUEST = _struct(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
# A kube-apiserver declares times here, and has texts: a comparison with a time fails when it is evaluated.
_CONDITION = _struct(
    "NamespaceCondition", status=STRING, type=STRING, lastTransitionTime=TIMESTAMP, message=STRING, reason=STRING
)
NAMESPACE = _struct(
    "Namespace",
    metadata=_struct(
        "NamespaceMetadata",
        name=STRING,
        generateName=STRING,
        namespace=STRING,
        labels=_TEXT_BY_KEY,
        annotations=_TEXT_BY_KEY,
        UID=STRING,
        creationTimestamp=TIMESTAMP,
        deletionGracePeriodSeconds=INT,
        deletionTimestamp=TIMESTAMP,
        generation=INT,
        resourceVersion=STRING,
        finalizers=_TEXTS,
    ),
    spec=_struct("NamespaceSpec", finalizers=_TEXTS),
    status=_struct("NamespaceStatus", conditions=list_of(_CONDITION), phase=STRING),
)


# -- the values that a mutation makes

PATCH = message_type("JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN})
OBJECT = message_type("Object")


def patch_types(name: str) -> Type | None:
    """Operations of a JSON patch, and parts of an object, named by the path of their field."""
    if name == PATCH.name:
        return PATCH
    return message_type(name) if name.partition(".")[0] == OBJECT.name else None


def _escaped_key(run: Evaluation, key: str) -> str:
    run.traverse(len(key))
    return key.replace("~", "~0").replace("/", "~1")


PATCH_FUNCTIONS = {"jsonpatch.escapeKey": (overloads("jsonpatch.escapeKey", "(string) -> string"), _escaped_key)}


# -- the values of one request


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one user, as expressions ask for them (kubernetes.Authorizer)."""

    user: User
    ask: Authorize

    def authorize(self, request: dict[str, str]) -> tuple[bool, str, str]:
        return self.ask(self.user, request)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The values of the names that do not change while a request is decided about. `namespace`: the stored one of the
    object."""

    request: HookRequest
    authorize: Authorize | None
    namespace: Body | None = None

    def values(
        self, resource: Resource, new: Body | None, old: Body | None, params: Body | None = None
    ) -> dict[str, Any]:
        bindings: dict[str, Any] = {
            "object": as_resource(resource, new),
            "oldObject": as_resource(resource, old),
            "params": params,
            "request": request_of(self.request, resource),
            "namespaceObject": _shown(self.namespace),
        }
        if self.authorize is not None:
            rights = Rights(self.request.options.user, self.authorize)
            bindings |= {"authorizer": AuthorizerQuestion(rights), REQUESTED: _about(self.request, rights)}
        return bindings


def _about(request: HookRequest, rights: Rights) -> AuthorizerQuestion:
    named = own(request)
    facts = {
        "group": named.group,
        "resource": named.resource,
        "subresource": request.subresource,
        "namespace": request.namespace,
        "name": request.name,
    }
    return AuthorizerQuestion(rights, tuple(facts.items()), RESOURCE_CHECK)


def _shown(namespace: Body | None) -> Body | None:
    """A namespace as expressions see it."""
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    shown = {key: metadata[key] for key in _SHOWN_OF_NAMESPACE if key in metadata}
    return {**namespace, "metadata": shown}


def types(*, params: bool, authorizer: bool, objects: Type = DYN, params_type: Type = DYN) -> dict[str, Type]:
    """The types of the names. `objects`: of the object before and after, where it is known."""
    known = {"object": objects, "oldObject": objects, "request": REQUEST, "namespaceObject": NAMESPACE}
    if params:
        known["params"] = params_type
    if authorizer:
        known |= {"authorizer": AUTHORIZER, REQUESTED: RESOURCE_CHECK}
    return known
