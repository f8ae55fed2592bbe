"""Server-side apply: merge the fields that a manager wants, take away those it no longer wants, refuse to fight over
the rest.

The configuration that is applied is the whole of what its manager has an opinion on. Fields that it named last time and
does not name now go, unless another manager owns them. Fields that another manager owns with another value are
conflicts, unless forced.
"""

from __future__ import annotations

from typing import Any

from api.engine import fields
from api.engine.fields import APPLY, UPDATE, Fields
from api.engine.gowords import GO_TYPES
from api.engine.kind import Body, Kind
from api.engine.order import interleave
from api.engine.prune import prune
from api.engine.schema import ANYTHING, Node, compiled
from api.engine.status import CAUSES_MAX, Cause, StatusError, bad_request, conflict
from api.engine.strategic import go_text
from api.engine.validate import value_text
from api.engine.write import Author, PreparedWrite, identify, prepare_create, prepare_update

BEFORE_FIRST_APPLY = "before-first-apply"


def check_configuration(kind: Kind, namespace: str, name: str, config: Any) -> None:
    """The first checks of an applied body; fills in apiVersion, kind and namespace."""
    given = (config.get("metadata") or {}) if config.__class__ is dict else {}
    where = f"{given.get('namespace') or ''}/{name}" if given.__class__ is dict else f"/{name}"
    identify(kind, namespace, config)
    metadata = config["metadata"]
    if metadata.setdefault("name", name) != name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    flaw = untypable(kind, config)
    if flaw:
        gvk = f"{kind.group}/{kind.version}, Kind={kind.kind}"
        raise bad_request(f"failed to create typed patch object ({where}; {gvk}): {flaw}")


def untypable(kind: Kind, config: Body) -> str:
    """The reason why a configuration cannot be merged, "" where it can. Unknown fields, which are one, are removed."""
    unknown: list[str] = []
    prune(compiled(kind), config, "", unknown)
    found = [f".{path}: field not declared in schema" for path in unknown]
    _untyped(compiled(kind), config, "", found)
    if len(found) < 2:
        return "".join(found)
    return "errors:\n" + "\n".join(f"  {text}" for text in found[:CAUSES_MAX])


def apply_new(
    kind: Kind,
    namespace: str,
    config: Body,
    author: Author,
    *,
    now: float,
    uid: str,
    field_validation: str = "Strict",
    draft: bool = False,
) -> PreparedWrite:
    """An apply to an object that does not exist creates it."""
    own_fields = _wanted(compiled(kind), kind, config, author.subresource)
    return prepare_create(
        kind,
        namespace,
        config,
        author,
        now=now,
        uid=uid,
        field_validation=field_validation,
        managed=_with_mine([], None, own_fields, kind, author, now),
        draft=draft,
    )


def apply_to(
    kind: Kind,
    old: Body,
    config: Body,
    author: Author,
    *,
    now: float,
    force: bool,
    field_validation: str = "Strict",
    draft: bool = False,
) -> PreparedWrite:
    """`config` applied to `old`, neither of which is changed. StatusError 409 names each conflict."""
    root = compiled(kind)
    version = config["metadata"].get("resourceVersion")
    if version and version != old["metadata"].get("resourceVersion"):
        raise conflict(kind.group, kind.resource, old["metadata"]["name"])
    stored = old["metadata"].get("managedFields") or []
    managed: list[Body] = stored if fields.sound(stored) else []
    own_entry: Body | None = None
    other_entries: list[Body] = []
    for item in managed:
        if fields.is_by(item, author.manager, APPLY, author.subresource):
            own_entry = item
        else:
            other_entries.append(item)
    if not managed:  # written before there were accounts: all of it belongs to its first writer
        everything = fields.compare(
            root, {"metadata": {}}, {"metadata": {}, **_ownable(kind, old, author.subresource)}
        )[0]
        if everything is not None:
            other_entries.append(fields.entry(BEFORE_FIRST_APPLY, UPDATE, kind.api_version, "", everything, now))
    own_fields = _wanted(root, kind, config, author.subresource)
    live = _ownable(kind, old, author.subresource)
    mine_now = _ownable(kind, config, author.subresource)
    merged = merge(root, live, mine_now)
    last = fields.root_set(own_entry.get("fieldsV1")) if own_entry else None
    if last is not None:
        held = own_fields
        for item in other_entries:
            held = fields.union(held, fields.root_set(item.get("fieldsV1")))
        given_up = abandoned(root, last, held)
        if given_up is not None:
            # Fields that were emptied went too. Fields that the configuration names empty stay, so that applying it
            # again is nothing.
            merged = merge(root, without(root, merged, given_up) or {}, mine_now)
    merged.setdefault("metadata", {})
    changed, removed = fields.compare(root, live, merged)
    other_entries = _settle(kind, other_entries, changed, removed, force)
    new = {"apiVersion": kind.api_version, "kind": kind.kind, **merged}
    new["metadata"] = {k: v for k, v in old["metadata"].items() if k in fields.NOT_OWNED_META} | merged["metadata"]
    new["metadata"].pop("managedFields", None)
    if config["metadata"].get("uid"):
        new["metadata"]["uid"] = config["metadata"]["uid"]
    if author.subresource == "status":
        new = {**{k: v for k, v in old.items() if k != "status"}, **new}
    return prepare_update(
        kind,
        old,
        new,
        author,
        now=now,
        field_validation=field_validation,
        patched=True,
        managed=_with_mine(other_entries, own_entry, own_fields, kind, author, now),
        draft=draft,
    )


def _ownable(kind: Kind, body: Body, subresource: str) -> Body:
    out = fields.owned(kind, body, subresource)
    metadata = dict(out.get("metadata") or {})
    if subresource == "status" and not kind.builtin:
        metadata = {}
    out["metadata"] = metadata
    return out


def _wanted(root: Node, kind: Kind, config: Body, subresource: str) -> Fields | None:
    """The fields that the configuration names, as a set."""
    named = {k: v for k, v in _ownable(kind, config, subresource).items() if k != "metadata" or v}
    return fields.all_fields(root, named, containers=False) if named else None


def _with_mine(
    other_entries: list[Body], own_entry: Body | None, own_fields: Fields | None, kind: Kind, author: Author, now: float
) -> list[Body]:
    if own_fields is None:
        return fields.ordered(other_entries)
    if own_entry is None or own_entry.get("fieldsV1") != own_fields or own_entry.get("apiVersion") != kind.api_version:
        own_entry = fields.entry(author.manager, APPLY, kind.api_version, author.subresource, own_fields, now)
    return fields.ordered([*other_entries, own_entry])


def _settle(
    kind: Kind, other_entries: list[Body], changed: Fields | None, removed: Fields | None, force: bool
) -> list[Body]:
    """The fields that are left to the others, when they may lose anything at all."""
    out: list[Body] = []
    fights: list[tuple[str, str]] = []
    for item in other_entries:
        entry_fields = fields.root_set(item.get("fieldsV1"))
        disputed = fields.intersection(entry_fields, changed)
        if disputed is not None:
            fights.extend((_who(item), path) for path in fields.paths(disputed))
        left = fields.difference(fields.difference(entry_fields, disputed), removed)
        if left is not None:
            out.append(item if left == entry_fields else {**item, "fieldsV1": left})
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
        lines: dict[str, list[str]] = {}
        for who, path in fights[:CAUSES_MAX]:
            lines.setdefault(who, [f"conflicts with {who}:"]).append(f"- {path}")
        text = "\n".join(line for of_one in lines.values() for line in of_one)
        message = f"Apply failed with {len(fights)} conflicts: {text}"
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


def abandoned(node: Node | None, last: Fields, owned_fields: Fields | None) -> Fields | None:
    """The paths of `last` that no manager holds now. A field that lost all its owned parts goes whole. An item of a
    list, or an entry of a map, goes when no manager holds the item itself, even if one holds parts of it."""
    node = node or ANYTHING
    out: Fields = {}
    for key, below in last.items():
        if key == ".":
            continue
        child = node.child(key[2:]) if key[0] == "f" else node.items
        field = key[0] == "f" and node.is_field(key[2:])
        if owned_fields is not None and key in owned_fields and (field or fields.is_member(owned_fields[key])):
            inside = abandoned(child, below, owned_fields[key]) if below else None
            if inside is not None:
                out[key] = inside
        elif fields.is_member(below) or field:
            out[key] = {}
        else:
            inside = abandoned(child, below, owned_fields.get(key) if owned_fields else None)
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
                remainder = without(node.child(key), inner, below)
                if remainder is not None:
                    out[key] = remainder
        return out or None
    if value.__class__ is list and node.associative and node.items is not None:
        items = []
        for item in value:
            identity = fields.item_key(node, node.items, item)
            below = unwanted.get(identity) if identity is not None else None
            if below is None:
                items.append(item)
            elif not fields.is_member(below):
                remainder = without(node.items, item, below)
                if remainder is not None:
                    items.append(remainder)
        return items or None
    return value


_WANTED = {
    "string": "string",
    "integer": "numeric (int or float)",
    "number": "numeric (int or float)",
    "boolean": "boolean",
    "array": "list",
    "object": "map",
}
_GO_MAP, _GO_LIST = "map[string]interface {}", "[]interface {}"


def _go_syntax(value: Any) -> str:
    """A value as Go's %#v prints it."""
    if isinstance(value, dict):
        return _GO_MAP + "{" + ", ".join(f"{value_text(k)}:{_go_syntax(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return _GO_LIST + "{" + ", ".join(map(_go_syntax, value)) + "}"
    return "interface {}(nil)" if value is None else value_text(value)


def _untyped(node: Node, value: Any, path: str, flaws: list[str]) -> None:
    """The flaws that stop the merge of a configuration: wrong types, and items of associative lists that have no
    identity or the same one."""
    if value is None:
        return
    if node.types is not None and value.__class__ not in node.types:
        if not (value.__class__ in (int, float) and node.type in ("integer", "number")):
            got = f"&{{{go_text(value)}}}"
            if node.type == "string":
                got = f"&value.valueUnstructured{{Value:{_go_syntax(value)}}}"
            elif node.type in ("integer", "number"):
                got = GO_TYPES.get(value.__class__, "<nil>")
            flaws.append(f"{path}: expected {_WANTED[node.type]}, got {got}")
    elif value.__class__ is dict and not node.open:
        for key, inner in value.items():
            child = node.child(key)
            if child is not None:
                _untyped(child, inner, f"{path}.{key}", flaws)
    elif value.__class__ is list and node.items is not None:
        identities: set[str] = set()
        for index, item in enumerate(value):
            if not node.associative:
                _untyped(node.items, item, f"{path}[{index}]", flaws)
                continue
            identity = fields.item_key(node, node.items, item)
            if identity is None:
                keys = " ".join(f'"{key}"' for key in node.list_map_keys)
                flaws.append(
                    f"{path}: element {index}: associative list with keys has an element that omits all key fields "
                    f"[{keys}] (and doesn't have default values for any key fields)"
                )
                continue
            step = fields.paths({identity: {}})[0]
            if identity in identities:
                flaws.append(f"{path}: duplicate entries for key {step}")
            identities.add(identity)
            _untyped(node.items, item, path + step, flaws)
