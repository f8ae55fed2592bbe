"""The site that a request comes from. A browser adds its client certificate and its cookies to requests that other
sites make.

A browser says with each request over HTTPS where it comes from (`Sec-Fetch-Site`), which no page can forge. An older
one says `Origin` with each write and each WebSocket; a proxy in front of the hub must hand on the Host of the browser
for it. Programs say neither. So nothing that a browser adds by itself counts in a request of another site, whatever it
asks for. A session counts in a write only with a sign that a page of the hub sends it.
"""

from __future__ import annotations

from api.engine.status import StatusError
from api.wire.http import Answer, Message, Request, Send, Upgrade
from api.wire.routing import parse

BY_ITSELF = "fleet.by-itself"  # in the scope of a request whose user a certificate or a session names
# For what a browser may get without a token of the page's own: nothing of it runs, and no other site gets it.
GUARD = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)
_READS = ("GET", "HEAD")
_OWN = ("same-origin", "none")  # "none": the user typed the address


def another_site(request: Request) -> str:
    """The sign that a page of another site makes the request; "" for one of this hub's pages, or of a program."""
    site, origin = request.header(b"sec-fetch-site"), request.header(b"origin")
    if site:
        return "" if site in _OWN else f"Sec-Fetch-Site: {site[:200]}"
    return f"Origin: {origin[:200]}" if origin and origin != own_origin(request) else ""


def from_another_site(sign: str) -> StatusError:
    """The refusal of a request that another site makes."""
    return _refused(f"the request comes from another site ({sign}); only a bearer token counts there")


def check_session(request: Request) -> None:
    """StatusError 403 for a request with a session that another site may have made, and for one to a proxy: a page of a
    pod would run as one of the hub's."""
    if request.method not in _READS or request.header(b"upgrade"):
        check_write(request)
    route = parse(request.path)
    if route is not None and route.subresource == "proxy":
        raise _refused("a session of the console reaches no proxy; send a bearer token")


def check_write(request: Request) -> None:
    """StatusError 403 without a sign that a page of this hub sends the request."""
    if sign := another_site(request):
        raise from_another_site(sign)
    if request.header(b"sec-fetch-site") != "same-origin" and not request.header(b"origin"):
        raise _refused("the request says neither Origin nor Sec-Fetch-Site; send a bearer token")


def own_origin(request: Request) -> str:
    """The address of the hub, as the browser knows it."""
    return f"https://{request.header(b'host').lower()}"


def guard(request: Request, answer: Answer) -> None:
    """Keep a browser from running an answer that it got without a token of the page's own."""
    if BY_ITSELF in request.scope and not isinstance(answer, Upgrade):
        answer.headers = (*answer.headers, *GUARD)


def guarded(request: Request, send: Send) -> Send:
    """`send` of an answer that an application gives by itself, with the same headers."""
    if BY_ITSELF not in request.scope:
        return send

    async def with_guard(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *GUARD]
        await send(message)

    return with_guard


def _refused(why: str) -> StatusError:
    return StatusError(403, "Forbidden", f"forbidden: {why}")
