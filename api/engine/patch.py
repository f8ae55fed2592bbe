"""JSON patch (RFC 6902) and merge patch (RFC 7386), with refusals as a kube-apiserver gives them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import jsonpatch
import jsonpointer
import orjson

from api.engine.bounds import CONTAINERS_MAX, TOO_MANY, containers
from api.engine.kind import Body
from api.engine.rules import AT_ONCE, CostlyWrite
from api.engine.status import StatusError, bad_request

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

OPERATIONS_MAX = 1_000  # of one JSON patch
COPIED_BYTES_MAX = 3 * 1024 * 1024  # of all its copies together, as JSON: twenty copies can double twenty times
COPIED_AT_ONCE_BYTES = 64 * 1024  # the same where somebody waits: an event loop


class _Replace(jsonpatch.ReplaceOperation):  # type: ignore[misc,unused-ignore]
    """As a kube-apiserver's library does it: replacing a key that an object does not have adds it."""

    def apply(self, obj: Any) -> Any:
        target, part = self.pointer.to_last(obj)
        if isinstance(target, dict) and part is not None and "value" in self.operation:
            target[part] = self.operation["value"]
            return obj
        return super().apply(obj)


class _Patch(jsonpatch.JsonPatch):  # type: ignore[misc,unused-ignore]
    operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "replace": _Replace})

    def applied(self, obj: Any) -> Any:
        """The result for `obj`, which may be changed. Copies are counted before they are made: all of them together
        have no more than a body may have."""
        size = many = 0
        for operation in self._ops:  # type: ignore[attr-defined,unused-ignore]
            if isinstance(operation, jsonpatch.CopyOperation):
                data = orjson.dumps(jsonpointer.JsonPointer(operation.operation["from"]).resolve(obj))
                size, many = size + len(data), many + containers(data)
                if size > COPIED_BYTES_MAX:
                    raise _copied_too_much(f"the accumulated size of copies exceeds the limit {COPIED_BYTES_MAX}")
                if many > CONTAINERS_MAX:
                    raise _copied_too_much(f"the copies have {TOO_MANY} together")
                if size > COPIED_AT_ONCE_BYTES and AT_ONCE.get():
                    raise CostlyWrite
            obj = operation.apply(obj)
        return obj


def _copied_too_much(why: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Unable to complete the copy, {why}")


def json_patch(body: Body, patch: Any) -> Body:
    """A new body. A patch without the form of one is a 400, one of too many operations or copies a 413, and one that
    does not fit the body a 422. CostlyWrite on an event loop where the copies are large."""
    if not isinstance(patch, list):
        raise _not_a("[]handlers.jsonPatchOp", patch)
    if len(patch) > OPERATIONS_MAX:
        text = f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {len(patch)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
    try:
        result = _Patch(patch).applied(orjson.loads(orjson.dumps(body)))
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        TypeError,
        KeyError,
        IndexError,
    ) as error:
        raise StatusError(422, "Invalid", "the server rejected our request due to an error in our request") from error
    if not isinstance(result, dict):
        raise bad_request("the patch leaves no object")
    return result


def _not_a(wanted: str, patch: Any) -> StatusError:
    names = {list: "array", dict: "object", str: "string", bool: "bool", type(None): "null"}
    got = names.get(type(patch), "number")
    return bad_request(f"error decoding patch: json: cannot unmarshal {got} into Go value of type {wanted}")


def merge_patch(body: Body, patch: Any) -> Body:
    """A new body that shares the parts of `body` that the patch does not touch."""
    if not isinstance(patch, dict):
        raise _not_a("map[string]interface {}", patch)
    merged = merge(body, patch)
    assert isinstance(merged, dict)
    return merged


def merge(value: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), part)
    return out


def difference(old: Any, new: Any) -> Any:
    """The smallest merge patch from `old` to `new`; {} when they are equal. Nulls inside `new` cannot be expressed."""
    out: dict[str, Any] = {}
    for key in old.keys() - new.keys():
        out[key] = None
    for key, value in new.items():
        before = old.get(key)
        if key not in old:
            out[key] = value
        elif before != value or before.__class__ is not value.__class__:
            both = isinstance(before, dict) and isinstance(value, dict)
            out[key] = difference(before, value) if both else value
    return out
