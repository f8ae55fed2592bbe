"""The parts below an object: status, scale, a pod's binding and eviction, a service account's tokens.

Each is another view on the same stored object, written through the same engine. Answers that need a machine that runs
the pod (log, exec) are not here: the composer passes them in (`build_app(extra_routes=…)`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from api.access.auth import ServiceAccountTokens
from api.engine.bounds import encoded
from api.engine.columns_workloads import selector as selector_shown
from api.engine.patch import json_patch, merge_patch
from api.engine.status import Cause, StatusError, bad_request, conflict, invalid, not_found
from api.engine.validate import value_text
from api.objects.apart import LARGE_BYTES, apart_if
from api.objects.hooking import annotate
from api.objects.objects import Objects
from api.server.discovery import VirtualResource
from api.server.lists import get_object
from api.server.reviews import audiences_of, decode
from api.server.writes import Writes, delete_write_options, parse_options, refuse_strict
from api.wire.http import Answer, Request, json_response
from api.wire.negotiation import JSON_PATCH, MERGE_PATCH, accepted_form, read_object, read_patch
from api.wire.routing import Route
from api.wire.servedkind import ServedKind
from fleet.values.ports import Body
from fleet.values.times import rfc3339
from fleet.values.untyped import at, mapping, rows

SUBRESOURCES = (
    VirtualResource("", "v1", "pods/binding", "Binding", True, ("create",)),
    VirtualResource("", "v1", "pods/eviction", "Eviction", True, ("create",), "policy", "v1"),
    VirtualResource("", "v1", "pods/attach", "PodAttachOptions", True, ("create", "get")),
    VirtualResource("", "v1", "pods/exec", "PodExecOptions", True, ("create", "get")),
    VirtualResource("", "v1", "pods/log", "Pod", True, ("get",)),
    VirtualResource("", "v1", "pods/portforward", "PodPortForwardOptions", True, ("create", "get")),
    VirtualResource("", "v1", "namespaces/finalize", "Namespace", False, ("update",)),
    VirtualResource(
        "", "v1", "serviceaccounts/token", "TokenRequest", True, ("create",), "authentication.k8s.io", "v1"
    ),
    VirtualResource(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests/approval",
        "CertificateSigningRequest",
        False,
        ("get", "patch", "update"),
    ),
    VirtualResource(
        "cluster.karmada.io",
        "v1alpha1",
        "clusters/proxy",
        "Cluster",
        False,
        ("create", "delete", "get", "patch", "update"),
    ),
)
_TOKEN_REQUEST = next(item for item in SUBRESOURCES if item.kind == "TokenRequest")
MIN_TOKEN_S = 600
MAX_TOKEN_S = 48 * 3600
DEFAULT_TOKEN_S = 3600
ISSUED = "authentication.kubernetes.io/issued-credential-id"  # an annotation for the audit log


class Subresources:
    """Answers for the subresources that every API over a store has."""

    def __init__(
        self,
        objects: Objects,
        writes: Writes,
        tokens: ServiceAccountTokens | None,
        now: Callable[[], float],
    ) -> None:
        self._objects = objects
        self._writes = writes
        self._tokens = tokens
        self._now = now

    async def answer(self, served: ServedKind, route: Route, operation: str, request: Request) -> Answer:
        kind = served.kind
        match route.subresource:
            case "status" if kind.status:
                return await self._whole(served, route, operation, request)
            case "approval" if kind.resource == "certificatesigningrequests":
                return await self._whole(served, route, operation, request)
            case "finalize" if kind.resource == "namespaces" and not kind.group and operation == "update":
                return await self._writes.update(served, route, request, accepted_form(request, served))
            case "scale" if kind.scale is not None:
                return await self._scale(served, route, operation, request)
            case "binding" if (kind.group, kind.resource) == ("", "pods") and operation == "create":
                return await self._bind(served, route, request)
            case "eviction" if (kind.group, kind.resource) == ("", "pods") and operation == "create":
                return await self._evict(served, route, request)
            case "token" if (kind.group, kind.resource) == ("", "serviceaccounts") and operation == "create":
                return await self._token(served, route, request)
            case "status" | "approval" | "scale" | "binding" | "eviction" | "token" | "finalize":
                known = (
                    (route.subresource == "status" and kind.status)
                    or (route.subresource == "scale" and kind.scale is not None)
                    or any(item.resource == f"{kind.resource}/{route.subresource}" for item in SUBRESOURCES)
                )
                if known:
                    raise StatusError(
                        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
                    )
        if not kind.builtin:
            raise not_found(kind.group, kind.resource, route.name)
        raise StatusError(404, "NotFound", "the server could not find the requested resource")

    async def _whole(self, served: ServedKind, route: Route, asked: str, request: Request) -> Answer:
        form = accepted_form(request, served)
        match asked:
            case "get":
                source = self._objects.versions.of(served.kind)
                return await get_object(source, served, route.namespace, route.name, request, form, self._now())
            case "update":
                return await self._writes.update(served, route, request, form)
            case "patch":
                return await self._writes.patch(served, route, request, form)
        raise StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    # -- scale --------------------------------------------------------------------------------------------------------

    async def _scale(self, served: ServedKind, route: Route, operation: str, request: Request) -> Answer:
        kind = served.kind
        body = await self._objects.get(kind, _namespace(served, route), route.name, alone=request.alone)
        scale = scale_of(served, body)
        if operation == "get":
            return json_response(scale)
        options = parse_options(request, "Update" if operation == "update" else "Patch")
        if operation == "update":
            new_scale, strict = await read_object(request, field_validation=options.field_validation)
        else:
            patch, media, strict = await read_patch(request, builtin=True, field_validation=options.field_validation)
            patched = json_patch if media == JSON_PATCH else merge_patch
            data = encoded(patch)
            new_scale = await apart_if(len(data) > LARGE_BYTES, lambda: patched(scale, orjson.loads(data)))
            if new_scale.__class__ is dict and not _names_version(patch):  # it holds for whatever is stored by then
                new_scale = {**new_scale, "metadata": {}}
        refuse_strict(strict, options)
        replicas = _part(new_scale, "spec", "Scale").get("replicas", 0)
        if replicas.__class__ is not int or not 0 <= replicas < 2**31:
            cause = Cause(
                "spec.replicas", f"Invalid value: {value_text(replicas)}: must be a non-negative integer of 32 bits"
            )
            raise invalid("autoscaling", "Scale", route.name, [cause])
        metadata: Body = {}
        revision = _part(new_scale, "metadata", "Scale").get("resourceVersion")
        if revision:
            if revision != body["metadata"].get("resourceVersion"):
                raise conflict(kind.group, kind.resource, route.name)
            metadata["resourceVersion"] = revision
        assert kind.scale is not None
        change = _nested(kind.scale.spec_replicas_path, replicas)
        if metadata:
            change["metadata"] = metadata
        written = await self._objects.patch(
            kind, _namespace(served, route), route.name, change, MERGE_PATCH, options, "scale"
        )
        return json_response(scale_of(served, written.body), warnings=written.warnings)

    # -- pods ---------------------------------------------------------------------------------------------------------

    async def _bind(self, served: ServedKind, route: Route, request: Request) -> Answer:
        options = parse_options(request, "Create")
        binding, _ = await read_object(request, field_validation="Ignore")
        node = _part(binding, "target", "Binding").get("name")
        if not isinstance(node, str) or not node:
            raise invalid("", "Binding", route.name, [Cause("target.name", "Required value", "FieldValueRequired")])
        at = rfc3339(self._now())

        def assign(pod: Body) -> Body:
            spec = pod["spec"] = mapping(pod.get("spec"))
            if spec.get("nodeName"):
                raise conflict(
                    "", "pods/binding", route.name, f'pod {route.name} is already assigned to node "{spec["nodeName"]}"'
                )
            spec["nodeName"] = node
            status = pod["status"] = mapping(pod.get("status"))
            others = [c for c in rows(status.get("conditions")) if c.get("type") != "PodScheduled"]
            status["conditions"] = [*others, {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
            return pod

        changed = await self._objects.change(served.kind, route.namespace, route.name, assign, options)
        if changed is None:
            raise StatusError(404, "NotFound", f'pods "{route.name}" not found', kind="pods", name=route.name)
        return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, 201)

    async def _evict(self, served: ServedKind, route: Route, request: Request) -> Answer:
        options = parse_options(request, "Create")
        eviction, _ = await read_object(request, field_validation="Ignore")
        given = _part(eviction, "deleteOptions", "Eviction")
        await self._objects.delete(
            served.kind, route.namespace, route.name, delete_write_options(options, given), given
        )
        return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, 201)

    # -- service accounts ---------------------------------------------------------------------------------------------

    async def _token(self, served: ServedKind, route: Route, request: Request) -> Answer:
        if self._tokens is None:
            raise StatusError(404, "NotFound", "this server signs no tokens")
        asked, _ = await read_object(request, field_validation="Ignore")
        decode(_TOKEN_REQUEST, asked)
        spec: Mapping[str, Any] = asked.get("spec") or {}
        seconds = spec.get("expirationSeconds")
        seconds = DEFAULT_TOKEN_S if seconds is None else seconds
        causes = []
        for wrong, text in (
            (seconds < MIN_TOKEN_S, "may not specify a duration less than 10 minutes"),
            (seconds > 1 << 32, "may not specify a duration larger than 2^32 seconds"),
        ):
            if wrong:
                causes.append(Cause("spec.expirationSeconds", f"Invalid value: {seconds!s:.50}: {text}"))
        if spec.get("boundObjectRef") is not None:
            text = "Forbidden: a token ends with its service account; it cannot be bound to another object"
            causes.append(Cause("spec.boundObjectRef", text, "FieldValueForbidden"))
        if causes:
            raise invalid("authentication.k8s.io", "TokenRequest", "", causes)
        audiences = audiences_of(spec, "TokenRequest")
        account = await self._objects.get(served.kind, route.namespace, route.name, alone=request.alone)
        seconds = min(seconds, MAX_TOKEN_S)
        issued = self._tokens.issue(
            route.namespace, route.name, account["metadata"]["uid"], seconds=seconds, audiences=audiences
        )
        annotate(ISSUED, issued.credential)
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": route.name, "namespace": route.namespace},
            "spec": {**spec, "expirationSeconds": seconds},
            "status": {"token": issued.token, "expirationTimestamp": rfc3339(issued.expires)},
        }
        return json_response(answer, 201)


def scale_of(served: ServedKind, body: Mapping[str, Any]) -> Body:
    """The autoscaling/v1 Scale of an object whose kind has one."""
    scale = served.kind.scale
    assert scale is not None
    metadata = body["metadata"]
    identity = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in metadata
    }
    status: Body = {"replicas": _at(body, scale.status_replicas_path) or 0}
    selector = _at(body, scale.label_selector_path) if scale.label_selector_path else None
    if isinstance(selector, Mapping):  # of a built-in kind; a CRD names a field that holds the text
        selector = selector_shown(dict(body), 0.0) if selector else ""
    if isinstance(selector, str) and selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": identity,
        "spec": {"replicas": _at(body, scale.spec_replicas_path) or 0},
        "status": status,
    }


def _names_version(patch: Any) -> bool:
    """Whether the patch itself says which version of the object it is for."""
    if patch.__class__ is list:
        return any(str(step.get("path")).startswith("/metadata") for step in rows(patch))
    return at(patch, "metadata", "resourceVersion") is not None


def _part(body: Mapping[str, Any], field: str, kind: str) -> Body:
    """An object below a field of a request, {} when it is not there. StatusError 400 for anything else."""
    value = body.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(
            f"json: cannot unmarshal {value_text(value)} into Go struct field {kind}.{field}: must be an object"
        )
    return value


def _steps(path: str) -> list[str]:
    return [step for step in path.split(".") if step]


def _at(body: Mapping[str, Any], path: str) -> Any:
    found: Any = body
    for step in _steps(path):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


def _nested(path: str, value: Any) -> Body:
    for step in reversed(_steps(path)):
        value = {step: value}
    return dict(value)


def _namespace(served: ServedKind, route: Route) -> str:
    return route.namespace if served.kind.namespaced else ""
