"""A member's kubeconfig, checked and turned into what an HTTP client needs.

The hub gets kubeconfigs from people, so what one may ask of the hub is narrow: everything inline, nothing that names
a file on the hub's machine or runs a program there. Each refusal names the field. The `kubernetes` package reads what
is left, because it knows the format; it is heavy (about 25 MB), so it is imported when the first member joins.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

# Most that a kubeconfig may have: far above any real one, far below what hurts.
MAX_BYTES = 1 << 20

_loading = threading.Lock()  # the kubernetes package keeps its temporary files in a module-wide table


class BadKubeconfig(ValueError):
    """The kubeconfig cannot be used; `field` is the path of what is wrong, e.g. users[0].user.exec."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"kubeconfig: {field}: {message}" if field else f"kubeconfig: {message}")
        self.field = field


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a member: `server` is its URL without a slash at the end, `headers` hold the credentials that are
    not in `tls`. `tls_name`: the name on the server's certificate where that is not the URL's host."""

    server: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext
    tls_name: str | None = None
    proxy: str | None = None


def _parse(text: str) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise BadKubeconfig("", f"larger than {MAX_BYTES} bytes")
    try:
        config = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise BadKubeconfig("", f"not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise BadKubeconfig("", "must be a mapping with clusters, users and contexts")
    return config


def _named(config: dict[str, Any], section: str, inner: str, name: str, asked_by: str) -> tuple[str, dict[str, Any]]:
    entries = config.get(section)
    if not isinstance(entries, list):
        raise BadKubeconfig(section, "must be a list")
    for index, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(inner)
            where = f"{section}[{index}].{inner}"
            if not isinstance(value, dict):
                raise BadKubeconfig(where, "must be a mapping")
            return where, value
    raise BadKubeconfig(asked_by, f"{name!r} is not in {section}")


def _active(config: dict[str, Any]) -> tuple[str, dict[str, Any], str, dict[str, Any]]:
    current = config.get("current-context")
    if not isinstance(current, str) or not current:
        raise BadKubeconfig("current-context", "required")
    where, context = _named(config, "contexts", "context", current, "current-context")
    for key in ("cluster", "user"):
        if not isinstance(context.get(key), str) or not context[key]:
            raise BadKubeconfig(f"{where}.{key}", "required")
    cluster_at, cluster = _named(config, "clusters", "cluster", context["cluster"], f"{where}.cluster")
    user_at, user = _named(config, "users", "user", context["user"], f"{where}.user")
    return cluster_at, cluster, user_at, user


def _check(cluster_at: str, cluster: dict[str, Any], user_at: str, user: dict[str, Any]) -> None:
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        raise BadKubeconfig(f"{cluster_at}.server", "must be an https:// or http:// URL")
    try:
        if not urlsplit(server).hostname or urlsplit(server).port == 0:
            raise ValueError("no host and port that could be connected to")
    except ValueError as error:
        raise BadKubeconfig(f"{cluster_at}.server", str(error)) from error
    proxy = cluster.get("proxy-url")
    if proxy and not (isinstance(proxy, str) and proxy.startswith(("http://", "https://"))):
        raise BadKubeconfig(f"{cluster_at}.proxy-url", "must be an http:// or https:// URL")
    for where, part, names in (
        (cluster_at, cluster, ("certificate-authority",)),
        (user_at, user, ("client-certificate", "client-key", "tokenFile")),
    ):
        for name in names:
            if part.get(name) and not part.get(f"{name}-data"):
                instead = "token" if name == "tokenFile" else f"{name}-data"
                raise BadKubeconfig(f"{where}.{name}", f"files are not read; give the content inline as {instead}")
            encoded = part.get(f"{name}-data")
            if encoded is None:
                continue
            try:
                base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError, TypeError) as error:
                raise BadKubeconfig(f"{where}.{name}-data", "must be base64") from error
    for name in ("exec", "auth-provider"):
        if user.get(name):
            raise BadKubeconfig(f"{user_at}.{name}", "not supported; use a token or a client certificate")
    for name in ("as", "as-groups", "as-uid", "as-user-extra"):
        if user.get(name):
            raise BadKubeconfig(f"{user_at}.{name}", "impersonation is not supported")
    if bool(user.get("client-certificate-data")) != bool(user.get("client-key-data")):
        missing = "client-key-data" if user.get("client-certificate-data") else "client-certificate-data"
        raise BadKubeconfig(f"{user_at}.{missing}", "required beside the other half of the pair")
    for name in ("token", "username", "password"):
        if user.get(name) is not None and not isinstance(user[name], str):
            raise BadKubeconfig(f"{user_at}.{name}", "must be a string")
    if not (user.get("token") or user.get("client-certificate-data") or user.get("username")):
        raise BadKubeconfig(user_at, "no credentials: a token, a client certificate or a user name is required")


def _tls(loaded: Any, cluster_at: str, user_at: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not loaded.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif loaded.ssl_ca_cert:
        try:
            context.load_verify_locations(cafile=loaded.ssl_ca_cert)
        except ssl.SSLError as error:
            where = f"{cluster_at}.certificate-authority-data"
            raise BadKubeconfig(where, f"no usable certificate: {error}") from error
    else:
        context.load_default_certs()
    if loaded.cert_file:
        try:
            context.load_cert_chain(loaded.cert_file, loaded.key_file)
        except ssl.SSLError as error:
            where = f"{user_at}.client-certificate-data"
            raise BadKubeconfig(where, f"no usable pair of certificate and key: {error}") from error
    return context


def read_kubeconfig(text: str) -> Access:
    """The member's API server with its credentials and certificate checks.

    Raises BadKubeconfig. Blocks for the import of the `kubernetes` package the first time: call it in a thread.
    Nothing of the credentials is left on disk.
    """
    config = _parse(text)
    cluster_at, cluster, user_at, user = _active(config)
    _check(cluster_at, cluster, user_at, user)

    from kubernetes.client import Configuration
    from kubernetes.config import kube_config as reader
    from kubernetes.config.config_exception import ConfigException

    # An instance of our own: the package otherwise starts from settings shared by the whole process.
    loaded = type.__call__(Configuration)
    with _loading, tempfile.TemporaryDirectory(prefix="fleet-member-") as folder:
        try:
            reader.load_kube_config_from_dict(  # type: ignore[no-untyped-call]
                config, client_configuration=loaded, persist_config=False, temp_file_path=folder
            )
            context = _tls(loaded, cluster_at, user_at)
        except ConfigException as error:
            raise BadKubeconfig("", str(error)) from error
        finally:
            for left in Path(folder).iterdir():
                left.unlink()
            reader._cleanup_temp_files()  # type: ignore[no-untyped-call]  # else the next load would be pointed at the files just removed
    headers = {"user-agent": "fleet", "accept": "application/json"}
    if user.get("token"):
        headers["authorization"] = loaded.api_key.get("BearerToken") or f"Bearer {user['token']}"
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}".encode()
        headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return Access(
        str(loaded.host).rstrip("/"), headers, context, cluster.get("tls-server-name") or None,
        cluster.get("proxy-url") or None,
    )  # fmt: skip
