"""`fleet token create`: a token, or a whole kubeconfig, also for a hub that `fleet up` has never run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fleet.cli.datadir import DataDir, create_root, prepare
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
