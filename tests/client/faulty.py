"""A small TLS server that answers from a script, where a fault has to be forced."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.api.conftest import self_signed


@dataclass
class Said:
    """One answer. `cut`: the connection ends after so many bytes of the body, which said that it is longer; with 0
    there is no answer at all."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass
class Asked:
    method: str
    path: str
    body: Any
    authorization: str


@dataclass
class Faulty:
    """`answers`: the next one for each request, or a function of the request; the last one stays."""

    url: str
    ca: Path
    answers: list[Said | Callable[[Asked], Said]]
    asked: list[Asked] = field(default_factory=list)

    def next(self, asked: Asked) -> Said:
        self.asked.append(asked)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, Said) else answer(asked)


def refusal(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


@contextmanager
def faulty(folder: Path, *answers: Said | Callable[[Asked], Said]) -> Iterator[Faulty]:
    cert, key = self_signed(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            asked = Asked(
                self.command, self.path, json.loads(raw) if raw else None, self.headers.get("authorization") or ""
            )
            said = made.next(asked)
            body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            if said.cut != 0:
                self.send_response(said.status)
                self.send_header("content-length", str(len(body)))
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: said.cut])
                self.wfile.flush()
            self.close_connection = said.cut is not None

        do_GET = do_POST = do_PATCH = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    made = Faulty(f"https://127.0.0.1:{server.server_port}", cert, list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
