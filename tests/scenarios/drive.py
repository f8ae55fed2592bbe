"""Scenarios as data: reading the files, deciding, and carrying a plan out between two decisions. README.md has the
notation. A story over time goes step by step; a stream runs on the virtual clock of `fleet/core/foresee`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.foresee.forward import Forward, UnitEventKind
from fleet.core.model.leaving import vacated
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Claim, Phase, Unit
from fleet.core.notation.codec import decode_snapshot, differences, encode_record, now_of, replay
from fleet.core.placement.problem import Solver
from fleet.core.placement.reservation.heads import nominated
from fleet.core.snapshot import Snapshot, SnapshotChanges

FOLDER = Path(__file__).parent
EXPECTED = {"starts", "waits", "evicts", "claims", "heads", "solver", "again"}
STREAM = {"stream", "runs_s", "lasts", "runs_to_its_end", "starts_within"}
SCENARIO = {"name", "why", "snapshot", "then", *EXPECTED, *STREAM}
STEP = {"why", "after", "ends", "leaves", "arrives", *EXPECTED}
CYCLE_S = 60.0
MOST_EVENTS = 20_000

Document = Mapping[str, Any]


def scenarios() -> Iterator[Document]:
    """All scenarios of all files, in order. Raises ValueError for a field that no scenario has."""
    for file in sorted(FOLDER.glob("*.yaml")):
        for scenario in yaml.safe_load(file.read_text()):
            unknown = set(scenario) - SCENARIO | {key for step in scenario.get("then", ()) for key in set(step) - STEP}
            missing = {"name", "why", "snapshot"} - set(scenario)
            if unknown or missing:
                raise ValueError(f"{file.name}: {scenario.get('name')!r}: unknown {unknown}, missing {missing}")
            yield scenario


@dataclass(frozen=True)
class Moment:
    """A snapshot and the epoch second that it is of."""

    snapshot: Snapshot
    now: float

    @staticmethod
    def of(document: Document) -> Moment:
        snapshot = decode_snapshot({"version": 1, **document})
        # the limit in deterministic time alone may end a search: a pause of the machine then changes no answer
        snapshot = replace(snapshot, config=replace(snapshot.config, solve_limit_s=60.0))
        return Moment(snapshot, now_of(document, snapshot))

    def decided(self, solver: Solver | None) -> Plan:
        """The plan, which the checker accepts, and to which its record leads."""
        plan = decide(self.snapshot, now=self.now, seed=1, solver=solver)
        assert check(self.snapshot, plan, now=self.now) == ()
        assert differences(replay(encode_record(self.snapshot, plan, now=self.now, seed=1)), plan) == []
        assert "checker" not in plan.certificate.why
        return plan

    def carried_out(self, plan: Plan) -> Moment:
        """Placed units run, victims are leaving, claims and heads are remembered."""
        units = {unit.id: unit for unit in nominated(self.snapshot.units, plan)}

        def known(key: str) -> Unit:
            return units.get(key, self.snapshot.units[key])

        for placed in plan.placements:
            units[placed.unit] = replace(
                known(placed.unit),
                phase=Phase.PLACED,
                member=placed.member,
                placed_at=self.now,
                share_until=placed.share_until,
                claim=None,
                head=None,
            )
        for eviction in plan.evictions:
            units[eviction.unit] = replace(known(eviction.unit), phase=Phase.EVICTING, leaving_at=self.now)
        for claim in plan.claims:
            units[claim.unit] = replace(known(claim.unit), claim=Claim(claim.member, claim.until))
        return replace(self, snapshot=self.snapshot.apply(SnapshotChanges(put_units=tuple(units.values()))))

    def then(self, step: Document) -> Moment:
        """The moment before a step: time passes, units end, victims are gone and wait again, units arrive."""
        snapshot = self.snapshot
        assert all(snapshot.units[key].phase is Phase.EVICTING for key in step.get("leaves", ()))
        for key in (*step.get("ends", ()), *step.get("leaves", ())):
            snapshot = _without(snapshot, snapshot.units[key])
        again = [
            replace(
                self.snapshot.units[key],
                phase=Phase.WAITING,
                member=None,
                placed_at=None,
                share_until=None,
                leaving_at=None,
            )
            for key in step.get("leaves", ())
        ]
        arrived = decode_snapshot({"version": 1, "units": step.get("arrives", [])}).units.values()
        return Moment(snapshot.apply(SnapshotChanges(put_units=(*again, *arrived))), self.now + step.get("after", 0))


def _without(snapshot: Snapshot, gone: Unit) -> Snapshot:
    """The snapshot once a unit that ran is gone. Nodes that share it with others are not followed."""
    assert not any(seat.node == own.node for own in gone.seats for u in _others(snapshot, gone) for seat in u.seats)
    member = snapshot.members[gone.member or ""]
    return snapshot.apply(SnapshotChanges(removed_units=(gone.id,), put_members=(vacated(member, [gone]),)))


def _others(snapshot: Snapshot, unit: Unit) -> list[Unit]:
    return [other for other in snapshot.units.values() if other is not unit]


class Stream:
    """A scenario's snapshot run forward while the jobs of its streams keep coming: one decision a minute at most."""

    def __init__(self, scenario: Document, solver: Solver | None) -> None:
        first = Moment.of(scenario["snapshot"])
        self._began, self._lasts_s = first.now, float(scenario["lasts"])
        self._runs_s: dict[str, float] = dict(scenario.get("runs_s", {}))
        coming = [made for stream in scenario["stream"] for made in self._coming(stream)]
        self.run = Forward(
            first.snapshot,
            now=first.now,
            cycle_s=CYCLE_S,
            tick_s=CYCLE_S,
            gangs=[unit for _, unit in coming],
            decider=lambda run: Moment(run.snapshot(), run.now).decided(solver),
            runs_s=lambda unit, now: self._runs_s.get(unit.id),
        )
        for at, unit in coming:
            self.run.submit(at, unit)
        self.run.run(most_events=MOST_EVENTS, until=first.now + self._lasts_s)

    def _coming(self, stream: Document) -> Iterator[tuple[float, Unit]]:
        made = decode_snapshot({"version": 1, "units": [stream["job"]]}).units.values()
        for unit in made:
            for number in count(1):
                at = self._began + number * stream["every"]
                if at > self._began + self._lasts_s:
                    break
                key = f"{unit.id}-{number:04}"
                self._runs_s[key] = stream["runs_s"]
                yield at, replace(unit, id=key, name=key, enqueued_at=at)

    def ended(self) -> set[str]:
        return {event.unit for event in self.run.log if event.what is UnitEventKind.ENDED}

    def waited_s(self, unit: str) -> float:
        """From the beginning to the first start; infinite for a unit that never starts."""
        return self.run.started.get(unit, float("inf")) - self._began


def found(plan: Plan, expected: Document) -> dict[str, Any]:
    """A plan in the notation of expectations, as far as `expected` asks for it."""
    said: dict[str, Any] = {
        "starts": {p.unit: _one_of(p.member, expected.get("starts", {}).get(p.unit)) for p in plan.placements},
        "evicts": {e.unit: e.preemptor for e in plan.evictions},
        "claims": {c.unit: _one_of(c.member, expected.get("claims", {}).get(c.unit)) for c in plan.claims},
    }
    if "heads" in expected:
        said["heads"] = {
            head.unit: {"member": n.member, "at": n.at, "certain": n.certain}
            if isinstance(expected["heads"].get(head.unit), Mapping)
            else n.member
            for head in plan.heads
            for n in [head.nomination]
        }
    said["waits"] = {key: _reason(plan, key, as_expected) for key, as_expected in expected.get("waits", {}).items()}
    return said


def _one_of(member: str, expected: object) -> object:
    """The list of members that are allowed, if this is one of them; else the member."""
    return expected if isinstance(expected, Sequence) and member in expected else member


def _reason(plan: Plan, unit: str, expected: object) -> object:
    reason = plan.reasons.get(unit)
    if reason is None:
        return None
    if not isinstance(expected, Mapping):
        return reason.code.value
    has = {**reason.figures, "code": reason.code.value, "text": reason.text}
    return {name: has.get(name) for name in expected}


def wanted(expected: Document) -> dict[str, Any]:
    """The expectation with what it leaves out."""
    nobody: dict[str, Any] = {"starts": {}, "evicts": {}, "claims": {}, "waits": {}}
    return nobody | {
        name: expected[name] for name in ("starts", "evicts", "claims", "heads", "waits") if name in expected
    }
