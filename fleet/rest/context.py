"""The tools that every route needs: the parts of the hub, the user and her rights, and the form of an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response

from api.engine.registry import Registry
from api.engine.status import Cause, StatusError
from api.objects.objects import Objects
from api.objects.writing import User
from api.wire.http import Request as HubRequest
from api.wire.http import warning_headers
from api.wire.rights import Attributes, Authorizer
from fleet.values.ports import Store

log = structlog.get_logger(__name__)

JSON = "application/json"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RestHub:
    """The parts of the hub that routes read and write."""

    objects: Objects
    store: Store
    registry: Registry


def user_of(request: Request) -> User:
    user: User = request.scope["fleet.user"]
    return user


def authorizer_of(request: Request) -> Authorizer:
    authorizer: Authorizer = request.scope["fleet.authorizer"]
    return authorizer


def alone(request: Request) -> bool:
    """Whether the request is the only one of its user (Store.get)."""
    only: bool = request.scope.get("fleet.alone", False)
    return only


def allowed(request: Request, attributes: Attributes) -> bool:
    return authorizer_of(request).allowed(user_of(request), attributes)


def need(request: Request, attributes: Attributes) -> None:
    """StatusError 403, as the Kubernetes face words it, when the user may not."""
    if not allowed(request, attributes):
        raise attributes.refusal(user_of(request))


def hub_request(request: Request) -> HubRequest:
    """The same request as the rest of the API reads it: bodies in JSON and YAML, with their bounds."""
    inner = HubRequest(request.scope, request.receive)
    inner.user, inner.alone = user_of(request), alone(request)
    return inner


def answer(
    body: Any, status: int = 200, *, warnings: tuple[str, ...] = (), headers: dict[str, str] | None = None
) -> Response:
    """`body` as JSON. The routes make plain data and pass models by: ten thousand jobs are then a matter of
    milliseconds; that they are what the models promise is tested."""
    response = encoded_answer(orjson.dumps(body), status, headers)
    response.raw_headers.extend(warning_headers(warnings))
    return response


def encoded_answer(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """`body` is JSON."""
    return Response(body, status, {"cache-control": "no-cache, private", **(headers or {})}, JSON)


def wrong(field: str, message: str, reason: str = "FieldValueInvalid") -> StatusError:
    """422 for one field or parameter."""
    return StatusError(422, "Invalid", f"{field}: {message}", causes=[Cause(field, message, reason)])


def spared(make: Callable[..., T], *arguments: Any, otherwise: T) -> T:
    """The answer of `make`, or `otherwise` where the stored object makes it raise. One object that cannot be read costs
    a list its own row alone; the controllers tell of it on the object."""
    try:
        return make(*arguments)
    except Exception as error:
        log.debug("an object cannot be shown", error=repr(error)[:300])
        return otherwise


def encoded(make: Callable[..., Any | None]) -> Callable[..., orjson.Fragment | None]:
    """The same as JSON: a value that JSON cannot hold raises there, and not with the whole list."""

    def made(*arguments: Any) -> orjson.Fragment | None:
        found = make(*arguments)
        return None if found is None else orjson.Fragment(orjson.dumps(found))

    return made
