"""A relay in front of PostgreSQL that breaks connections exactly at COMMIT: before the server hears of it, or after."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

COMMIT = b"Q" + struct.pack("!I", 4 + len(b"COMMIT\0")) + b"COMMIT\0"


class CuttingProxy:
    """Relays between unix sockets. `plan` says for each COMMIT in turn: "pass", "before" or "after"."""

    def __init__(self, listen: Path, server: Path, plan: Iterator[str]) -> None:
        self._listen, self._server, self._plan = listen, server, plan
        self.cuts: list[str] = []
        self._relay: asyncio.Server | None = None

    async def __aenter__(self) -> CuttingProxy:
        self._relay = await asyncio.start_unix_server(self._serve, self._listen)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._relay is not None
        self._relay.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_unix_connection(str(self._server))
        back = asyncio.create_task(self._copy(up_reader, writer))
        try:
            while data := await reader.read(1 << 16):
                what = next(self._plan) if COMMIT in data else "pass"
                if what == "pass":
                    up_writer.write(data)
                    continue
                self.cuts.append(what)
                back.cancel()  # the client hears nothing more
                if what == "after":
                    up_writer.write(data)
                    while b"COMMIT\0" not in await up_reader.read(1 << 16):
                        pass
                return
        except ConnectionError:
            pass
        finally:
            back.cancel()
            writer.close()
            up_writer.close()

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
            writer.close()
