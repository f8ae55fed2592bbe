"""The answers that are about no object: discovery, OpenAPI and metrics."""

from __future__ import annotations

from api.server.discovery import Discovery
from api.server.health import Health, Metrics
from api.wire.http import OpenApiSource, Request, Response, conditional, json_response
from api.wire.negotiation import DISCOVERY_FORMS, AnswerForm, accept
from api.wire.routing import unknown_path


class Documents:
    """The documents of one API."""

    def __init__(self, discovery: Discovery, openapi: OpenApiSource | None, metrics: Metrics, health: Health) -> None:
        """`openapi`: None where schemas are not served."""
        self._discovery, self._openapi, self._metrics, self._health = discovery, openapi, metrics, health

    async def answer(self, request: Request) -> Response:
        """The document at the path; StatusError 404 for what is nothing."""
        parts = [part for part in request.path.split("/") if part]
        answer: Response | None = None
        # Only discovery is asked for in several forms; OpenAPI has media types of its own.
        form, forms = AnswerForm(), DISCOVERY_FORMS if len(parts) == 1 else ()
        if parts and parts[0] in ("api", "apis"):
            form = accept(request.header(b"accept"), True, forms)
        match parts:
            case ["api"]:
                answer = self._discovery.api(form, request.header(b"host"))
            case ["apis"]:
                answer = self._discovery.apis(form)
            case ["api", version]:
                answer = self._discovery.resources("", version)
            case ["apis", group]:
                answer = self._discovery.group(group)
            case ["apis", group, version]:
                answer = self._discovery.resources(group, version)
            case ["openapi", *rest] if self._openapi is not None:
                answer = await self._openapi.answer("/".join(rest), request)
            case ["metrics"]:
                answer = self._metrics.response()
            case ["metrics", "slis"]:
                answer = await self._health.indicators()
            case []:
                answer = json_response({"paths": self._discovery.paths()})
        if answer is None:
            raise unknown_path()
        return conditional(answer, request) if parts and parts[0] in ("api", "apis", "openapi") else answer
