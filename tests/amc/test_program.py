"""Credentials from a program of the kubeconfig: asked for once, kept while they hold, and refused in words."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.amc.client import Client, NoAnswer
from fleet.client.config import access
from fleet.values.kubeconfig import files as kubeconfig
from fleet.values.kubeconfig.document import BadKubeconfig
from fleet.values.kubeconfig.program import EARLY_S, ExecProgram, ProgramCredential, program_of
from fleet.values.times import rfc3339
from tests.cli.hub import fleet

V1 = "client.authentication.k8s.io/v1"
SCRIPT = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
count = len(list(here.glob("asked-*")))
(here / f"asked-{{count}}").write_text(os.environ["KUBERNETES_EXEC_INFO"])
words = [str(count), *sys.argv[1:], os.environ.get("REALM", "")]
status = {{"token": "-".join(words), **{more}}}
print(json.dumps({{"apiVersion": "{version}", "kind": "ExecCredential", "status": status}}))
"""


class Login:
    """A program that gives another token each time."""

    def __init__(self, folder: Path, version: str = V1, **more: str) -> None:
        self.folder = folder
        self.path = folder / "login"
        self.path.write_text(SCRIPT.format(python=sys.executable, version=version, more=repr(more)))
        self.path.chmod(0o755)

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("asked-*"))]

    def config(self, server: str, **more: Any) -> Path:
        """A kubeconfig beside the program."""
        path = self.folder / "kubeconfig"
        given = {"apiVersion": V1, "command": "./login", "interactiveMode": "Never", **more}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": server}}],
                    "users": [{"name": "u", "user": {"exec": given}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )
        return path


class Server:
    """Answers with the token that came; refuses those that it is told to."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.seen: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                token = self.headers["Authorization"].removeprefix("Bearer ")
                server.seen.append(token)
                body = json.dumps({"token": token}).encode()
                self.send_response(401 if token in server.refused else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def client(path: Path) -> Client:
    return Client(kubeconfig.load([path], programs=True))


def test_the_program_is_asked_once_and_told_what_kubectl_tells_it(tmp_path: Path, server: Server) -> None:
    login = Login(tmp_path)
    more = {"args": ["get-token"], "env": [{"name": "REALM", "value": "lab"}], "provideClusterInfo": True}
    asking = client(login.config(server.url, **more))
    assert [asking.get("/").body["token"] for _ in range(3)] == ["0-get-token-lab"] * 3
    (told,) = login.asked
    assert (told["apiVersion"], told["kind"]) == (V1, "ExecCredential")
    assert told["spec"] == {"interactive": False, "cluster": {"server": server.url}}


def test_a_credential_that_is_refused_is_asked_for_anew_once(tmp_path: Path, server: Server) -> None:
    login = Login(tmp_path)
    asking = client(login.config(server.url))
    server.refused = {"0-"}
    assert asking.get("/").body["token"] == "1-"
    server.refused = {"1-", "2-"}
    assert asking.get("/").status == 401 and len(login.asked) == 3


def test_a_credential_is_kept_until_shortly_before_its_end(tmp_path: Path) -> None:
    end = 1_900_000_000.0
    login = Login(tmp_path, expirationTimestamp=rfc3339(end))
    held = ProgramCredential(ExecProgram("users[0].user.exec", V1, (str(login.path),)))
    assert [held.credential(now).token for now in (0.0, end - EARLY_S - 1, end - EARLY_S + 1)] == ["0-", "0-", "1-"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("apiVersion", "client.authentication.k8s.io/v1alpha1", "must be one of client.authentication.k8s.io/v1"),
        ("command", None, "required"),
        ("args", "get-token", "must be a list of texts"),
        ("interactiveMode", "Sometimes", "must be Never, IfAvailable or Always"),
        ("env", [{"value": "x"}], "must have a name and a value"),
    ],
)
def test_a_program_that_is_described_wrongly_is_refused_with_its_field(field: str, value: Any, why: str) -> None:
    given = {"apiVersion": V1, "command": "x", field: value}
    with pytest.raises(BadKubeconfig) as refused:
        program_of("users[0].user.exec", given, {})
    assert refused.value.field.startswith(f"users[0].user.exec.{field}") and why in refused.value.message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exit 3", "failed with exit status 3"),
        ("echo hello", "has printed no ExecCredential"),
        ("""echo '{"apiVersion": "x", "status": {"token": "t"}}'""", "has printed x, and not"),
        (f"""echo '{{"apiVersion": "{V1}", "status": {{}}}}'""", "gives neither a token nor a certificate"),
        (
            f"""echo '{{"apiVersion": "{V1}", "status": {{"token": "t", "expirationTimestamp": "soon"}}}}'""",
            "is no time",
        ),
    ],
)
def test_a_program_that_gives_no_credential_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "login"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    with pytest.raises(BadKubeconfig, match="login") as refused:
        ExecProgram("users[0].user.exec", V1, (str(path),)).run()
    assert why in refused.value.message


def test_a_program_that_is_missing_is_one_line_with_its_hint(tmp_path: Path) -> None:
    config = Login(tmp_path).config("https://127.0.0.1:1", command="no-such-program", installHint="get it from us")
    said = fleet("jobs", "--kubeconfig", str(config))
    assert said.returncode == 1 and "cannot run no-such-program: No such file" in said.stderr
    assert "get it from us" in said.stderr and "Traceback" not in said.stderr


def test_a_later_failure_of_the_program_is_no_answer(tmp_path: Path, server: Server) -> None:
    login = Login(tmp_path)
    asking = client(login.config(server.url))
    login.path.write_text("#!/bin/sh\nexit 1\n")
    server.refused = {"0-"}
    with pytest.raises(NoAnswer, match="exit status 1"):
        asking.get("/")


def test_a_token_that_is_given_stands_for_the_users_credentials(tmp_path: Path, server: Server) -> None:
    login = Login(tmp_path)
    config = login.config(server.url)
    asking = Client(kubeconfig.load([config], programs=True, token="mine"))
    assert asking.get("/").body["token"] == "mine" and login.asked == []


def test_no_program_of_a_members_kubeconfig_is_run(tmp_path: Path) -> None:
    """The hub keeps it, and whoever joins a member trusts its file less than her own."""
    with pytest.raises(BadKubeconfig, match="a program, which is not supported"):
        kubeconfig.load([Login(tmp_path).config("https://127.0.0.1:1")])


def test_the_sdk_takes_the_program_and_the_token_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = Login(tmp_path, expirationTimestamp="2099-01-01T00:00:00Z")
    config = login.config("https://127.0.0.1:1")
    given = access(kubeconfig=config, data_dir=None, context=None, server=None, token=None, ca=None)
    assert [given.credentials() for _ in range(3)] == ["Bearer 0-"] * 3 and len(login.asked) == 1
    mine = access(kubeconfig=config, data_dir=None, context=None, server=None, token="mine", ca=None)
    monkeypatch.setenv("FLEET_TOKEN", "theirs")
    theirs = access(kubeconfig=config, data_dir=None, context=None, server=None, token=None, ca=None)
    assert (mine.credentials(), theirs.credentials()) == ("Bearer mine", "Bearer theirs")


def test_the_token_of_the_command_line_wins_over_that_of_the_environment(tmp_path: Path, server: Server) -> None:
    login = Login(tmp_path)
    config = ["--kubeconfig", str(login.config(server.url))]
    for words in (["--token", "flag", "jobs"], ["jobs"]):
        assert "Traceback" not in fleet(*words, *config, FLEET_TOKEN="environment").stderr
    fleet("get", "pod", "-M", "--token", "amc", *config, program="kubectl-amc")
    seen = list(dict.fromkeys(server.seen))
    assert seen == ["flag", "environment", "amc"] and login.asked == []
