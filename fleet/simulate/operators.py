"""The shared part of the operators of all job kinds: jobs by key, their pods by owner, and pods made from a
template."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from api.engine.kind import Kind
from api.engine.status import StatusError
from api.loops.controller import Controller, Source
from fleet.kinds import interpreter_for
from fleet.simulate.world import World
from fleet.values.ports import Body, Key


class Operator(ABC):
    """A Loop over the jobs of one kind; a job is looked at when it or one of its pods changes."""

    def __init__(self, world: World, kind: Kind) -> None:
        self.name = f"operator:{kind.resource}"
        self.world, self._first = world, kind
        self._controller = Controller(
            self.name, world.store, [Source(kind.group, kind.resource)], self._reconcile, workers=1
        )
        world.pods.listen(self._pod)

    @property
    def kind(self) -> Kind:
        """In the version that the member serves now: its definition may have been replaced by another one."""
        return self.world.registry.resource(self._first.group, self._first.resource) or self._first

    async def run(self) -> None:
        await self._controller.run()

    def _pod(self, pod: Body, gone: bool) -> None:
        kind = self._first  # whose names are the same in all versions
        for reference in pod["metadata"].get("ownerReferences") or ():
            if reference.get("controller") and reference["kind"] == kind.kind:
                namespace = pod["metadata"]["namespace"]
                self._controller.queue.add(Key(kind.group, kind.resource, namespace, reference["name"]))

    async def _reconcile(self, key: Key) -> float | None:
        stored = self.world.store.peek(key)
        if stored is None:
            return None
        if stored.body["metadata"].get("deletionTimestamp"):
            return None  # the garbage collector takes the pods
        interpreter = interpreter_for(self.kind)
        if interpreter is not None and interpreter.manager(stored.body):
            return None  # another controller is to run it
        return await self.reconcile(stored.body, self.world.pods.owned_by(stored.uid))

    @abstractmethod
    async def reconcile(self, job: Body, pods: list[Body]) -> float | None:
        """Bring pods and status to what the spec says; seconds after which to look again, or None."""

    # -- acting

    async def create_pod(
        self, job: Body, name: str, template: Mapping[str, Any], labels: Mapping[str, str], restart: str
    ) -> None:
        """Create a pod of the job; an existing pod of that name is left as it is."""
        meta = template.get("metadata") or {}
        owner = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata: Body = {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **labels},
            "ownerReferences": [owner],
        }
        if meta.get("annotations"):
            metadata["annotations"] = dict(meta["annotations"])
        spec = copy.deepcopy(dict(template.get("spec") or {}))
        spec["restartPolicy"] = restart
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Pending"},
        }
        world = self.world
        try:
            written = await world.objects.create(
                world.pod_kind, metadata["namespace"], body, world.options, with_status=True
            )
            world.pods.put(written.body)
        except StatusError as error:
            if error.code not in (403, 404, 409):  # namespace going or gone; or it exists
                raise

    async def delete_pod(self, pod: Body) -> None:
        meta = pod["metadata"]
        options = {"preconditions": {"uid": meta["uid"]}}
        try:
            await self.world.objects.delete(
                self.world.pod_kind, meta["namespace"], meta["name"], self.world.options, options
            )
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    async def delete_job(self, job: Body) -> None:
        meta = job["metadata"]
        options = {"preconditions": {"uid": meta["uid"]}, "propagationPolicy": "Background"}
        try:
            await self.world.objects.delete(self.kind, meta["namespace"], meta["name"], self.world.options, options)
        except StatusError as error:
            if error.code not in (404, 409):
                raise


def exit_code(pod: Body) -> int:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            return int(ended.get("exitCode") or 0)
    return 0
