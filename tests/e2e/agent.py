"""The agent of a member, run without a container."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from tests.e2e.hub import BIN


def hide(shown: str, kubeconfig: Path) -> str:
    """Write the kubeconfig of a member with an address that leads nowhere; the one where its agent finds it."""
    document = yaml.safe_load(shown)
    cluster = document["clusters"][0]["cluster"]
    address: str = cluster["server"].removeprefix("https://")
    cluster.update({"server": "https://member.invalid:6443", "tls-server-name": "127.0.0.1"})
    kubeconfig.write_text(yaml.safe_dump(document))
    return address


def command_of(folder: Path, address: str, program: Path = BIN / "fleet") -> list[str]:
    """No member runs containers here: the arguments of the container in `agent.yaml`, with the Secret's files here."""
    manifest = list(yaml.safe_load_all((folder / "agent.yaml").read_text()))
    secret, deployment = manifest[-2], manifest[-1]
    for key, value in secret["data"].items():
        (folder / key).write_bytes(base64.b64decode(value))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [word.replace("/etc/fleet-agent", str(folder)) for word in container["args"]]
    return [str(program), *arguments[: arguments.index("--health-listen")], "--api", address]
