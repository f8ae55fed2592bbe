"""Credentials from a program that a kubeconfig names (`users[].user.exec`), as kubectl runs it: for people whose tokens
an identity provider gives (kubelogin and others).

What the program gave is kept until the end that it named, or until the server refuses it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

from fleet.values.kubeconfig.document import BadKubeconfig
from fleet.values.kubeconfig.files import Credential

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
WAIT_S = 300.0  # for a person who logs in
EARLY_S = 10.0  # before its end a credential is asked for anew
OUTPUT_MAX = 1 << 20


@dataclass(frozen=True)
class ExecProgram:
    """`where`: the field of the kubeconfig that names it; `cluster`: what the program is told of the server, None where
    it does not ask for that."""

    where: str
    version: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    hint: str = ""
    mode: str = "IfAvailable"
    cluster: Mapping[str, Any] | None = None

    def run(self) -> Credential:
        """A new credential. Raises BadKubeconfig."""
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if self.mode == "Always" and not terminal:
            raise self._bad(f"{self.command[0]} needs a terminal (interactiveMode: Always)")
        interactive = terminal and self.mode != "Never"
        spec = {"interactive": interactive, **({"cluster": self.cluster} if self.cluster is not None else {})}
        request = json.dumps({"apiVersion": self.version, "kind": "ExecCredential", "spec": spec})
        try:
            done = subprocess.run(
                self.command,
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                check=False,
                env={**os.environ, **dict(self.environment), "KUBERNETES_EXEC_INFO": request},
                timeout=WAIT_S,
            )
        except subprocess.TimeoutExpired:
            raise self._bad(f"{self.command[0]} has not ended within {WAIT_S:.0f} s") from None
        except (OSError, ValueError) as error:
            hint = f"\n{self.hint}" if self.hint else ""
            raise self._bad(
                f"cannot run {self.command[0]}: {getattr(error, 'strerror', None) or error}{hint}"
            ) from error
        if done.returncode:
            raise self._bad(f"{self.command[0]} failed with exit status {done.returncode}")
        return self._read(done.stdout)

    def _read(self, output: bytes) -> Credential:
        try:
            document = json.loads(output[:OUTPUT_MAX])
            version, status = document["apiVersion"], document["status"]
            token, certificate, key = (
                str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
            )
            end = status.get("expirationTimestamp")
        except (ValueError, TypeError, LookupError, AttributeError):
            raise self._bad(f"{self.command[0]} has printed no ExecCredential with a status") from None
        if version != self.version:
            raise self._bad(f"{self.command[0]} has printed {version!s:.60}, and not {self.version}")
        if bool(certificate) != bool(key) or not (token or certificate):
            raise self._bad(f"{self.command[0]} gives neither a token nor a certificate with its key")
        try:
            until = datetime.fromisoformat(str(end)).timestamp() if end else inf
        except (ValueError, OverflowError):
            raise self._bad(f"expirationTimestamp of {self.command[0]} is no time: {end!s:.40}") from None
        return Credential(token, certificate.encode() or None, key.encode() or None, until)

    def _bad(self, why: str) -> BadKubeconfig:
        return BadKubeconfig(self.where, why)


def program_of(where: str, entry: object, cluster: Mapping[str, Any]) -> ExecProgram:
    """The program of this entry `users[].user.exec`. `cluster`: as the kubeconfig has it. Raises BadKubeconfig."""
    if not isinstance(entry, Mapping):
        raise BadKubeconfig(where, "must be a mapping")
    version, command = entry.get("apiVersion"), entry.get("command")
    if version not in VERSIONS:
        raise BadKubeconfig(f"{where}.apiVersion", f"must be one of {', '.join(VERSIONS)}")
    if not isinstance(command, str) or not command:
        raise BadKubeconfig(f"{where}.command", "required")
    arguments, environment = entry.get("args") or [], entry.get("env") or []
    mode = entry.get("interactiveMode") or "IfAvailable"
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        raise BadKubeconfig(f"{where}.args", "must be a list of texts")
    if mode not in ("Never", "IfAvailable", "Always"):
        raise BadKubeconfig(f"{where}.interactiveMode", "must be Never, IfAvailable or Always")
    pairs = []
    for index, one in enumerate(environment if isinstance(environment, list) else [None]):
        if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
            raise BadKubeconfig(f"{where}.env[{index}]", "must have a name and a value")
        pairs.append((one["name"], str(one.get("value") or "")))
    info = _cluster_info(cluster) if entry.get("provideClusterInfo") else None
    return ExecProgram(
        where, version, (command, *arguments), tuple(pairs), str(entry.get("installHint") or ""), mode, info
    )


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster of a kubeconfig, in the form of an ExecCredential."""
    names = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
    info = {name: cluster[name] for name in names if cluster.get(name)}
    if "certificate-authority-data" not in info and cluster.get("certificate-authority"):
        with contextlib.suppress(OSError):  # whoever connects says so
            content = Path(cluster["certificate-authority"]).read_bytes()
            info["certificate-authority-data"] = base64.b64encode(content).decode()
    for extension in cluster.get("extensions") or ():
        with contextlib.suppress(TypeError, LookupError):
            if extension["name"] == "client.authentication.k8s.io/exec":
                info["config"] = extension["extension"]
    return info


class ProgramCredential:
    """The credential of a program, while it holds."""

    def __init__(self, program: ExecProgram) -> None:
        self._program = program
        self._current: Credential | None = None

    def credential(self, now: float) -> Credential:
        """The credential to use at this time (epoch seconds). Raises BadKubeconfig."""
        if self._current is None or now >= self._current.until - EARLY_S:
            self._current = self._program.run()
        return self._current

    def refused(self, credential: Credential) -> None:
        """Drop a credential that the server refused: the next use runs the program again."""
        if credential is self._current:
            self._current = None
