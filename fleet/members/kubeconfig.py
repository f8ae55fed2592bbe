"""A member's kubeconfig, checked and turned into the settings of an HTTP client.

The hub gets kubeconfigs from people, so the hub takes only little of what a kubeconfig may say: everything inline,
nothing that names a file on the hub's machine or runs a program there. Each refusal names the field. The `kubernetes`
package reads what is left, because it knows the format. The package is heavy (about 25 MB), so it is imported when the
first member joins.
"""

from __future__ import annotations

import base64
import socket
import ssl
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fleet.engine.kubeconfig import BadKubeconfig, Chosen, choose, inline, parse

_loading = threading.Lock()  # the kubernetes package keeps its temporary files in a module-wide table

Dialled = Callable[[], Awaitable[socket.socket]]  # a socket that is connected with a member; raises OSError
Dial = Callable[[str], Awaitable[socket.socket]]  # the same, given the member's name


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a member: `server` is its URL without a slash at the end, `headers` hold the credentials that are
    not in `tls`. `tls_name`: the name on the server's certificate where that is not the URL's host."""

    server: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext
    tls_name: str | None = None
    proxy: str | None = None
    dial: Dialled | None = None  # makes each connection, of a member that only its agent reaches

    def dialled(self, dial: Dialled) -> Access:
        """The same access over connections that `dial` makes, whatever address and proxy the kubeconfig names."""
        return replace(self, dial=dial, proxy=None)


def _check(chosen: Chosen) -> None:
    """Raise BadKubeconfig for what a member's kubeconfig may not say, or must."""
    cluster, cluster_at, user, user_at = chosen.cluster, chosen.cluster_at, chosen.user, chosen.user_at
    proxy = cluster.get("proxy-url")
    if proxy and not (isinstance(proxy, str) and proxy.startswith(("http://", "https://"))):
        raise BadKubeconfig(f"{cluster_at}.proxy-url", "must be an http:// or https:// URL")
    for where, part, names in (
        (cluster_at, cluster, ("certificate-authority",)),
        (user_at, user, ("client-certificate", "client-key", "tokenFile")),
    ):
        for name in names:
            if inline(where, part, name) is None and part.get(name):
                instead = "token" if name == "tokenFile" else f"{name}-data"
                raise BadKubeconfig(f"{where}.{name}", f"files are not read; give the content inline as {instead}")
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


def _tls(loaded: Any, chosen: Chosen) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not loaded.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif loaded.ssl_ca_cert:
        try:
            context.load_verify_locations(cafile=loaded.ssl_ca_cert)
        except ssl.SSLError as error:
            where = f"{chosen.cluster_at}.certificate-authority-data"
            raise BadKubeconfig(where, f"no usable certificate: {error}") from error
    else:
        context.load_default_certs()
    if loaded.cert_file:
        try:
            context.load_cert_chain(loaded.cert_file, loaded.key_file)
        except ssl.SSLError as error:
            where = f"{chosen.user_at}.client-certificate-data"
            raise BadKubeconfig(where, f"no usable pair of certificate and key: {error}") from error
    return context


def read_kubeconfig(text: str) -> Access:
    """The member's API server with its credentials and certificate checks.

    Raises BadKubeconfig. Blocks for the import of the `kubernetes` package the first time: call it in a thread.
    Nothing of the credentials is left on disk.
    """
    config = parse(text)
    chosen = choose(config)
    _check(chosen)
    cluster, user = chosen.cluster, chosen.user

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
            context = _tls(loaded, chosen)
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
