"""The kubelets of all nodes of a simulated member: bound pods run, end when they should, and stop when deleted.

A pod runs until it is deleted, or as long as its annotation `testbed/run-for` says ("3s", "1m30s") and then ends with
the exit code of `testbed/exit-code`: the annotations that the real test bed's nodes obey too. Each pod costs one timer
and two writes; pods on a node that was removed are removed with it.
"""

from __future__ import annotations

import asyncio
import re

import structlog

from api.engine.status import StatusError
from fleet.simulate.world import World, going, node_of, phase_of, set_condition
from fleet.values.ports import Body, EventType, ExpiredRevision
from fleet.values.times import seconds as seconds_of
from fleet.values.untyped import digits

log = structlog.get_logger(__name__)

RUN_FOR = "testbed/run-for"
EXIT_CODE = "testbed/exit-code"
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def duration_s(text: str) -> float | None:
    """Seconds of a Go duration such as "1m30s"; None for what is not one."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


class Kubelet:
    """A Loop. `start_s`: from binding to Running; `stop_s`: from deletion to gone."""

    name = "kubelet"

    def __init__(self, world: World, *, start_s: float = 0.1, stop_s: float = 0.05) -> None:
        self._world, self._start_s, self._stop_s = world, start_s, stop_s
        self._due: asyncio.Queue[tuple[str, Body]] = asyncio.Queue()
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}  # (what, uid)
        self._addresses = 0
        world.pods.listen(self._pod)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_nodes())
                group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def _pod(self, pod: Body, gone: bool) -> None:
        uid, phase = pod["metadata"]["uid"], phase_of(pod)
        if gone or phase in ("Succeeded", "Failed"):
            for what in ("start", "end", "stop"):
                self._cancel(what, uid)
            if not gone and going(pod):
                self._after("stop", pod, self._stop_s)
            return
        if not node_of(pod):
            return
        if going(pod):
            self._cancel("start", uid)
            self._cancel("end", uid)
            self._after("stop", pod, self._stop_s)
        elif phase == "Pending":
            self._after("start", pod, self._start_s)
        elif phase == "Running":
            seconds = duration_s((pod["metadata"].get("annotations") or {}).get(RUN_FOR, ""))
            if seconds is not None:
                self._after("end", pod, max(0.0, seconds - self._ran_s(pod)))

    def _ran_s(self, pod: Body) -> float:
        """The time since the start of a pod that was there before this member began; 0 for a new one, whose start is
        written in whole seconds."""
        began = seconds_of(pod["status"].get("startTime"))
        return 0.0 if began is None else max(0.0, self._world.clock.now() - began - 1.0)

    def _after(self, what: str, pod: Body, seconds: float) -> None:
        at = (what, pod["metadata"]["uid"])
        if at not in self._timers:
            self._timers[at] = asyncio.get_running_loop().call_later(seconds, self._fire, what, pod)

    def _fire(self, what: str, pod: Body) -> None:
        # The timer stays listed, done, until the pod moves on: the same step is not started twice.
        self._due.put_nowait((what, pod))

    def _cancel(self, what: str, uid: str) -> None:
        timer = self._timers.pop((what, uid), None)
        if timer is not None:
            timer.cancel()

    async def _work(self) -> None:
        while True:
            what, pod = await self._due.get()
            try:
                if what == "start":
                    await self._world.change_pod(pod, self._started)
                elif what == "end":
                    await self._world.change_pod(pod, self._ended)
                else:
                    await self._remove(pod)
            except StatusError as error:
                log.warning("kubelet", what=what, pod=pod["metadata"]["name"], error=error.message)
            self._cancel(what, pod["metadata"]["uid"])
            await asyncio.sleep(0)  # a member whose pods all start at once still answers

    async def _remove(self, pod: Body) -> None:
        meta = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        try:
            await self._world.objects.delete(
                self._world.pod_kind, meta["namespace"], meta["name"], self._world.options, options
            )
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    def _started(self, body: Body) -> Body | None:
        if going(body) or phase_of(body) != "Pending":
            return None
        now = self._world.now()
        self._addresses = (self._addresses + 1) % 65024
        status = body.setdefault("status", {})
        status.update(
            phase="Running",
            startTime=now,
            hostIP="127.0.0.1",
            podIP=f"10.244.{self._addresses // 254}.{self._addresses % 254 + 1}",
            containerStatuses=[
                {
                    "name": container["name"],
                    "image": container.get("image", ""),
                    "imageID": "",
                    "containerID": f"simulated://{body['metadata']['uid']}/{container['name']}",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                }
                for container in body["spec"].get("containers") or ()
            ],
        )
        for condition in ("Initialized", "ContainersReady", "Ready"):
            set_condition(status, {"type": condition, "status": "True", "lastProbeTime": None}, now)
        return body

    def _ended(self, body: Body) -> Body | None:
        if phase_of(body) != "Running":
            return None
        now = self._world.now()
        given = digits((body["metadata"].get("annotations") or {}).get(EXIT_CODE, "0"))
        code = 1 if given is None else given
        status = body["status"]
        status["phase"] = "Failed" if code else "Succeeded"
        for container in status.get("containerStatuses") or ():
            started = (container["state"].get("running") or {}).get("startedAt", now)
            container["ready"] = container["started"] = False
            container["state"] = {
                "terminated": {
                    "exitCode": code,
                    "reason": "Error" if code else "Completed",
                    "startedAt": started,
                    "finishedAt": now,
                    "containerID": container["containerID"],
                }
            }
        for condition in ("ContainersReady", "Ready"):
            reason = "PodFailed" if code else "PodCompleted"
            said = {"type": condition, "status": "False", "reason": reason, "lastProbeTime": None}
            set_condition(status, said, now)
        return body

    async def _follow_nodes(self) -> None:
        while True:
            watch = await self._world.store.watch("", "nodes")
            try:
                async for event in watch:
                    if event.type is EventType.DELETED:
                        for pod in self._world.pods.on_node(event.stored.key.name):
                            self._due.put_nowait(("remove", pod))
            except ExpiredRevision:
                continue
            finally:
                await watch.aclose()
