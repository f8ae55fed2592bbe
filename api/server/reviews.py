"""Questions about a user's own name and rights: kinds that are answered and never stored."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from api.access.auth import Authenticator
from api.engine.gowords import undecodable
from api.engine.kind import Kind
from api.engine.schema import ANYTHING, compiled
from api.engine.status import Cause, bad_request, invalid
from api.engine.validate import value_text, wrong_types
from api.objects.definitions import definitions
from api.objects.writing import User
from api.server.discovery import VirtualResource
from api.wire.http import Answer, Request, json_response
from api.wire.negotiation import METADATA_FORMS, accept, read_object
from api.wire.rights import Attributes, Authorizer
from api.wire.routing import Route
from fleet.values.ports import Body

AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
VIRTUAL = (
    VirtualResource(AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, ("create",)),
    VirtualResource(AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False, ("create",)),
    VirtualResource(AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", False, ("create",)),
    VirtualResource(AUTHORIZATION, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", True, ("create",)),
    VirtualResource(AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", False, ("create",)),
    VirtualResource(AUTHENTICATION, "v1", "tokenreviews", "TokenReview", False, ("create",)),
)
_KINDS = {(item.group, item.resource): item for item in VIRTUAL}
_TYPES = {AUTHORIZATION: "io.k8s.api.authorization.v1", AUTHENTICATION: "io.k8s.api.authentication.v1"}
MAX_AUDIENCES = 32  # that a token may be made for, or asked about
MAX_AUDIENCE_CHARS = 256


class Reviews:
    """Answers the review kinds."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def handles(self, route: Route) -> bool:
        item = _KINDS.get((route.group, route.resource))
        return (
            item is not None
            and route.version == item.version
            and not (route.name or route.subresource or route.rest)
            and (route.nested if item.namespaced else not route.namespace)
        )

    async def create(self, route: Route, request: Request) -> Answer:
        """POST of a review: 201 with its status filled in. Nothing has rows here, so there is no Table (406)."""
        accept(request.header(b"accept"), True, METADATA_FORMS)
        body, _ = await read_object(request, field_validation="Ignore")
        item = _KINDS[route.group, route.resource]
        kind = item.kind
        if body.get("kind", kind) != kind:
            raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
        decode(item, body)
        metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
        if metadata.get("namespace") not in (None, "", route.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        answer: Body = {"kind": kind, "apiVersion": route.group_version, "metadata": {"creationTimestamp": None}}
        if kind != "SelfSubjectReview":
            answer["spec"] = spec
        match kind:
            case "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview":
                if item.namespaced:
                    answer["metadata"]["namespace"] = route.namespace
                answer["status"] = self._access(request.user, kind, route.namespace, metadata, spec)
            case "SelfSubjectRulesReview":
                answer["status"] = self._rules(request.user, spec.get("namespace") or "")
            case "SelfSubjectReview":
                answer["status"] = {"userInfo": _user_info(request.user)}
            case _:
                answer["status"] = await self._token(spec)
        return json_response(answer, 201)

    def _access(
        self, user: User, kind: str, namespace: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]
    ) -> Body:
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        causes: list[Cause] = []
        if resource is not None and path is not None:
            why = "cannot be specified in combination with resourceAttributes"
            causes.append(Cause("spec.nonResourceAttributes", f"Invalid value: {value_text(path)}: {why}"))
        if resource is None and path is None:
            why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            causes.append(Cause("spec.resourceAttributes", f"Invalid value: null: {why}"))
        if kind != "SelfSubjectAccessReview":
            groups = tuple(group or "" for group in spec.get("groups") or ())
            user = User(spec.get("user") or "", groups, spec.get("uid") or "")
            if not user.name and not user.groups:
                why = "at least one of user or group must be specified"
                causes.append(Cause("spec.user", f'Invalid value: "": {why}'))
        if any(
            value
            for key, value in metadata.items()
            if key != "managedFields" and (key, namespace) != ("namespace", value)
        ):
            but = " except for namespace" if namespace else ""
            causes.append(Cause("metadata", f"Invalid value: {value_text(dict(metadata))}: must be empty{but}"))
        if namespace and resource is not None and (resource.get("namespace") or "") != namespace:
            given = value_text(resource.get("namespace") or "")
            why = "must match metadata.namespace"
            causes.append(Cause("spec.resourceAttributes.namespace", f"Invalid value: {given}: {why}"))
        if namespace and path is not None:
            why = "disallowed on this kind of request"
            causes.append(Cause("spec.nonResourceAttributes", f"Invalid value: {value_text(path)}: {why}"))
        if causes:
            raise invalid(AUTHORIZATION, kind, "", causes)
        return {"allowed": self._authorizer.allowed(user, _wanted(resource, path))}

    def _rules(self, user: User, namespace: str) -> Body:
        if not namespace:
            raise bad_request("no namespace on request")
        resource_rules: list[Body] = []
        path_rules: list[Body] = []
        for rule in self._authorizer.rules(user, namespace):
            (path_rules if rule.urls else resource_rules).append(rule.document())
        return {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}

    async def _token(self, spec: Mapping[str, Any]) -> Body:
        token, audiences = spec.get("token") or "", audiences_of(spec, "TokenReview")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        checked = await self._authenticator.checked(token, audiences)
        if checked is None:
            why = "the token is not valid" + (f" for the audiences {value_text(audiences)}" if audiences else "")
            return {"authenticated": False, "user": {}, "error": why}
        return {"authenticated": True, "user": _user_info(checked.user), "audiences": list(checked.audiences)}


def audiences_of(spec: Mapping[str, Any], kind: str) -> list[str]:
    """`spec.audiences` of a TokenReview or a TokenRequest; StatusError 422 for too many or too long ones."""
    audiences = [audience or "" for audience in spec.get("audiences") or ()]
    if len(audiences) > MAX_AUDIENCES:
        text = f"Too many: {len(audiences)}: must have at most {MAX_AUDIENCES} items"
        raise invalid(AUTHENTICATION, kind, "", [Cause("spec.audiences", text, "FieldValueTooMany")])
    for index, audience in enumerate(audiences):
        if len(audience) > MAX_AUDIENCE_CHARS:
            text = f"Too long: may not be more than {MAX_AUDIENCE_CHARS} characters"
            raise invalid(AUTHENTICATION, kind, "", [Cause(f"spec.audiences[{index}]", text, "FieldValueTooLong")])
    return audiences


def _wanted(resource: Mapping[str, Any] | None, path: Mapping[str, Any] | None) -> Attributes:
    if resource is None:
        given = path or {}
        return Attributes(given.get("verb") or "", path=given.get("path") or "")
    keys = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(*(resource.get(key) or "" for key in keys))


@cache
def _kind(item: VirtualResource) -> Kind:
    name = f"{_TYPES[item.kind_group or item.group]}.{item.kind}"
    return Kind(
        item.kind_group or item.group,
        item.kind_version or item.version,
        item.kind,
        item.resource,
        item.singular,
        item.namespaced,
        "",
        builtin=True,
        schema=definitions().resolve(name),
    )


def decode(item: VirtualResource, body: Body) -> None:
    """Refuse what has another type than its field, as a kube-apiserver does before it looks at anything: 400."""
    kind = _kind(item)
    root = compiled(kind)
    for field in ("metadata", "spec"):
        value = _without_nulls(body.get(field))
        for cause in wrong_types(root.child(field) or ANYTHING, value, field) if value is not None else ():
            cannot = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
            raise bad_request(f"{cannot}: {undecodable(kind, cause)}")


def _without_nulls(value: Any) -> Any:
    """The value as Go reads it, where a null is a field that is not there: clients write `creationTimestamp: null`."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _user_info(user: User) -> Body:
    info: Body = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra}
    return info
