"""`fleet what-if` of a user who may not read the snapshot: the hub reads names and manifests, and counts other jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.cli.declared import know_kinds
from fleet.cli.failure import Failure
from fleet.cli.manifests import documents
from fleet.cli.whatif_edits import Asked, limit, move, priority
from fleet.foresee.edits import BadEdit
from fleet.kinds import interpreter_of
from fleet.notation.edits import encode_edits

if TYPE_CHECKING:
    from fleet.cli.hub import Hub

Json = dict[str, Any]
NEEDS = "take the right to `get` the path /fleet/v1/snapshot (docs/how-to/give-people-access.md)"
_WRONG = re.compile(r"edits\[(\d+)\][^:]*: (.*)", re.DOTALL)


def answer(hub: Hub, asked: Asked) -> Json:
    """The hub's answer about the options. Raises Failure, which names the option."""
    from fleet.cli.hub import Refused

    options: list[str] = []
    edits: list[Json] = []
    for option, make in _makers(hub, asked):
        try:
            for edit in make():
                options.append(option)
                edits.append(edit)
        except BadEdit as error:
            raise Failure(f"{option}: {error}") from error
    if not edits:
        raise Failure("nothing to try: give an edit such as --set, --priority or --submit (fleet what-if --help)")
    try:
        found: Json = hub.request("POST", "/fleet/v1/what-if", {"edits": edits}).body
        return found
    except Refused as refused:
        wrong = _WRONG.match(str(refused))
        if wrong is None or int(wrong[1]) >= len(options):
            raise
        raise Failure(f"{options[int(wrong[1])]}: {wrong[2]}") from refused


def _makers(hub: Hub, asked: Asked) -> Iterator[tuple[str, Callable[[], list[Json]]]]:
    """For each option its text, and the function that makes edits of it; in the order of Asked.makers."""
    whole = {
        "--add-member": asked.add_member, "--scale": asked.scale, "--tree": asked.tree, "--drain": asked.drain,
        "--lose": asked.lose, "--fail-over": asked.fail_over,
    }  # fmt: skip
    given = [option for option, texts in whole.items() if texts]
    if given:
        raise Failure(f"{', '.join(given)}: edits of members and of the whole tree {NEEDS}")
    each: tuple[tuple[str, Iterable[Any], Callable[..., list[Json]]], ...] = (
        ("--set", asked.limits, _limited), ("--remove", asked.remove, partial(_of_job, "Remove")),
        ("--hold", asked.hold, partial(_of_job, "Hold", held=True)),
        ("--release", asked.release, partial(_of_job, "Hold", held=False)),
        ("--priority", asked.priority, _prioritized), ("--move", asked.move, _moved),
        ("--submit", asked.submit, partial(_submitted, hub)),
    )  # fmt: skip
    for option, texts, make in each:
        for text in texts:
            yield f"{option} {text}", partial(make, namespace=asked.namespace, text=text)


def _limited(namespace: str, text: str) -> list[Json]:
    return encode_edits([limit(text)])


def _of_job(edit: str, namespace: str, text: str, **fields: Any) -> list[Json]:
    return [{edit: {"unit": text if "/" in text else f"{namespace}/{text}", **fields}}]


def _prioritized(namespace: str, text: str) -> list[Json]:
    job, given = priority(text)
    return _of_job("Prioritize", namespace, job, priority=given)


def _moved(namespace: str, text: str) -> list[Json]:
    job, leaf = move(text)
    return _of_job("MoveTo", namespace, job, leaf=leaf)


def _submitted(hub: Hub, namespace: str, text: Path) -> list[Json]:
    bodies = documents(text)
    know_kinds(bodies, hub)
    jobs = [body for body in bodies if interpreter_of(body["apiVersion"], body["kind"]) is not None]
    if not jobs:
        raise BadEdit("holds no job")
    home = {"namespace": namespace}
    return [{"Submit": {"manifest": {**job, "metadata": {**home, **job["metadata"]}}}} for job in jobs]
