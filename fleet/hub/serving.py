"""Which certificates the processes of a hub show, and who may write over them.

The hub makes a certificate of its own, signed by its CA, and renews it. A certificate of somebody else is shown as it
is: given by options, or put where the hub's own would lie. The hub's own lies beside it then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from api.transport.tls import Certificates, Pair
    from fleet.cli.datadir import DataDir

CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert-file",
        help="Certificate (PEM, with its chain) to serve with, in place of the hub's own; read again when it changes.",
    ),
]
KeyOption = Annotated[
    Path | None, typer.Option("--tls-private-key-file", help="Key (PEM) of --tls-cert-file; read again likewise.")
]


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The options of a process. Neither: what the data directory holds."""

    certificate: Path | None = None
    key: Path | None = None

    def words(self) -> list[str]:
        """The options, for the command line of another process."""
        named = (("--tls-cert-file", self.certificate), ("--tls-private-key-file", self.key))
        return [word for name, path in named if path is not None for word in (name, str(path.absolute()))]

    def check(self) -> None:
        """Raises Failure for files that cannot be served with."""
        from api.transport.tls import Certificates, Pair

        if self.certificate is None and self.key is None:
            return
        if self.certificate is None or self.key is None:
            raise Failure("--tls-cert-file and --tls-private-key-file belong together")
        try:
            Certificates(Pair(self.certificate, self.key)).context()
        except OSError as error:
            why = error.strerror if error.filename else "no certificate and its key in PEM"
            raise Failure(f"--tls-cert-file {self.certificate}, --tls-private-key-file {self.key}: {why}") from error


def own(data: DataDir) -> Pair:
    """The files of the hub's own certificate, which it may write."""
    from api.transport.tls import Pair
    from fleet.hub import pki

    server = Pair(data.server_certificate, data.server_key)
    if not (server.certificate.exists() and data.ca_certificate.exists()):
        return server
    if pki.signed_by(server.certificate, data.ca_certificate):
        return server
    return Pair(data.local_certificate, data.local_key)


def serving_certificates(data: DataDir, source: ServingOptions) -> Certificates:
    """The certificates to serve with."""
    from api.transport.tls import Certificates, Pair

    mine = own(data)
    if source.certificate is not None and source.key is not None:
        return Certificates(Pair(source.certificate, source.key), mine)
    server = Pair(data.server_certificate, data.server_key)
    return Certificates(server, mine if mine != server else None)


def server_name(data: DataDir, given: ServingOptions) -> str:
    """The name that a client of the hub's CA asks for; "" where any does."""
    from fleet.values.wellknown import LOCAL

    return LOCAL if serving_certificates(data, given).local is not None else ""


def lacks(data: DataDir, given: ServingOptions, hosts: list[str]) -> str:
    """What is wrong with a certificate that is not the hub's to renew, in one line; "" where nothing is."""
    from fleet.hub import pki

    certificates = serving_certificates(data, given)
    if certificates.local is None:
        return ""
    path = certificates.public.certificate
    found = pki.flaws(path, hosts, now=pki.utcnow())
    return f"{path} is not of the hub's CA and stays as it is: {'; '.join(found)}" if found else ""


@contextlib.asynccontextmanager
async def followed(certificates: Certificates, changed: Callable[[], None]) -> AsyncIterator[None]:
    """Meanwhile `changed` is called when a file of them has changed."""
    from api.transport.tls import follow

    task = asyncio.create_task(follow(certificates.files, changed), name="certificates")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
