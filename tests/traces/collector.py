"""A collector of spans: OTLP over HTTP, decoded by the protocol's own messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """`spans`: all that were sent. `status`: what it answers."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        self.status = 200
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.asked += 1
                if outer.status == 200:
                    assert self.path == "/v1/traces"
                    outer.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(outer.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, sent: ExportTraceServiceRequest) -> None:
        for of_resource in sent.resource_spans:
            self.resources.append({a.key: a.value.string_value for a in of_resource.resource.attributes})
            for scope in of_resource.scope_spans:
                self.spans.extend(scope.spans)

    def of(self, uid: str) -> list[Span]:
        """The spans of one job's trace."""
        return [span for span in list(self.spans) if span.trace_id.hex() == uid.replace("-", "")]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def until(what: str, probe: Callable[[], Any], within_s: float = 90.0) -> Any:
    """What `probe` returns, once that is true."""
    deadline = time.monotonic() + within_s
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.1)
    return found
