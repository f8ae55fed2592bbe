"""Logs of simulated pods: nothing runs in them but `echo`, and the first line that they answer says so."""

from __future__ import annotations

from api.http import Answer, Request, text_response
from api.routing import Route
from fleet.engine.status import StatusError, bad_request, not_found
from fleet.ports import Body, Key
from fleet.simulate.world import World, phase_of


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
        said = f"{route.name}/{container}: {phase_of(pod)} in the simulated cluster {self._world.name}\n"
        return text_response(said + _echoed(pod, container))


def asked_for(world: World, route: Route, request: Request) -> tuple[Body, str]:
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
    return pod, container


def _echoed(pod: Body, container: str) -> str:
    """The words of a container whose command is `echo`: the one program that a simulated pod can run."""
    said = next(one for one in pod["spec"]["containers"] if one["name"] == container)
    words = [*(said.get("command") or ()), *(said.get("args") or ())]
    return " ".join(map(str, words[1:])) + "\n" if words[:1] == ["echo"] else ""
