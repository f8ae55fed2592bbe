"""The site that a request comes from. A browser adds its cookies to requests that other sites make.

A page of the hub sends `Origin` with each write and each WebSocket, and no other page can send the hub's own. A proxy
in front of the hub must hand on the Host of the browser.
"""

from __future__ import annotations

from api.http import Request
from api.routing import parse
from fleet.engine.status import StatusError

_READS = ("GET", "HEAD")
_OWN = ("same-origin", "none")  # "none": the user typed the address


def check_origin(request: Request) -> None:
    """StatusError 403 for a request with a session that another site may have made, and for one to a proxy: a page of a
    pod would run as one of the hub's."""
    site = request.header(b"sec-fetch-site")
    if site and site not in _OWN:
        raise _refused("the request comes from another site")
    if request.method not in _READS or request.header(b"upgrade"):
        check_write(request)
    route = parse(request.path)
    if route is not None and route.subresource == "proxy":
        raise _refused("a session of the console reaches no proxy; send a bearer token")


def check_write(request: Request) -> None:
    """StatusError 403 without a sign that a page of this hub sends the request."""
    origin, site = request.header(b"origin"), request.header(b"sec-fetch-site")
    if origin:
        if origin != own_origin(request):
            raise _refused(f"the request comes from another site ({origin[:200]})")
    elif site != "same-origin":
        raise _refused("the request says neither Origin nor Sec-Fetch-Site; send a bearer token")


def own_origin(request: Request) -> str:
    """The address of the hub, as the browser knows it."""
    return f"https://{request.header(b'host').lower()}"


def _refused(why: str) -> StatusError:
    return StatusError(403, "Forbidden", f"forbidden: {why}")
