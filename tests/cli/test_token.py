"""`fleet token`: tokens made, listed and ended, by way of the hub; also where `fleet up` has never run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from api.access.storedtokens import ID_CHARACTERS
from fleet.amc.client import Client
from fleet.cli.failure import Failure
from fleet.cli.token import ttl_seconds
from fleet.values.kubeconfig.files import load
from fleet.values.times import seconds
from tests.cli.hub import Up, fleet, refusal


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    started = Up(tmp_path_factory.mktemp("tokens") / "hub")
    yield started
    started.stop()


def run(up: Up, *arguments: str) -> str:
    done = fleet("token", *arguments, "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr
    return done.stdout


def whoami(kubeconfig: Path) -> str | int:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = Client(load([kubeconfig])).request("POST", path, {"metadata": {}})
    return str(answer.body["status"]["userInfo"]["username"]) if answer.ok else answer.status


def test_a_token_works_is_listed_by_its_id_and_revoked_without_being_shown(up: Up, tmp_path: Path) -> None:
    mine, made = tmp_path / "kubeconfig", ("--group", "a", "--group", "b", "--ttl", "1d12h")
    mine.write_text(run(up, "create", "ann", *made, "-o", "kubeconfig", "-n", "team-a"))
    token = yaml.safe_load(mine.read_text())["users"][0]["user"]["token"]
    assert whoami(mine) == "ann" and load([mine]).namespace == "team-a"
    records = {record["user"]: record for record in json.loads(run(up, "list", "-o", "json"))}
    assert records["ann"]["groups"] == ["a", "b"] and records["ann"]["expired"] is False
    expires = seconds(records["ann"]["expires"])
    assert expires is not None and abs(expires - time.time() - 129_600) < 600
    table = run(up, "list")
    assert "never" in table and token not in table
    assert token not in (up.folder / "tokens.csv").read_text()
    assert run(up, "revoke", records["ann"]["id"]) == f"revoked {records['ann']['id']} of ann\n"
    assert whoami(mine) == 401
    assert "an administrator makes others (fleet token create)" in refusal(fleet("jobs", "--kubeconfig", str(mine)))
    assert [record["user"] for record in json.loads(run(up, "list", "-o", "json"))] == ["admin"]


def test_a_kubeconfig_holds_the_address_that_was_given(up: Up) -> None:
    made = yaml.safe_load(run(up, "create", "eve", "-o", "kubeconfig", "--server", "https://hub.example:6440"))
    assert made["clusters"][0]["cluster"]["server"] == "https://hub.example:6440"
    assert len(run(up, "revoke", "eve").splitlines()) == 1


def test_revoking_a_user_ends_all_her_tokens_and_no_other(up: Up) -> None:
    for user in ("bob", "eve", "bob"):
        run(up, "create", user)
    assert len(run(up, "revoke", "bob").splitlines()) == 2
    assert [record["user"] for record in json.loads(run(up, "list", "-o", "json"))] == ["admin", "eve"]
    run(up, "revoke", "eve")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param(("--server", "hub:6440"), "--server hub:6440: not https://HOST:PORT", id="bad"),
        pytest.param(("--group", "a,b"), "names of users and groups are printable text", id="comma"),
        pytest.param(("--ttl", "5"), "--ttl 5: not a time", id="ttl"),
        pytest.param(("--certificate-authority", "/none"), "--certificate-authority /none: No such file", id="ca"),
    ],
)
def test_what_cannot_be_made_is_refused_before_the_hub_is_asked(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    assert why in refusal(fleet("token", "create", "ann", *arguments, "--data-dir", str(tmp_path)))


@pytest.mark.parametrize("name", ["nobody", "0" * ID_CHARACTERS, "admin"])
def test_what_cannot_be_revoked_changes_nothing(up: Up, name: str) -> None:
    before = run(up, "list")
    said = refusal(fleet("token", "revoke", name, "--data-dir", str(up.folder)))
    assert ("the administrator's token" in said) == (name == "admin")
    assert run(up, "list") == before


def test_the_administrator_of_a_directory_without_a_kubeconfig_asks_at_the_server(up: Up, tmp_path: Path) -> None:
    server, own = load([up.folder / "kubeconfig"]).server, up.folder / "kubeconfig"
    kept = own.rename(tmp_path / "kubeconfig")
    try:
        made = tmp_path / "ops"
        made.write_text(run(up, "create", "ops", "-o", "kubeconfig", "--server", server))
        assert whoami(made) == "ops"
        assert "no hub found" in refusal(fleet("token", "list", "--data-dir", str(up.folder)))
    finally:
        kept.rename(own)
    run(up, "revoke", "ops")


@pytest.mark.parametrize(("text", "found"), [("90s", 90), ("5m", 300), ("12h", 43_200), ("1d1h", 90_000)])
def test_a_time_of_a_token(text: str, found: int) -> None:
    assert ttl_seconds(text) == found


@pytest.mark.parametrize(
    "text", ["", "5", "h", "0s", "-1h", "1.5h", "1y", "9999999d", "1h 2m", "36501d", "999999d999999d999999d"]
)
def test_what_is_no_time_of_a_token(text: str) -> None:
    with pytest.raises(Failure, match="--ttl"):
        ttl_seconds(text)
