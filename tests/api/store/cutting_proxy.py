"""A relay in front of PostgreSQL that breaks connections exactly at a commit: before the server hears of it, after, or
long before: a late one reaches the server when the client has asked what became of it, and writes again.

A commit is either the word COMMIT, after the statements of a batch, or the one statement of a batch, which is known by
the bodies that it carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

COMMIT = b"Q" + struct.pack("!I", 4 + len(b"COMMIT\0")) + b"COMMIT\0", b"COMMIT\0"
STATEMENT = b'"ConfigMap"', b"Z" + struct.pack("!I", 5)  # the server is ready for the next one


class CuttingProxy:
    """Relays between unix sockets. `plan` says for each commit in turn: "pass", "before", "after" or "late".
    `commit`: the mark of one, and that of its answer."""

    def __init__(self, listen: Path, server: Path, plan: Iterator[str], commit: tuple[bytes, bytes] = COMMIT) -> None:
        self._listen, self._server, self._plan = listen, server, plan
        self._asked, self._answered = commit
        self.cuts: list[str] = []
        self._late: tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter] | None = None
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
                what = next(self._plan) if self._asked in data else "pass"
                if self._asked in data:
                    await self._deliver()
                if what == "pass":
                    up_writer.write(data)
                    continue
                self.cuts.append(what)
                back.cancel()  # the client hears nothing more
                await asyncio.wait([back])
                if what == "late":
                    self._late = data, up_reader, up_writer
                elif what == "after":
                    await self._finish(data, up_reader, up_writer)
                return
        except ConnectionError:
            pass
        finally:
            back.cancel()
            writer.close()
            if self._late is None or self._late[2] is not up_writer:
                up_writer.close()

    async def _deliver(self) -> None:
        late, self._late = self._late, None
        if late is not None:
            with contextlib.suppress(ConnectionError):  # the server has ended that connection
                await self._finish(*late)
            late[2].close()

    async def _finish(self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The server takes the commit, and answers nobody."""
        writer.write(data)
        while (answer := await reader.read(1 << 16)) and self._answered not in answer:
            pass

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
            writer.close()
