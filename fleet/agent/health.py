"""The questions of a kubelet to an agent: /healthz, whether it runs, and /readyz, whether its hub is connected."""

from __future__ import annotations

import asyncio
import socket

from fleet.agent.serving import Agent

HEAD_BYTES = 4096
ASK_S = 3.0
AT_ONCE = 256


class HealthServer:
    """Plain HTTP, since kubelets bring no credentials; the answers tell nothing else."""

    def __init__(self, agent: Agent, listener: socket.socket) -> None:
        self._agent, self._listener = agent, listener
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        server = await asyncio.start_server(self._answer, sock=self._listener, limit=HEAD_BYTES)
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self._places.locked():
                async with self._places, asyncio.timeout(ASK_S):
                    line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0]
                    writer.write(self._said(line))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that asks nothing, or does not wait
        finally:
            writer.close()

    def _said(self, line: bytes) -> bytes:
        words = line.split()
        path = words[1].split(b"?")[0] if len(words) == 3 and words[0] in (b"GET", b"HEAD") else b""
        status, text = b"404 Not Found", "not found"
        if path == b"/healthz" or (path == b"/readyz" and self._agent.connected.is_set()):
            status, text = b"200 OK", "ok"
        elif path == b"/readyz":
            status, text = b"503 Service Unavailable", f"not connected: {self._agent.trouble}"
        body = f"{text}\n".encode()
        head = b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        return head % (status, len(body)) + (b"" if words[:1] == [b"HEAD"] else body)
