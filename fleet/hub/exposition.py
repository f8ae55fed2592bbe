"""Serving the metrics of a process over HTTPS, on an address that is for nothing else, to users with the right to read
them.

In threads of its own: an event loop that is busy or stuck is when metrics are wanted most. The administrator's token is
read from the data directory there, and needs no more. Of others the event loop is asked, within a bound: for the user,
who needs a role that lets her `get` the path /metrics.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import socket
import ssl
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from api.engine.status import StatusError, unauthorized, unavailable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from api.access.auth import Authenticator
    from api.access.rbac import Rbac
    from api.objects.writing import User
    from api.transport.tls import Certificates

PATH = "/metrics"
CLIENT_LIMIT_S = 10.0  # for a client to shake hands, to ask and to read, each
CONNECTIONS_MAX = 16  # at once; a further connection is closed
ASK_S = 5.0  # for the event loop to say whether a client may
TOKEN_MAX = 16_384  # characters


class Guard(Protocol):
    """Says who may read the metrics, in a thread of the server."""

    def refusal(self, authorization: str) -> StatusError | None:
        """The answer to a request with this header; None where it may read."""
        ...


class Gate:
    """The right to read the metrics. `rbac` and `tokens` are set while this process has a store to read roles and
    tokens from. Made on the event loop; asked in any thread but that loop's."""

    def __init__(self, own: Authenticator) -> None:
        self.rbac: Rbac | None = None
        self.tokens: Authenticator | None = None
        self._own = own
        self._loop = asyncio.get_running_loop()
        self._one_at_a_time = threading.Lock()

    def refusal(self, authorization: str) -> StatusError | None:
        """The answer to a request with this header; None where it may read."""
        from api.access.auth import MASTERS

        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > TOKEN_MAX:
            return unauthorized()
        with self._one_at_a_time:
            user = asyncio.run(self._own.user(token))
        if user is not None and MASTERS in user.groups:
            return None
        asked = asyncio.run_coroutine_threadsafe(self._judged(user, token), self._loop)
        try:
            return asked.result(ASK_S)
        except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            return unavailable("the roles cannot be read now")

    async def _judged(self, user: User | None, token: str) -> StatusError | None:
        from api.wire.rights import Attributes

        if user is None and self.tokens is not None:
            user = await self.tokens.user(token)
        if self.rbac is None:
            return unavailable("the roles cannot be read now")
        if user is None:
            return unauthorized()
        wanted = Attributes("get", path=PATH)
        return None if self.rbac.allowed(user, wanted) else wanted.refusal(user)


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_LIMIT_S

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a client asks every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    tls: ssl.SSLContext

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(CLIENT_LIMIT_S)
        with self.tls.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that goes away in the middle, or speaks no TLS, is no error of this process."""


class Exposition:
    """Serves `registry` on `listener`, which listens already, with these certificates, until `stop`."""

    def __init__(
        self, registry: CollectorRegistry, listener: socket.socket, gate: Guard, certificates: Certificates
    ) -> None:
        from prometheus_client import make_wsgi_app

        metrics = make_wsgi_app(registry)

        def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            refused = gate.refusal(environ.get("HTTP_AUTHORIZATION", ""))
            if refused is None and environ.get("PATH_INFO") != PATH:
                refused = StatusError(404, "NotFound", f"ask for {PATH}")
            if refused is None and environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
                refused = StatusError(405, "MethodNotAllowed", f"only GET is served on {PATH}")
            if refused is None:
                found: Iterable[bytes] = metrics(environ, start_response)
                return found
            headers = [("Content-Type", "application/json")]
            if refused.code == 401:
                headers.append(("WWW-Authenticate", "Bearer"))
            start_response(f"{refused.code} {refused.reason}", headers)
            return [json.dumps(refused.status()).encode()]

        host, self.port = listener.getsockname()[:2]
        self._server = _Server((host, self.port), _Handler, bind_and_activate=False)
        self._certificates = certificates
        self.renew()
        self._server.socket.close()
        self._server.socket = listener
        self._server.server_name, self._server.server_port = host, self.port
        self._server.setup_environ()
        self._server.set_app(app)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Show new connections the certificates as their files are now. OSError where they cannot be used."""
        self._server.tls = self._certificates.context()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
