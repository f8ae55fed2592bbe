"""Logs of simulated pods: nothing runs in them, and the one line that they answer says so."""

from __future__ import annotations

from api.http import Answer, Request, text_response
from api.routing import Route
from fleet.engine.status import StatusError, bad_request, not_found
from fleet.ports import Key
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
        stored = self._world.store.peek(Key("", "pods", route.namespace, route.name))
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
        return text_response(f"{route.name}/{container}: {phase_of(pod)} in the simulated cluster {self._world.name}\n")
