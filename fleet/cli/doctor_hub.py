"""Checks of `fleet doctor` on the hub itself: who decides, loops, database, history, disk, clocks, notifications, …"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fleet import __version__
from fleet.bindings.finding import Finding
from fleet.cli.failure import Failure
from fleet.cli.notifications import NOTIFICATIONS
from fleet.cli.patient import DAY_S, PatientHub, days, size
from fleet.values.times import seconds

CLOCK_S = 5.0  # that two clocks may differ
ROUND_TRIP_MS = 100.0
AWAY = "start PostgreSQL; where it runs, look at its log, its load and its disk; else correct --database-url"
WRITE_MS = 1000.0
TRANSACTION_S = 300.0
CONNECTIONS_PART = 0.8  # of those that the server takes
DISK_PART, DISK_BYTES = 0.1, 2 << 30  # that are free at least
FULL_BYTES = 32 << 20  # less room than a segment of the database's log needs twice
QUIET_S = 10.0  # without a failure: the signs of life of the controllers come each five seconds
EXPIRY_S = 30 * DAY_S
HISTORY_S = 300.0  # that the history may be behind: the log reaches back three times as far
RECEIVERS = "/apis/config.fleet.io/v1alpha1/notificationreceivers"
GIVEN_UP_MOST = 1000  # notifications that are counted
OLDEST_KUBECTL = 27  # the minor version of the oldest kubectl that works
_REMEDY = {
    "the hub's CA": "make a new hub, or bring your own CA: all clients trust this one",
    "the server": "restart the API process, which makes a new one (a certificate of your own: put a new one there, and"
    " it is shown without a restart)",
    "a client authority": "put a new one into --client-ca-file, and restart the API process",
}


def full(patient: PatientHub) -> bool:
    """Whether the disk takes no more writes: what else fails then follows from that. False where the user may not
    know."""
    try:
        return int(patient.parts["disk"]["free"]) < FULL_BYTES
    except Failure:
        return False


def stopped(patient: PatientHub) -> bool:
    """Whether nothing can be written: the disk is full, or the database is away or takes no writes. False as above."""
    try:
        database = patient.parts["database"]
        return full(patient) or database is None or bool(database.get("writeTrouble"))
    except Failure:
        return False


def nobody_decides(patient: PatientHub) -> Iterator[Finding]:
    """No leader, or a leader whose decider has stopped."""
    if stopped(patient):
        return
    for problem in patient.status["problems"]:
        if problem.startswith("nobody decides"):
            mend = "start fleet controllers (fleet up restarts it by itself), and read its log"
            yield Finding("nobody-decides", "Hub", "", "controllers", problem, mend)


def failing_loops(patient: PatientHub) -> Iterator[Finding]:
    """Loops of the controllers that failed within the last minute."""
    if stopped(patient):
        return
    for entry in patient.status["failing"]:
        error = f", on {entry['error']}" if entry.get("error") else ""
        at = seconds(entry["last"])
        if at is not None and patient.now - at > QUIET_S:
            error += (
                f"; no failure in the {patient.now - at:.0f} s since, and after a minute without one it is no finding"
            )
        why = (
            f"failed {_times(entry['failures'])}, was restarted {_times(entry['restarts'])}, last at"
            f" {entry['last']}{error}"
        )
        yield Finding(
            "loop-fails",
            "Loop",
            "",
            entry["loop"],
            why,
            "mend what the error names; for a report of a bug, the log of fleet controllers has the trace",
        )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def troubles(patient: PatientHub) -> Iterator[Finding]:
    """What concerns many jobs at once: nodes that are not ready, jobs that are not sent, webhooks that fail, and a user
    who has most of the jobs that wait."""
    for one in patient.status.get("warnings", ()):
        yield Finding(**one)


def set_aside(patient: PatientHub) -> Iterator[Finding]:
    """Objects that a loop of the controllers cannot handle."""
    aside = patient.status["aside"]
    for text in aside["first"]:
        loop, _, key = text.partition(": ")
        resource, _, where = key.partition(" ")
        namespace, _, name = where.rpartition("/")
        look = f"kubectl get {resource} {name}{f' -n {namespace}' if namespace else ''} -o yaml"
        why = f"the loop {loop} cannot handle it"
        yield Finding(
            "set-aside",
            resource,
            namespace,
            name,
            why,
            f"correct it: its condition HandlingFailed says why ({look})",
        )
    if aside["count"] > len(aside["first"]):
        why = f"{aside['count'] - len(aside['first'])} more objects cannot be handled"
        yield Finding(
            "set-aside", "Hub", "", "controllers", why, "correct them: the log of fleet controllers names them"
        )


def database(patient: PatientHub) -> Iterator[Finding]:
    """A database that does not answer, answers slowly, has another schema or no connections left."""

    def found(name: str, why: str, what_to_do: str) -> Finding:
        return Finding(name, "Database", "", "postgresql", why, what_to_do)

    parts, facts = patient.parts, patient.parts["database"]
    if facts is None:
        yield found("database", parts["databaseTrouble"], AWAY)
        return
    if facts.get("writeTrouble") and not full(patient):
        yield found(
            "database-blocked",
            f"takes no writes: {facts['writeTrouble']}; nobody decides until it does",
            _mend_block(facts["blockers"]),
        )
    elif (facts.get("writeMs") or 0.0) > WRITE_MS:
        why = f"a write took {facts['writeMs']:g} ms, for which all others wait"
        yield found("slow-database", why, "look at the disk of PostgreSQL, and at locks in pg_stat_activity")
    if facts["schema"] != facts["wanted"]:
        why = f"its schema is {facts['schema']}, this release knows {facts['wanted']}"
        yield found("schema", why, "run the same release everywhere; the newest migrates the schema when it starts")
    if facts["connections"] >= CONNECTIONS_PART * facts["mostConnections"]:
        why = f"{facts['connections']} of {facts['mostConnections']} connections are in use"
        yield found("connections", why, "raise max_connections of PostgreSQL, or run fewer processes on it")
    if facts["roundTripMs"] > ROUND_TRIP_MS:
        why = f"a small question took {facts['roundTripMs']:g} ms, and each write waits for several"
        yield found("slow-database", why, "look at the load and the disk of PostgreSQL, and at the way to it")
    if facts["oldestTransactionS"] > TRANSACTION_S:
        why = f"a transaction has been open for {facts['oldestTransactionS']:.0f} s, which keeps dead rows"
        yield found("old-transaction", why, "find it in pg_stat_activity, and end it (pg_terminate_backend)")


def _mend_block(blockers: list[dict[str, Any]]) -> str:
    if not blockers:
        return "look at the log and the disk of PostgreSQL, and at pg_prepared_xacts"
    pid = blockers[0]["pid"]
    return (
        f"see what it does (SELECT * FROM pg_stat_activity WHERE pid = {pid}), and end it there, or by SELECT"
        f" pg_terminate_backend({pid})"
    )


def history(patient: PatientHub) -> Iterator[Finding]:
    """A history that cannot be read, is behind the log, or has lost a part of it."""

    def found(name: str, why: str, what_to_do: str) -> Finding:
        return Finding(name, "History", "", "jobs", why, what_to_do)

    parts = patient.parts
    if "history" not in parts:  # of an older release
        return
    facts = parts["history"]
    if facts is None and stopped(patient):
        return
    if facts is None:
        mend = "start its PostgreSQL, or correct --history-database-url: the hub works on, and records later"
        yield found("history", parts["historyTrouble"], mend)
        return
    if facts["lost"]:
        why = f"{facts['lost']} changes left the hub's log before they were recorded"
        mend = "start fleet controllers, which record from the objects of now: jobs that came and went are missing"
        yield found("history-lost", why, mend)
    elif facts["behindS"] > HISTORY_S:
        why = f"is {facts['behindS']:.0f} s behind: {facts['behind']} changes are not read yet"
        mend = "see that fleet controllers runs and reaches the history's database, before the log ends (15 minutes)"
        yield found("history-behind", why, mend)


def disk(patient: PatientHub) -> Iterator[Finding]:
    """A data directory with little room left."""
    room = patient.parts["disk"]
    if room["free"] < DISK_BYTES or room["free"] < DISK_PART * room["total"]:
        database = patient.parts["database"]
        used = f"; the database has {size(database['bytes'])}" if database else ""
        bound = f"less than {size(DISK_BYTES)}" if room["free"] < DISK_BYTES else "less than a tenth"
        stops = ": nothing can be written, and nobody decides until there is room" if full(patient) else ""
        yield Finding(
            "disk",
            "Disk",
            "",
            room["path"],
            f"{size(room['free'])} of {size(room['total'])} are free, {bound}{used}{stops}",
            "make room: delete finished jobs and old backups, or enlarge the volume",
        )


def certificates(patient: PatientHub) -> Iterator[Finding]:
    """Certificates of the hub that end soon, or have ended."""
    now = seconds(patient.parts["at"]) or patient.now
    for entry in patient.parts["certificates"]:
        until = seconds(entry["until"]) or 0.0
        if until - now < EXPIRY_S:
            why = f"the certificate of {entry['name']} {days(until, now)}"
            yield Finding("certificate", "Certificate", "", entry["file"], why, _REMEDY[entry["name"]])


def clocks(patient: PatientHub) -> Iterator[Finding]:
    """Clocks that differ from the hub's."""
    ours = seconds(patient.parts["at"]) or patient.now
    database = patient.parts["database"]
    # The hub writes its time before it looks at anything; a whole second is lost where it is written.
    differ = {"this machine": patient.parts_at - ours, "the database": database["aheadS"] if database else 0.0}
    for name, ahead in differ.items():
        if abs(ahead) > CLOCK_S:
            why = f"is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the clock of the hub"
            yield Finding("clock", "Clock", "", name, why, "synchronise both with the same time servers (chrony)")


def versions(patient: PatientHub) -> Iterator[Finding]:
    """Processes of other releases than the API's, and a kubectl that is too old."""
    hub = patient.parts["version"]
    leader = patient.status.get("version")
    for name, version in (("this fleet", __version__), ("the controllers", leader)):
        if version and version != hub:
            why = f"is {version}, and the API is {hub}"
            yield Finding("version", "Process", "", name, why, "run the same release everywhere")
    theirs = _kubectl()
    if theirs is not None and theirs < OLDEST_KUBECTL:
        why = f"is 1.{theirs}, and the hub works with 1.{OLDEST_KUBECTL} and newer"
        yield Finding("kubectl", "Process", "", "kubectl", why, "install a newer kubectl")


def receivers(patient: PatientHub) -> Iterator[Finding]:
    """NotificationReceivers that the hub could not deliver to."""
    for receiver in patient.hub.list(RECEIVERS):
        metadata = receiver["metadata"]
        for condition in (receiver.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Delivering" and condition["status"] == "False":
                mend = (
                    "correct it, its Secret or --outgoing-allow; the hub tries each notification again, 20 times"
                    f" (fleet notifications --failed -n {metadata['namespace']} lists them)"
                )
                yield Finding(
                    "notifications",
                    "NotificationReceiver",
                    metadata["namespace"],
                    metadata["name"],
                    f"the last notification was not delivered: {condition.get('message') or 'no cause is known'}",
                    mend,
                )


def given_up(patient: PatientHub) -> Iterator[Finding]:
    """NotificationReceivers with notifications that are not tried any more."""
    query = f"{NOTIFICATIONS}?state=GaveUp&limit={GIVEN_UP_MOST}"
    found = Counter((one["namespace"], one["receiver"]) for one in patient.hub.request("GET", query).body["items"])
    for (namespace, name), count in found.items():
        why = f"{count} notification{'s were' if count > 1 else ' was'} given up within the last week"
        mend = f"mend the receiver, then: fleet notifications retry --receiver {name} -n {namespace}"
        yield Finding("notifications-given-up", "NotificationReceiver", namespace, name, why, mend)


def _kubectl() -> int | None:
    """The minor version of this machine's kubectl; None without one that says."""
    if shutil.which("kubectl") is None:
        return None
    try:
        done = subprocess.run(
            ["kubectl", "version", "--client", "-o", "json"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return _minor(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None


def _minor(version: object) -> int | None:
    found = re.match(r"v1\.(\d+)\.", str(version))
    return int(found[1]) if found else None
