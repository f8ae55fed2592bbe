"""The web console of an API process, put together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.access.auth import Authenticator
    from api.outgoing.client import OutgoingClient
    from fleet.console.face import Console
    from fleet.console.login import Post
    from fleet.hub.access import AccessOptions
    from fleet.hub.compose import CommonParts

PATH = "/console"


def console_of(
    hub: CommonParts, access: AccessOptions, authenticator: Authenticator, outgoing: OutgoingClient
) -> Console | None:
    """None where it is switched off. Raises Failure for a client of an issuer that cannot be used."""
    if not access.console:
        return None
    from fleet.console.face import Console
    from fleet.console.login import Login
    from fleet.console.sessions import Sessions
    from fleet.hub.authentication import fetch_by

    client = access.client()
    login = None
    if client is not None:
        post = post_by(outgoing, client.authority)
        login = Login(client, hub.store, hub.clock, authenticator, fetch_by(outgoing), post)
    return Console(Sessions(hub.store, hub.clock, authenticator), hub.clock, login)


def post_by(outgoing: OutgoingClient, authority: str) -> Post:
    """The way to the token endpoint of an issuer: through the client of the hub's own requests."""
    from api.access.oidc.keys import DOCUMENT_BYTES_MAX, FETCH_S, FetchFailure
    from api.outgoing.errors import OutgoingError

    async def post(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            answer = await outgoing.request(
                "POST",
                url,
                body=body,
                headers=headers,
                ca=authority or None,
                timeout=FETCH_S,
                limit=DOCUMENT_BYTES_MAX,
            )
        except OutgoingError as error:
            raise FetchFailure(f"{error.reason}: {error}") from None
        return answer.status, answer.body

    return post


def hint(server: str, data_dir: Path) -> list[str]:
    """The lines that tell a new user where the console is, and how to log in."""
    from fleet.console.files import FOLDER, INDEX, remedy

    if not (FOLDER / INDEX).is_file():
        return [f"console: {server}{PATH} (it has no pages here: {remedy()})"]
    return [
        f"console: {server}{PATH}",
        f"log in: fleet token create me --group system:masters --ttl 12h --data-dir {data_dir}",
    ]
