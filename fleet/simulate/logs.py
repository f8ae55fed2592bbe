"""Logs of simulated pods: nothing runs in them but `echo`, and the first line that they answer says so.

They are asked for as those of a kubelet: with times, from a time on, the last lines alone, followed until the pod ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from api.engine.status import StatusError, bad_request, not_found
from api.wire.http import Answer, Request, Stream, text_response
from api.wire.routing import Route
from fleet.simulate.world import World, phase_of
from fleet.values.ports import Body, EventType, Key, StoredObject
from fleet.values.times import seconds

FOLLOWED_S = 4 * 3600.0
OVER = ("Succeeded", "Failed")


class PodLogs:
    """Answers GET of the subresource `log` of pods."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def __call__(self, route: Route, request: Request) -> Answer:
        if request.method != "GET":
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        pod, container = asked_for(self._world, route, request)
        said = f"{route.name}/{container}: {phase_of(pod.body)} in the simulated cluster {self._world.name}\n"
        text = self._chosen(pod.body, request, (said + _echoed(pod.body, container)).splitlines())
        if not request.flag("follow"):
            return text_response(text)
        return self._followed(pod, text)

    def _chosen(self, pod: Body, request: Request, lines: list[str]) -> str:
        """The lines that the query asks for. All are printed when the pod starts, a nanosecond after each other."""
        began = str((pod.get("status") or {}).get("startTime") or self._world.now())
        query = request.query
        since = seconds(query.get("sinceTime", "")) or 0.0
        if query.get("sinceSeconds", "").isdigit():
            since = self._world.clock.now() - int(query["sinceSeconds"])
        if (seconds(began) or 0.0) < since:
            return ""
        if request.flag("timestamps"):
            lines = [f"{began.removesuffix('Z')}.{number:09}Z {line}" for number, line in enumerate(lines)]
        if query.get("tailLines", "").isdigit():
            lines = lines[max(0, len(lines) - int(query["tailLines"])) :]
        return "".join(f"{line}\n" for line in lines)

    def _followed(self, pod: StoredObject, text: str) -> Stream:
        async def pump(send: Callable[[bytes], Awaitable[None]]) -> None:
            await send(text.encode())
            if phase_of(pod.body) in OVER:
                return
            watch = await self._world.store.watch("", "pods", namespace=pod.key.namespace, since=pod.revision)
            try:
                async for event in watch:
                    ours = event.stored.uid == pod.uid
                    if ours and (event.type is EventType.DELETED or phase_of(event.stored.body) in OVER):
                        return
            finally:
                await watch.aclose()

        return Stream(pump, FOLLOWED_S, headers=((b"content-type", b"text/plain; charset=utf-8"),))


def asked_for(world: World, route: Route, request: Request) -> tuple[StoredObject, str]:
    """The pod of the route, and the container that the query names, or its first. StatusError for one that is not there
    or has not started."""
    stored = world.store.peek(Key("", "pods", route.namespace, route.name))
    if stored is None:
        raise not_found("", "pods", route.name)
    pod = stored.body
    containers = [container["name"] for container in pod["spec"].get("containers") or ()]
    container = request.query.get("container") or (containers[0] if containers else "")
    if container not in containers:
        raise bad_request(f"container {container} is not valid for pod {route.name}")
    if phase_of(pod) == "Pending":
        text = f'container "{container}" in pod "{route.name}" is waiting to start: ContainerCreating'
        raise bad_request(text)
    return stored, container


def _echoed(pod: Body, container: str) -> str:
    """The words of a container whose command is `echo`: the one program that a simulated pod can run."""
    said = next(one for one in pod["spec"]["containers"] if one["name"] == container)
    words = [*(said.get("command") or ()), *(said.get("args") or ())]
    return " ".join(map(str, words[1:])) + "\n" if words[:1] == ["echo"] else ""
