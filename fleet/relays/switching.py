"""A change of protocol at a member, and the same change for the client."""

from __future__ import annotations

from typing import Any

import orjson

from api.engine.status import StatusError, unavailable
from api.wire.http import Request, Upgrade, warning_headers
from api.wire.places import Place
from fleet.relays.asking import Switch
from fleet.relays.carrying import Carrier
from fleet.relays.clients import MemberAnswer, MemberClients

SAID_MOST = 300  # characters of a member's refusal


async def switched(clients: MemberClients, member: str, target: str, switch: Switch) -> tuple[MemberAnswer, str]:
    """The answer of a member that has changed the protocol, which the caller closes, and the protocol that it chose.
    StatusError as `MemberClients.send`, and for a member that refuses."""
    method = "GET" if switch.websocket else "POST"
    answer = await clients.send(member, method, target, switch.headers)
    if answer.response.status_code != 101:
        raise await refusal(answer)
    chosen = switch.agreed(lambda name: answer.response.headers.get(name, ""))
    if chosen is None:
        await answer.aclose()
        raise unavailable(f"cluster {member} answers with another protocol")
    return answer, chosen


def relayed(
    request: Request,
    switch: Switch,
    chosen: str,
    carrier: Carrier,
    place: Place,
    answer: MemberAnswer,
    warnings: tuple[str, ...],
) -> Upgrade:
    """The hub's own answer. Its end gives the place and the member's connection back."""

    async def done() -> None:
        place.leave()
        await answer.aclose()

    warned = tuple((name.decode(), value.decode("latin-1")) for name, value in warning_headers(warnings))
    return Upgrade((*switch.answer(request, chosen), *warned), carrier.both_ways, done=done, raw=True)


async def refusal(answer: MemberAnswer) -> StatusError:
    """The member's answer as the hub's. A refusal of the hub's own account is no fault of the user's."""
    code = answer.response.status_code
    try:
        content = await answer.whole()
    except StatusError as error:
        return error
    finally:
        await answer.aclose()
    body: Any = None
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = {"message": content[:SAID_MOST].decode("utf-8", "replace")}
    message = " ".join(str(body.get("message") if isinstance(body, dict) else "").split())[:SAID_MOST]
    if code in (401, 403):
        return unavailable(f"cluster {answer.member} does not let the hub do that: {message}", 5)
    if 400 <= code < 500 and code != 429:
        reason = {404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict"}.get(code, "BadRequest")
        return StatusError(code, reason, message or f"cluster {answer.member} answers {code}")
    return unavailable(f"cluster {answer.member} answers {code}: {message}", 1)
