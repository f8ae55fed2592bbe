"""A member's kubeconfig, checked and turned into the settings of an HTTP client.

The hub gets kubeconfigs from people, so the hub takes only little of what a kubeconfig may say: everything inline,
nothing that names a file on the hub's machine or runs a program there. Each refusal names the field.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from fleet.values.kubeconfig.document import BadKubeconfig, ContextEntry, choose, inline, parse
from fleet.values.kubeconfig.files import Access as Found
from fleet.values.kubeconfig.files import access_of
from fleet.values.kubeconfig.tls import load_pair

Dialled = Callable[[], Awaitable[socket.socket]]  # a socket that is connected with a member; raises OSError
Dial = Callable[[str], Awaitable[socket.socket]]  # the same, given the member's name


@dataclass(frozen=True, slots=True)
class MemberAccess:
    """How to reach a member: `server` is its URL without a slash at the end, `headers` hold the credentials that are
    not in `tls`. `tls_name`: the name on the server's certificate where that is not the URL's host."""

    server: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext
    tls_name: str | None = None
    proxy: str | None = None
    dial: Dialled | None = None  # makes each connection, of a member that only its agent reaches

    def dialled(self, dial: Dialled) -> MemberAccess:
        """The same access over connections that `dial` makes, whatever address and proxy the kubeconfig names."""
        return replace(self, dial=dial, proxy=None)


def _check(chosen: ContextEntry) -> None:
    """Raise BadKubeconfig for what a member's kubeconfig may not say, or must."""
    cluster, cluster_at, user, user_at = chosen.cluster, chosen.cluster_at, chosen.user, chosen.user_at
    proxy = cluster.get("proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
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
    if not (user.get("token") or user.get("client-certificate-data") or user.get("username")):
        raise BadKubeconfig(user_at, "no credentials: a token, a client certificate or a user name is required")


def _tls(access: Found, chosen: ContextEntry) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.ca:
        try:
            context.load_verify_locations(cadata=access.ca.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            where = f"{chosen.cluster_at}.certificate-authority-data"
            raise BadKubeconfig(where, f"no usable certificate: {error}") from error
    else:
        context.load_default_certs()
    if access.certificate and access.key:
        try:
            load_pair(context, access.certificate, access.key)
        except ssl.SSLError as error:
            where = f"{chosen.user_at}.client-certificate-data"
            raise BadKubeconfig(where, f"no usable pair of certificate and key: {error}") from error
    return context


def read_kubeconfig(text: str) -> MemberAccess:
    """The member's API server with its credentials and certificate checks. Raises BadKubeconfig. Nothing of the
    credentials is left on disk."""
    chosen = choose(parse(text))
    _check(chosen)
    found = access_of(chosen)
    headers = {"user-agent": "fleet", "accept": "application/json"}
    if found.credential.authorization:
        headers["authorization"] = found.credential.authorization
    return MemberAccess(found.server, headers, _tls(found, chosen), found.server_name or None, found.proxy or None)
