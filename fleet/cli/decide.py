"""`fleet decide`: one decision, offline, from a snapshot that somebody mailed or a hub recorded."""

from __future__ import annotations

import base64
import binascii
import json
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import Output, OutputOption

if TYPE_CHECKING:
    from fleet.plan import Plan
    from fleet.snapshot import Snapshot

SNAPSHOT_BYTES_MAX = 1 << 30


def decide(
    snapshot: Annotated[Path, typer.Argument(help='A snapshot or a decision record as JSON ("-": stdin).')],
    now: Annotated[float | None, typer.Option(help="Epoch seconds (default: the record's, else now).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the solver (default: the record's, else 0).")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Without the solver.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Decide a snapshot offline: who starts where, who waits why."""
    document = _read(snapshot)
    record = document if isinstance(document.get("snapshot"), str) else {}
    parsed = _snapshot(_unpack(record["snapshot"]) if record else document, snapshot)
    plan = run(
        parsed,
        now=now if now is not None else float(record.get("now", time.time())),
        seed=seed if seed is not None else int(record.get("seed", 0)),
        greedy=greedy,
    )
    _show(parsed, plan, output)


def run(snapshot: Snapshot, *, now: float, seed: int, greedy: bool) -> Plan:
    """The plan. Raises Failure where the snapshot contradicts itself."""
    from fleet.decide import BadSnapshot
    from fleet.decide import decide as decide_snapshot

    solver = None
    if not greedy:
        from fleet.placement.cpsat import CpSat

        solver = CpSat()
    try:
        return decide_snapshot(snapshot, now=now, seed=seed, solver=solver)
    except BadSnapshot as error:
        raise Failure(f"bad snapshot: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = sys.stdin.buffer.read(SNAPSHOT_BYTES_MAX) if str(path) == "-" else path.read_bytes()
        document = json.loads(raw)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise Failure(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Failure(f"{path} is no snapshot: not a JSON object")
    return document


def _unpack(packed: str) -> dict[str, Any]:
    try:
        document = json.loads(zlib.decompress(base64.b64decode(packed, validate=True)))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise Failure(f"the record's snapshot does not unpack: {error}") from error
    return document if isinstance(document, dict) else {}


def _snapshot(document: dict[str, Any], path: Path) -> Snapshot:
    from fleet.codec import snapshot_from_json

    try:
        return snapshot_from_json(document)
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{path} is no snapshot: {' '.join(str(error).split()) or type(error).__name__}") from error


def _show(snapshot: Snapshot, plan: Plan, output: Output) -> None:
    from fleet.amc import table
    from fleet.cli.output import show_one

    if output is not Output.table:
        from fleet.codec import plan_to_json

        show_one(plan_to_json(plan), output)
        return
    rows = [["JOB", "MEMBER", "REASON"]]
    rows += [[snapshot.units[placement.unit].name, placement.member, ""] for placement in plan.placements]
    rows += [[snapshot.units[unit].name, "-", reason.text] for unit, reason in sorted(plan.reasons.items())]
    sys.stdout.writelines(line.rstrip() + "\n" for line in table.lines(rows))
    certificate = plan.certificate
    print(f"answer: {certificate.shipped}" + (f" ({certificate.why})" if certificate.why else ""))
    for stage in certificate.stages:
        print(f"  {stage.name}: {stage.value} of at most {stage.bound}, {stage.status}, {stage.seconds:.3f} s")
