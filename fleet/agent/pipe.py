"""The client's end of a tunnel's connection: a WebSocket to the hub's API. Proxies between the two let it through."""

from __future__ import annotations

import ssl

import aiohttp

from api.wire.frames import MESSAGE_MAX
from fleet.agent.mux import Pipe

CONNECT_S = 10.0
REFUSALS = {
    401: "the hub does not accept the token",
    403: "the hub does not let this token serve or use this member",
    404: "the hub has no such member",
    409: "the hub does not expect an agent for this member",
}


class TunnelRefusal(ConnectionError):
    """The hub has answered, and no; `status` is the code of HTTP."""

    def __init__(self, status: int) -> None:
        super().__init__(REFUSALS.get(status, f"the hub answers {status}"))
        self.status = status


class ClientPipe:
    """A Pipe over a WebSocket of aiohttp's."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._code, self._reason = 0, ""

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send_bytes(message)
        except (aiohttp.ClientError, RuntimeError) as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            data: bytes = message.data
            return data
        if message.type is aiohttp.WSMsgType.CLOSE:
            self._code, self._reason = int(message.data or 0), str(message.extra or "")
        elif message.type is aiohttp.WSMsgType.ERROR:
            self._reason = str(message.data or "")
        return None

    async def close(self, code: int, reason: str) -> None:
        try:
            await self._socket.close(code=code, message=reason.encode()[:120])
        except (aiohttp.ClientError, OSError, RuntimeError):
            pass  # it was over already

    def end_status(self) -> tuple[int, str]:
        return self._code, self._reason


def session(*, trust_env: bool = False) -> aiohttp.ClientSession:
    """For `connect`; `trust_env`: through the proxy that HTTPS_PROXY names."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=trust_env)


async def connect(
    client: aiohttp.ClientSession, url: str, token: str, tls: ssl.SSLContext | None, server_name: str = ""
) -> Pipe:
    """`server_name`: to ask for in place of the URL's host. Raises TunnelRefusal, or OSError."""
    try:
        socket = await client.ws_connect(
            url,
            headers={"authorization": f"Bearer {token}", "user-agent": "fleet"},
            ssl=tls or True,
            compress=0,
            max_msg_size=MESSAGE_MAX,
            autoping=True,
            autoclose=False,
            timeout=aiohttp.ClientWSTimeout(ws_close=0.5),
            server_hostname=server_name or None,
        )
    except aiohttp.WSServerHandshakeError as error:
        raise TunnelRefusal(error.status) from error
    except aiohttp.ClientError as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    return ClientPipe(socket)
