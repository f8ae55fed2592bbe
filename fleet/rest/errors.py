"""Every refusal under /fleet/v1 is a Status, the same that Kubernetes clients get: `code`, `reason`, `message`, and in
`details.causes` each field that is wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.engine.status import Cause, StatusError, unavailable
from api.server.storage import store_refusal
from fleet.rest.context import answer
from fleet.values.ports import ExpiredRevision, FutureRevision, StaleEpoch, StoreUnavailable

_REASONS = {
    "missing": "FieldValueRequired",
    "extra_forbidden": "FieldValueForbidden",
    "enum": "FieldValueNotSupported",
    "literal_error": "FieldValueNotSupported",
}
_MESSAGES = {
    "extra_forbidden": "there is no such parameter",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
}
_OF_PYDANTIC = "Input should be "
_PLACES = ("query", "path", "body", "header")
CAUSES_MAX = 20


def install(app: FastAPI) -> None:
    """Have `app` answer refusals, and bugs, with a Status."""
    handlers: tuple[tuple[type[Exception], Callable[[Request, Exception], Awaitable[Response]]], ...] = (
        (StatusError, _refused),
        (RequestValidationError, _malformed),
        (HTTPException, _http),
        (StoreUnavailable, _store),
        (ExpiredRevision, _store),
        (FutureRevision, _store),
        (StaleEpoch, _store),
        (Exception, _bug),
    )
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)


def status_answer(error: StatusError) -> Response:
    headers = {"retry-after": str(error.retry_after_s)} if error.retry_after_s is not None else {}
    return answer(error.status(), error.code, headers=headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StatusError)
    return status_answer(error)


async def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return status_answer(malformed(error.errors()))


def malformed(flaws: Sequence[Any]) -> StatusError:
    """Parameters that are not what the route declares: 422, each named."""
    causes = []
    for flaw in flaws[:CAUSES_MAX]:
        place = [str(part) for part in flaw["loc"]]
        field = ".".join(place[1:] if place and place[0] in _PLACES else place)
        kind = str(flaw["type"])
        message = _MESSAGES.get(kind, str(flaw["msg"]))
        if message.startswith(_OF_PYDANTIC):
            message = f"must be {message.removeprefix(_OF_PYDANTIC)}"
        causes.append(Cause(field, message, _REASONS.get(kind, "FieldValueInvalid")))
    text = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return StatusError(422, "Invalid", text, causes=causes)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        refused = StatusError(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
        )
    else:
        refused = StatusError(404, "NotFound", f"there is nothing at {request.url.path[:200]}; see /fleet/v1/docs")
    found = status_answer(refused)
    for name, value in (error.headers or {}).items():
        found.headers[name] = value
    return found


async def _store(request: Request, error: Exception) -> Response:
    if isinstance(error, ExpiredRevision):
        return status_answer(StatusError(410, "Expired", "The requested state is no longer kept"))
    if isinstance(error, FutureRevision):
        return status_answer(StatusError(504, "Timeout", str(error)))
    if isinstance(error, StaleEpoch):
        return status_answer(unavailable("this process no longer leads"))
    assert isinstance(error, StoreUnavailable)
    return status_answer(store_refusal(error))


async def _bug(request: Request, error: Exception) -> Response:
    """The mount logs an error that is raised on."""
    return status_answer(
        StatusError(500, "InternalError", "Internal error occurred: the request could not be answered")
    )
