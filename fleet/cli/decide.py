"""`fleet decide`: one decision, offline, from a snapshot that somebody mailed or a record that a hub kept."""

from __future__ import annotations

import sys
import time
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
    now: Annotated[float | None, typer.Option(help="Epoch seconds (default: now). Not for records.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the solver. Not for records.")] = 0,
    greedy: Annotated[bool, typer.Option("--greedy", help="Without the solver. Not for records.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Decide a snapshot offline: who starts where, who waits why.

    A decision record is replayed with the answer that its solver gave then, and compared with its plan.
    """
    from fleet import codec
    from fleet.decide import BadSnapshot

    text = _read(snapshot)
    try:
        document = codec.loads(text)
        if isinstance(document, dict) and document.get("kind") == "Decision":
            parsed, plan = codec.decode_snapshot(document.get("snapshot")), codec.replay(document)
            same = plan.placements == codec.decode_plan(document.get("plan")).placements
            verdict = f"the recorded plan {'is reproduced' if same else 'is NOT reproduced'}"
        else:
            parsed, verdict = codec.decode_snapshot(document), ""
            plan = run(parsed, now=time.time() if now is None else now, seed=seed, greedy=greedy)
    except BadSnapshot as error:
        raise Failure(f"{snapshot}: {error}") from error
    _show(parsed, plan, output)
    if verdict:
        print(verdict, file=sys.stderr)


def run(snapshot: Snapshot, *, now: float, seed: int, greedy: bool) -> Plan:
    """The plan, by the solver in this process. Raises BadSnapshot."""
    from fleet.decide import decide as decide_snapshot

    if greedy:
        return decide_snapshot(snapshot, now=now, seed=seed, solver=None)
    from fleet.placement.cpsat import CpSat

    return decide_snapshot(snapshot, now=now, seed=seed, solver=CpSat())


def _read(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read(SNAPSHOT_BYTES_MAX) if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror or error}") from error


def _show(snapshot: Snapshot, plan: Plan, output: Output) -> None:
    from fleet.amc import table
    from fleet.cli.output import show_one

    if output is not Output.table:
        from fleet.codec import encode_plan

        show_one(encode_plan(plan), output)
        return
    rows: list[list[Any]] = [["JOB", "MEMBER", "REASON"]]
    rows += [[snapshot.units[placement.unit].name, placement.member, ""] for placement in plan.placements]
    rows += [[snapshot.units[unit].name, "-", reason.text] for unit, reason in sorted(plan.reasons.items())]
    sys.stdout.writelines(line.rstrip() + "\n" for line in table.lines(rows))
    certificate = plan.certificate
    print(f"answer: {certificate.shipped}" + (f" ({certificate.why})" if certificate.why else ""))
    for stage in certificate.stages:
        print(f"  {stage.name}: {stage.value} of at most {stage.bound}, {stage.status}, {stage.seconds:.3f} s")
