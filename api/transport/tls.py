"""The certificates that a server shows: read from files, and read again when the files change.

A hub that is given a certificate for its public name keeps one of its own CA beside it, and shows that to who asks for
`localhost` (SNI). So its own processes and the kubeconfig of its data directory reach it whatever the given one names.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from fleet.values.wellknown import LOCAL

CHECK_EVERY_S = 1.0
log = structlog.get_logger(__name__)


class Pair(NamedTuple):
    """The files (PEM) of a certificate, with the chain behind it, and of its key."""

    certificate: Path
    key: Path


class Certificates(NamedTuple):
    """`public`: to all; `local`: to who asks for LOCAL, None: the same."""

    public: Pair
    local: Pair | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        return (*self.public, *(self.local or ()))

    def context(self) -> ssl.SSLContext:
        """As the files are now. OSError where one cannot be read, or where they do not belong together."""
        context = _context(self.public)
        if self.local is not None:
            local = _context(self.local)

            def choose(connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
                if name == LOCAL:
                    connection.context = local

            context.sni_callback = choose
        return context


def _context(pair: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key, password="")  # nobody is asked for one
    return context


async def follow(files: Sequence[Path], changed: Callable[[], None]) -> None:
    """Call `changed` whenever a file has changed, for ever. What it raises as OSError is logged: the certificate that
    was good before is shown then."""
    content = await asyncio.to_thread(_read, files)
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        now = await asyncio.to_thread(_read, files)
        if now == content:
            continue
        content = now
        try:
            changed()
        except OSError as error:
            log.error("the changed certificate is not used", files=[str(path) for path in files], why=str(error))
        else:
            log.info("the certificate has changed", files=[str(path) for path in files])


def _read(files: Sequence[Path]) -> list[bytes | None]:
    return [path.read_bytes() if path.is_file() else None for path in files]
