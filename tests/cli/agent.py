"""A simulated member that an agent connects with the hub."""

from __future__ import annotations

import base64
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cli.hub import BIN, Up, fleet, until

NOWHERE = "https://member.invalid:6443"


@contextlib.contextmanager
def simulated(folder: Path) -> Iterator[tuple[Path, str]]:
    """A simulated member: its kubeconfig, with an address that leads nowhere, and HOST:PORT of its API server."""
    sim = subprocess.Popen([str(BIN / "fleet"), "sim", "--members", "1", "--data-dir", str(folder)])
    try:
        path = folder / "members" / "cfa.kubeconfig"
        until("the member serves", path.exists)
        document = yaml.safe_load(path.read_text())
        cluster = document["clusters"][0]["cluster"]
        address = cluster["server"].removeprefix("https://")
        cluster.update({"server": NOWHERE, "tls-server-name": "127.0.0.1"})
        (folder / "kubeconfig").write_text(yaml.safe_dump(document))
        yield folder / "kubeconfig", address
    finally:
        sim.terminate()
        sim.wait(20)


def pull(up: Up, kubeconfig: Path, name: str = "edge") -> list[dict[str, Any]]:
    """Join it, and read the manifest that was printed."""
    done = fleet("join", name, "--agent", "--kubeconfig", str(kubeconfig), "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr
    assert "is this machine alone: name the hub as the member reaches it" in done.stderr
    return list(yaml.safe_load_all(done.stdout))


@contextlib.contextmanager
def agent(manifest: list[dict[str, Any]], folder: Path, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run what the manifest's Deployment runs, with the files of its Secret, here."""
    secret = next(body for body in manifest if body["kind"] == "Secret")
    for key, value in secret["data"].items():
        (folder / key).write_bytes(base64.b64decode(value))
    deployment = next(body for body in manifest if body["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [word.replace("/etc/fleet-agent", str(folder)) for word in container["args"]]
    arguments[arguments.index("--health-listen") :] = []
    process = subprocess.Popen([str(BIN / "fleet"), *arguments, "--api", address])
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
