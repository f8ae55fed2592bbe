"""port-forward: ports of this machine that lead into a pod.

Each connection that a local port accepts is a WebSocket of its own, with the port's two channels: bytes, and the words
of an error.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleet.amc.client import Client, NoAnswer
from fleet.amc.get import CommandRefusal
from fleet.amc.streams import PIECE, V4, StreamTarget, connect

DATA, ERROR = 0, 1


@dataclass(frozen=True)
class Ports:
    """`local` 0: any free one."""

    local: int
    remote: int


def parse_ports(text: str) -> Ports:
    """LOCAL:REMOTE, :REMOTE, or PORT for both. Raises CommandRefusal."""
    local, colon, remote = text.partition(":")
    given = (local or "0", remote) if colon else (local, local)
    if not all(part.isdigit() and int(part) < 1 << 16 for part in given) or int(given[1]) == 0:
        raise CommandRefusal(f'"{text}" is no pair of ports: LOCAL:REMOTE, :REMOTE or PORT')
    return Ports(int(given[0]), int(given[1]))


def forward(
    client: Client, target: StreamTarget, ports: Sequence[Ports], address: str, say: Callable[[str], None]
) -> None:
    """Listen until it is interrupted. Raises CommandRefusal for a port that is taken, or a pod that cannot be
    reached."""
    with contextlib.ExitStack() as stack:
        listening = []
        for pair in ports:
            connect(client, _path(target, pair.remote), (V4,)).close()  # a refusal is said now, and not at first use
            try:
                server = stack.enter_context(socket.create_server((address, pair.local)))
            except OSError as error:
                raise CommandRefusal(f"cannot listen on {address}:{pair.local}: {error.strerror or error}") from error
            say(f"Forwarding from {address}:{server.getsockname()[1]} -> {pair.remote}")
            listening.append((server, pair.remote))
        threads = [
            threading.Thread(target=_serve, args=(client, target, server, remote), daemon=True)
            for server, remote in listening
        ]
        for thread in threads:
            thread.start()
        threads[0].join()


def _path(target: StreamTarget, remote: int) -> str:
    return f"{target.path}/portforward?ports={remote}"


def _serve(client: Client, target: StreamTarget, server: socket.socket, remote: int) -> None:
    while True:
        local, _ = server.accept()
        threading.Thread(target=_carry, args=(client, target, local, remote), daemon=True).start()


def _carry(client: Client, target: StreamTarget, local: socket.socket, remote: int) -> None:
    """One connection, both ways, until one side ends."""
    import websocket

    with local:
        try:
            connection = connect(client, _path(target, remote), (V4,))
        except (CommandRefusal, NoAnswer) as error:
            print(f"port {remote}: {error}", file=sys.stderr)
            return
        connection.settimeout(None)

        def up() -> None:
            with contextlib.suppress(OSError, websocket.WebSocketException):
                while data := local.recv(PIECE):
                    connection.send_binary(bytes([DATA]) + data)
            with contextlib.suppress(OSError, websocket.WebSocketException):
                connection.close()

        threading.Thread(target=up, daemon=True).start()
        begun: set[int] = set()  # the first message of each channel is its port
        with contextlib.closing(connection), contextlib.suppress(OSError, websocket.WebSocketException):
            while data := connection.recv():
                message = data.encode() if isinstance(data, str) else data
                channel, rest = message[0], message[1:]
                if channel not in begun:
                    begun.add(channel)
                elif channel == DATA:
                    local.sendall(rest)
                elif channel == ERROR and rest:
                    print(f"port {remote}: {rest.decode(errors='replace').strip()}", file=sys.stderr)
