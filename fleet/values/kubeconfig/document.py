"""Kubeconfigs as values: which server and which user the chosen context means, and the text of a new one.

Pure: files.py reads and merges. A narrower choice is the caller's matter: a member's kubeconfig may name no file.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import yaml

BYTES_MAX = 1 << 20  # of a kubeconfig: far above any real one, far below what hurts
DEPTH_MAX = 100
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Fields of a cluster and of a user that are texts, if they are there.
_TEXTS = (
    "certificate-authority",
    "certificate-authority-data",
    "tls-server-name",
    "proxy-url",
    "token",
    "tokenFile",
    "username",
    "password",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
)
SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}  # and the key of an entry's mapping

Config = dict[str, Any]


class BadKubeconfig(ValueError):
    """The kubeconfig cannot be used; `field` is the path of what is wrong, e.g. users[0].user.exec."""

    def __init__(self, field: str, message: str, source: str = "") -> None:
        super().__init__(": ".join(part for part in (f"kubeconfig {source}".rstrip(), field, message) if part))
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """The cluster and the user of one context. `cluster_at` and `user_at` are the paths of the two mappings, for
    refusals."""

    context: str
    namespace: str
    cluster: Config
    cluster_at: str
    user: Config  # empty where the context names no user
    user_at: str
    user_name: str

    @property
    def server(self) -> str:
        """The URL of the API server, without a slash at its end."""
        return str(self.cluster["server"]).rstrip("/")


def _is_deep(text: str) -> bool:
    """Whether the loader must not see it: it calls itself for each level, and dies with the process."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            return True
    return False


def parse(text: str) -> Config:
    """Return the mapping that `text` is, its sections lists. Raises BadKubeconfig."""
    if len(text) > BYTES_MAX:
        raise BadKubeconfig("", f"larger than {BYTES_MAX} bytes")
    try:
        if _is_deep(text):
            raise BadKubeconfig("", f"is nested more than {DEPTH_MAX} deep")
        config = yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        raise BadKubeconfig("", f"is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise BadKubeconfig("", "must be a mapping with clusters, users and contexts")
    for section in SECTIONS:
        if not isinstance(config.get(section) or [], list):
            raise BadKubeconfig(section, "must be a list")
    return config


def choose(config: Config, context: str = "", *, programs: bool = False) -> ContextEntry:
    """Return what `context`, or else the current context, names. `programs`: credentials may come from one (`exec`).
    Raises BadKubeconfig."""
    name = context or config.get("current-context")
    if not isinstance(name, str) or not name:
        raise BadKubeconfig("current-context", "required")
    where, entry = _named(config, "contexts", name, "current-context")
    cluster_name, user_name = entry.get("cluster"), entry.get("user") or ""
    if not isinstance(cluster_name, str) or not cluster_name:
        raise BadKubeconfig(f"{where}.cluster", "required")
    cluster_at, cluster = _named(config, "clusters", cluster_name, f"{where}.cluster")
    user_at, user = f"{where}.user", Config()
    if user_name:
        user_at, user = _named(config, "users", user_name, user_at)
    _check_server(f"{cluster_at}.server", cluster.get("server"))
    for where, part in ((cluster_at, cluster), (user_at, user)):
        for field in _TEXTS:
            if part.get(field) is not None and not isinstance(part[field], str):
                raise BadKubeconfig(f"{where}.{field}", "must be a string")
    if not isinstance(cluster.get("insecure-skip-tls-verify") or False, bool):  # "false" is no false
        raise BadKubeconfig(f"{cluster_at}.insecure-skip-tls-verify", "must be true or false")
    for program in ("auth-provider",) if programs else ("exec", "auth-provider"):
        if user.get(program):
            message = f'user "{user_name}" gets its credentials from a program, which is not supported'
            raise BadKubeconfig(f"{user_at}.{program}", f"{message}; use a token or a client certificate")
    namespace = str(entry.get("namespace") or "default")
    return ContextEntry(name, namespace, cluster, cluster_at, user, user_at, str(user_name))


def inline(where: str, part: Config, name: str) -> bytes | None:
    """Return what `NAME-data` of a cluster or a user holds, decoded; None without it. Raises BadKubeconfig."""
    data = part.get(f"{name}-data")
    if not data:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadKubeconfig(f"{where}.{name}-data", "must be base64") from error


def write(
    server: str,
    *,
    name: str,
    user: str,
    namespace: str = "",
    ca: bytes | None = None,
    insecure: bool = False,
    server_name: str = "",
    token: str = "",
    certificate: bytes | None = None,
    key: bytes | None = None,
    basic: str = "",
) -> str:
    """Return a kubeconfig with one context, called `name` as its cluster is, and everything inline. `basic`: a user's
    name and password, as NAME:PASSWORD."""
    cluster = {
        "server": server,
        "certificate-authority-data": _base64(ca),
        "insecure-skip-tls-verify": insecure,
        "tls-server-name": server_name,
    }
    credentials = {"token": token}
    if certificate and key:
        credentials |= {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
    credentials["username"], _, credentials["password"] = basic.partition(":")
    context = {"cluster": name, "user": user, "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": _given(cluster)}],
        "users": [{"name": user, "user": _given(credentials)}],
        "contexts": [{"name": name, "context": _given(context)}],
        "current-context": name,
    }
    return str(yaml.safe_dump(document, sort_keys=False))


def _named(config: Config, section: str, name: str, asked_by: str) -> tuple[str, Config]:
    for index, entry in enumerate(config.get(section) or ()):
        if isinstance(entry, dict) and entry.get("name") == name:
            where, value = f"{section}[{index}].{SECTIONS[section]}", entry.get(SECTIONS[section])
            if not isinstance(value, dict):
                raise BadKubeconfig(where, "must be a mapping")
            return where, value
    raise BadKubeconfig(asked_by, f"{name!r} is not in {section}")


def _check_server(where: str, server: object) -> None:
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        raise BadKubeconfig(where, "must be an https:// or http:// URL")
    try:
        if not urlsplit(server).hostname or urlsplit(server).port == 0:
            raise ValueError("no host and port that could be connected to")
    except ValueError as error:
        raise BadKubeconfig(where, str(error)) from error


def _base64(data: bytes | None) -> str:
    return base64.b64encode(data or b"").decode()


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
