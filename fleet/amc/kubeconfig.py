"""Where the hub is and who asks: a kubeconfig read as kubectl reads it, without the weight of a Kubernetes library.

Start-up time is what people feel of a plugin, so only the standard library and PyYAML are used. Several files in
KUBECONFIG merge as kubectl merges them: the first one that names a cluster, user, context or current-context wins.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadKubeconfig(Exception):
    """The kubeconfig cannot be used; the text says which part and why."""


@dataclass(frozen=True)
class Access:
    """How to reach one API server. Certificates and keys are PEM."""

    server: str
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    server_name: str = ""
    token: str = ""
    certificate: bytes | None = None
    key: bytes | None = None
    context: str = ""
    user: str = ""


def paths(explicit: str | None, environment: Mapping[str, str]) -> list[Path]:
    """`--kubeconfig`, else the files of KUBECONFIG, else ~/.kube/config."""
    if explicit:
        return [Path(explicit).expanduser()]
    listed = [part for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    return [Path(part) for part in listed] or [Path.home() / ".kube" / "config"]


def load(files: Sequence[Path], *, context: str | None = None, must_exist: bool = False) -> Access:
    """The access that the (current) context names. Raises BadKubeconfig."""
    clusters: dict[str, tuple[dict[str, Any], Path]] = {}
    users: dict[str, tuple[dict[str, Any], Path]] = {}
    contexts: dict[str, dict[str, Any]] = {}
    current = ""
    for path in files:
        if not path.exists() and not must_exist:
            continue
        document = _read(path)
        for entry in _entries(document, "clusters", path):
            clusters.setdefault(entry["name"], (entry.get("cluster") or {}, path))
        for entry in _entries(document, "users", path):
            users.setdefault(entry["name"], (entry.get("user") or {}, path))
        for entry in _entries(document, "contexts", path):
            contexts.setdefault(entry["name"], entry.get("context") or {})
        current = current or str(document.get("current-context") or "")
    shown = os.pathsep.join(str(path) for path in files)
    chosen = context or current
    if not chosen:
        raise BadKubeconfig(f"no current-context in {shown} (set KUBECONFIG, or give --kubeconfig)")
    if chosen not in contexts:
        raise BadKubeconfig(f'context "{chosen}" does not exist in {shown}')
    found = contexts[chosen]
    cluster_name, user_name = str(found.get("cluster") or ""), str(found.get("user") or "")
    if cluster_name not in clusters:
        raise BadKubeconfig(f'context "{chosen}" names cluster "{cluster_name}", which does not exist in {shown}')
    user, user_path = users.get(user_name, ({}, files[0]))
    return _access(*clusters[cluster_name], user, user_path, found, chosen, user_name)


def _access(
    cluster: dict[str, Any],
    cluster_path: Path,
    user: dict[str, Any],
    user_path: Path,
    context: dict[str, Any],
    name: str,
    user_name: str,
) -> Access:
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise BadKubeconfig(f'{cluster_path}: clusters: server "{server}" is not an http(s) address')
    if "exec" in user or "auth-provider" in user:
        raise BadKubeconfig(
            f'{user_path}: user "{user_name}" gets its credentials from a program, which is not supported'
        )
    token = str(user.get("token") or "")
    if not token and user.get("tokenFile"):
        token = _bytes_of(user_path, str(user["tokenFile"])).decode().strip()
    return Access(
        server=server.rstrip("/"),
        namespace=str(context.get("namespace") or "default"),
        ca=_pem(cluster, "certificate-authority", cluster_path),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        token=token,
        certificate=_pem(user, "client-certificate", user_path),
        key=_pem(user, "client-key", user_path),
        context=name,
        user=user_name,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_text(), Loader=Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise BadKubeconfig(f"cannot read kubeconfig {path}: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise BadKubeconfig(f"kubeconfig {path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise BadKubeconfig(f"{path} is not a kubeconfig")
    return document


def _entries(document: dict[str, Any], part: str, path: Path) -> list[dict[str, Any]]:
    entries = document.get(part) or []
    if not isinstance(entries, list) or not all(
        isinstance(e, dict) and isinstance(e.get("name"), str) for e in entries
    ):
        raise BadKubeconfig(f"kubeconfig {path}: {part} is not a list of named entries")
    return entries


def _pem(entry: dict[str, Any], field: str, path: Path) -> bytes | None:
    """`FIELD-data` (base64) or the file that `FIELD` names, relative to the kubeconfig."""
    data = entry.get(f"{field}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadKubeconfig(f"kubeconfig {path}: {field}-data is not base64") from error
    return _bytes_of(path, str(entry[field])) if entry.get(field) else None


def _bytes_of(path: Path, name: str) -> bytes:
    try:
        return (path.parent / Path(name).expanduser()).read_bytes()
    except OSError as error:
        raise BadKubeconfig(f"kubeconfig {path}: cannot read {name}: {error.strerror or error}") from error
