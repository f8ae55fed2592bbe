"""AdmissionReview: the question to a webhook, and what its answer says."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from typing import Any

import orjson

from api.admission.dynamic.matching import Resource, own
from api.admission.dynamic.webhooks import Webhook
from api.engine.status import StatusError
from api.objects.hooking import HookRequest
from fleet.values.ports import Body
from fleet.values.untyped import mapping, pairs, text, texts

_GROUP = "admission.k8s.io"
_KNOWN = ("v1", "v1beta1")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class BadAnswer(Exception):
    """The answer is no AdmissionReview that can be used. The text is the hub's own."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a webhook says about a request."""

    allowed: bool
    patch: list[Any]
    warnings: tuple[str, ...]
    annotations: dict[str, str]
    result: Body


def version_for(hook: Webhook) -> str:
    """The first version of AdmissionReview in the webhook's list that the hub knows, "" without one."""
    return next((version for version in hook.versions if version in _KNOWN), "")


def request_of(request: HookRequest, resource: Resource, uid: str = "") -> Body:
    """The request as webhooks and expressions see it, but for the objects."""
    requested, user = own(request), request.options.user
    shown = text((request.sent_options or {}).get("kind")) if request.operation == "CONNECT" else request.kind.kind
    kind = {"group": resource.group, "version": resource.version, "kind": shown}
    name = {"group": resource.group, "version": resource.version, "resource": resource.resource}
    namespace = request.name if request.kind.resource == "namespaces" and not request.kind.group else request.namespace
    document: Body = {
        "uid": uid,
        "kind": kind,
        "resource": name,
        "requestKind": {**kind, "group": requested.group, "version": requested.version},
        "requestResource": {**name, "group": requested.group, "version": requested.version},
        "operation": request.operation,
        "userInfo": {"username": user.name},
        "dryRun": request.options.dry_run,
        "options": None if request.operation == "CONNECT" else _options(request),
    }
    for key, value in (
        ("uid", user.uid),
        ("groups", list(user.groups)),
        ("extra", {k: list(v) for k, v in user.extra}),
    ):
        if value:
            document["userInfo"][key] = value
    for key, said in (("name", request.name), ("namespace", namespace), ("subResource", request.subresource)):
        if said:
            document[key] = said
    if request.subresource:
        document["requestSubResource"] = request.subresource
    return document


def _options(request: HookRequest) -> Body:
    options: Body = {
        "kind": _OPTIONS[request.operation],
        "apiVersion": "meta.k8s.io/v1",
        **(request.sent_options or {}),
    }
    if request.options.dry_run:
        options["dryRun"] = ["All"]
    if request.operation != "DELETE":
        options |= {"fieldManager": request.options.manager, "fieldValidation": request.options.field_validation}
    return options


def question(version: str, request: Body, new: Body | None, old: Body | None) -> bytes:
    review = {
        "kind": "AdmissionReview",
        "apiVersion": f"{_GROUP}/{version}",
        "request": {**request, "object": new, "oldObject": old},
    }
    return orjson.dumps(review)


def verdict(version: str, uid: str, content: bytes, *, mutating: bool) -> Verdict:
    """The webhook's answer. Raises BadAnswer."""
    try:
        review = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise BadAnswer("the answer is not JSON") from None
    response = mapping(review).get("response")
    if response.__class__ is not dict:
        raise BadAnswer("webhook response was absent")
    if version == "v1":
        _check(review, response, uid, mutating=mutating)
    return Verdict(
        response.get("allowed") is True,
        _patch(response.get("patch")) if mutating else [],
        texts(response.get("warnings")),
        pairs(response.get("auditAnnotations")),
        mapping(response.get("status")),
    )


def _check(review: Body, response: Body, uid: str, *, mutating: bool) -> None:
    """The checks of version v1, in the words of a kube-apiserver but for what the webhook sent."""
    if response.get("uid") != uid:
        raise BadAnswer(f'expected response.uid="{uid}", got another one')
    if review.get("apiVersion") != f"{_GROUP}/v1" or review.get("kind") != "AdmissionReview":
        raise BadAnswer(f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview, got another kind")
    patch, kind = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch:
            raise BadAnswer("validating webhook may not return response.patch")
        if kind is not None:
            raise BadAnswer("validating webhook may not return response.patchType")
        return
    if patch and kind is None:
        raise BadAnswer("webhook returned response.patch but not response.patchType")
    if not patch and kind is not None:
        raise BadAnswer("webhook returned response.patchType but not response.patch")
    if kind is not None and kind != "JSONPatch":
        raise BadAnswer("unsupported patch type")


def _patch(patch: Any) -> list[Any]:
    """The operations of a JSON patch, which comes as base64."""
    if not patch:
        return []
    try:
        operations = orjson.loads(b64decode(patch, validate=True))
    except (ValueError, TypeError):
        operations = None
    if operations.__class__ is not list:
        raise BadAnswer("received undecodable patch in webhook response")
    return list(operations)


def denial(name: str, result: Body) -> StatusError:
    """The refusal of a webhook as its client sees it."""
    denied = f'admission webhook "{name}" denied the request'
    code = result.get("code")
    said = text(result.get("message")) or text(result.get("reason"))
    return StatusError(
        code if code.__class__ is int and 400 <= code < 600 else 400,
        text(result.get("reason")),
        f"{denied}: {said}" if said else f"{denied} without explanation",
    )
