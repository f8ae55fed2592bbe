"""Serving the metrics of a process over plain HTTP, on an address that is for nothing else.

In threads of its own: an event loop that is busy or stuck is when metrics are wanted most.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PATH = "/metrics"
CLIENT_LIMIT_S = 10.0  # for a client to ask and to read


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_LIMIT_S

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: somebody asks every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that goes away in the middle is no error of this process."""


class Exposition:
    """Serves `registry` on `listener`, which listens already, until `stop`."""

    def __init__(self, registry: CollectorRegistry, listener: socket.socket) -> None:
        from prometheus_client import make_wsgi_app

        metrics = make_wsgi_app(registry)

        def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if environ.get("PATH_INFO") == PATH:
                found: Iterable[bytes] = metrics(environ, start_response)
                return found
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [f"ask for {PATH}\n".encode()]

        host, self.port = listener.getsockname()[:2]
        self._server = _Server((host, self.port), _Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listener
        self._server.server_name, self._server.server_port = host, self.port
        self._server.setup_environ()
        self._server.set_app(app)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
