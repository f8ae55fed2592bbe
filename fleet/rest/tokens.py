"""The users' tokens under /fleet/v1/tokens: who has one and until when, a new one, and the end of one.

Nobody gives away more than she has: a token for a user takes the right to impersonate that user and each group. The
secret of a token is in the answer that made it and nowhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from math import inf, isfinite
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import APIRouter, Path, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.responses import Response

from api.access.auth import AdministratorsToken, TokenName
from api.access.impersonation import rights
from api.engine.status import StatusError
from api.wire.negotiation import read_object
from api.wire.rights import Attributes
from fleet.rest.context import JSON, RestHub, answer, hub_request, need, wrong
from fleet.rest.models import Model
from fleet.values.times import rfc3339

PATH = "/fleet/v1/tokens"
TTL_S, TTL_MIN_S, TTL_MAX_S = 30 * 86_400, 1, 36_500 * 86_400
T = TypeVar("T")
GROUPS_MAX, TOKENS_MAX, NAME_MAX = 64, 10_000, 253


class Tokens(Protocol):
    """The tokens of the hub. OSError where the administrator's own cannot be read."""

    async def listed(self) -> Sequence[TokenName]: ...

    async def add(self, user: str, groups: Sequence[str], expires: float) -> tuple[TokenName, str]:
        """A new token with its name, and its secret."""
        ...

    async def end(self, name: str) -> TokenName | None:
        """The token of this id, which ends; None where there is none. AdministratorsToken for the administrator's."""
        ...


class Token(Model):
    """A token, without its secret."""

    id: str = Field(description="Names the token, and tells nothing of it.")
    user: str
    uid: str
    groups: list[str]
    expires: str | None = Field(description="RFC 3339; null for a token without an end.")
    expired: bool
    own: bool = Field(description="The hub's administrator has it in the data directory; only there it is changed.")


class TokenList(Model):
    items: list[Token]


class NewToken(Model):
    user: str = Field(min_length=1, max_length=NAME_MAX, description="Name of the user, as RBAC objects name it.")
    groups: list[Annotated[str, Field(min_length=1, max_length=NAME_MAX)]] = Field([], max_length=GROUPS_MAX)
    ttlSeconds: int | None = Field(
        TTL_S, ge=TTL_MIN_S, le=TTL_MAX_S, description="The token ends after this time; null: never."
    )


class MadeToken(Token):
    token: str = Field(description="The secret. No later answer has it.")


_BODY = {"requestBody": {"required": True, "content": {JSON: {"schema": NewToken.model_json_schema()}}}}


def router(hub: RestHub, tokens: Tokens | None) -> APIRouter:
    routes = APIRouter(tags=["tokens"])

    @routes.get("/tokens", response_model=TokenList, summary="The tokens of users, without their secrets")
    async def list_tokens(request: Request) -> Response:
        """Those of `fleet token list`: tokens of service accounts and ID tokens are not among them. Needs `get` on the
        path /fleet/v1/tokens, as ClusterRoles name paths under `nonResourceURLs`."""
        need(request, Attributes("get", path=PATH))
        found = await _done(_of(tokens).listed())
        now = hub.objects.clock.now()
        return answer({"items": [_shown(one, now) for one in found]})

    @routes.post(
        "/tokens", status_code=201, response_model=MadeToken, summary="Make a token for a user", openapi_extra=_BODY
    )
    async def make_token(request: Request) -> Response:
        """The secret is in this answer only. Needs `post` on the path /fleet/v1/tokens, and `impersonate` on the user
        and on each group."""
        need(request, Attributes("post", path=PATH))
        sent, _ = await read_object(hub_request(request), field_validation="Ignore")
        try:
            body = NewToken.model_validate(sent)
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from None
        for field, names in (("user", [body.user]), ("groups", body.groups)):
            for number, name in enumerate(names):
                if not _is_name(name):
                    at = field if field == "user" else f"groups[{number}]"
                    raise wrong(at, "a name is printable text without commas, quotes and spaces around it")
        for attributes in rights(body.user, body.groups):
            need(request, attributes)
        user_tokens = _of(tokens)
        now = hub.objects.clock.now()
        if len(await _done(user_tokens.listed())) >= TOKENS_MAX:
            raise StatusError(
                403, "Forbidden", f"the hub has {TOKENS_MAX:,} tokens already: revoke those that are over"
            )
        expires = now + body.ttlSeconds if body.ttlSeconds is not None else inf
        made, secret = await user_tokens.add(body.user, tuple(body.groups), expires)
        return answer({**_shown(made, now), "token": secret}, 201, headers={"cache-control": "no-store"})

    @routes.delete("/tokens/{id}", response_model=Token, summary="End a token")
    async def end_token(
        request: Request, id: Annotated[str, Path(min_length=1, max_length=64, description="Id of the token.")]
    ) -> Response:
        """The token ends at once, in other API processes within a second, and its open watches and sessions of the
        console within ten more. Needs `delete` on the path /fleet/v1/tokens/ID."""
        need(request, Attributes("delete", path=f"{PATH}/{id}"))
        try:
            token = await _done(_of(tokens).end(id))
        except AdministratorsToken:
            raise StatusError(
                409, "Conflict", f"{id} is the administrator's own token: change it in the data directory of the hub"
            ) from None
        if token is None:
            raise StatusError(404, "NotFound", f'no token has the id "{id}"')
        return answer(_shown(token, hub.objects.clock.now()))

    return routes


def _of(tokens: Tokens | None) -> Tokens:
    if tokens is None:
        raise StatusError(404, "NotFound", "this process keeps no tokens")
    return tokens


async def _done(work: Awaitable[T]) -> T:
    """Its outcome. StatusError 500 where the administrator's file cannot be read."""
    try:
        return await work
    except OSError as error:
        raise StatusError(500, "InternalError", f"the file of tokens: {error.strerror or error}") from error


def _shown(token: TokenName, now: float) -> dict[str, Any]:
    ends = token.expires
    return {
        "id": token.id,
        "user": token.user,
        "uid": token.uid,
        "groups": list(token.groups),
        "expires": rfc3339(ends) if isfinite(ends) else None,
        "expired": ends <= now,
        "own": token.own,
    }


def _is_name(name: str) -> bool:
    """Whether the name is one that RBAC objects can hold and people can tell."""
    return name.isprintable() and name == name.strip() and not any(c in ',"' for c in name)
