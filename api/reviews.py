"""Questions about who one is and what one may do: kinds that are answered and never stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.auth import Authenticator
from api.discovery import Virtual
from api.http import Answer, Request, json_response
from api.negotiation import read_object
from api.rbac import Attributes, Authorizer
from api.routing import Route
from fleet.engine.status import Cause, bad_request, invalid
from fleet.ports import Body
from fleet.store.writing import User

AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
VIRTUAL = (
    Virtual(AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, ("create",)),
    Virtual(AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False, ("create",)),
    Virtual(AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", False, ("create",)),
    Virtual(AUTHORIZATION, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", True, ("create",)),
    Virtual(AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", False, ("create",)),
    Virtual(AUTHENTICATION, "v1", "tokenreviews", "TokenReview", False, ("create",)),
)
_KINDS = {(item.group, item.resource): item.kind for item in VIRTUAL}


class Reviews:
    """Answers the review kinds."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def handles(self, route: Route) -> bool:
        return (route.group, route.resource) in _KINDS and route.version == "v1" and not route.name

    async def create(self, route: Route, request: Request) -> Answer:
        """POST of a review: 201 with its status filled in."""
        body, _ = await read_object(request, field_validation="Ignore")
        kind = _KINDS[route.group, route.resource]
        if body.get("kind", kind) != kind:
            raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
        spec = body.get("spec") or {}
        if not isinstance(spec, dict):
            raise bad_request("spec must be an object")
        answer: Body = {"kind": kind, "apiVersion": route.group_version, "metadata": {"creationTimestamp": None}}
        if kind != "SelfSubjectReview":
            answer["spec"] = spec
        match kind:
            case "SelfSubjectAccessReview":
                answer["status"] = self._access(request.user, spec, kind)
            case "SubjectAccessReview" | "LocalSubjectAccessReview":
                answer["status"] = self._access(_subject(spec), spec, kind)
            case "SelfSubjectRulesReview":
                answer["status"] = self._rules(request.user, str(spec.get("namespace") or ""))
            case "SelfSubjectReview":
                answer["status"] = {"userInfo": _user_info(request.user)}
            case _:
                answer["status"] = await self._token(str(spec.get("token") or ""))
        return json_response(answer, 201)

    def _access(self, user: User, spec: Mapping[str, Any], kind: str) -> Body:
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (resource is None) == (path is None):
            cause = Cause(
                "spec.resourceAttributes",
                "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            )
            raise invalid(AUTHORIZATION, kind, "", [cause])
        if path is not None:
            wanted = Attributes(str(path.get("verb", "")), path=str(path.get("path", "")) or "/")
        else:
            assert resource is not None
            wanted = Attributes(
                str(resource.get("verb", "")), str(resource.get("group", "")), str(resource.get("resource", "")),
                str(resource.get("subresource", "")), str(resource.get("namespace", "")), str(resource.get("name", "")),
            )  # fmt: skip
        if self._authorizer.allowed(user, wanted):
            return {"allowed": True}
        return {"allowed": False}

    def _rules(self, user: User, namespace: str) -> Body:
        if not namespace:
            raise bad_request("no namespace on request")
        resource_rules: list[Body] = []
        path_rules: list[Body] = []
        for rule in self._authorizer.rules(user, namespace):
            shown = rule.document()
            (path_rules if rule.urls else resource_rules).append(shown)
        return {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}

    async def _token(self, token: str) -> Body:
        user = await self._authenticator.user(token) if token else None
        if user is None:
            return {"authenticated": False, "user": {}, "error": "the token is not valid"}
        return {"authenticated": True, "user": _user_info(user)}


def _user_info(user: User) -> Body:
    info: Body = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return info


def _subject(spec: Mapping[str, Any]) -> User:
    name, groups = str(spec.get("user") or ""), tuple(str(group) for group in spec.get("groups") or ())
    if not name and not groups:
        cause = Cause("spec.user", 'Invalid value: "": at least one of user or group must be specified')
        raise invalid(AUTHORIZATION, "SubjectAccessReview", "", [cause])
    return User(name, groups)
