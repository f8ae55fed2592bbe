"""Snapshots, plans and decision records as versioned JSON, and back.

A field at its default is left out, and people have short forms (notation/byhand.py), so that a case can be written by
hand in ten lines: `{"version": 1, "units": [{"id": "a", "gang": "2x8"}], "members": [{"name": "m", "nodes": [{"count":
2, "nvidia.com/gpu": 8}]}]}`. Decoding names every field that it does not understand, unknown fields among it, and
raises BadSnapshot. `fleet decide --schema` prints the notation (notation/schema.py).

A record holds all that a decision depended on, the solver's answers too, so a replay needs no solver and no luck (I8).
Plans and records of version 1 are read as well (notation/versionone.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fleet.core.decide import BadSnapshot, decide
from fleet.core.model.cause import CauseCode
from fleet.core.model.member import Member
from fleet.core.model.plan import Answer, Certificate, Eviction, Head, Placement, Plan, RoomClaim, Said, SizeChange
from fleet.core.model.reason import Reason
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.notation import byhand, bytype, versionone
from fleet.core.notation.bytype import Json, decode, decode_value, encode, listed, readable
from fleet.core.placement.problem import Problem, Solver, VictimProblem
from fleet.core.snapshot import Config, Snapshot

VERSION = bytype.VERSION
MOST_SECONDS = bytype.MOST_SECONDS
SNAPSHOT = ("members", "units", "tree", "config", "now")
PLAN = ("placements", "reasons", "certificate", "evictions", "claims", "heads", "resizes")
DECISION = ("now", "seed", "snapshot", "plan")


def encode_snapshot(snapshot: Snapshot, encoder: Callable[[Unit | Member], Any] | None = None) -> Json:
    """`encoder` encodes a unit or a member, for a caller that keeps earlier results; `encode_one` unless given."""
    encoder = encoder or encode_one
    document: Json = {
        "version": VERSION,
        "kind": "Snapshot",
        "members": [encoder(snapshot.members[name]) for name in sorted(snapshot.members)],
        "units": [encoder(snapshot.units[key]) for key in sorted(snapshot.units)],
    }
    if snapshot.tree is not None:
        nodes = {path: encode(snapshot.tree.nodes[path]) for path in sorted(snapshot.tree.nodes)}
        document["tree"] = {"root": snapshot.tree.root, "nodes": nodes}
    if snapshot.config != Config():
        document["config"] = encode(snapshot.config)
    return document


def encode_one(value: Unit | Member) -> Json:
    """As it stands in a snapshot."""
    encoded: Json = encode(value)
    if isinstance(value, Unit) and value.member is not None:
        encoded["phase"] = value.phase.value  # by hand, a unit with a member runs there
    return encoded


def decode_snapshot(document: object) -> Snapshot:
    """Raises BadSnapshot, which names the field."""
    data = _document(document, "Snapshot", SNAPSHOT)
    tree = data.get("tree")
    return Snapshot(
        None if tree is None else byhand.tree(tree),
        _units(data.get("units", [])),
        _members(data.get("members", [])),
        decode(Config, data.get("config", {}), "config"),
    )


def _members(data: object) -> dict[str, Member]:
    members: dict[str, Member] = {}
    for item, where in byhand.members(data):
        member = byhand.member(item, where)
        if member.name in members:
            raise BadSnapshot([("members", f"{member.name!r} is there twice")])
        members[member.name] = member
    return members


def _units(data: object) -> dict[str, Unit]:
    units: dict[str, Unit] = {}
    for item, where in byhand.units(data):
        unit = byhand.unit(item, where)
        if unit.id in units:
            raise BadSnapshot([("units", f"{unit.id!r} is there twice")])
        units[unit.id] = unit
    return units


def now_of(document: object, snapshot: Snapshot) -> float:
    """The epoch second that a snapshot is of: the document's "now", else the newest time of its units. So a case
    decides alike at any time. Raises BadSnapshot for a "now" that is no number."""
    if isinstance(document, Mapping) and "now" in document:
        now: float = decode_value(float, document["now"], "now")
        return now
    units = snapshot.units.values()
    return max((max(u.created_at, u.enqueued_at, u.placed_at or 0.0) for u in units), default=0.0)


def encode_plan(plan: Plan) -> Json:
    """Reasons and causes come with their text, for readers; decoding makes it anew from code and numbers."""
    return {
        "version": bytype.PLAN_VERSION,
        "kind": "Plan",
        "placements": [encode(placement) for placement in plan.placements],
        "reasons": {
            key: {"code": reason.code.value, "numbers": reason.figures, "text": reason.text}
            for key, reason in sorted(plan.reasons.items())
        },
        "certificate": _encode_certificate(plan.certificate),
        **{
            name: encode(items)
            for name, items in (
                ("evictions", plan.evictions),
                ("claims", plan.claims),
                ("heads", plan.heads),
                ("resizes", plan.resizes),
            )
            if items
        },
    }


def _encode_certificate(certificate: Certificate) -> Json:
    document: Json = encode(certificate)
    if certificate.why:
        document["why"] = certificate.why
    for written, search in zip(document.get("victims", ()), certificate.victims, strict=True):
        if search.why:
            written["why"] = search.why
    return document


def _decode_certificate(document: object) -> Certificate:
    document = bytype.without(document, "why")
    if isinstance(document, Mapping) and isinstance(document.get("victims"), list):
        document = {**document, "victims": [bytype.without(search, "why") for search in document["victims"]]}
    found: Certificate = decode(Certificate, document, "certificate")
    return found


def _decode_reason(document: object, where: str) -> Reason:
    """The tier stands among the numbers."""
    document = bytype.without(document, "text")
    if isinstance(document, Mapping) and "tier" in document:
        raise BadSnapshot([(f"{where}.tier", "is no field that this version knows")])
    reason: Reason = decode(Reason, document, where)
    tier = Tier.of_word(reason.numbers.get("tier"))
    if tier is None:
        return reason
    return Reason(reason.code, {name: n for name, n in reason.numbers.items() if name != "tier"}, tier)


def decode_plan(document: object) -> Plan:
    """Raises BadSnapshot, which names the field."""
    data = _document(document, "Plan", PLAN)
    names = ("placements", "evictions", "claims", "heads", "resizes")
    placements, evictions, claims, heads, resizes = (listed(data.get(name, []), name) for name in names)
    reasons, certificate = data.get("reasons", {}), data.get("certificate", {"shipped": "greedy"})
    if not isinstance(reasons, Mapping):
        raise BadSnapshot([("reasons", "is not an object")])
    return Plan(
        tuple(decode(Placement, item, f"placements[{i}]") for i, item in enumerate(placements)),
        {key: _decode_reason(item, f"reasons[{key}]") for key, item in reasons.items()},
        versionone.certificate(certificate) if data["version"] == 1 else _decode_certificate(certificate),
        tuple(decode(Eviction, item, f"evictions[{i}]") for i, item in enumerate(evictions)),
        tuple(decode(RoomClaim, item, f"claims[{i}]") for i, item in enumerate(claims)),
        tuple(decode(Head, item, f"heads[{i}]") for i, item in enumerate(heads)),
        tuple(decode(SizeChange, item, f"resizes[{i}]") for i, item in enumerate(resizes)),
    )


def encode_record(
    snapshot: Snapshot, plan: Plan, *, now: float, seed: int, encoder: Callable[[Unit | Member], Any] | None = None
) -> Json:
    """All inputs of `decide`, and its result. `encoder` as for `encode_snapshot`."""
    return {
        "version": bytype.PLAN_VERSION,
        "kind": "Decision",
        "now": now,
        "seed": seed,
        "snapshot": encode_snapshot(snapshot, encoder),
        "plan": encode_plan(plan),
    }


def replay(record: object, *, solver: Solver | None = None) -> Plan:
    """Decide a record again. Without `solver` the recorded answers stand in for it, and the plan is the recorded one,
    even if the solver failed then. With one, the question is asked anew."""
    data = _document(record, "Decision", DECISION)
    for field in DECISION:
        if field not in data:
            raise BadSnapshot([(field, "is missing")])
    recorded = decode_plan(data["plan"]).certificate
    asked = CauseCode.NOT_ASKED not in (cause.code for cause in recorded.causes)
    stand_in = _RecordedSolver(recorded) if asked else None
    return decide(
        decode_snapshot(data["snapshot"]),
        now=decode_value(float, data["now"], "now"),
        seed=decode_value(int, data["seed"], "seed"),
        solver=solver or stand_in,
    )


def differences(plan: Plan, recorded: Plan) -> list[str]:
    """The parts of a replayed plan that came out otherwise; the certificate aside, which has times of the solver."""
    return [part for part in PLAN if part != "certificate" and getattr(plan, part) != getattr(recorded, part)]


def loads(text: str | bytes) -> object:
    """JSON text as a document. Raises BadSnapshot with the line for what is no JSON, and for a name that stands twice
    in one object: of two limits of one node the first would silently be none."""
    if not text.strip():
        raise BadSnapshot([("document", "is empty")])
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise BadSnapshot([("document", f"is no JSON: {error}")]) from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in found if names.count(name) > 1)!r} stands twice in one object")
    return found


class _RecordedSolver:
    """A solver that says again what one said when the record was made."""

    def __init__(self, certificate: Certificate) -> None:
        self._answers = iter(certificate.answers)
        self._said = iter([said for search in certificate.victims for said in search.said])

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        if isinstance(problem, VictimProblem):
            return self._victims(problem)
        return next(self._answers, Answer())

    def _victims(self, problem: VictimProblem) -> Answer:
        said = next(self._said, Said((), ()))
        leaves = tuple(int(index in said.leaves) for index in range(len(problem.victims))) if said.member else ()
        return Answer(leaves, said.member, said.stages, said.cause)


def _document(document: object, kind: str, fields: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise BadSnapshot([("document", "is not an object")])
    readable(document)
    newest, version = VERSION if kind == "Snapshot" else bytype.PLAN_VERSION, document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= newest:
        reads = "version 1" if newest == 1 else f"versions 1 to {newest}"
        found = f"is {version!r}" if "version" in document else "is missing"
        raise BadSnapshot([("version", f"{found}; this reads {reads}")])
    if document.get("kind", kind) != kind:
        raise BadSnapshot([("kind", f"is {document['kind']!r}, not {kind}")])
    unknown = sorted(set(document) - {"version", "kind", *fields})
    if unknown:
        raise BadSnapshot([(unknown[0] or '""', "is no field that this version knows")])
    return document
