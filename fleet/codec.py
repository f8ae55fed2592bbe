"""Snapshots, plans and decision records as versioned JSON, and back.

What stands at its default is left out, so that a case can be written by hand in ten lines: `{"version": 1, "units":
[{"id": "a", "components": [{"name": "worker", "replicas": 2, "requests": {"nvidia.com/gpu": 8}}]}], "members": [...]}`.
Amounts are integers in base units or quantities as text ("500m", "64Gi"); pairs (labels, node selectors) are objects.
In a tree, a node's name, parent and children follow from its path unless they are given. Decoding names the field of
whatever it does not understand, unknown fields among it, and raises BadSnapshot.

A record holds all that a decision depended on, the solver's answer too, so a replay needs no solver and no luck (I8).
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any

from fleet.decide import BadSnapshot, decide
from fleet.model.amounts import Amounts, BadQuantity, parse_quantity
from fleet.model.member import Member
from fleet.model.reason import Reason
from fleet.model.unit import Unit
from fleet.placement.problem import Answer, Problem, Solved, Solver
from fleet.plan import Certificate, Eviction, Placement, Plan, RoomClaim
from fleet.quota.tree import QuotaNode, QuotaTree
from fleet.snapshot import Config, Snapshot

VERSION = 1
Json = dict[str, Any]


def encode_snapshot(snapshot: Snapshot, one: Callable[[Unit | Member], Any] | None = None) -> Json:
    """`one` encodes a unit or a member, for whoever keeps what it encoded before; `encode_one` unless given."""
    one = one or encode_one
    document: Json = {
        "version": VERSION,
        "kind": "Snapshot",
        "members": [one(snapshot.members[name]) for name in sorted(snapshot.members)],
        "units": [one(snapshot.units[key]) for key in sorted(snapshot.units)],
    }
    if snapshot.tree is not None:
        nodes = {path: _encode(snapshot.tree.nodes[path]) for path in sorted(snapshot.tree.nodes)}
        document["tree"] = {"root": snapshot.tree.root, "nodes": nodes}
    if snapshot.config != Config():
        document["config"] = _encode(snapshot.config)
    return document


def encode_one(value: Unit | Member) -> Json:
    encoded: Json = _encode(value)
    return encoded


def decode_snapshot(document: object) -> Snapshot:
    """Raises BadSnapshot, which names the field."""
    data = _document(document, "Snapshot", ("members", "units", "tree", "config"))
    given = {field: enumerate(_list(data.get(field, []), field)) for field in ("members", "units")}
    members = [_decode(Member, item, f"members[{index}]") for index, item in given["members"]]
    units = [_decode(Unit, _named(item), f"units[{index}]") for index, item in given["units"]]
    for field, names in (("members", [m.name for m in members]), ("units", [u.id for u in units])):
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise BadSnapshot([(field, f"{twice[0]!r} is there twice")])
    tree = data.get("tree")
    return Snapshot(
        None if tree is None else _decode_tree(tree),
        {unit.id: unit for unit in units},
        {member.name: member for member in members},
        _decode(Config, data.get("config", {}), "config"),
    )


def encode_plan(plan: Plan) -> Json:
    """Reasons come with their text, for readers; decoding makes it anew from code and numbers."""
    return {
        "version": VERSION,
        "kind": "Plan",
        "placements": [_encode(placement) for placement in plan.placements],
        "reasons": {
            key: {"code": reason.code.value, "numbers": dict(reason.numbers), "text": reason.text}
            for key, reason in sorted(plan.reasons.items())
        },
        "certificate": _encode(plan.certificate),
        **{name: _encode(items) for name, items in (("evictions", plan.evictions), ("claims", plan.claims)) if items},
    }


def decode_plan(document: object) -> Plan:
    data = _document(document, "Plan", ("placements", "reasons", "certificate", "evictions", "claims"))
    placements, evictions, claims = (_list(data.get(name, []), name) for name in ("placements", "evictions", "claims"))
    reasons = data.get("reasons", {})
    if not isinstance(reasons, Mapping):
        raise BadSnapshot([("reasons", "is not an object")])
    return Plan(
        tuple(_decode(Placement, item, f"placements[{i}]") for i, item in enumerate(placements)),
        {key: _decode(Reason, _without_text(item), f"reasons[{key}]") for key, item in reasons.items()},
        _decode(Certificate, data.get("certificate", {"shipped": "greedy"}), "certificate"),
        tuple(_decode(Eviction, item, f"evictions[{i}]") for i, item in enumerate(evictions)),
        tuple(_decode(RoomClaim, item, f"claims[{i}]") for i, item in enumerate(claims)),
    )


def _without_text(reason: object) -> object:
    return {key: item for key, item in reason.items() if key != "text"} if isinstance(reason, Mapping) else reason


def encode_record(
    snapshot: Snapshot, plan: Plan, *, now: float, seed: int, one: Callable[[Unit | Member], Any] | None = None
) -> Json:
    """All that `decide` was given, and what it gave. `one` as for `encode_snapshot`."""
    return {
        "version": VERSION, "kind": "Decision", "now": now, "seed": seed,
        "snapshot": encode_snapshot(snapshot, one), "plan": encode_plan(plan),
    }  # fmt: skip


def replay(record: object, *, solver: Solver | None = None) -> Plan:
    """Decide a record again. Without `solver` the recorded answer stands in for it, and the plan is the recorded one,
    whatever became of the solver then; with one, the question is asked anew."""
    data = _document(record, "Decision", ("now", "seed", "snapshot", "plan"))
    for field in ("now", "seed", "snapshot", "plan"):
        if field not in data:
            raise BadSnapshot([(field, "is missing")])
    recorded = decode_plan(data["plan"]).certificate
    asked = recorded.why != "no solver was asked"
    stand_in = _Recorded(recorded) if asked else None
    return decide(
        decode_snapshot(data["snapshot"]),
        now=_decode_value(float, data["now"], "now"),
        seed=_decode_value(int, data["seed"], "seed"),
        solver=solver or stand_in,
    )


def loads(text: str | bytes) -> object:
    """JSON text as a document. Raises BadSnapshot with the line for what is no JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadSnapshot([("document", f"is no JSON: {error}")]) from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


class _Recorded:
    """A solver that says again what one said when the record was made."""

    def __init__(self, certificate: Certificate) -> None:
        self._certificate = certificate

    def solve(self, problem: Problem, *, seed: int, limit_s: float) -> Answer:
        certificate = self._certificate
        admitted, placed = certificate.answer or ((), ())
        stages = tuple(Solved(s.name, s.value, s.bound, s.status, s.seconds) for s in certificate.stages)
        return Answer(admitted, placed, stages, certificate.why)


# -- by type ---------------------------------------------------------------------------------------------------------


def _encode(value: Any) -> Any:
    if isinstance(value, Amounts):
        return dict(value.items_)
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        shown: Json = {}
        for field in dataclasses.fields(value):
            if field.init:
                item = getattr(value, field.name)
                if item != _default(field):
                    shown[field.name] = _encode(item)
        return shown
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        if value and all(isinstance(i, tuple) and len(i) == 2 and isinstance(i[0], str) for i in value):
            keys = [pair[0] for pair in value]
            if len(set(keys)) == len(keys):
                return {key: _encode(item) for key, item in value}
        return [_encode(item) for item in value]
    return value


_REQUIRED = object()


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _REQUIRED


@cache
def _fields(cls: type) -> Mapping[str, tuple[Any, bool]]:
    """Type of each field, and whether it must be given."""
    hints = typing.get_type_hints(cls)
    return {f.name: (hints[f.name], _default(f) is _REQUIRED) for f in dataclasses.fields(cls) if f.init}


def _decode(cls: Any, data: object, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise BadSnapshot([(where, "is not an object")])
    fields = _fields(cls)
    unknown = sorted(set(data) - set(fields))
    if unknown:
        raise BadSnapshot([(f"{where}.{unknown[0]}", "is no field that this version knows")])
    missing = [name for name, (_, required) in fields.items() if required and name not in data]
    if missing:
        raise BadSnapshot([(f"{where}.{missing[0]}", "is missing")])
    return cls(**{name: _decode_value(fields[name][0], item, f"{where}.{name}") for name, item in data.items()})


def _decode_value(kind: Any, value: object, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        options = [option for option in arguments if option is not type(None)]
        if len(options) > 1:
            if isinstance(value, tuple(options)) and not isinstance(value, bool):
                return value
            raise BadSnapshot([(where, f"{value!r} is not of a type that belongs here")])
        return _decode_value(options[0], value, where)
    if kind is Amounts:
        return Amounts.of(_amounts(value, where))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise BadSnapshot([(where, "is not an object")])
        if arguments[1] is int:
            return _amounts(value, where)
        return {str(key): _decode_value(arguments[1], item, f"{where}[{key}]") for key, item in value.items()}
    if origin is frozenset:
        return frozenset(_decode_value(arguments[0], item, where) for item in _list(value, where))
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            if isinstance(value, Mapping) and typing.get_origin(arguments[0]) is tuple:
                value = [[key, item] for key, item in value.items()]
            items = _list(value, where)
            return tuple(_decode_value(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items))
        items = _list(value, where)
        if len(items) != len(arguments):
            raise BadSnapshot([(where, f"needs {len(arguments)} items")])
        return tuple(
            _decode_value(option, item, f"{where}[{i}]")
            for i, (option, item) in enumerate(zip(arguments, items, strict=True))
        )
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise BadSnapshot([(where, f"{value!r} is none of {', '.join(str(k.value) for k in kind)}")]) from None
    if dataclasses.is_dataclass(kind):
        return _decode(kind, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadSnapshot([(where, f"{value!r} is not {'text' if kind is str else kind.__name__}")])
    return value


def _amounts(value: object, where: str) -> dict[str, int]:
    """Integers are base units, text is a quantity."""
    if not isinstance(value, Mapping):
        raise BadSnapshot([(where, "is not an object")])
    found: dict[str, int] = {}
    for name, amount in value.items():
        if isinstance(amount, str):
            try:
                found[name] = parse_quantity(amount, name)
            except BadQuantity as error:
                raise BadSnapshot([(f"{where}[{name}]", str(error))]) from None
        elif isinstance(amount, int) and not isinstance(amount, bool):
            found[name] = amount
        else:
            raise BadSnapshot([(f"{where}[{name}]", f"{amount!r} is neither an integer nor a quantity")])
    return found


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise BadSnapshot([(where, "is not a list")])
    return list(value)


def _named(item: object) -> object:
    """A unit without a name is called by its id."""
    return {"name": item["id"], **item} if isinstance(item, Mapping) and "id" in item else item


def _decode_tree(data: object) -> QuotaTree:
    if not isinstance(data, Mapping) or not isinstance(data.get("nodes"), Mapping):
        raise BadSnapshot([("tree.nodes", "is not an object")])
    unknown = sorted(set(data) - {"root", "nodes"})
    if unknown:
        raise BadSnapshot([(f"tree.{unknown[0]}", "is no field that this version knows")])
    given: dict[str, Json] = {}
    for path, node in data["nodes"].items():
        if not isinstance(node, Mapping):
            raise BadSnapshot([(f"tree.nodes[{path}]", "is not an object")])
        above, _, name = path.rpartition("/")
        given[path] = {"path": path, "name": name, "parent": above or None, **node}
    for path, node in given.items():
        node.setdefault("children", sorted(other for other, below in given.items() if below["parent"] == path))
    root = data.get("root", min(given, key=len, default=""))
    nodes = {path: _decode(QuotaNode, node, f"tree.nodes[{path}]") for path, node in given.items()}
    return QuotaTree(_decode_value(str, root, "tree.root"), nodes)


def _document(document: object, kind: str, fields: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise BadSnapshot([("document", "is not an object")])
    if document.get("version") != VERSION:
        raise BadSnapshot([("version", f"is {document.get('version')!r}; this reads version {VERSION}")])
    if document.get("kind", kind) != kind:
        raise BadSnapshot([("kind", f"is {document['kind']!r}, not {kind}")])
    unknown = sorted(set(document) - {"version", "kind", *fields})
    if unknown:
        raise BadSnapshot([(unknown[0], "is no field that this version knows")])
    return document
