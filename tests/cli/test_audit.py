"""The options of the audit log: what stops the start, and the log of a composed hub."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from api.audit.policy import parse
from api.outgoing import AllowList, OutgoingClient
from fleet.cli.failure import Failure
from fleet.hub.access import AccessOptions
from fleet.hub.audit import audit_of, check
from fleet.simulate.wall import WallClock
from tests.cli.hub import fleet, refusal

ROOT = Path(__file__).resolve().parents[2]
READY = ROOT / "docs" / "how-to" / "audit-policy.yaml"


@pytest.mark.parametrize(
    ("option", "text", "why"),
    [
        ("--audit-policy-file", "rules: []", "apiVersion: Required value"),
        ("--audit-policy-file", None, "No such file"),
        ("--audit-webhook-config-file", "clusters: {a: 1}", "clusters: must be a list"),
        ("--audit-webhook-config-file", None, "No such file"),
    ],
)
def test_a_wrong_file_is_refused_by_its_option(tmp_path: Path, option: str, text: str | None, why: str) -> None:
    path = tmp_path / "file"
    if text is not None:
        path.write_text(text)
    access = AccessOptions(audit_policy_file=READY, audit_webhook_config_file=path)
    if option == "--audit-policy-file":
        access = AccessOptions(audit_policy_file=path, audit_log_path="-")
    with pytest.raises(Failure, match=option) as failure:
        check(access)
    assert why in str(failure.value)


@pytest.mark.parametrize(
    "access", [AccessOptions(audit_policy_file=READY), AccessOptions(audit_log_path="-")], ids=["no place", "no policy"]
)
def test_a_policy_and_a_place_belong_together(access: AccessOptions) -> None:
    with pytest.raises(Failure, match="--audit-policy-file"):
        check(access)


async def test_a_log_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    access = AccessOptions(audit_policy_file=READY, audit_log_path=str(tmp_path))
    async with OutgoingClient(AllowList()) as outgoing:
        with pytest.raises(Failure, match=r"--audit-log-path .*Is a directory"):
            async with audit_of(access, outgoing, WallClock()):
                raise AssertionError("the log is open")


async def test_the_metrics_say_what_became_of_events(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    access = AccessOptions(audit_policy_file=READY, audit_log_path=str(tmp_path / "audit.log"))
    async with OutgoingClient(AllowList()) as outgoing, audit_of(access, outgoing, WallClock()) as kept:
        kept.show(registry)
    shown = generate_latest(registry).decode()
    assert 'fleet_api_audit_events_total{outcome="Overflow",to="log"} 0.0' in shown
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


def test_fleet_up_says_so_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(READY.read_text().replace("level: None", "level: none"))
    words = ("--data-dir", str(tmp_path / "data"), "--audit-policy-file", str(tmp_path / "policy.yaml"))
    done = fleet("up", *words, "--audit-log-path", "-")
    assert "rules[0].level: 'none' is none of None, Metadata, Request, RequestResponse" in refusal(done)
    assert not (tmp_path / "data").exists()


def test_options_reach_the_api_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    access = AccessOptions(audit_policy_file=Path("p.yaml"), audit_log_path="audit.log", audit_log_maxsize=0)
    assert access.words() == [
        "--audit-policy-file",
        str(tmp_path / "p.yaml"),
        "--audit-log-path",
        str(tmp_path / "audit.log"),
        "--audit-log-maxsize",
        "0",
    ]
    assert AccessOptions(audit_log_path="-").words() == ["--audit-log-path", "-"]


def test_the_ready_policy_of_the_guide_is_one() -> None:
    assert len(parse(READY.read_bytes()).rules) == 8
