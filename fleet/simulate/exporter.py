"""A DCGM exporter in simulated pods: the GPUs that the pods of its node hold, at the port of its proxy.

A pod says by annotations how its GPUs are used: `testbed/gpu-utilization` (percent), `testbed/gpu-memory` (MiB of each)
and `testbed/gpu-power` (watts of each).
"""

from __future__ import annotations

from collections.abc import Iterator

from api.engine.status import StatusError, not_found, unavailable
from api.wire.http import Answer, Request, text_response
from api.wire.routing import Route
from fleet.simulate.world import World, phase_of
from fleet.values.ports import Body, Key
from fleet.values.untyped import mapping, pairs, rows, text

LABEL = "testbed/gpu-exporter"  # a pod with this label is an exporter
MODEL, MIB = "Simulated", 81_920  # of each GPU
DEFAULTS = {"testbed/gpu-utilization": "90", "testbed/gpu-memory": "40960", "testbed/gpu-power": "350"}


class PodMetrics:
    """Answers GET of the subresource `proxy` of pods."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def __call__(self, route: Route, request: Request) -> Answer:
        if request.method != "GET":
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        name = route.name.removeprefix("https:").partition(":")[0]
        stored = self._world.store.peek(Key("", "pods", route.namespace, name))
        if stored is None:
            raise not_found("", "pods", name)
        labels = pairs(mapping(stored.body.get("metadata")).get("labels"))
        if LABEL not in labels or route.rest != "metrics":
            raise unavailable("error trying to reach service: connection refused")
        return text_response("".join(self._lines(text(stored.body["spec"].get("nodeName")))))

    def _lines(self, node: str) -> Iterator[str]:
        number = 0
        for stored in self._world.store.scan("", "pods"):
            pod = stored.body
            if text(pod["spec"].get("nodeName")) == node and phase_of(pod) == "Running":
                for _ in range(_gpus(pod)):
                    yield from _rows(node, number, pod)
                    number += 1


def _gpus(pod: Body) -> int:
    limits = [mapping(mapping(one.get("resources")).get("limits")) for one in rows(pod["spec"].get("containers"))]
    return sum(int(str(one.get("nvidia.com/gpu", "0"))) for one in limits)


def _rows(node: str, number: int, pod: Body) -> Iterator[str]:
    meta = pod["metadata"]
    figures = {**DEFAULTS, **pairs(meta.get("annotations"))}
    used = figures["testbed/gpu-memory"]
    labels = (
        f'gpu="{number}",UUID="GPU-{node}-{number}",device="nvidia{number}",modelName="{MODEL}",Hostname="{node}",'
        f'container="main",namespace="{meta["namespace"]}",pod="{meta["name"]}"'
    )
    yield f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {figures['testbed/gpu-utilization']}\n"
    yield f"DCGM_FI_DEV_FB_USED{{{labels}}} {used}\n"
    yield f"DCGM_FI_DEV_FB_FREE{{{labels}}} {MIB - int(used)}\n"
    yield f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {figures['testbed/gpu-power']}\n"
