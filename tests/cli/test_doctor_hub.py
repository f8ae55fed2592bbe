"""`fleet doctor` on the hub itself and on the hub's way to members: each trouble is found, with a remedy."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from urllib.parse import urlparse

import asyncpg
import pytest

from api.store.migrate import migrate
from fleet import __version__
from fleet.accounts.schema import prepare
from fleet.amc.client import ServerAnswer
from fleet.bindings.finding import Finding
from fleet.cli import doctor_hub, doctor_members
from fleet.cli.datadir import DataDir
from fleet.cli.doctor import CHECKS, looked
from fleet.cli.hub import HubClient
from fleet.cli.notifications import NOTIFICATIONS
from fleet.cli.patient import PARTS, PatientHub
from fleet.cli.status import STATUS
from fleet.hub import pki
from fleet.hub.certificates import Certificates
from fleet.hub.parts import Parts
from fleet.rest.historydb import HistoryDatabase
from fleet.rest.hubmodels import HubParts
from fleet.simulate.wall import WallClock
from fleet.values.kubeconfig.document import write
from fleet.values.times import rfc3339

NOW = 1_800_000_000.0
DAY_S = 86_400.0
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
SECRET = "/api/v1/namespaces/fleet-system/secrets/member-cfa"
REVIEW = f"{CLUSTERS}/cfa/proxy/apis/authentication.k8s.io/v1/selfsubjectreviews"
Check = Callable[[PatientHub], Iterator[Finding]]
SOUND: dict[str, Any] = {
    "at": rfc3339(NOW),
    "version": __version__,
    "databaseTrouble": "",
    "database": {
        "version": "16",
        "schema": "0001_pre",
        "wanted": "0001_pre",
        "bytes": 1 << 30,
        "connections": 9,
        "mostConnections": 100,
        "oldestTransactionS": 0.0,
        "roundTripMs": 0.4,
        "aheadS": 0.0,
        "writeMs": 2.5,
        "writeTrouble": "",
        "blockers": [],
    },
    "history": {"recordedSince": "2026-11-02T00:00:00Z", "gaps": ["a to b"], "behind": 3, "behindS": 12.0, "lost": 0},
    "historyTrouble": "",
    "disk": {"path": "/srv/fleet", "free": 60 << 30, "total": 100 << 30},
    "certificates": [{"name": "the server", "file": "/srv/fleet/tls.crt", "until": rfc3339(NOW + 200 * DAY_S)}],
}
WELL: dict[str, Any] = {
    "healthy": True,
    "problems": [],
    "failing": [],
    "aside": {"count": 0, "first": []},
    "version": __version__,
    "members": [{"name": "cfa", "ready": True, "message": "", "silent_s": 1}],
}


def refusing(*paths: str, status: int = 403) -> dict[str, Any]:
    return dict.fromkeys(paths, status)


def patient(parts: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **answers: Any) -> PatientHub:
    """A hub that says this of itself, and of what lies under other paths. A refusal is the number of its status."""
    cluster = {"metadata": {"name": "cfa"}, "spec": {"secretRef": {"namespace": "fleet-system", "name": "member-cfa"}}}
    told = {
        PARTS: {**SOUND, **(parts or {})},
        STATUS: {**WELL, **(status or {})},
        CLUSTERS: {"items": [cluster]},
        doctor_hub.RECEIVERS: {"items": []},
        NOTIFICATIONS: {"items": []},
        SECRET: {},
        REVIEW: {},
        **answers,
    }

    class Api:
        def request(self, method: str, path: str, *_: Any, **__: Any) -> ServerAnswer:
            body = told[urlparse(path).path]
            return ServerAnswer(body, {"message": "not for you"}) if isinstance(body, int) else ServerAnswer(200, body)

    return PatientHub(HubClient(Api(), "kubeconfig"), lambda: NOW)  # type: ignore[arg-type]


def database(**facts: Any) -> dict[str, Any]:
    return {"database": {**SOUND["database"], **facts}}


def history(**facts: Any) -> dict[str, Any]:
    return {"history": {**SOUND["history"], **facts}}


FULL = {"disk": {"path": "/srv", "free": 4096, "total": 100 << 30}}


def silent() -> dict[str, Any]:
    told = {"type": "Delivering", "status": "False", "message": "it answers HTTP 503"}
    return {"metadata": {"name": "chat", "namespace": "a"}, "status": {"conditions": [told]}}


BLOCKED = {
    "writeMs": None,
    "writeTrouble": "a write has not happened within 2 s: process 7 has a lock",
    "blockers": [{"pid": 7, "user": "ops", "application": "psql", "state": "idle in transaction", "open_s": 60.0}],
}
CASES: list[tuple[Check, PatientHub, str]] = [
    (doctor_hub.nobody_decides, patient(status={"problems": ["nobody decides since then: gone"]}), "nobody decides"),
    (
        doctor_hub.failing_loops,
        patient(status={"failing": [{"loop": "bind", "failures": 3, "restarts": 0, "last": "now", "error": "x: Bug"}]}),
        "failed 3 times, was restarted 0 times, last at now, on x: Bug",
    ),
    (
        doctor_hub.failing_loops,
        patient(status={"failing": [{"loop": "bind", "failures": 1, "restarts": 1, "last": rfc3339(NOW - 40)}]}),
        f"failed once, was restarted once, last at {rfc3339(NOW - 40)}; no failure in the 40 s since",
    ),
    (doctor_hub.database, patient({"database": None, "databaseTrouble": "connection refused"}), "connection refused"),
    (doctor_hub.database, patient(database(schema="0002_pre")), "its schema is 0002_pre, this release knows 0001_pre"),
    (doctor_hub.database, patient(database(connections=95)), "95 of 100 connections are in use"),
    (doctor_hub.database, patient(database(roundTripMs=250.0)), "a small question took 250 ms"),
    (doctor_hub.database, patient(database(oldestTransactionS=999.0)), "a transaction has been open for 999 s"),
    (doctor_hub.database, patient(database(writeMs=1800.0)), "a write took 1800 ms"),
    (doctor_hub.database, patient(database(**BLOCKED)), "takes no writes: a write has not happened"),
    (doctor_hub.history, patient({"history": None, "historyTrouble": "connection refused"}), "connection refused"),
    (doctor_hub.history, patient(history(behind=90, behindS=400.4)), "is 400 s behind: 90 changes are not read yet"),
    (doctor_hub.history, patient(history(behind=90, behindS=900.0, lost=7)), "7 changes left the hub's log before"),
    (
        doctor_hub.disk,
        patient({"disk": {"path": "/srv", "free": 1 << 30, "total": 100 << 30}}),
        "1 GiB of 100 GiB are free, less than 2 GiB; the database has 1 GiB",
    ),
    (
        doctor_hub.disk,
        patient({"disk": {"path": "/srv", "free": 9 << 30, "total": 100 << 30}}),
        "9 GiB of 100 GiB are free, less than a tenth; the database has 1 GiB",
    ),
    (doctor_hub.disk, patient(FULL), "nothing can be written, and nobody decides until there is room"),
    (
        doctor_hub.certificates,
        patient({"certificates": [{"name": "the server", "file": "f", "until": rfc3339(NOW + 2.5 * DAY_S)}]}),
        "the certificate of the server ends on 2027-01-17, in 2 days",
    ),
    (
        doctor_hub.certificates,
        patient({"certificates": [{"name": "the hub's CA", "file": "f", "until": rfc3339(NOW - DAY_S)}]}),
        "the certificate of the hub's CA ended on 2027-01-14",
    ),
    (doctor_hub.clocks, patient(database(aheadS=-60.0)), "is 60 s behind the clock of the hub"),
    (doctor_hub.clocks, patient({"at": rfc3339(NOW - 30)}), "is 30 s ahead of the clock of the hub"),
    (doctor_hub.versions, patient(status={"version": "0.0.1"}), f"is 0.0.1, and the API is {__version__}"),
    (
        doctor_hub.receivers,
        patient(**{doctor_hub.RECEIVERS: {"items": [silent()]}}),
        "not delivered: it answers HTTP 503",
    ),
    (
        doctor_hub.given_up,
        patient(**{NOTIFICATIONS: {"items": 2 * [{"namespace": "a", "receiver": "chat"}]}}),
        "2 notifications were given up",
    ),
    (
        doctor_members.silent_members,
        patient(status={"members": [{"name": "cfa", "ready": True, "message": "", "silent_s": 90}]}),
        "the controllers have not heard of it for 90 s",
    ),
    (
        doctor_members.old_members,
        patient(**{CLUSTERS: {"items": [{"metadata": {"name": "cfa"}, "status": {"kubernetesVersion": "v1.24.1"}}]}}),
        "runs Kubernetes v1.24.1",
    ),
]


@pytest.fixture(autouse=True)
def no_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_hub, "_kubectl", lambda: 36)


def test_a_session_that_blocks_all_writes_is_named_with_the_statement_that_ends_it() -> None:
    [finding] = doctor_hub.database(patient(database(**BLOCKED)))
    assert finding.check == "database-blocked"
    assert "SELECT pg_terminate_backend(7)" in finding.what_to_do
    assert [one.check for one in doctor_hub.database(patient({**FULL, **database(**BLOCKED)}))] == []
    assert list(doctor_hub.history(patient({**database(**BLOCKED), "history": None, "historyTrouble": "late"}))) == []


def test_what_a_full_disk_causes_is_no_finding_of_its_own() -> None:
    failing = {"loop": "bind", "failures": 3, "restarts": 0, "last": rfc3339(NOW), "error": "No space left on device"}
    sick = {"problems": ["nobody decides since then: gone"], "failing": [failing]}
    for check in (doctor_hub.nobody_decides, doctor_hub.failing_loops):
        assert list(check(patient(FULL, sick))) == []
        assert list(check(patient(database(**BLOCKED), sick))) == []
        assert len(list(check(patient(status=sick)))) == 1
        assert len(list(check(patient(status=sick, **refusing(PARTS))))) == 1


@pytest.mark.parametrize(("check", "found", "why"), CASES, ids=[case[2][:40] for case in CASES])
def test_a_trouble_is_found_and_says_what_to_do(check: Check, found: PatientHub, why: str) -> None:
    [finding] = check(found)
    assert why in finding.why and finding.what_to_do


def test_a_sound_hub_has_no_findings() -> None:
    ours = [check for check in CHECKS if check.__module__.startswith("fleet.cli.doctor_")]
    assert len(ours) > 12
    assert [finding for check in ours for finding in check(patient())] == []


async def test_the_history_is_compared_with_the_log_of_the_hub(database_url: str, tmp_path: Path) -> None:
    await migrate(database_url)
    past, clock = HistoryDatabase(database_url), WallClock()
    parts = Parts(DataDir(tmp_path), database_url, clock, Certificates(DataDir(tmp_path), ()), past)
    event = "INSERT INTO events VALUES ($1, 'ADDED', '', 'configmaps', 'a', 'b', 'u', $2, NULL, '')"
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("UPDATE log_state SET revision = 50, compacted = 30")
        await connection.execute(event, 40, clock.now() - 1000)
        before = (await parts())["history"]
        await prepare(database_url)
        await connection.execute("""INSERT INTO accounts.cursor VALUES (1, 20, '{"since": "then", "gaps": ["one"]}')""")
        found = await parts()
        await connection.execute("UPDATE accounts.cursor SET revision = 50")
        after = (await parts())["history"]
    finally:
        await connection.close()
        await past.aclose()
    assert (before["recordedSince"], before["lost"], before["behind"]) == (None, 0, 50)
    HubParts.model_validate(found)
    assert (found["history"]["behind"], found["history"]["lost"], found["history"]["gaps"]) == (30, 10, ["one"])
    assert 1000 <= found["history"]["behindS"] < 1100
    assert (after["behind"], after["behindS"], after["lost"]) == (0, 0.0, 0)
    [lost, *_] = doctor_hub.history(patient(found))
    assert lost.check == "history-lost"


async def test_a_history_that_never_answers_keeps_the_other_parts_waiting_for_a_bound_alone(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(HistoryDatabase):
        async def reader(self) -> NoReturn:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr("fleet.hub.parts.HISTORY_S", 0.05)
    await migrate(database_url)
    data = DataDir(tmp_path)
    found = await asyncio.wait_for(Parts(data, database_url, WallClock(), Certificates(data, ()), Silent())(), 20)
    assert (found["history"], found["historyTrouble"]) == (None, "its database does not answer in time")
    assert found["database"]["writeTrouble"] == "" and found["disk"]["total"] > 0


async def test_a_full_disk_of_the_own_database_is_a_trouble_of_its_writes(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(database_url)
    data = DataDir(tmp_path)
    parts = Parts(data, database_url, WallClock(), Certificates(data, ()), HistoryDatabase())
    monkeypatch.setattr("fleet.hub.parts.shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
    assert await parts.write_trouble() == "", "the database of this address stands elsewhere"
    data.postgres.mkdir()
    assert await parts.write_trouble() == f"4 KiB are free on the disk of {data.postgres}"
    monkeypatch.setattr("fleet.hub.parts.shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    assert await parts.write_trouble() == ""


def test_a_slow_answer_before_is_no_clock_that_differs() -> None:
    times = iter([NOW, NOW + 35])
    slow = PatientHub(patient({"at": rfc3339(NOW + 35)}).hub, lambda: next(times))
    assert list(doctor_hub.clocks(slow)) == []


def test_a_kubectl_that_is_too_old_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_hub, "_kubectl", lambda: 26)
    [finding] = doctor_hub.versions(patient())
    assert (finding.name, finding.what_to_do) == ("kubectl", "install a newer kubectl")


def test_objects_that_are_set_aside_are_named_with_the_command_that_shows_them() -> None:
    aside = {"count": 4, "first": ["bind: pytorchjobs.kubeflow.org team-a/x"]}
    one, more = doctor_hub.set_aside(patient(status={"aside": aside}))
    assert (one.kind, one.namespace, one.name) == ("pytorchjobs.kubeflow.org", "team-a", "x")
    assert "kubectl get pytorchjobs.kubeflow.org x -n team-a -o yaml" in one.what_to_do
    assert more.why == "3 more objects cannot be handled"


def test_a_member_that_is_not_ready_is_found_with_its_reason() -> None:
    members = [{"name": "cfb", "ready": False, "message": "no answer", "silent_s": None}]
    [finding] = doctor_members.silent_members(patient(status={"members": [*WELL["members"], *members]}))
    assert (finding.kind, finding.name, finding.why) == ("Cluster", "cfb", "is not ready: no answer")
    assert "fleet join cfb --kubeconfig FILE" in finding.what_to_do


def secret(**user: Any) -> dict[str, Any]:
    text = write("https://member", name="member", user="member", **user)
    return {"data": {"kubeconfig": base64.b64encode(text.encode()).decode()}}


def token(end: float) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, {"exp": end}))
    return f"{'.'.join(parts)}.signature"


def test_credentials_of_a_member_that_end_soon_are_found(tmp_path: Path) -> None:
    certificate, key = tmp_path / "ca.crt", tmp_path / "ca.key"
    pki.make_ca(certificate, key, now=datetime.fromtimestamp(NOW, UTC) - pki.CA_LIFE + timedelta(days=3.5))
    for user, why in (
        ({"token": token(NOW + 5.5 * DAY_S)}, "the hub's token there ends on 2027-01-20, in 5 days"),
        ({"certificate": certificate.read_bytes(), "key": key.read_bytes()}, "the hub's client certificate there ends"),
    ):
        [finding] = doctor_members.credentials(patient(**{SECRET: secret(**user)}))
        assert (finding.member, why in finding.why) == ("cfa", True), finding
    for sound in (secret(token="opaque"), secret(token=token(NOW + 99 * DAY_S)), {"data": {"kubeconfig": "bm9uZQ=="}}):
        assert list(doctor_members.credentials(patient(**{SECRET: sound}))) == []


def test_a_member_whose_clock_is_off_is_found() -> None:
    review = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}
    [finding] = doctor_members.member_clocks(patient(**{REVIEW: review}))
    assert finding.member == "cfa" and "behind this machine's" in finding.why
    assert list(doctor_members.member_clocks(patient(**refusing(REVIEW)))) == []


def test_a_check_without_the_right_to_it_is_left_out_and_named() -> None:
    ill = patient(**refusing(PARTS))
    assert [looked(check, ill) for check in (doctor_hub.disk, doctor_hub.clocks)] == [[], []]
    assert ill.unseen == {"not for you": ["disk", "clocks"]}


def test_the_checks_after_one_that_finds_no_database_are_not_asked() -> None:
    ill = patient(
        {"database": None, "databaseTrouble": "no answer"}, **refusing(doctor_hub.RECEIVERS, REVIEW, status=503)
    )
    [finding] = [one for check in CHECKS for one in looked(check, ill)]
    assert (finding.check, finding.why) == ("database", "no answer")
    assert ill.unseen == {"not for you": ["receivers and the checks after it"]}
