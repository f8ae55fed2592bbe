"""The acts of the hub in one member: each finds the kind there, and returns an outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fleet.core.model.pod import PodView
from fleet.core.model.reason import Code
from fleet.members.connection import Unreachable
from fleet.members.discovery import Catalogue, ServedResource
from fleet.members.dispatch import Dispatcher
from fleet.members.dispatchedobjects import DispatchedObjects
from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body, Key


class Target(Protocol):
    """The member, as far as acts need it."""

    name: str
    hub: str
    dispatched: DispatchedObjects

    @property
    def catalogue(self) -> Catalogue: ...

    def trouble(self) -> str:
        """Why nothing is sent to it now; "" for nothing."""
        ...

    async def discover_once(self) -> None:
        """Look for kinds that it serves by now. Raises Unreachable."""
        ...

    def follow(self, served: ServedResource) -> None: ...

    def followed(self, served: ServedResource) -> bool: ...

    def keep(self, served: ServedResource, body: Body, *, written: bool = False) -> None:
        """Take in the answer to a write."""
        ...


class Acts:
    def __init__(self, member: Target, dispatcher: Dispatcher) -> None:
        self._member, self._dispatcher = member, dispatcher

    async def _served(self, body: Body) -> ServedResource | ActOutcome:
        api_version, kind = body["apiVersion"], body["kind"]
        member = self._member
        if trouble := member.trouble():
            return ActOutcome(ActResult.UNREACHABLE, f"member {member.name}: {trouble}")
        served = member.catalogue.kind(api_version, kind)
        if served is None:
            try:
                await member.discover_once()
            except Unreachable as error:
                return ActOutcome(ActResult.UNREACHABLE, str(error))
            served = member.catalogue.kind(api_version, kind)
        if served is None:
            others = ", ".join(member.catalogue.versions(api_version, kind))
            text = f"member {member.name} does not serve {kind} in {api_version}"
            text += f", but in {others}" if others else ""
            return ActOutcome(ActResult.REFUSED, text, cause=Code.KIND_NOT_SERVED)
        return served

    async def look(self, body: Body) -> ActOutcome:
        served = await self._served(body)
        return served if isinstance(served, ActOutcome) else await self._dispatcher.look(served, body)

    async def warning(self, body: Body) -> str:
        return await self._dispatcher.warning(body)

    async def apply(self, body: Body, *, overwrite: bool) -> ActOutcome:
        served = await self._served(body)
        if isinstance(served, ActOutcome):
            return served
        self._member.follow(served)
        meta = body["metadata"]
        key = Key(served.group, served.resource, meta.get("namespace") or "", meta["name"])
        outcome = await self._dispatcher.apply(served, body, self._member.dispatched.find(key), overwrite=overwrite)
        if outcome.did is ActResult.DONE and outcome.body is not None and outcome.body.get("metadata", {}).get("uid"):
            self._member.keep(served, outcome.body, written=True)
        return outcome

    async def delete(self, body: Body, *, grace_s: int | None, foreground: bool) -> ActOutcome:
        served = await self._served(body)
        if isinstance(served, ActOutcome):
            return served
        outcome = await self._dispatcher.delete(served, body, self._member.hub, grace_s=grace_s, foreground=foreground)
        if outcome.did is ActResult.NOT_FOUND:
            meta = body["metadata"]
            key = Key(served.group, served.resource, meta.get("namespace") or "", meta["name"])
            self._member.dispatched.drop(key, meta.get("uid"))
        return outcome

    async def put_pod(self, body: Body) -> ActOutcome:
        served = await self._served(body)
        return (
            served
            if isinstance(served, ActOutcome)
            else await self._dispatcher.apply(served, body, None, overwrite=False)
        )

    async def patch_pod(self, pod: PodView, patch: Body, *, status: bool) -> ActOutcome:
        served = await self._served({"apiVersion": "v1", "kind": "Pod"})
        if isinstance(served, ActOutcome):
            return served
        path = served.path(pod.namespace, pod.name) + ("/status" if status else "")
        return await self._dispatcher.patch(path, {**patch, "metadata": {"uid": pod.uid}})

    async def relabel(
        self, body: Body, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
    ) -> ActOutcome:
        served = await self._served(body)
        if isinstance(served, ActOutcome):
            return served
        outcome = await self._dispatcher.relabel(served, body, self._member.hub, labels, annotations)
        if outcome.did is ActResult.DONE and outcome.body is not None and self._member.followed(served):
            self._member.keep(served, outcome.body)
        return outcome
