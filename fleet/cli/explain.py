"""`fleet explain`: everything that the hub knows of one job, its reason first.

Place, start and helpful changes are made from the decider's newest snapshot, which the controllers write at their
leisure. A job submitted a moment ago may not be in it. A question about it waits for that, for a while.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fleet.cli import explanation
from fleet.cli.jobs import since
from fleet.cli.options import (
    ContextOption,
    DataDirOption,
    JobArgument,
    KubeconfigOption,
    NamespaceOption,
    Output,
    OutputOption,
)

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

UNSEEN_MOST_S = 20.0  # how long a job may be missing from the newest snapshot before the rest is shown without it
UNSEEN_EVERY_S = 0.5
WAITS = ("Queued", "Held", "BackOff", "Waiting", "Suspended")  # where it has no member
FAILURES_MOST = 3  # attempts that are shown to people
LEFT_OUT = ("DeciderFailed", "TooCostly")  # reasons of jobs that are in no snapshot
NUMBERS = {"tier": "counts as", "head": "behind"}  # names that people know, for those of -o json
COUNTS_AS = {
    "Guaranteed": "within its min",
    "Share": "within its fair share",
    "Crossing": "partly above its fair share",
    "Borrowed": "above its fair share",
}
DETAILS = ("priority", "policy", "attempt", "components", "checks", "failures", "conditions")


def explain(
    job: JobArgument,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Say why a job waits, when it starts, and changes that help."""
    from fleet.cli import joblist
    from fleet.cli.hub import connect
    from fleet.cli.output import show_one

    hub = connect(kubeconfig, data_dir, context)
    where = namespace or hub.namespace
    found = joblist.job_named(hub, where, job)
    path = f"{joblist.JOBS}/{where}/{found['kind']}/{found['name']}"
    record = described(hub, path)
    if output is Output.table:
        print("\n".join(_lines(record)))
    else:
        show_one(record, output)


def described(
    hub: HubClient,
    path: str,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """The job at `path`, with its explanation while it waits; without, when the decider's newest snapshot does not show
    it within UNSEEN_MOST_S."""
    from fleet.cli import jobs

    until: float | None = None
    while True:
        detail = hub.request("GET", path).body
        record = jobs.record(detail, time.time()) | {field: detail[field] for field in DETAILS}
        record["explanation"] = hub.find(f"{path}/explanation") if _waits(record) else None
        if record["explanation"] is not None or not _waits(record) or record["code"] in LEFT_OUT:
            return record
        if until is None:
            until = clock() + UNSEEN_MOST_S
            print("the hub has not looked at this job since it began to wait; asking again", file=sys.stderr)
        elif clock() >= until:
            return record
        sleep(UNSEEN_EVERY_S)


def _waits(record: dict[str, Any]) -> bool:
    return record["state"] in WAITS and not record["member"]


def evictions(conditions: list[dict[str, Any]], now: float) -> list[str]:
    """That it was evicted, while it waits for its next start."""
    return [
        f"{since(c['lastTransitionTime'], now)} ago: {c['message']}"
        for c in conditions
        if (c.get("type"), c.get("status")) == ("Evicted", "True")
    ]


def checks(entries: list[dict[str, Any]], now: float) -> list[str]:
    """The admission checks that it waits for while it is Reserved."""
    found = ["Checks:"] if entries else []
    for entry in entries:
        lasted = since(entry["since"], now)
        state = f"{entry['state']} for {lasted}" if lasted else entry["state"]
        found.append(f"  {entry['name']}: {state}" + (f": {entry['message']}" if entry["message"] else ""))
    return found


def failures(entries: list[dict[str, Any]], now: float) -> list[str]:
    """The attempts that came to nothing, the newest first."""
    found = [f"Failed attempts: {len(entries)}"] if entries else []
    for entry in list(reversed(entries))[:FAILURES_MOST]:
        at = since(entry["at"], now)
        where = f"{f'{at} ago' if at else 'once'}{' in ' + entry['member'] if entry['member'] else ''}"
        found.append(f"  {where}: {entry['reason']}" + (f": {entry['message']}" if entry["message"] else ""))
    return found


def _numbers(code: str | None, numbers: dict[str, Any]) -> list[str]:
    """The numbers of the reason, under names that people know."""
    numbers = {key: COUNTS_AS.get(value, value) if key == "tier" else value for key, value in numbers.items()}
    numbers.pop("release", None)  # the sentence says it
    rows = {NUMBERS.get(key, key): value for key, value in numbers.items()}
    if code == "BehindHead":  # its "what" is a part of the sentence, with the verb: "room in member east is"
        rows = {"reserved" if key == "what" else key: value for key, value in rows.items()}
        rows["reserved"] = str(rows["reserved"]).removesuffix(" is")
    if code == "GuaranteeExhausted":  # a limit is the number "max", and this one is a min
        rows = {"min" if key == "max" else key: value for key, value in rows.items()}
    return [f"  {key}: {value}" for key, value in rows.items()]


def _lines(record: dict[str, Any]) -> list[str]:
    lines = [f"{record['kind']} {record['namespace']}/{record['name']}: {record['state']}"]
    if record["member"]:
        lines[0] += f" in {record['member']}"
    if record["reason"]:
        lines.append(f"Reason:     {record['reason']}" + (f"  ({record['code']})" if record["code"] else ""))
    lines += _numbers(record["code"], record["numbers"] or {})
    lines += [f"Evicted:    {text}" for text in evictions(record["conditions"], time.time())]
    if record["explanation"] is not None:
        lines += explanation.lines(record["explanation"])
    elif record["code"] in LEFT_OUT:
        lines.append("Starts:     not worked out: the decider leaves it out")
    elif _waits(record):
        lines.append("Starts:     not worked out: the hub has not looked at the job since it began to wait")
    for title in ("queue", "priority", "policy", "attempt", "age"):
        if record[title] is not None:
            lines.append(f"{title.capitalize() + ':':<11} {record[title]}")
    lines += checks(record["checks"], time.time())
    lines.append("Components:")
    for component in record["components"]:
        requests = ", ".join(f"{name}={amount}" for name, amount in component["requests"].items())
        lines.append(f"  {component['replicas']} × {component['name']}: {requests or 'no requests'}")
    lines += failures(record["failures"], time.time())
    if record["conditions"]:
        lines.append("Conditions:")
    for condition in record["conditions"]:
        text = f"  {condition.get('type')}={condition.get('status')} {condition.get('reason', '')}".rstrip()
        lines.append(f"{text}: {condition['message']}" if condition.get("message") else text)
    return lines
