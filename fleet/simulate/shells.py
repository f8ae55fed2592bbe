"""exec, attach and port-forward of simulated pods: nothing runs in them, and the answers say so.

A command prints one line that names it, repeats what comes to its stdin, and ends with the status of a word `exit N`.
A forwarded port sends back what it gets.
"""

from __future__ import annotations

import json
import re
from functools import partial
from urllib.parse import parse_qsl

from api.engine.status import bad_request
from api.transport.websocket import ServerPipe, handshake, offers
from api.wire.http import Answer, Request, Upgrade
from api.wire.routing import Route
from fleet.simulate.logs import asked_for
from fleet.simulate.world import World

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
SHELLS = (("", "pods", "exec"), ("", "pods", "attach"), ("", "pods", "portforward"))
STDIN, STDOUT, ERROR, CLOSE = 0, 1, 3, 255
_EXIT = re.compile(rb"(?:^|\s)exit(?: (\d{1,3}))?\s*$")


class PodShells:
    """Answers the subresources `exec`, `attach` and `portforward` of pods, over WebSockets."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def __call__(self, route: Route, request: Request) -> Answer:
        _, container = asked_for(self._world, route, request)
        chosen = next((known for known in (V5, V4) if known in offers(request)), None)
        if chosen is None:
            raise bad_request(f"a simulated pod speaks {V5} and {V4} alone")
        query = parse_qsl(request.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if route.subresource == "portforward":
            ports = [int(value) for key, value in query if key == "ports" and value.isdigit()]
            return Upgrade(handshake(request, chosen), partial(_echo, ports))
        words = [value for key, value in query if key == "command"]
        said = (
            f"{route.name}/{container}: {' '.join(words) or 'attached'} in the simulated cluster {self._world.name}\n"
        )
        stdin = request.flag("stdin")
        return Upgrade(handshake(request, chosen), partial(_process, said, " ".join(words).encode(), stdin))


async def _process(said: str, command: bytes, stdin: bool, pipe: ServerPipe) -> None:
    await pipe.send(bytes([STDOUT]) + said.encode())
    ended = _EXIT.search(command)
    while stdin and ended is None:
        message = await pipe.receive()
        if message is None or message == bytes([CLOSE, STDIN]):
            break
        if message[:1] == bytes([STDIN]):
            await pipe.send(bytes([STDOUT]) + message[1:])
            ended = _EXIT.search(message[1:])
    status = int(ended[1] or 0) if ended else 0
    await pipe.send(bytes([ERROR]) + json.dumps(_told(status)).encode())
    await pipe.close(1000, "")


def _told(status: int) -> dict[str, object]:
    """The end of a process, as kubelets tell it."""
    if not status:
        return {"metadata": {}, "status": "Success"}
    cause = {"reason": "ExitCode", "message": str(status)}
    message = f"command terminated with non-zero exit code: exit status {status}"
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": message,
        "details": {"causes": [cause]},
    }


async def _echo(ports: list[int], pipe: ServerPipe) -> None:
    for number, port in enumerate(ports):
        for channel in (2 * number, 2 * number + 1):
            await pipe.send(bytes([channel]) + port.to_bytes(2, "little"))
    while (message := await pipe.receive()) is not None:
        await pipe.send(message)
