"""Server-side apply: merge what a manager wants, take away what it no longer wants, refuse to fight over the rest.

The configuration that is applied is the whole of what its manager has an opinion on. Fields that it named last time and
does not name now go, unless somebody else owns them. Fields that somebody else owns with another value are conflicts,
unless forced.
"""

from __future__ import annotations

from typing import Any

from fleet.engine import fields
from fleet.engine.fields import APPLY, UPDATE, Fields
from fleet.engine.kind import Body, Kind
from fleet.engine.order import interleave
from fleet.engine.prune import prune
from fleet.engine.schema import ANYTHING, Node, compiled
from fleet.engine.status import Cause, StatusError, bad_request, conflict, invalid
from fleet.engine.write import Author, Prepared, identify, prepare_create, prepare_update


def check_configuration(kind: Kind, namespace: str, name: str, config: Any) -> None:
    """What an applied body must be before anything else is asked of it; fills in apiVersion, kind and namespace."""
    identify(kind, namespace, config)
    metadata = config["metadata"]
    if metadata.setdefault("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    unknown: list[str] = []
    prune(compiled(kind), config, "", unknown)
    if unknown:
        listed = "\n".join(f"  .{path}: field not declared in schema" for path in unknown)
        if len(unknown) == 1:
            listed = listed.strip()
        else:
            listed = "errors:\n" + listed
        gvk = f"{kind.api_version}, Kind={kind.kind}"
        where = f"{namespace}/{name}" if namespace else f"/{name}"
        raise StatusError(500, "", f"failed to create typed patch object ({where}; {gvk}): {listed}")
    _refuse_duplicates(kind, name, compiled(kind), config, "")


def apply_new(
    kind: Kind, namespace: str, config: Body, author: Author, *, now: float, uid: str, field_validation: str = "Strict"
) -> Prepared:
    """An apply to an object that does not exist creates it."""
    wanted = _wanted(compiled(kind), kind, config, author.subresource)
    return prepare_create(
        kind, namespace, config, author, now=now, uid=uid, field_validation=field_validation,
        managed=_with_mine([], None, wanted, kind, author, now),
    )  # fmt: skip


def apply_to(
    kind: Kind, old: Body, config: Body, author: Author, *, now: float, force: bool, field_validation: str = "Strict"
) -> Prepared:
    """`config` applied to `old`, neither of which is changed. StatusError 409 names each conflict."""
    root = compiled(kind)
    version = config["metadata"].get("resourceVersion")
    if version and version != old["metadata"].get("resourceVersion"):
        raise conflict(kind.group, kind.resource, old["metadata"]["name"])
    managed: list[Body] = old["metadata"].get("managedFields") or []
    mine: Body | None = None
    others: list[Body] = []
    for item in managed:
        if fields.is_by(item, author.manager, APPLY, author.subresource):
            mine = item
        else:
            others.append(item)
    wanted = _wanted(root, kind, config, author.subresource)
    live = _ownable(kind, old, author.subresource)
    merged = merge(root, live, _ownable(kind, config, author.subresource))
    last = fields.root_set(mine.get("fieldsV1")) if mine else None
    if last is not None:
        held = wanted
        for item in others:
            held = fields.union(held, fields.root_set(item.get("fieldsV1")))
        given_up = abandoned(root, last, held)
        if given_up is not None:
            merged = without(root, merged, given_up)
    merged.setdefault("metadata", {})
    changed, removed = fields.compare(root, live, merged)
    others = _settle(kind, others, changed, removed, force)
    new = {"apiVersion": kind.api_version, "kind": kind.kind, **merged}
    new["metadata"] = {k: v for k, v in old["metadata"].items() if k in fields.NOT_OWNED_META} | merged["metadata"]
    new["metadata"].pop("managedFields", None)
    if author.subresource == "status":
        new = {**{k: v for k, v in old.items() if k != "status"}, **new}
    return prepare_update(
        kind, old, new, author, now=now, field_validation=field_validation,
        managed=_with_mine(others, mine, wanted, kind, author, now),
    )  # fmt: skip


def _ownable(kind: Kind, body: Body, subresource: str) -> Body:
    out = fields.owned(kind, body, subresource)
    metadata = dict(out.get("metadata") or {})
    if subresource == "status" and not kind.builtin:
        metadata = {}
    out["metadata"] = metadata
    return out


def _wanted(root: Node, kind: Kind, config: Body, subresource: str) -> Fields | None:
    """What the configuration names, as a set."""
    named = {k: v for k, v in _ownable(kind, config, subresource).items() if k != "metadata" or v}
    return fields.all_fields(root, named, containers=False) if named else None


def _with_mine(
    others: list[Body], mine: Body | None, wanted: Fields | None, kind: Kind, author: Author, now: float
) -> list[Body]:
    if wanted is None:
        return fields.ordered(others)
    if mine is None or mine.get("fieldsV1") != wanted:
        mine = fields.entry(author.manager, APPLY, kind.api_version, author.subresource, wanted, now)
    return fields.ordered([*others, mine])


def _settle(kind: Kind, others: list[Body], changed: Fields | None, removed: Fields | None, force: bool) -> list[Body]:
    """What is left to the others, when they may lose anything at all."""
    out: list[Body] = []
    fights: list[tuple[str, str]] = []
    for item in others:
        theirs = fields.root_set(item.get("fieldsV1"))
        disputed = fields.intersection(theirs, changed)
        if disputed is not None:
            fights.extend((_who(item), path) for path in fields.paths(disputed))
        left = fields.difference(fields.difference(theirs, disputed), removed)
        if left is not None:
            out.append(item if left == theirs else {**item, "fieldsV1": left})
    if fights and not force:
        raise _conflicts(sorted(fights))
    return out


def _who(item: Body) -> str:
    text = f'"{item.get("manager", "")}"'
    if item.get("subresource"):
        text += f' with subresource "{item["subresource"]}"'
    return f"{text} using {item.get('apiVersion', '')}" if item.get("operation") == UPDATE else text


def _conflicts(fights: list[tuple[str, str]]) -> StatusError:
    causes = [Cause(path, f"conflict with {who}", "FieldManagerConflict") for who, path in fights]
    if len(fights) == 1:
        who, path = fights[0]
        message = f"Apply failed with 1 conflict: conflict with {who}: {path}"
    else:
        lines: list[str] = []
        for who in dict.fromkeys(who for who, _ in fights):
            lines.append(f"conflicts with {who}:")
            lines.extend(f"- {path}" for other, path in fights if other == who)
        message = f"Apply failed with {len(fights)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", message, causes=causes)


# -- merging, and taking away


def merge(node: Node | None, live: Any, config: Any) -> Any:
    """`config` over `live`: maps and associative lists by their parts, all else replaced. Shares what it can."""
    node = node or ANYTHING
    if live.__class__ is dict and config.__class__ is dict and not node.atomic:
        out = dict(live)
        for key, value in config.items():
            out[key] = merge(node.child(key), live[key], value) if key in live else value
        return out
    if live.__class__ is list and config.__class__ is list and node.associative:
        before, after = fields.keyed(node, live), fields.keyed(node, config)
        if before is not None and after is not None:
            parts = {
                key: merge(node.items, before[key], value) if key in before else value for key, value in after.items()
            }
            return [parts[k] if k in parts else before[k] for k in interleave(list(before), list(after))]
    return config


def abandoned(node: Node | None, last: Fields, held: Fields | None) -> Fields | None:
    """The paths of `last` that nobody holds now. A field that lost all that was held in it goes whole."""
    node = node or ANYTHING
    out: Fields = {}
    for key, below in last.items():
        if key == ".":
            continue
        child = node.child(key[2:]) if key[0] == "f" else node.items
        if held is not None and key in held:
            inside = abandoned(child, below, held[key]) if below else None
            if inside is not None:
                out[key] = inside
        elif fields.is_member(below) or (key[0] == "f" and node.is_field(key[2:])):
            out[key] = {}
        else:
            inside = abandoned(child, below, None)
            if inside is not None:
                out[key] = inside
    return out or None


def without(node: Node | None, value: Any, unwanted: Fields) -> Any:
    """`value` less the paths of a set; a map or list that this empties goes with them (None)."""
    node = node or ANYTHING
    if value.__class__ is dict:
        out: Body = {}
        for key, inner in value.items():
            below = unwanted.get("f:" + key)
            if below is None:
                out[key] = inner
            elif not fields.is_member(below):
                left = without(node.child(key), inner, below)
                if left is not None:
                    out[key] = left
        return out or None
    if value.__class__ is list and node.associative and node.items is not None:
        kept = []
        for item in value:
            identity = fields.item_key(node, node.items, item)
            below = unwanted.get(identity) if identity is not None else None
            if below is None:
                kept.append(item)
            elif not fields.is_member(below):
                left = without(node.items, item, below)
                if left is not None:
                    kept.append(left)
        return kept or None
    return value


def _refuse_duplicates(kind: Kind, name: str, node: Node, value: Any, path: str) -> None:
    """A configuration that names an item of an associative list twice has no meaning."""
    if value.__class__ is dict:
        for key, inner in value.items():
            child = node.child(key)
            if child is not None and inner.__class__ in (dict, list):
                _refuse_duplicates(kind, name, child, inner, f"{path}.{key}" if path else key)
    elif value.__class__ is list and node.items is not None:
        seen: set[str] = set()
        for index, item in enumerate(value):
            if node.associative:
                identity = fields.item_key(node, node.items, item)
                if identity is None:
                    text = f"associative list with keys has an element that omits key field {node.list_map_keys[0]!r}"
                    cause = Cause(f"{path}[{index}]", f"Required value: {text}", "FieldValueRequired")
                    raise invalid(kind.group, kind.kind, name, [cause])
                if identity in seen:
                    text = "Duplicate value: " + identity[2:]
                    raise invalid(kind.group, kind.kind, name, [Cause(f"{path}[{index}]", text, "FieldValueDuplicate")])
                seen.add(identity)
            if item.__class__ in (dict, list):
                _refuse_duplicates(kind, name, node.items, item, f"{path}[{index}]")
