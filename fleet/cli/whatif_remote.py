"""`fleet what-if` as the hub answers it alone: it reads names and manifests, and counts jobs that the user may not see.

So it is for a user who may not read the snapshot, and where no part of a hub is installed to read it with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.cli.declarations import know_kinds
from fleet.cli.failure import Failure
from fleet.cli.manifests import documents
from fleet.core.model.unit import LEAST_PRIORITY, MOST_PRIORITY
from fleet.kinds import interpreter_of
from fleet.values.quantity import BadQuantity, quantity

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

Json = dict[str, Any]
NEEDS = "take the right to `get` the path /fleet/v1/snapshot (docs/how-to/give-people-access.md)"
_LIMIT = re.compile(r"(?P<node>.+?)\.(?P<limit>min|max)\.(?P<resource>[^=]+)=(?P<amount>[^=]*)")
_WRONG = re.compile(r"edits\[(\d+)\][^:]*: (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """The options, as they were written, in the order of their edits."""

    add_member: Sequence[str]
    scale: Sequence[str]
    tree: Path | None
    limits: Sequence[str]
    remove: Sequence[str]
    hold: Sequence[str]
    release: Sequence[str]
    priority: Sequence[str]
    move: Sequence[str]
    cordon: Sequence[str]
    uncordon: Sequence[str]
    drain: Sequence[str]
    lose: Sequence[str]
    fail_over: Sequence[str]
    submit: Sequence[Path]
    namespace: str


class BadOption(ValueError):
    """The option says no edit; the text gives the cause."""


def matched(pattern: re.Pattern[str], text: str, example: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise BadOption(f"is not of the form {example}")
    return found


def limit(text: str) -> tuple[str, str, str, int | None]:
    """Node, field, resource and amount of NODE.FIELD=VALUE. Raises BadOption."""
    match = matched(_LIMIT, text, "root/a.max.nvidia.com/gpu=32")
    amount = None
    if match["amount"] not in ("", "none"):
        try:
            amount = quantity(match["amount"], match["resource"])
        except BadQuantity as error:
            raise BadOption(f"{match['amount']} {error}") from error
        if amount < 0:
            raise BadOption(f"{match['amount']} must not be negative")
    return (match["node"], match["limit"], match["resource"], amount)


def priority(text: str) -> tuple[str, int]:
    """Of JOB=5. Raises BadOption."""
    job, _, given = text.rpartition("=")
    if not job or not re.fullmatch(r"-?\d{1,1000}", given):
        raise BadOption("is not of the form JOB=5")
    if not LEAST_PRIORITY <= int(given) <= MOST_PRIORITY:
        raise BadOption(f"the priority is not between {LEAST_PRIORITY} and {MOST_PRIORITY}")
    return job, int(given)


def move(text: str) -> tuple[str, str]:
    """Of JOB=root/b. Raises BadOption."""
    job, _, leaf = text.rpartition("=")
    if not job or not leaf:
        raise BadOption("is not of the form JOB=root/b")
    return job, leaf


def answer(hub: HubClient, choices: WhatIfOptions, needs: str = NEEDS) -> Json:
    """The hub's answer about the options. `needs`: what edits of members and of the whole tree are refused with. Raises
    Failure, which names the option."""
    from fleet.cli.hub import HubRefusal

    options: list[str] = []
    edits: list[Json] = []
    for option, make in _makers(hub, choices, needs):
        try:
            for edit in make():
                options.append(option)
                edits.append(edit)
        except BadOption as error:
            raise Failure(f"{option}: {error}") from error
    if not edits:
        raise Failure("nothing to try: give an edit such as --set, --priority or --submit (fleet what-if --help)")
    try:
        found: Json = hub.request("POST", "/fleet/v1/what-if", {"edits": edits}).body
        return found
    except HubRefusal as refused:
        wrong = _WRONG.match(str(refused))
        if wrong is None or int(wrong[1]) >= len(options):
            raise
        raise Failure(f"{options[int(wrong[1])]}: {wrong[2]}") from refused


def _makers(hub: HubClient, choices: WhatIfOptions, needs: str) -> Iterator[tuple[str, Callable[[], list[Json]]]]:
    """For each option its text, and the function that makes edits of it; in the order of fleet/hub/whatif_edits.py."""
    whole = {
        "--add-member": choices.add_member,
        "--scale": choices.scale,
        "--tree": choices.tree,
        "--cordon": choices.cordon,
        "--uncordon": choices.uncordon,
        "--drain": choices.drain,
        "--lose": choices.lose,
        "--fail-over": choices.fail_over,
    }
    given = [option for option, texts in whole.items() if texts]
    if given:
        raise Failure(f"{', '.join(given)}: edits of members and of the whole tree {needs}")
    each: tuple[tuple[str, Iterable[Any], Callable[..., list[Json]]], ...] = (
        ("--set", choices.limits, _limited),
        ("--remove", choices.remove, partial(_of_job, "Remove")),
        ("--hold", choices.hold, partial(_of_job, "Hold", held=True)),
        ("--release", choices.release, partial(_of_job, "Hold", held=False)),
        ("--priority", choices.priority, _prioritized),
        ("--move", choices.move, _moved),
        ("--submit", choices.submit, partial(_submitted, hub)),
    )
    for option, texts, make in each:
        for text in texts:
            yield f"{option} {text}", partial(make, namespace=choices.namespace, text=text)


def _limited(namespace: str, text: str) -> list[Json]:
    node, field, resource, amount = limit(text)
    return [{"SetLimit": {"node": node, "limit": field, "resource": resource, "amount": amount}}]


def _of_job(edit: str, namespace: str, text: str, **fields: Any) -> list[Json]:
    return [{edit: {"unit": text if "/" in text else f"{namespace}/{text}", **fields}}]


def _prioritized(namespace: str, text: str) -> list[Json]:
    job, given = priority(text)
    return _of_job("Prioritize", namespace, job, priority=given)


def _moved(namespace: str, text: str) -> list[Json]:
    job, leaf = move(text)
    return _of_job("MoveTo", namespace, job, leaf=leaf)


def _submitted(hub: HubClient, namespace: str, text: Path) -> list[Json]:
    bodies = documents(text)
    know_kinds(bodies, hub)
    jobs = [body for body in bodies if interpreter_of(body["apiVersion"], body["kind"]) is not None]
    if not jobs:
        raise BadOption("holds no job")
    home = {"namespace": namespace}
    return [{"Submit": {"manifest": {**job, "metadata": {**home, **job["metadata"]}}}} for job in jobs]
