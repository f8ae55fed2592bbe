"""Strategic merge patch: kubectl's patch for built-in kinds.

Maps merge as in a merge patch; a list merges item by item where the schema gives it a merge key (or says that its
scalars are a set) and is replaced elsewhere. Directives inside the patch steer it: `$patch`, `$retainKeys`,
`$deleteFromPrimitiveList/…`, `$setElementOrder/…`.
"""

from __future__ import annotations

from typing import Any

from api.engine.kind import Body
from api.engine.order import merge_sorted
from api.engine.schema import ANYTHING, Node
from api.engine.status import bad_request, cut
from api.engine.validate import exact
from fleet.values.untyped import texts

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_PREFIX = "$deleteFromPrimitiveList/"
_ORDER_PREFIX = "$setElementOrder/"


def strategic_patch(root: Node, body: Body, patch: Any) -> Body:
    """A new body. A malformed patch is a 400, a directive that does not fit the object a 422."""
    if not isinstance(patch, dict):
        raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    merged = _merge_maps(root, body, patch)
    if merged is None:
        raise bad_request("the patch leaves no object")
    return merged


def _merge_maps(node: Node, value: Any, patch: Body) -> Body | None:
    """None: the patch deletes the map."""
    directive = patch.get(_DIRECTIVE)
    if directive is not None and directive not in ("replace", "delete", "merge"):
        raise bad_request(f"unknown patch type: {cut(str(directive))} in map: {go_text(patch)}")
    if directive == "delete":
        return None
    if directive == "replace":
        return {k: _plain(v) for k, v in patch.items() if not k.startswith("$") and v is not None}
    out: Body = dict(value) if isinstance(value, dict) else {}
    if _RETAIN in patch:
        if not isinstance(patch[_RETAIN], list):
            raise bad_request("invalid patch format of retainKeys: expected a list")
        kept = frozenset(texts(patch[_RETAIN]))
        out = {k: v for k, v in out.items() if k in kept}
    orders = {k[len(_ORDER_PREFIX) :]: v for k, v in patch.items() if k.startswith(_ORDER_PREFIX)}
    for key, part in patch.items():
        if key.startswith(_DELETE_PREFIX):
            _delete_scalars(out, key[len(_DELETE_PREFIX) :], part)
        elif key in (_DIRECTIVE, _RETAIN) or key.startswith(_ORDER_PREFIX):
            continue
        elif part is None:
            out.pop(key, None)
        else:
            _merge_field(node.child(key) or ANYTHING, out, key, part, orders.get(key))
    for key, order in orders.items():
        if key not in patch and isinstance(out.get(key), list) and isinstance(order, list):
            child = node.child(key) or ANYTHING
            out[key] = _ordered(child, out[key], out[key], order)
    return out


def _merge_field(node: Node, out: Body, key: str, part: Any, order: Any) -> None:
    if isinstance(part, dict) and "replace" not in node.patch_strategy:
        merged = _merge_maps(node, out.get(key), part)
        if merged is None:
            out.pop(key, None)
        else:
            out[key] = merged
    elif isinstance(part, list) and "merge" in node.patch_strategy:
        live = out.get(key)
        out[key] = _merge_lists(node, live if isinstance(live, list) else [], part, order, key)
    else:
        out[key] = _plain(part)


def _merge_lists(node: Node, live: list[Any], patch: list[Any], order: Any, name: str) -> list[Any]:
    if not any(isinstance(item, dict) for item in (*patch, *live)):
        there = {exact(item) for item in live}
        added = {text: item for item in patch if (text := exact(item)) not in there}
        return _ordered(node, live, [*live, *added.values()], order if isinstance(order, list) else patch)
    merge_key = node.merge_key
    items = node.items or ANYTHING
    for item in patch:
        if not isinstance(item, dict):
            raise bad_request(f"cannot merge list {name}: its items must be objects")
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_plain(item) for item in patch if _DIRECTIVE not in item]
    out: dict[Any, Any] = dict(enumerate(live))  # by place, and new ones after them
    places: dict[str, list[int]] = {}
    fresh = len(live)
    for place, old in out.items():
        if isinstance(old, dict):
            places.setdefault(exact(old.get(merge_key)), []).append(place)
    for item in patch:
        if merge_key not in item:
            raise bad_request(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")
        identity = exact(item[merge_key])
        where = places.get(identity)
        if item.get(_DIRECTIVE) == "delete":
            for place in places.pop(identity, ()):
                del out[place]
        elif where:
            out[where[0]] = _merge_maps(items, out[where[0]], item)
        else:
            places[identity] = [fresh]
            out[fresh] = _merge_maps(items, {}, item)
            fresh += 1
    named = order if isinstance(order, list) else [item for item in patch if item.get(_DIRECTIVE) != "delete"]
    return _ordered(node, live, list(out.values()), named)


def _ordered(node: Node, live: list[Any], merged: list[Any], order: Any) -> list[Any]:
    """`merged` in the order that $setElementOrder asks for, or the patch itself; items in neither stay near where they
    stood."""

    def key_of(item: Any) -> str:
        return exact(item.get(node.merge_key)) if isinstance(item, dict) else exact(item)

    by_key = {key_of(item): item for item in merged}
    wanted = [key for key in dict.fromkeys(map(key_of, order)) if key in by_key]
    placed = merge_sorted([key for key in dict.fromkeys(map(key_of, live)) if key in by_key], wanted)
    done = set(placed)
    return [by_key[key] for key in (*placed, *(k for k in by_key if k not in done))]


def go_text(value: Any) -> str:
    """A value as Go's fmt prints it, which is how a kube-apiserver quotes a patch: map[a:1 b:[x y]]."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{go_text(v)}" for k, v in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if value is None:
        return "<nil>"
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _delete_scalars(out: Body, key: str, unwanted: Any) -> None:
    if not isinstance(unwanted, list):
        raise bad_request(f"{_DELETE_PREFIX}{key}: expected a list")
    live = out.get(key)
    if isinstance(live, list):
        gone = {exact(item) for item in unwanted}
        out[key] = [item for item in live if exact(item) not in gone]


def _plain(value: Any) -> Any:
    """A part of the patch as content: without directives, and without the nulls that only delete."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if not k.startswith("$") and v is not None}
    if isinstance(value, list):
        return [_plain(item) for item in value if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "delete")]
    return value
