"""How the first start of a hub makes its data directory.

Each file is written whole or not at all, and only when it is missing, so a first start that was killed is finished by
the next one. The hub id is the first of them: where it is missing beside others, it was lost (intact.py).
"""

from __future__ import annotations

import fcntl
import os
import secrets
import uuid
from typing import TYPE_CHECKING

from fleet.cli.datadir import DataDir
from fleet.cli.failure import Failure
from fleet.values.files import tighten

if TYPE_CHECKING:
    from fleet.simulate.cluster import Tls

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Lock:
    """Held while one `fleet up` runs on a directory; the kernel drops it when the process ends, however it ends."""

    def __init__(self, data: DataDir) -> None:
        self._file = (data.root / "lock").open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise Failure(f"{data.root} is in use by another `fleet up` (pid {holder})") from None
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        self._file.close()


def create_root(data: DataDir) -> None:
    """Make the directory itself, closed to others."""
    try:
        data.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (data.root / "pki", data.members, data.logs):
            path.mkdir(mode=0o700, exist_ok=True)
        for path in (data.root, data.logs):
            tighten(path, 0o700)
        for log in (*data.logs.iterdir(), *data.postgres.glob("postgres.log*")):
            tighten(log)
        probe = data.root / "lock"
        probe.touch(mode=0o600)
    except OSError as error:
        raise Failure(f"cannot use {data.root} as data directory: {error.strerror or error}") from error


def prepare(data: DataDir, host: str) -> bool:
    """Make what is missing, and a server certificate for `host`, or for the hub's own use where another one is there.
    True on the first start.

    The caller holds the Lock. The kubeconfig is written apart, once the port is known.
    """
    from api.store.secrets import SecretBox
    from fleet.hub import pki, serving

    first = not data.hub_id_file.exists()
    if first:
        pki.write_private(data.hub_id_file, f"{uuid.uuid4()}\n".encode())  # noqa: TID251  # the edge where ids enter
    now = pki.utcnow()
    if not (data.ca_certificate.exists() and data.ca_key.exists()):
        pki.make_ca(data.ca_certificate, data.ca_key, now=now)
    hosts = [*LOOPBACK, *public_names(host)]
    certificate, key = serving.own(data)
    if not key.exists() or pki.flaws(certificate, hosts, now=now):
        pki.make_server_certificate(data.ca_certificate, data.ca_key, certificate, key, hosts, now=now)
    if not data.service_account_key.exists():
        pki.write_private(data.service_account_key, pki.new_key())
    if not data.tokens.exists():
        add_token(data, "admin", ("system:masters",), uid="admin")
    SecretBox(data.secrets_key)
    return first


def members_tls(data: DataDir) -> Tls:
    """The certificate of simulated members: a new one at each start, of the hub's CA. Members that run apart from a hub
    have a CA of their own, since a hub's directory begins with its id."""
    from fleet.hub import pki
    from fleet.simulate.cluster import Tls

    now, folder = pki.utcnow(), data.members
    ca, ca_key = data.ca_certificate, data.ca_key
    if not (ca.exists() and ca_key.exists()):
        ca, ca_key = folder / "ca.crt", folder / "ca.key"
        if not (ca.exists() and ca_key.exists()):
            pki.make_ca(ca, ca_key, now=now)
    certificate, key = folder / "server.crt", folder / "server.key"
    pki.make_server_certificate(ca, ca_key, certificate, key, ["127.0.0.1", "localhost"], now=now)
    return Tls(certificate, key, ca.read_bytes())


def public_names(host: str) -> list[str]:
    """The names by which others reach a hub that listens on `host`."""
    return [*([host] if host not in (*LOOPBACK, "0.0.0.0", "::", "") else []), *_own_names()]


def _own_names() -> list[str]:
    """The machine's own name, so that others can reach a hub that listens on every address."""
    import socket

    from fleet.values.names import LABEL_MAX, subdomain_problems

    name = socket.gethostname()
    usable = len(name) <= LABEL_MAX and not subdomain_problems(name.lower())
    return [name] if usable and name != "localhost" else []


def add_token(data: DataDir, user: str, groups: tuple[str, ...], uid: str = "") -> str:
    """Append a new token for `user` and return it; the API sees it when it reads the file again."""
    from fleet.hub import pki

    token = secrets.token_urlsafe(32)
    before = data.tokens.read_bytes() if data.tokens.exists() else b""
    if before and not before.endswith(b"\n"):  # a file edited by hand: two tokens on one line are none
        before += b"\n"
    line = f'{token},{user},{uid or user},"{",".join(groups)}"\n'
    pki.write_private(data.tokens, before + line.encode())
    return token


def write_kubeconfig(data: DataDir, server: str, server_name: str = "") -> None:
    """Write DIR/kubeconfig for the address that is served now, unless it says so already. `server_name`: for which the
    hub shows the certificate of its CA; "" where it shows no other."""
    from fleet.hub import pki
    from fleet.values.kubeconfig.document import write

    text = write(
        server,
        name="fleet",
        user="admin",
        ca=data.ca_certificate.read_bytes(),
        server_name=server_name,
        token=data.admin_token(),
    )
    if not data.kubeconfig.exists() or data.kubeconfig.read_bytes() != text.encode():
        pki.write_private(data.kubeconfig, text.encode())
