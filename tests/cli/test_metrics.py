"""`--metrics-listen`: the metrics of a real controllers process, of one that leads and of one that stands by."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.hub import BIN, Up, fleet, refusal, until

PATIENCE_S = 90.0


def leads(address: str) -> bool | None:
    """None while nobody answers there."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            families = {f.name: f for f in text_string_to_metric_families(answer.read().decode())}
    except (OSError, http.client.HTTPException):  # the latter of one that is killed while it answers
        return None
    return bool(families["fleet_leader"].samples[0].value)


@contextlib.contextmanager
def standby(folder: Path) -> Iterator[str]:
    """A second controllers process of the hub; where its metrics are."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [str(BIN / "fleet"), "controllers", "--data-dir", str(folder), "--metrics-fd", str(listener.fileno())],
            pass_fds=(listener.fileno(),), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if not k.startswith("FLEET_")},
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"
        finally:
            process.terminate()
            process.wait(60)


def test_who_leads_and_who_stands_by_says_so_and_takes_over(tmp_path: Path) -> None:
    up = Up(tmp_path / "hub", "--metrics-listen", "127.0.0.1:0")
    try:
        (address,) = re.findall(r"^metrics of the controllers: (http://\S+)$", up.errors.read_text(), re.MULTILINE)
        until("the first leads", lambda: leads(address) is True, PATIENCE_S)
        with standby(up.folder) as other:
            until("the second stands by", lambda: leads(other) is False, PATIENCE_S)
            up.child("controllers").kill()
            until("one leads, one stands by", lambda: {leads(other), leads(address)} == {True, False}, PATIENCE_S)
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
