"""The owners of fields: managedFields, in the FieldsV1 form that Kubernetes stores.

Sets of field paths are kept as FieldsV1 itself, nested dictionaries keyed `f:name`, `k:{"key":…}` and `v:…`, so that
nothing is converted between a write and the next. A node is a *member* of the set when it is empty or carries "."; an
empty set is None. The sets of a write come from one walk over what differs between the old object and the new one,
which costs what changed and not what the object weighs.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from api.engine.kind import Body, Kind
from api.engine.schema import ANYTHING, Node
from fleet.values.times import rfc3339

Fields = dict[str, Any]

UPDATE = "Update"
APPLY = "Apply"
ENTRIES_MAX = 500  # that a client may claim
UPDATERS_MAX = 10  # beyond it the oldest Update entries become one
ANCIENT = "ancient-changes"
_ENTRY_TEXTS = ("manager", "operation", "apiVersion", "time", "fieldsType", "subresource")

NOT_OWNED_META = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)


# -- algebra of sets


def is_member(node: Fields) -> bool:
    return not node or "." in node


def union(a: Fields | None, b: Fields | None) -> Fields | None:
    if a is None or a is b:
        return b
    if b is None:
        return a
    if not a and not b:
        return a
    out: Fields = {".": {}} if is_member(a) or is_member(b) else {}
    for key, node in a.items():
        if key != ".":
            other = b.get(key)
            out[key] = node if other is None else union(node, other)
    for key, node in b.items():
        if key != "." and key not in a:
            out[key] = node
    return _folded(out)


def difference(a: Fields | None, b: Fields | None) -> Fields | None:
    """The paths of `a` that are not paths of `b`; a path below one of `b` stays."""
    if a is None or b is None:
        return a
    member = is_member(a) and not is_member(b)
    out: Fields = {".": {}} if member else {}
    for key, node in a.items():
        if key == ".":
            continue
        other = b.get(key)
        left = node if other is None else difference(node, other)
        if left is not None:
            out[key] = left
    return _folded(out) if out else None


def intersection(a: Fields | None, b: Fields | None) -> Fields | None:
    if a is None or b is None:
        return None
    out: Fields = {".": {}} if is_member(a) and is_member(b) else {}
    for key, node in a.items():
        if key != "." and key in b:
            both = intersection(node, b[key])
            if both is not None:
                out[key] = both
    return _folded(out) if out else None


def _folded(out: Fields) -> Fields:
    """A member without children is written as an empty node."""
    return {} if len(out) == 1 and "." in out else out


def root_set(fields: Fields | None) -> Fields | None:
    """Of the stored form, where an empty object is an empty set and not the root as a member."""
    return fields or None


def sound(managed: Any) -> bool:
    """Can these managedFields, which a client wrote, be computed with? A kube-apiserver keeps its own in their place
    when they cannot."""
    return (
        managed.__class__ is list
        and len(managed) <= ENTRIES_MAX
        and all(
            item.__class__ is dict
            and all(item.get(key, "").__class__ is str for key in _ENTRY_TEXTS)
            and _is_set(item.get("fieldsV1", {}))
            for item in managed
        )
    )


def _is_set(node: Any) -> bool:
    return node.__class__ is dict and all(_is_step(key) and _is_set(below) for key, below in node.items())


def _is_step(key: str) -> bool:
    if key == "." or key[:2] in ("f:", "i:"):
        return True
    if key[:2] not in ("k:", "v:"):
        return False
    try:
        value = orjson.loads(key[2:])
    except ValueError:
        return False
    return key[0] == "v" or value.__class__ is dict


def paths(fields: Fields | None, prefix: str = "") -> list[str]:
    """The member paths as conflicts print them: .spec.containers[name="a"].image"""
    if fields is None:
        return []
    found = [prefix] if prefix and is_member(fields) else []
    for key, node in fields.items():
        if key != ".":
            found.extend(paths(node, prefix + _step(key)))
    return found


def _step(key: str) -> str:
    kind, rest = key[:2], key[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        pairs = json.loads(rest)
        return "[" + ",".join(f"{k}={json.dumps(v)}" for k, v in sorted(pairs.items())) + "]"
    return f"[={rest}]"


# -- identity of list items


def item_key(node: Node, items: Node, item: Any) -> str | None:
    """The path element of an item of an associative list; None when the item has no identity."""
    if node.list_type == "set":
        return "v:" + orjson.dumps(item).decode()
    if item.__class__ is not dict:
        return None
    pairs: dict[str, Any] = {}
    for key in sorted(node.list_map_keys):
        value = item.get(key)
        if value is None:
            child = items.child(key)
            if child is None or not child.has_default:
                continue
            value = child.default
        pairs[key] = value
    return "k:" + orjson.dumps(pairs).decode() if pairs else None


def keyed(node: Node, value: list[Any]) -> dict[str, Any] | None:
    """The items of an associative list by path element, or None when some have none or share one."""
    items = node.items
    if items is None or not node.associative:
        return None
    out: dict[str, Any] = {}
    for item in value:
        key = item_key(node, items, item)
        if key is None or key in out:
            return None
        out[key] = item
    return out


# -- the fields of an object, and the differences between two


def all_fields(node: Node | None, value: Any, *, containers: bool) -> Fields:
    """The set of everything in `value`, at and below it. `containers`: maps and list items are members themselves, as
    in the sets of updates; in those of applies only leaves, map entries and items are."""
    node = node or ANYTHING
    if value.__class__ is dict and value and not node.atomic:
        out: Fields = {".": {}} if containers else {}
        child_of = node.child
        for key, inner in value.items():
            child = child_of(key)
            if inner.__class__ is dict or inner.__class__ is list:
                if not containers and not inner and inner.__class__ is list and child is not None and child.associative:
                    continue  # nothing in the list is wanted, and the list itself is not a field
                below = all_fields(child, inner, containers=containers)
                if not containers and below and not node.is_field(key):
                    below = {".": {}, **below}
                out["f:" + key] = below
            else:
                out["f:" + key] = {}
        return out
    if value.__class__ is list and value and node.associative:
        pairs = keyed(node, value)
        if pairs is not None:
            out = {".": {}} if containers else {}
            for key, item in pairs.items():
                below = all_fields(node.items, item, containers=containers) if key[0] == "k" else {}
                out[key] = {".": {}, **below} if below else {}
            return out
    return {}


def compare(node: Node | None, old: Any, new: Any) -> tuple[Fields | None, Fields | None]:
    """(added or modified, removed) between two values of one place, which differ."""
    node = node or ANYTHING
    if old.__class__ is dict and new.__class__ is dict and not node.atomic:
        return _compare_maps(node, *_different(old, new))
    if old.__class__ is list and new.__class__ is list and node.associative:
        before, after = keyed(node, old), keyed(node, new)
        if before is not None and after is not None:
            return _compare_maps(node, before, after)
    return {}, None


def _different(old: dict[str, Any], new: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of two objects by path element, without those that are in both and equal."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for key, value in new.items():
        if key not in old:
            after["f:" + key] = value
            continue
        was = old[key]
        if was is not value and (was != value or was.__class__ is not value.__class__):
            before["f:" + key], after["f:" + key] = was, value
    for key, value in old.items():
        if key not in new:
            before["f:" + key] = value
    return before, after


def _compare_maps(node: Node, old: dict[str, Any], new: dict[str, Any]) -> tuple[Fields | None, Fields | None]:
    changed: Fields = {}
    removed: Fields = {}
    for key, value in new.items():
        child = node.child(key[2:]) if key[0] == "f" else node.items
        if key not in old:
            changed[key] = all_fields(child, value, containers=True)
        else:
            before = old[key]
            if before is not value and (before != value or before.__class__ is not value.__class__):
                inside, gone = compare(child, before, value)
                if inside is not None:
                    changed[key] = inside
                if gone is not None:
                    removed[key] = gone
    for key, value in old.items():
        if key not in new:
            child = node.child(key[2:]) if key[0] == "f" else node.items
            removed[key] = all_fields(child, value, containers=True)
    return changed or None, removed or None


def owned(kind: Kind, body: Body, subresource: str = "", whole: bool = False) -> Body:
    """The part of an object whose fields have owners, as seen by a writer of `subresource`."""
    out = {k: v for k, v in body.items() if k not in ("apiVersion", "kind", "metadata")}
    if not whole and kind.status:
        if subresource == "status":
            out = {"status": out["status"]} if "status" in out else {}
        else:
            out.pop("status", None)
    metadata = {k: v for k, v in body["metadata"].items() if k not in NOT_OWNED_META}
    if metadata:
        out["metadata"] = metadata
    return out


# -- managedFields


def entry(manager: str, operation: str, api_version: str, subresource: str, fields: Fields, now: float) -> Body:
    out: Body = {"manager": manager, "operation": operation, "apiVersion": api_version, "time": rfc3339(now)}
    out["fieldsType"] = "FieldsV1"
    out["fieldsV1"] = arranged(fields)
    if subresource:
        out["subresource"] = subresource
    return out


def arranged(fields: Fields) -> Fields:
    """The set in the order in which Kubernetes writes it: clients compare it as text."""
    return {key: arranged(node) if node else node for key, node in sorted(fields.items())}


def is_by(item: Body, manager: str, operation: str, subresource: str) -> bool:
    return (
        item.get("manager") == manager
        and item.get("operation") == operation
        and (item.get("subresource") or "") == subresource
    )


def record_update(
    root: Node, kind: Kind, old: Body | None, new: Body, managed: list[Body], manager: str, subresource: str, now: float
) -> list[Body]:
    """managedFields after an update of `old` to `new` (None: a create) by `manager`, from the old ones; of those that
    were stored before this check and cannot be read, nothing is left."""
    try:
        return _recorded(root, kind, old, new, managed, manager, subresource, now)
    except (AttributeError, TypeError, ValueError):
        if sound(managed):
            raise
    return _recorded(root, kind, old, new, [], manager, subresource, now)


def _recorded(
    root: Node, kind: Kind, old: Body | None, new: Body, managed: list[Body], manager: str, subresource: str, now: float
) -> list[Body]:
    after = owned(kind, new, whole=True)
    before = owned(kind, old, whole=True) if old is not None else _structs(kind, after)
    before.setdefault("metadata", {})
    after.setdefault("metadata", {})
    changed, removed = compare(root, before, after)
    if changed is None and removed is None:
        return managed
    out: list[Body] = []
    own_entry: Body | None = None
    for item in managed:
        if is_by(item, manager, UPDATE, subresource) and item.get("apiVersion") == kind.api_version:
            own_entry = item
            continue
        left = difference(difference(root_set(item.get("fieldsV1")), changed), removed)
        if left is not None:
            out.append(item if left == item.get("fieldsV1") else {**item, "fieldsV1": left})
    before_fields = root_set(own_entry.get("fieldsV1")) if own_entry else None
    fields = union(difference(before_fields, removed), changed)
    if own_entry is not None and fields == before_fields:
        out.append(own_entry)
    elif fields is not None:
        out.append(entry(manager, UPDATE, kind.api_version, subresource, fields, now))
    return ordered(_capped(out))


_STRUCTS = (
    ("spec",),
    ("spec", "names"),
    ("spec", "template"),
    ("spec", "template", "metadata"),
    ("spec", "template", "spec"),
    ("status",),
    ("source",),
)


def _structs(kind: Kind, body: Body) -> Body:
    """The fields of a built-in kind before any write: the structs that Go makes empty. No manager owns these structs,
    only the fields in them. Custom kinds begin with nothing."""
    out: Body = {}
    if kind.builtin:
        for path in _STRUCTS:
            value: Any = body
            made = out
            for key in path:
                value = value.get(key)
                if value.__class__ is not dict:
                    break
                made = made.setdefault(key, {})
    return out


def ordered(managed: list[Body]) -> list[Body]:
    """The entries in the order that Kubernetes gives them, so that equal ownership is equal text."""
    if len(managed) < 2:
        return managed
    return sorted(
        managed,
        key=lambda m: (
            m.get("operation") or "",
            m.get("time") or "",
            m.get("manager") or "",
            m.get("apiVersion") or "",
            m.get("subresource") or "",
        ),
    )


def _capped(managed: list[Body]) -> list[Body]:
    """Bound the number of Update entries: the oldest become one entry that says so."""
    if len(managed) <= UPDATERS_MAX:
        return managed
    updates = [m for m in managed if m.get("operation") == UPDATE and not m.get("subresource")]
    if len(updates) <= UPDATERS_MAX:
        return managed
    updates.sort(key=lambda m: m.get("time") or "")
    oldest = updates[: len(updates) - UPDATERS_MAX + 1]
    merged: Fields | None = None
    for item in oldest:
        merged = union(merged, root_set(item.get("fieldsV1")))
    kept = [m for m in managed if not any(m is o for o in oldest)]
    last = oldest[-1]
    return [*kept, {**last, "manager": ANCIENT, "fieldsV1": arranged(merged or {})}]
