"""exec and attach: a command, or the process of a pod, with this program's stdin, output and terminal.

The subprotocols are those of Kubernetes over WebSocket (v5, or v4 of members that know no newer one): each message
begins with the number of its channel. The terminal is put back in every case.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fleet.amc.client import Client, NoAnswer
from fleet.amc.get import CommandRefusal

if TYPE_CHECKING:
    from websocket import WebSocket

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PIECE = 32 * 1024
PIECES_UNSENT = 16  # that stdin may be ahead of the connection
HANDSHAKE_S = 30.0


@dataclass(frozen=True)
class StreamTarget:
    """The process: a pod of a namespace by its name on the hub, and its container ("": the first)."""

    namespace: str
    pod: str
    container: str = ""
    stdin: bool = False
    tty: bool = False

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/pods/{quote(self.pod, safe='')}"


def connect(client: Client, path: str, protocols: Sequence[str]) -> WebSocket:
    """A WebSocket to the path. Raises NoAnswer, and CommandRefusal with the words of the server."""
    import websocket

    url = client.access.server.replace("http", "ws", 1) + path
    names = {"server_hostname": client.access.server_name} if client.access.server_name else {}
    try:
        return websocket.create_connection(
            url,
            timeout=HANDSHAKE_S,
            header=client.headers(),
            subprotocols=list(protocols),
            suppress_origin=True,
            sslopt={"context": client.tls, **names} if client.tls is not None else {},
            enable_multithread=True,
            http_no_proxy=["*"],
            skip_utf8_validation=True,
        )
    except websocket.WebSocketBadStatusException as error:
        raise CommandRefusal(_said(error.resp_body, error.status_code)) from error
    except (websocket.WebSocketException, OSError) as error:
        raise NoAnswer(f"no answer from {client.access.server}: {error}") from error


def _said(body: Any, code: int) -> str:
    try:
        return " ".join(str(json.loads(body)["message"]).split())
    except (ValueError, TypeError, KeyError):
        return f"the server answers {code}"


def session(client: Client, verb: str, target: StreamTarget, words: Sequence[str] = ()) -> int:
    """Run until the process ends; its exit status. `verb`: exec or attach. Raises NoAnswer and CommandRefusal."""
    terminal = target.tty and target.stdin and sys.stdin.isatty()
    if target.tty and not terminal:
        print("no terminal is used: stdin is none, or -i is missing", file=sys.stderr)
    streams = {"stdin": target.stdin, "stdout": True, "stderr": not terminal, "tty": terminal}
    query = [("container", target.container)] if target.container else []
    query += [(name, "true") for name, on in streams.items() if on] + [("command", word) for word in words]
    connection = connect(client, f"{target.path}/{verb}?{urlencode(query)}", (V5, V4))
    with contextlib.closing(connection), _raw() if terminal else contextlib.nullcontext():
        connection.settimeout(None)
        sending = _StreamSender(connection)
        if terminal:
            sending.resizes()
        if target.stdin:
            sending.follows_stdin()
        return _received(connection)


class _StreamSender:
    """All that goes out, by one thread. stdin is read no further than the connection takes it."""

    def __init__(self, connection: WebSocket) -> None:
        self._connection = connection
        self._unsent: queue.SimpleQueue[tuple[bytes, bool]] = queue.SimpleQueue()
        self._room = threading.Semaphore(PIECES_UNSENT)
        threading.Thread(target=self._send, daemon=True, name="sending").start()

    def resizes(self) -> None:
        """Tell the size of the terminal, now and whenever it changes."""

        def tell(*_: object) -> None:
            size = shutil.get_terminal_size()
            told = json.dumps({"Width": size.columns, "Height": size.lines})
            self._unsent.put((bytes([RESIZE]) + told.encode(), False))

        signal.signal(signal.SIGWINCH, tell)
        tell()

    def follows_stdin(self) -> None:
        threading.Thread(target=self._read, daemon=True, name="stdin").start()

    def _read(self) -> None:
        while True:
            self._room.acquire()
            try:
                data = os.read(sys.stdin.fileno(), PIECE)
            except OSError:
                data = b""
            if not data:
                break
            self._unsent.put((bytes([STDIN]) + data, True))
        if self._connection.getsubprotocol() == V5:  # before it there were no words for the end of a stream
            self._unsent.put((bytes([CLOSE, STDIN]), False))

    def _send(self) -> None:
        import websocket

        while True:
            message, counted = self._unsent.get()
            try:
                self._connection.send_binary(message)
            except (websocket.WebSocketException, OSError):
                return  # the receiver says why
            if counted:
                self._room.release()


def _received(connection: WebSocket) -> int:
    """Print what comes, until the process ends: its exit status. Raises CommandRefusal, NoAnswer."""
    import websocket

    outputs = {STDOUT: sys.stdout.buffer, STDERR: sys.stderr.buffer}
    while True:
        try:
            data = connection.recv()
        except (websocket.WebSocketException, OSError) as error:
            raise NoAnswer(f"the connection broke off: {error}") from error
        message = data.encode() if isinstance(data, str) else data
        if not message:
            if not connection.connected:
                raise NoAnswer("the connection broke off")
            continue
        channel, rest = message[0], message[1:]
        if channel in outputs and rest:
            outputs[channel].write(rest)
            outputs[channel].flush()
        elif channel == ERROR and rest:
            return status_of(rest)


def status_of(text: bytes) -> int:
    """The exit status that the last message of a process tells. Raises CommandRefusal for a process that could not
    run."""
    try:
        document = json.loads(text)
    except ValueError:
        raise CommandRefusal(text.decode(errors="replace").strip()) from None
    if document.get("status") == "Success":
        return 0
    for cause in (document.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
            return int(cause["message"])
    raise CommandRefusal(" ".join(str(document.get("message") or "the command failed").split()))


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """The terminal gives each key as it is, Ctrl-C too, until the block is left, by a signal too."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handlers = {name: signal.signal(name, _leave) for name in (signal.SIGTERM, signal.SIGHUP)}
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for name, handler in handlers.items():
            signal.signal(name, handler)


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)
