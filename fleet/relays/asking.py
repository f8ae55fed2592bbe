"""The requests that a relay sends to a member, made anew from what the client asks for.

Path, query and headers hold known parameters and protocols alone. So nothing of a client's request reaches a member
but what is named here.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from api.engine.status import StatusError, bad_request
from api.transport.websocket import handshake, is_websocket, need_take_over, offers
from api.wire.frames import accept_key
from api.wire.http import MAX_PARAMETERS, Request
from fleet.relays.clients import Headers
from fleet.values.ports import Body

SPDY = "SPDY/3.1"
_CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io")
_OLD = ("channel.k8s.io", "base64.channel.k8s.io")
_SPDY_STREAMS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
WEBSOCKET = {
    "exec": (*_CHANNELS, *_OLD),
    "attach": (*_CHANNELS, *_OLD),
    "portforward": ("SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"),
}
SPDY_PROTOCOLS = {"exec": _SPDY_STREAMS, "attach": _SPDY_STREAMS, "portforward": ("portforward.k8s.io",)}
_SPDY_HEADER = b"x-stream-protocol-version"

_FLAG, _TEXT, _NUMBER = "flag", "text", "number"
_STREAMS = {"stdin": _FLAG, "stdout": _FLAG, "stderr": _FLAG, "tty": _FLAG, "container": _TEXT}
_LISTS = {"command": _TEXT, "ports": _NUMBER}  # parameters that may stand several times
PARAMETERS = {
    "exec": {**_STREAMS, "command": _TEXT},
    "attach": _STREAMS,
    "portforward": {"ports": _NUMBER},
    "log": {
        "container": _TEXT,
        "follow": _FLAG,
        "previous": _FLAG,
        "timestamps": _FLAG,
        "sinceSeconds": _NUMBER,
        "sinceTime": _TEXT,
        "tailLines": _NUMBER,
        "limitBytes": _NUMBER,
        "stream": _TEXT,
    },
}
KINDS = {"exec": "PodExecOptions", "attach": "PodAttachOptions", "portforward": "PodPortForwardOptions"}
_WHOLE = re.compile(r"-?\d{1,18}")
_READ: dict[str, Callable[[str, str], Any]] = {
    _FLAG: lambda name, value: value.lower() not in ("false", "0"),
    _TEXT: lambda name, value: value,
    _NUMBER: lambda name, value: _number(name, value),
}


def _number(name: str, value: str) -> int:
    if not _WHOLE.fullmatch(value):
        raise bad_request(f'{name}: "{value[:50]}" is no whole number')
    return int(value)


def options_of(request: Request, subresource: str) -> Body:
    """The parameters of the subresource, as its options kind holds them. StatusError 400."""
    raw = request.scope.get("query_string", b"").decode("latin-1")
    try:
        pairs = parse_qsl(raw, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise bad_request(f"more than {MAX_PARAMETERS} query parameters") from None
    known, options = PARAMETERS[subresource], dict[str, Any]()
    for name, value in pairs:
        if name not in known:
            continue
        read = _READ[known[name]](name, value)
        if name in _LISTS:
            options.setdefault(name, []).append(read)
        else:
            options.setdefault(name, read)
    return options


def query_of(options: Body, subresource: str) -> str:
    """The query for the member, from options that a webhook may have changed."""
    pairs: list[tuple[str, str]] = []
    for name in PARAMETERS[subresource]:
        value = options.get(name)
        for one in value if isinstance(value, list) else [value]:
            if one is True:
                pairs.append((name, "true"))
            elif isinstance(one, str | int) and one is not False and one != "":
                pairs.append((name, str(one)))
            elif one == "" and name == "command":  # an empty word of a command is one
                pairs.append((name, ""))
    return urlencode(pairs)


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of protocol as a client asks for it. `offered`: what the member may choose from."""

    websocket: bool
    offered: tuple[str, ...]
    key: str  # of the handshake with the member

    @property
    def headers(self) -> Headers:
        """For the member. kubelets refuse some media types here, so none is asked for."""
        anything = (b"accept", b"*/*")
        if not self.websocket:
            versions = [(_SPDY_HEADER, name.encode()) for name in self.offered]
            return [anything, (b"connection", b"Upgrade"), (b"upgrade", SPDY.encode()), *versions]
        protocols = [(b"sec-websocket-protocol", ", ".join(self.offered).encode())] if self.offered else []
        return [
            anything,
            (b"connection", b"Upgrade"),
            (b"upgrade", b"websocket"),
            (b"sec-websocket-version", b"13"),
            (b"sec-websocket-key", self.key.encode()),
            *protocols,
        ]

    def agreed(self, answered: Callable[[str], str]) -> str | None:
        """The protocol that the member has chosen, "" for none; None for an answer that does not fit. `answered`: a
        header of it."""
        upgrade = "websocket" if self.websocket else SPDY.lower()
        if answered("upgrade").lower() != upgrade or answered("sec-websocket-extensions"):
            return None
        if self.websocket and answered("sec-websocket-accept") != accept_key(self.key):
            return None
        chosen = answered("sec-websocket-protocol" if self.websocket else _SPDY_HEADER.decode())
        return chosen if chosen in self.offered or not chosen else None

    def answer(self, request: Request, chosen: str) -> tuple[tuple[str, str], ...]:
        """The headers of the hub's own answer to the client."""
        if self.websocket:
            return handshake(request, chosen)
        return (("upgrade", SPDY), *(((_SPDY_HEADER.decode(), chosen),) if chosen else ()))


def switch_of(request: Request, subresource: str) -> Switch:
    """StatusError 400 for a request that asks for no protocol of the subresource."""
    key = b64encode(os.urandom(16)).decode()
    if is_websocket(request):
        handshake(request)
        proposals, protocols = offers(request), WEBSOCKET[subresource]
        websocket = True
    else:
        wants = {word.strip().lower() for word in request.header(b"connection").split(",")}
        if request.header(b"upgrade").lower() != SPDY.lower() or "upgrade" not in wants:
            raise StatusError(400, "BadRequest", "Upgrade request required")
        need_take_over(request)
        proposals = [part.strip() for part in request.header(_SPDY_HEADER).split(",") if part.strip()]
        websocket, protocols = False, SPDY_PROTOCOLS[subresource]
    offered = tuple(dict.fromkeys(name for name in proposals if name in protocols))
    if proposals and not offered:
        raise StatusError(403, "Forbidden", f"none of the protocols is known: {', '.join(proposals)[:200]}")
    return Switch(websocket, offered, key)
