"""Snapshots and plans on their way between two processes: each time only the differences from the last one.

Snapshots hand on the objects that have not changed, so what differs is found by identity. Everything goes in pieces of
bounded size, since packing and unpacking hold the interpreter, and with it the event loop of the controllers. Many
units have equal components: each of these parts goes once, and afterwards as its number, so that units share it on the
other side. A plan has a reason for each unit that waits, and few reasons: the units go in groups, by reason.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from fleet.core.decide import BadSnapshot
from fleet.core.model.member import Member
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Unit
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot, SnapshotChanges

UNITS_MOST = 500  # of one piece
PARTS_BYTES = 256 << 10  # of one piece; a part is never divided
IDS_MOST = 2_000  # of one piece of reasons
PARTS_SPARE = 1_000  # parts that are remembered, beside two for each unit

_NAMES = [item.name for item in fields(Unit) if item.init]
_values = attrgetter(*_NAMES)
_SHARED = [
    _NAMES.index(name)
    for name in ("components", "affinity_groups", "tolerations", "excluded", "avoid", "preferences", "rules")
]


@dataclass(slots=True)
class Piece:
    """A part of the differences. `anew`: the numbers of parts begin anew. `parts`: packed, those of the next numbers.
    `units`: the values of each, with numbers for those of `_SHARED` that are not empty."""

    anew: bool = False
    parts: list[bytes] = field(default_factory=list)
    units: list[list[Any]] = field(default_factory=list)
    member: Member | None = None
    gone_units: tuple[str, ...] = ()
    gone_members: tuple[str, ...] = ()
    tree: QuotaTree | None = None
    new_tree: bool = False
    config: Config | None = None


class SnapshotSender:
    """Knows the snapshot that the receiver has, which is empty at first."""

    def __init__(self) -> None:
        self._has = Snapshot()
        self._numbers: dict[object, int] = {}

    def pieces(self, snapshot: Snapshot) -> Iterator[Piece]:
        """The differences. The receiver has `snapshot` once it has taken all of them. Raises BadSnapshot, before the
        first one, for keys that are not those of their objects."""
        has = self._has
        units = [] if snapshot.units is has.units else _new(has.units, snapshot.units)
        members = [] if snapshot.members is has.members else _new(has.members, snapshot.members)
        if any(unit.id != key for key, unit in units) or any(member.name != key for key, member in members):
            raise BadSnapshot(snapshot.problems())
        piece = Piece(anew=len(self._numbers) > 2 * len(snapshot.units) + PARTS_SPARE)
        if piece.anew:
            self._numbers = {}
        parts_bytes = 0
        for _, unit in units:
            row = list(_values(unit))
            for index in _SHARED:
                if row[index]:
                    known = len(self._numbers)
                    number = self._numbers.setdefault(row[index], known)
                    if number == known:
                        piece.parts.append(pickle.dumps(row[index]))
                        parts_bytes += len(piece.parts[-1])
                    row[index] = number
            piece.units.append(row)
            if len(piece.units) == UNITS_MOST or parts_bytes > PARTS_BYTES:
                yield piece
                piece, parts_bytes = Piece(), 0
        yield from (Piece(member=member) for _, member in members)
        piece.gone_units = tuple([key for key in has.units if key not in snapshot.units])
        piece.gone_members = tuple([name for name in has.members if name not in snapshot.members])
        piece.tree, piece.new_tree = snapshot.tree, snapshot.tree != has.tree
        piece.config = snapshot.config
        yield piece
        self._has = snapshot


def _new(has: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in now.items() if has.get(key) is not value]


class SnapshotReceiver:
    """Makes snapshots of pieces."""

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._parts: list[Any] = []
        self._units: list[Unit] = []
        self._members: list[Member] = []
        self._last = Piece()

    def take(self, piece: Piece) -> None:
        """Take the next piece."""
        if piece.anew:
            self._parts = []
        self._parts += map(pickle.loads, piece.parts)
        for row in piece.units:
            for index in _SHARED:
                if isinstance(row[index], int):
                    row[index] = self._parts[row[index]]
            self._units.append(Unit(*row))
        if piece.member is not None:
            self._members.append(piece.member)
        self._last = piece

    def snapshot(self) -> Snapshot:
        """The snapshot whose pieces were taken, which knows what the one before it knew."""
        last = self._last
        changes = SnapshotChanges(
            tuple(self._units),
            last.gone_units,
            tuple(self._members),
            last.gone_members,
            tree=last.tree if last.new_tree else None,
            new_tree=last.new_tree,
            config=last.config or Config(),
            new_config=last.config is not None,
        )
        self._snapshot = self._snapshot.apply(changes)
        self._units, self._members, self._last = [], [], Piece()
        return self._snapshot


Reasons = Mapping[str, Reason]
Group = tuple[Reason, list[str]]  # units with this reason


def regrouped(before: Reasons, now: Reasons) -> Iterator[list[Group]]:
    """Those of `now` that differ from `before`, in pieces."""
    same: dict[tuple[int, int], bool] = {}  # by identity: few reasons, and many units
    groups: dict[int, Group] = {}
    for key, reason in now.items():
        old = before.get(key)
        if old is reason:
            continue
        if old is not None:
            pair = id(old), id(reason)
            if pair not in same:
                same[pair] = old == reason
            if same[pair]:
                continue
        groups.setdefault(id(reason), (reason, []))[1].append(key)
    piece: list[Group] = []
    size = 0
    for reason, keys in groups.values():
        for start in range(0, len(keys), IDS_MOST):
            part = keys[start : start + IDS_MOST]
            piece.append((reason, part))
            size += len(part)
            if size >= IDS_MOST:
                yield piece
                piece, size = [], 0
    if piece:
        yield piece


def merged(reasons: dict[str, Reason], piece: list[Group]) -> None:
    """Put a piece into `reasons`."""
    for reason, keys in piece:
        reasons.update(dict.fromkeys(keys, reason))
