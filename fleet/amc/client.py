"""A small HTTP client for one API server: JSON in, JSON out, one kept-open connection a thread.

The answer of the server is returned, refusals included; only "no answer at all" is an exception. Plain `http.client`
starts in a few milliseconds, which a plugin that runs for 200 ms in all notices.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fleet.values.kubeconfig.document import BadKubeconfig
from fleet.values.kubeconfig.files import Access, Credential
from fleet.values.kubeconfig.tls import context

if TYPE_CHECKING:
    from fleet.values.kubeconfig.program import ProgramCredential

TIMEOUT_S = 10.0
WARNINGS_MOST, WARNING_MOST_CHARS = 50, 1000  # of one answer
PIECE_BYTES = 64 * 1024
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class NoAnswer(Exception):
    """The server could not be reached, or did not answer in time; the text is one line with its address. `late_s`: the
    seconds within which nothing came; None for another cause."""

    late_s: float | None = None


class StreamRefusal(Exception):
    """The server refuses what was to be streamed; `answer` says why."""

    def __init__(self, answer: ServerAnswer) -> None:
        super().__init__(answer.message)
        self.answer = answer


@dataclass(frozen=True)
class ServerAnswer:
    """`body` is the parsed JSON, or the text when it is none; `raw` are the bytes that came; `warnings` what the server
    warns of beside its answer."""

    status: int
    body: Any
    raw: bytes = b""
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.raw.decode(errors="replace")

    @property
    def message(self) -> str:
        """The text of a refusal: the Status' message, or the body."""
        if isinstance(self.body, dict) and self.body.get("message"):
            return str(self.body["message"])
        text = self.body if isinstance(self.body, str) else ""
        return (
            " ".join(text.split())[:300] or f"HTTP {self.status} {http.client.responses.get(self.status, '')}".strip()
        )


@dataclass(frozen=True)
class OpenAnswer:
    """An answer that goes on. Header names are in lower case."""

    headers: Mapping[str, str]
    pieces: Iterator[bytes]
    close: Callable[[], None]


class Client:
    """Requests to one server; safe to use from several threads."""

    def __init__(self, access: Access, *, timeout_s: float = TIMEOUT_S) -> None:
        self.access = access
        self._timeout_s = timeout_s
        self._local = threading.local()
        self._parts = urlsplit(access.server)
        self._own = access.credential
        self._program_credential: ProgramCredential | None = None
        if access.program is not None:
            from fleet.values.kubeconfig.program import ProgramCredential

            self._program_credential = ProgramCredential(access.program)
        self._one_at_a_time = threading.Lock()
        self._tls: tuple[Credential, ssl.SSLContext] | None = None
        self._context(self._credential())  # what is wrong with either is known at once

    def _credential(self) -> Credential:
        """Raises BadKubeconfig."""
        if self._program_credential is None:
            return self._own
        with self._one_at_a_time:
            return self._program_credential.credential(time.time())

    def _context(self, credential: Credential) -> ssl.SSLContext | None:
        if self._parts.scheme != "https":
            return None
        if self._tls is None or self._tls[0] is not credential:
            self._tls = credential, context(self.access, credential)
        return self._tls[1]

    def _valid(self) -> Credential:
        """The credential of a request. Raises NoAnswer."""
        try:
            return self._credential()
        except BadKubeconfig as error:
            raise NoAnswer(str(error)) from error

    def headers(self, accept: str = "*/*") -> dict[str, str]:
        """Of each request: what is accepted, and the user. Raises NoAnswer."""
        found = {"Accept": accept, "User-Agent": "kubectl-amc"}
        if authorization := self._valid().authorization:
            found["Authorization"] = authorization
        return found

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._context(self._valid())

    def get(self, path: str, accept: str = "application/json") -> ServerAnswer:
        return self.request("GET", path, accept=accept)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> ServerAnswer:
        """One request; a kept connection that the server has closed meanwhile is opened again once, and a program that
        gives credentials is asked again once, when they are refused. Raises NoAnswer."""
        headers = self.headers(accept)
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        for attempt in (1, 2):
            credential = self._valid()
            connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
            fresh = connection is None
            if connection is None:
                connection = self._local.connection = self._connect()
            try:
                connection.request(method, self._parts.path + path, payload, headers)
                response = connection.getresponse()
                raw = response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._local.connection = None
                gone = isinstance(error, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError))
                if attempt == 1 and not fresh and gone:
                    continue
                raise self._no_answer(error) from error
            if response.status == 401 and attempt == 1 and self._program_credential is not None:
                self._program_credential.refused(credential)
                self.close()
                headers |= self.headers(accept)
                continue
            return ServerAnswer(response.status, _parse(raw), raw, _warnings(response.headers.get_all("Warning") or ()))
        raise AssertionError("unreachable")

    def open(self, path: str, accept: str = "*/*", *, quiet_s: float | None = None) -> OpenAnswer:
        """An answer that goes on, however long that takes; but not when nothing comes for `quiet_s`. Raises NoAnswer,
        and StreamRefusal for a refusal."""
        connection = self._connect()
        try:
            connection.request("GET", self._parts.path + path, None, self.headers(accept))
            response = connection.getresponse()
            if response.status != 200:
                raw = response.read()
                raise StreamRefusal(ServerAnswer(response.status, _parse(raw), raw))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._no_answer(error) from error
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:
            connection.sock.settimeout(quiet_s)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return OpenAnswer(headers, self._pieces(connection, response), connection.close)

    def _pieces(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while piece := response.read1(PIECE_BYTES):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise self._no_answer(error) from error
        finally:
            connection.close()

    def stream(self, path: str, accept: str = "*/*") -> Iterator[bytes]:
        """The bytes of such an answer as they come."""
        return self.open(path, accept).pieces

    def _no_answer(self, error: Exception) -> NoAnswer:
        told = NoAnswer(f"no answer from {self.access.server}: {_why(error)}")
        told.late_s = self._timeout_s if isinstance(error, TimeoutError) else None
        return told

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        tls = self.tls
        if tls is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        connection = _NamedHTTPSConnection(host, port, timeout=self._timeout_s, context=tls)
        connection.server_name = self.access.server_name
        return connection

    def close(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None


class _NamedHTTPSConnection(http.client.HTTPSConnection):
    """Checks the certificate against `tls-server-name` when the kubeconfig gives one."""

    server_name = ""

    def connect(self) -> None:
        if not self.server_name:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        context: ssl.SSLContext = self._context  # type: ignore[attr-defined]
        self.sock = context.wrap_socket(self.sock, server_hostname=self.server_name)


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="replace")


def _warnings(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts of headers such as `299 - "text"`, as one line each that a terminal may be given."""
    found = (_WARNING.match(_utf8(header)) for header in islice(headers, WARNINGS_MOST))
    texts = (re.sub(r"\\(.)", r"\1", match[1]) for match in found if match)
    return tuple("".join(c if c.isprintable() else " " for c in text)[:WARNING_MOST_CHARS] for text in texts)


def _utf8(header: str) -> str:
    """http.client takes headers for latin-1."""
    return header.encode("latin-1", "replace").decode(errors="replace")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "its name does not resolve"
    return str(error) or type(error).__name__
