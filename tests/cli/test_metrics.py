"""`--metrics-listen`: the metrics of a real controllers process, of one that leads and of one that stands by."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.hub import BIN, Up, fleet, refusal, until
from tests.cli.metrics import admin, ask

PATIENCE_S = 90.0


def leads(address: str, folder: Path) -> bool | None:
    """None while nobody answers there."""
    try:
        status, text = ask(address, folder, admin(folder))
        if status == 200:
            families = {f.name: f for f in text_string_to_metric_families(text)}
            return bool(families["fleet_leader"].samples[0].value)
    except (OSError, http.client.HTTPException):  # the latter of one that is killed while it answers
        pass
    return None


@contextlib.contextmanager
def standby(folder: Path) -> Iterator[str]:
    """A second controllers process of the hub; where its metrics are."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [str(BIN / "fleet"), "controllers", "--data-dir", str(folder), "--metrics-fd", str(listener.fileno())],
            pass_fds=(listener.fileno(),),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if not k.startswith("FLEET_")},
        )
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}/metrics"
        finally:
            process.terminate()
            process.wait(60)


ROLE = {"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}], "metadata": {"name": "metrics-reader"}}
BINDING = {
    "metadata": {"name": "metrics-reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "prometheus"}],
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def who_may_read(up: Up, address: str) -> None:
    """An administrator, and whom a role lets; nobody else, and nobody without TLS."""
    for token in (None, "wrong", ""):
        status, body = ask(address, up.folder, token)
        assert (status, json.loads(body)["kind"], json.loads(body)["code"]) == (401, "Status", 401)
    mine = fleet("token", "create", "prometheus", "--data-dir", str(up.folder)).stdout.strip()
    until("the new token is known", lambda: ask(address, up.folder, mine)[0] == 403)
    refused = json.loads(ask(address, up.folder, mine)[1])
    assert refused["message"] == 'forbidden: User "prometheus" cannot get path "/metrics"'
    up.hub.request("POST", f"{RBAC}/clusterroles", ROLE)
    up.hub.request("POST", f"{RBAC}/clusterrolebindings", BINDING)
    until("its role counts", lambda: ask(address, up.folder, mine)[0] == 200)
    up.hub.request("DELETE", f"{RBAC}/clusterrolebindings/metrics-reader")
    until("its role is gone", lambda: ask(address, up.folder, mine)[0] == 403)
    assert ask(address.replace("/metrics", "/other"), up.folder, admin(up.folder))[0] == 404
    assert ask(address, up.folder, admin(up.folder), "DELETE")[0] == 405
    port = int(address.split(":")[-1].split("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=15) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"fleet_" not in plain.recv(65536)


def test_who_leads_and_who_stands_by_says_so_and_takes_over(tmp_path: Path) -> None:
    up = Up(tmp_path / "hub", "--metrics-listen", "127.0.0.1:0")
    try:
        (address,) = re.findall(r'metrics of the controllers: (https://[^"\s]+)', up.errors.read_text())
        until("the first leads", lambda: leads(address, up.folder) is True, PATIENCE_S)
        with standby(up.folder) as other:
            until("the second stands by", lambda: leads(other, up.folder) is False, PATIENCE_S)
            who_may_read(up, address)
            up.child("controllers").kill()
            until(
                "one leads, one stands by",
                lambda: {leads(other, up.folder), leads(address, up.folder)} == {True, False},
                PATIENCE_S,
            )
    finally:
        assert up.stop() == 0, up.errors.read_text()


@pytest.mark.parametrize("command", [("up",), ("controllers",)])
def test_an_address_that_cannot_be_had_is_said_before_anything_starts(
    up: Up, tmp_path: Path, command: tuple[str, ...]
) -> None:
    where = up.folder if command == ("controllers",) else tmp_path
    listen = ("--listen", "127.0.0.1:0") if command == ("up",) else ()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        asked = (*command, *listen, "--data-dir", str(where), "--metrics-listen")
        assert f"cannot listen on 127.0.0.1:{port}" in refusal(fleet(*asked, f"127.0.0.1:{port}"))
    assert refusal(fleet(*asked, "nowhere")) == "fleet: --metrics-listen nowhere: not HOST:PORT"
