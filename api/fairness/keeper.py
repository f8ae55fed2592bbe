"""What an administrator finds stored: the levels and schemas of a kube-apiserver, and the condition of each schema.

The objects follow this version of Fleet as long as their annotation `apf.kubernetes.io/autoupdate-spec` says "true".
The mandatory ones always do. One that is missing is made anew. Any number of processes may do so at once.
"""

from __future__ import annotations

import asyncio
from functools import partial

from api.engine.status import StatusError
from api.fairness.defaults import AUTO_UPDATE, GROUP, LEVELS, MANDATORY, SCHEMAS
from api.objects.objects import Objects
from api.objects.writing import Options, User
from fleet.values.ports import Body
from fleet.values.times import rfc3339
from fleet.values.wellknown import SYSTEM_USER

_USER = User(SYSTEM_USER, ("system:masters",), hub=True)
_OBJECTS = Options(user=_USER, manager="api-priority-and-fairness-config-producer-v1")
_STATUS = Options(user=_USER, manager="api-priority-and-fairness-config-consumer-v1")
_KINDS = {
    "prioritylevelconfigurations": ("PriorityLevelConfiguration", LEVELS),
    "flowschemas": ("FlowSchema", SCHEMAS),
}


class Keeper:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._turn = asyncio.Lock()

    async def keep(self) -> None:
        """Bring all that is missing or changed in order."""
        async with self._turn:
            for resource, (kind, specs) in _KINDS.items():
                await self._restore(resource, kind, specs)
            await self._say()

    async def _restore(self, resource: str, kind: str, specs: dict[str, Body]) -> None:
        served = self._objects.registry.need(GROUP, resource)
        there = {stored.key.name: stored.body for stored in self._objects.store.scan(GROUP, resource)}
        for name, spec in specs.items():
            stored = there.get(name)
            if stored is None:
                metadata = {"name": name, "annotations": {AUTO_UPDATE: "true"}}
                body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}
                try:
                    await self._objects.create(served, "", body, _OBJECTS)
                except StatusError as error:
                    if error.code != 409:  # another process was first
                        raise
            elif _differs(stored["spec"], spec) and (_follows(stored) or name in MANDATORY):
                await self._objects.change(served, "", name, partial(_with_spec, spec), _OBJECTS)

    async def _say(self) -> None:
        """Write the condition `Dangling` of each schema where it is not what it should be."""
        served = self._objects.registry.need(GROUP, "flowschemas")
        store = self._objects.store
        levels = {stored.key.name for stored in store.scan(GROUP, "prioritylevelconfigurations")}
        for schema in store.scan(GROUP, "flowschemas"):
            level = schema.body["spec"]["priorityLevelConfiguration"]["name"]
            if not _says(schema.body, level, level in levels):
                say = partial(self._said, level, level in levels)
                await self._objects.change(served, "", schema.key.name, say, _STATUS, subresource="status")

    def _said(self, level: str, there: bool, body: Body) -> Body:
        conditions = [one for one in (body.get("status") or {}).get("conditions") or () if one["type"] != "Dangling"]
        since = rfc3339(self._objects.clock.now())
        conditions.append({"type": "Dangling", "lastTransitionTime": since, **_condition(level, there)})
        return body | {"status": {"conditions": conditions}}


def _with_spec(spec: Body, body: Body) -> Body:
    return body | {"spec": spec}


def _follows(stored: Body) -> bool:
    return (stored["metadata"].get("annotations") or {}).get(AUTO_UPDATE) == "true"


def _differs(stored: Body, target: Body) -> bool:
    """Whether something of the target is not stored; defaults beside it are no difference."""
    return any(
        _differs(stored[key], value)
        if isinstance(value, dict) and isinstance(stored.get(key), dict)
        else stored.get(key) != value
        for key, value in target.items()
    )


def _condition(level: str, there: bool) -> dict[str, str]:
    named = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if there:
        return {"status": "False", "reason": "Found", "message": f"{named} and it exists"}
    return {"status": "True", "reason": "NotFound", "message": f"{named} but there is no such object"}


def _says(schema: Body, level: str, there: bool) -> bool:
    wanted = _condition(level, there)
    conditions = (schema.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Dangling" and wanted.items() <= one.items() for one in conditions)
