"""`fleet token`: tokens made, listed, ended and revoked, also for a hub that `fleet up` has never run."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from api.auth import TokenFile
from fleet.cli.datadir import DataDir, add_token, create_root, prepare
from fleet.cli.failure import Failure
from fleet.cli.tokenfile import ID_CHARACTERS, TokenLines, id_of, revoke, ttl_seconds
from fleet.model.times import rfc3339, seconds
from fleet.simulate.wall import WallClock
from tests.cli.hub import fleet, refusal


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """As the first `fleet api` makes it: no kubeconfig."""
    data = DataDir(tmp_path / "hub")
    create_root(data)
    prepare(data, "127.0.0.1")
    return data


def create(data: DataDir, *arguments: str) -> list[str]:
    return ["token", "create", "ann", *arguments, "--data-dir", str(data.root)]


def test_a_token_is_printed_and_stands_in_the_file(data: DataDir) -> None:
    done = fleet(*create(data, "--group", "a", "--group", "b"))
    assert done.returncode == 0
    assert data.tokens.read_text().splitlines()[-1] == f'{done.stdout.strip()},ann,ann,"a,b"'


def test_a_kubeconfig_holds_the_address_and_the_namespace_that_were_given(data: DataDir) -> None:
    done = fleet(*create(data, "-o", "kubeconfig", "--server", "https://hub.example:6440", "-n", "team-a"))
    made = yaml.safe_load(done.stdout)
    assert made["contexts"][0]["context"]["namespace"] == "team-a"
    assert made["clusters"][0]["cluster"]["server"] == "https://hub.example:6440"
    assert made["users"][0]["user"]["token"] in data.tokens.read_text()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param(("-o", "kubeconfig"), "the hub's address is not known: ", id="no address is known"),
        pytest.param(
            ("-o", "kubeconfig", "--server", "hub:6440"), "--server hub:6440: not https://HOST:PORT", id="bad"
        ),
        pytest.param(("--group", "a,b"), "names of users and groups are printable text", id="comma"),
    ],
)
def test_what_cannot_be_made_leaves_no_token(data: DataDir, arguments: tuple[str, ...], why: str) -> None:
    before = data.tokens.read_text()
    assert why in refusal(fleet(*create(data, *arguments)))
    assert data.tokens.read_text() == before


def run(data: DataDir, *arguments: str) -> str:
    done = fleet("token", *arguments, "--data-dir", str(data.root))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_token_with_a_time_is_listed_and_revoked_without_being_shown(data: DataDir) -> None:
    token = run(data, "create", "ann", "--group", "a", "--group", "b", "--ttl", "1d12h").strip()
    records = json.loads(run(data, "list", "-o", "json"))
    assert [record["user"] for record in records] == ["admin", "ann"]
    mine = records[1]
    assert mine["id"] == id_of(token) and mine["groups"] == ["a", "b"] and mine["expired"] is False
    assert abs(seconds(mine["expires"]) - time.time() - 129_600) < 600
    table = run(data, "list")
    assert "never" in table and token not in table and data.admin_token() not in table
    assert run(data, "revoke", mine["id"]) == f"revoked {mine['id']} of ann\n"
    assert [record.line.user for record in TokenLines(data).listed()] == ["admin"]


async def test_a_token_ends_at_its_time(data: DataDir) -> None:
    over, later = add_token(data, "ann", (), expires=rfc3339(time.time() - 1)), add_token(data, "ann", ())
    last = add_token(data, "bob", ("x",), expires=rfc3339(time.time() + 600))
    tokens = TokenFile(data.tokens, WallClock(), check_every_s=0)
    users = [await tokens.user(token) for token in (over, later, last)]
    assert [user.name if user else "" for user in users] == ["", "ann", "bob"]


async def test_an_end_that_is_no_time_makes_no_token(data: DataDir) -> None:
    data.tokens.write_text(data.tokens.read_text() + 'abc,ann,1,"",tomorrow\n')
    tokens = TokenFile(data.tokens, WallClock(), check_every_s=0)
    assert await tokens.user("abc") is None


async def test_revoking_a_user_ends_all_her_tokens_and_no_other(data: DataDir) -> None:
    first, other, second = (add_token(data, user, ()) for user in ("ann", "bob", "ann"))
    data.tokens.write_text("# people\n" + data.tokens.read_text().replace("\n", "\n\n"))
    assert [token.id for token in revoke(data, "ann")] == [id_of(first), id_of(second)]
    tokens = TokenFile(data.tokens, WallClock(), check_every_s=0)
    assert await tokens.user(first) is None and await tokens.user(second) is None
    assert await tokens.user(other) is not None and await tokens.user(data_admin(data)) is not None
    assert data.tokens.read_text().startswith("# people\n") and data.tokens.stat().st_mode & 0o777 == 0o600


def data_admin(data: DataDir) -> str:
    return TokenLines(data).listed()[0].line.token


@pytest.mark.parametrize("name", ["nobody", "", "0" * ID_CHARACTERS, "admin"])
def test_what_cannot_be_revoked_changes_nothing(data: DataDir, name: str) -> None:
    before = data.tokens.read_text()
    with pytest.raises(Failure):
        revoke(data, name)
    assert data.tokens.read_text() == before


@pytest.mark.parametrize(("text", "found"), [("90s", 90), ("5m", 300), ("12h", 43_200), ("1d1h", 90_000)])
def test_a_time_of_a_token(text: str, found: int) -> None:
    assert ttl_seconds(text) == found


@pytest.mark.parametrize(
    "text", ["", "5", "h", "0s", "-1h", "1.5h", "1y", "9999999d", "1h 2m", "36501d", "999999d999999d999999d"]
)
def test_what_is_no_time_of_a_token(text: str) -> None:
    with pytest.raises(Failure, match="--ttl"):
        ttl_seconds(text)
