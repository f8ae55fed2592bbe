"""The changes of MutatingAdmissionPolicies, carried out: a configuration that is applied, or a JSON patch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonpatch

from api.admission.dynamic.expressions import Fault
from api.admission.dynamic.matching import Resource, as_resource
from api.engine.apply import merge, untypable
from api.engine.bounds import private
from api.engine.gowords import undecodable
from api.engine.kind import Kind
from api.engine.patch import json_patch
from api.engine.schema import Node, compiled
from api.engine.status import StatusError, internal
from api.engine.validate import wrong_types
from api.engine.write import decode
from api.objects.hooking import HookRequest
from fleet.values.cel.messages import Message, as_json, misnamed
from fleet.values.cel.values import NoValue
from fleet.values.ports import Body


def applied(request: HookRequest, resource: Resource, body: Body, made: Message) -> Body:
    """`body` with a configuration merged into it, as server-side apply does, but without owners. Raises Fault."""
    kind = request.kind
    config = _json(made)
    if request.operation == "CONNECT":
        shown = f"/{body['apiVersion']}" if "/" not in body["apiVersion"] else body["apiVersion"]
        why = f"no corresponding type for {shown}, Kind={body['kind']}"
        raise Fault(f"error applying patch: failed to convert patch object to typed object: {why}")
    flaw = untypable(kind, config)
    if flaw:
        raise Fault(f"error applying patch: failed to convert patch object to typed object: {flaw}")
    root = compiled(kind)
    atomic = list(_atomic(root, config, ""))
    if atomic:
        why = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise Fault(f"error applying patch: invalid ApplyConfiguration: {why}")
    return _decoded(kind, {**merge(root, body, config), **_identity(body)}, "Ignore")


def _atomic(node: Node | None, value: Any, path: str) -> Iterator[str]:
    """The places of a configuration that it would replace as a whole, though it means to say a part of them."""
    if node is None:
        return
    if value.__class__ is dict:
        if node.atomic:
            yield path
        for key, inner in value.items():
            if node.is_field(key):
                yield from _atomic(node.child(key), inner, f"{path}.{key}")
    elif value.__class__ is list:
        if not node.associative:
            yield path
        for index, inner in enumerate(value):
            yield from _atomic(node.items, inner, f"{path}[{index}]")


def patched(request: HookRequest, resource: Resource, body: Body, made: list[Message]) -> Body:
    """`body` after a JSON patch; as it is where a test of the patch fails. Raises Fault, or StatusError 500 for an
    outcome that cannot be read."""
    operations = [_operation(message) for message in made]
    try:
        outcome = json_patch(as_resource(resource, body) or {}, operations)
    except StatusError as problem:
        if isinstance(problem.__cause__, jsonpatch.JsonPatchTestFailed):
            return body
        raise Fault(f"JSON Patch: {problem.__cause__ or problem.message}") from None
    outcome |= _identity(body)
    return outcome if request.operation == "CONNECT" else _decoded(request.kind, outcome, "Strict")


def _operation(message: Message) -> Body:
    said = {"op": "", "path": "", **{key: value for key, value in message.fields.items() if key != "from" or value}}
    return {key: _json(value) for key, value in said.items()}


def _json(value: Any) -> Any:
    wrong = list(misnamed(value)) if isinstance(value, Message) else []
    if wrong:
        raise Fault("type mismatch: " + "\n".join(wrong))
    try:
        return as_json(value)
    except NoValue as problem:
        raise Fault(f"the value of the expression is not JSON: {problem}") from None


def _identity(body: Body) -> Body:
    return {"apiVersion": body["apiVersion"], "kind": body["kind"]}


def _decoded(kind: Kind, body: Body, field_validation: str) -> Body:
    """The object as the next one sees it: with its defaults, which the change may have made room for. StatusError 500:
    the policy is at fault, and not the client."""
    outcome: Body = private(body)
    if outcome.get("metadata") is None:
        outcome["metadata"] = {}
    if outcome["metadata"].__class__ is not dict:
        raise internal("the policy leaves metadata that is not an object")
    try:
        decode(kind, outcome, field_validation if kind.builtin else "Ignore")
    except StatusError as problem:
        raise internal(problem.message.partition(": ")[2] or problem.message) from None
    for cause in wrong_types(compiled(kind), outcome, "") if kind.builtin else ():
        raise internal(undecodable(kind, cause))
    return outcome
