"""The span of a request in the trace of the job that it wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from api.audit.requests import PATH_CHARACTERS_MAX, RequestedWrite
from fleet.kinds import INTERPRETERS
from fleet.traces.span import TraceSpan, read_traceparent
from fleet.values.ports import Clock

if TYPE_CHECKING:
    from api.wire.http import Request
    from fleet.traces.traces import Traces


def request_spans(traces: Traces, clock: Clock) -> Callable[[Request, RequestedWrite], None]:
    """What a `RequestLog` asks with each write: adds a span for one of a job that is there, or was. A dry run has
    none."""

    def add(request: Request, write: RequestedWrite) -> None:
        about = write.about
        if not about.uid or (about.group, about.kind) not in INTERPRETERS or b"dryRun=" in _query(request):
            return
        now = clock.now()
        attributes: dict[str, Any] = {
            "http.request.method": request.method,
            "url.path": request.path[:PATH_CHARACTERS_MAX],
            "http.response.status_code": write.code,
            "user.name": request.user.name,
            "fleet.request": write.audit_id,
        }
        link = read_traceparent(request.header(b"traceparent"))
        failed = f"HTTP {write.code}" if write.code >= 500 else ""
        traces.add(
            TraceSpan(
                about.uid,
                f"request {write.audit_id}",
                f"{write.verb} {about.kind}",
                now - write.took,
                now,
                attributes=attributes,
                link=link,
                served=True,
                error=failed,
            )
        )

    return add


def _query(request: Request) -> bytes:
    query: bytes = request.scope.get("query_string", b"")
    return query
