"""`fleet decide`: one decision, offline, from a snapshot in a mail or a record that a hub kept."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import Output, OutputOption

if TYPE_CHECKING:
    from fleet.core.model.plan import Plan
    from fleet.core.placement.problem import Solver
    from fleet.core.snapshot import Snapshot

SNAPSHOT_BYTES_MAX = 1 << 30


def decide(
    snapshot: Annotated[
        Path | None, typer.Argument(help='A snapshot or a decision record as JSON ("-": stdin).', show_default=False)
    ] = None,
    now: Annotated[
        float | None, typer.Option(help="Epoch seconds (default: as the snapshot says). Not for records.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the solver (default: 0). Not for records.")] = None,
    greedy: Annotated[bool, typer.Option("--no-solver", help="Do not ask the solver. Not for records.")] = False,
    also_greedy: Annotated[bool, typer.Option("--greedy", hidden=True)] = False,  # the name of before
    explain: Annotated[
        str | None,
        typer.Option("--explain", metavar="JOB", help="Explain this job that waits, NAME or NAMESPACE/NAME, instead."),
    ] = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", help="Print the JSON Schema of snapshots; --schema plan, --schema decision: of those."
        ),
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Decide a snapshot offline: starts, members and reasons.

    A decision record is replayed with the answer that its solver gave then, and compared with its plan. With --explain,
    one job that waits is explained instead: its position, when it starts, and the smallest changes that would start it.
    """
    from fleet.core.decide import BadSnapshot
    from fleet.core.notation import codec

    if schema:
        _show_schema("snapshot" if snapshot is None else str(snapshot))
        return
    if snapshot is None:
        raise typer.BadParameter("name a file", param_hint="SNAPSHOT")
    if now is not None and not abs(now) <= codec.MOST_SECONDS:
        raise typer.BadParameter(f"{now} is no time that a clock shows", param_hint="--now")
    greedy = greedy or also_greedy
    text = read(snapshot)
    differ: list[str] = []
    try:
        document = codec.loads(text)
        record = isinstance(document, dict) and document.get("kind") == "Decision"
        if record:
            _refuse(snapshot, {"--now": now, "--seed": seed, "--no-solver": greedy or None})
        if explain is not None:
            _explain(document, explain, now, seed, None if greedy else _solver(), output)
            return
        if isinstance(document, dict) and record:
            parsed, plan = codec.decode_snapshot(document.get("snapshot")), codec.replay(document)
            differ = codec.differences(plan, codec.decode_plan(document.get("plan")))
        else:
            parsed = codec.decode_snapshot(document)
            at = codec.now_of(document, parsed) if now is None else now
            plan = run(parsed, now=at, seed=seed or 0, greedy=greedy)
    except BadSnapshot as error:
        raise Failure(f"{snapshot}: {error}") from error
    _show(parsed, plan, output)
    if differ:
        raise Failure(f"the recorded plan is NOT reproduced: {', '.join(differ)} differ")
    if record:
        print("the recorded plan is reproduced", file=sys.stderr)


def _refuse(snapshot: Path, given: Mapping[str, object]) -> None:
    """Options that a record answers itself must not be given."""
    for option in (option for option, value in given.items() if value is not None):
        raise typer.BadParameter(f"{snapshot} is a record, which says this itself", param_hint=option)


def run(snapshot: Snapshot, *, now: float, seed: int, greedy: bool) -> Plan:
    """The plan, by the solver in this process. Raises BadSnapshot."""
    from fleet.core.decide import decide as decide_snapshot

    if greedy:
        return decide_snapshot(snapshot, now=now, seed=seed, solver=None)
    return decide_snapshot(snapshot, now=now, seed=seed, solver=_solver())


def _solver() -> Solver:
    from fleet.core.solver.cpsat import CpSat

    return CpSat()


def _explain(
    document: object, job: str, now: float | None, seed: int | None, solver: Solver | None, output: Output
) -> None:
    """Of a record, as things were when it was decided."""
    from fleet.cli import explanation
    from fleet.cli.output import show_one
    from fleet.core.decide import BadSnapshot
    from fleet.core.notation import codec
    from fleet.hub.explaining import of_snapshot

    record = document if isinstance(document, dict) and document.get("kind") == "Decision" else None
    parsed = codec.decode_snapshot(document if record is None else record.get("snapshot"))
    then = codec.now_of(document, parsed) if record is None else record.get("now")
    at = now if now is not None and record is None else then
    if not isinstance(at, int | float):
        raise BadSnapshot([("now", "is not a number")])
    seed = seed or 0 if record is None else record.get("seed")
    if not isinstance(seed, int):
        raise BadSnapshot([("seed", "is not a whole number")])
    answer = of_snapshot(parsed, job, now=float(at), seed=seed, solver=solver)
    if output is not Output.table:
        show_one(answer, output)
        return
    reason = answer["reason"]
    print(f"{answer['job']}: {_stands(answer)}")
    if reason is not None:
        print(f"Reason:     {reason['text']}  ({reason['code']})")
    print("\n".join(explanation.lines(answer)))


def _stands(said: Mapping[str, Any]) -> str:
    if not said["starts"] or said["reason"] is not None:
        return "waits"
    return "starts" if said["certain"] else "likely starts"


def _show_schema(kind: str) -> None:
    from fleet.amc.yamlout import as_json
    from fleet.core.notation.schema import KINDS, schema

    if kind.capitalize() not in KINDS:
        raise typer.BadParameter(f"--schema knows {', '.join(KINDS).lower()}, not {kind}", param_hint="SNAPSHOT")
    sys.stdout.write(as_json(schema(kind.capitalize())))


def read(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read(SNAPSHOT_BYTES_MAX) if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror or error}") from error


def _show(snapshot: Snapshot, plan: Plan, output: Output) -> None:
    from fleet.amc import table
    from fleet.cli.alike import merged
    from fleet.cli.output import show_one
    from fleet.cli.whatif_table import source_in_words

    if output is not Output.table:
        from fleet.core.notation.codec import encode_plan

        show_one(encode_plan(plan), output)
        return
    said = [[snapshot.units[placement.unit].name, placement.member, ""] for placement in plan.placements]
    leaving = [[snapshot.units[e.unit].name, e.member, snapshot.units[e.preemptor].name] for e in plan.evictions]
    said += [[name, "-", f"leaves {member} for {preemptor}"] for name, member, preemptor in leaving]
    said += sorted([snapshot.units[unit].name, "-", reason.text] for unit, reason in plan.reasons.items())
    rows = [["JOB", "MEMBER", "REASON"], *merged(said)]
    sys.stdout.writelines(line.rstrip() + "\n" for line in table.lines(rows))
    certificate = plan.certificate
    print(f"answer: {source_in_words(certificate.shipped, certificate.causes)}")
    if certificate.bounds:
        print(f"bounds reached: {', '.join(certificate.bounds)}")
    for stage in certificate.stages:
        print(
            f"  {stage.name}: {stage.value} of at most {stage.bound}, gap {stage.gap:.2%}, {stage.status},"
            f" {stage.seconds:.3f} s"
        )
