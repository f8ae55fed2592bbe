"""A recorded decision as /fleet/v1/decisions shows it: its row in the list, and its content from the record.

The record stays plain JSON here. A record of a large fleet has 100,000 units, and the notation would make a value of
each.
"""

from __future__ import annotations

import base64
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from fleet.core.model.plan import Stage
from fleet.core.notation.causetexts import causes_in
from fleet.kinds import named_kind
from fleet.values.times import rfc3339

NAMED = 3  # jobs of each kind of change in a list
CHANGES = ("starts", "claims", "evictions")  # of a row, with names
Row = Mapping[str, Any]
Json = dict[str, Any]


def record_bytes(row: Row) -> bytes:
    """The record in a row, as JSON."""
    return zlib.decompress(base64.b64decode(row["record"]))


def short(row: Row) -> Json:
    """A row as decisionmodels.Decision describes it. An older release wrote rows without all that came later."""
    return {
        "id": row["id"],
        "at": rfc3339(float(row["now"])),
        **{name: row[name] for name in ("placed", "waiting", "shipped")},
        **{name: row.get(name) for name in ("claimed", "evicted", "gap", "why", "tookMs")},
        "causes": _causes(row),
        "named": {name: row.get(name, ())[:NAMED] for name in CHANGES},
    }


def changes(row: Row, change: str | None, job: str) -> bool:
    """Whether a decision changed something of this kind (of CHANGES; None: any), of a job with `job` in its name."""
    found = (one for name in CHANGES if change in (None, name) for one in row.get(name, ()))
    return (change is None and not job) or any(job in one["job"] for one in found)


def detail(row: Row, record: bytes, most: int | None, job: str, code: str) -> Json:
    """A row and its record as decisionmodels.DecisionDetail describes it, with at most so many reasons: those with
    `job` in the name and with this code ("": any). The work of a thread."""
    document = orjson.loads(record)
    snapshot, plan = document["snapshot"], document["plan"]
    units = {unit["id"]: unit for unit in snapshot["units"]}

    def named(unit: str) -> Json:
        found = units.get(unit, {})
        kind = named_kind(found.get("needs_kind", ""))
        return {"unit": unit, "job": found.get("name", unit), "kind": kind}

    reasons = [
        (unit, said)
        for unit, said in plan["reasons"].items()
        if (not code or said["code"] == code) and job in units.get(unit, {}).get("name", "")
    ]
    certificate = _certificate(plan["certificate"], named)
    return {
        **short(row),
        "seed": document["seed"],
        "units": len(snapshot["units"]),
        "members": len(snapshot["members"]),
        "ms": round(sum(stage["ms"] for stage in certificate["stages"]), 3),
        "certificate": certificate,
        "placements": [{**named(one["unit"]), "member": one["member"]} for one in plan["placements"]],
        "evictions": [
            {**named(one["unit"]), "member": one["member"], "for": named(one["preemptor"])}
            for one in plan.get("evictions", ())
        ],
        "claims": [
            {**named(one["unit"]), "member": one["member"], "until": rfc3339(one["until"])}
            for one in plan.get("claims", ())
        ],
        "codes": dict(Counter(said["code"] for said in plan["reasons"].values()).most_common()),
        "matching": len(reasons),
        "reasons": [
            {**named(unit), "reason": {name: said[name] for name in ("code", "text", "numbers")}}
            for unit, said in reasons[:most]
        ],
        **_gpus_of(snapshot, plan, units),
    }


def _certificate(certificate: Row, identity: Any) -> Json:
    stages = [
        {
            "name": stage["name"],
            "value": stage["value"],
            "bound": stage["bound"],
            "gap": Stage("", stage["value"], stage["bound"], "").gap,
            "status": stage["status"],
            "ms": round(stage.get("seconds", 0.0) * 1000, 3),
        }
        for stage in certificate.get("stages", ())
    ]
    victims = [
        {
            **identity(search["unit"]),
            "shipped": search["shipped"],
            "why": search.get("why", ""),
            "cause": next(iter(_causes(search)), None),
        }
        for search in certificate.get("victims", ())
    ]
    return {
        "shipped": certificate["shipped"],
        "why": certificate.get("why", ""),
        "causes": _causes(certificate),
        "stages": stages,
        "victims": victims,
        "bounds": list(certificate.get("bounds", ())),
    }


def _causes(part: Row) -> list[Json]:
    """Those of a row, a certificate or a search. An older release wrote their texts alone."""
    stored = part.get("causes") or [part[name] for name in ("cause",) if name in part]
    if stored:
        return [{"code": one["code"], "numbers": one.get("numbers", {}), "text": one["text"]} for one in stored]
    return [
        {"code": one.code.value, "numbers": one.numbers, "text": one.text} for one in causes_in(part.get("why") or "")
    ]


def _gpus(amounts: Mapping[str, int]) -> int:
    return sum(amount for name, amount in amounts.items() if name.endswith("/gpu"))


def _gpus_of(snapshot: Row, plan: Row, units: Mapping[str, Json]) -> Json:
    """GPUs of jobs by member and by quota leaf, before and after."""
    by_member: dict[str, Counter[str]] = defaultdict(Counter)
    by_leaf: dict[str, Counter[str]] = defaultdict(Counter)

    def add(unit: str, member: str, what: str) -> None:
        found = units.get(unit, {})
        gpus = sum(_gpus(part["requests"]) * part["replicas"] for part in found.get("components", ()))
        by_member[member][what] += gpus
        if found.get("leaf") is not None:
            by_leaf[found["leaf"]][what] += gpus

    leaving = {one["unit"]: one["member"] for one in plan.get("evictions", ())}
    for unit in units.values():
        phase = unit.get("phase")
        if phase in ("Placed", "Evicting") and unit.get("member") is not None:
            add(unit["id"], unit["member"], "before")
            if phase == "Evicting":
                leaving[unit["id"]] = unit["member"]
    for one in plan["placements"]:
        add(one["unit"], one["member"], "starts")
    for one, member in leaving.items():
        add(one, member, "leaves")
    nodes = (snapshot.get("tree") or {}).get("nodes", {})
    return {
        "byMember": [
            {"name": one["name"], "gpus": _room(one.get("pools", ())), **_before_and_after(by_member[one["name"]])}
            for one in snapshot["members"]
        ],
        "byQueue": [
            {"path": path, "max": _limit(nodes.get(path, {}).get("max", {})), **_before_and_after(by_leaf[path])}
            for path in sorted(by_leaf)
        ],
    }


def _before_and_after(sums: Counter[str]) -> Json:
    after = sums["before"] + sums["starts"] - sums["leaves"]
    return {**{name: sums[name] for name in ("before", "starts", "leaves")}, "after": after}


def _limit(most: Mapping[str, int]) -> int | None:
    limits = [amount for name, amount in most.items() if name.endswith("/gpu")]
    return sum(limits) if limits else None


def _room(pools: Iterable[Row]) -> int:
    """GPUs of the nodes that take pods, as far as the snapshot tells their size."""
    total = 0
    for pool in pools:
        node = _gpus(pool.get("allocatable", {}))
        total += sum(max(node, _gpus(free)) * count for free, count in pool.get("free", ()))
    return total
