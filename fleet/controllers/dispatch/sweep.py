"""Searching the members for objects that no binding wants (I6): the leftovers of a crash, a restore or a late answer.

Dispatch removes the objects that it knows of; this loop finds those that no loop knows of any more. The loop looks at
the member first and at the hub after it, so that an object that was just sent always finds its binding.
"""

from __future__ import annotations

import structlog

from fleet.bindings import binding as b
from fleet.controllers.dispatch.dependencies import is_kept, let_stay, share
from fleet.controllers.dispatch.manifests import is_dependency, users_of
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.workqueue import WorkQueue
from fleet.members.members import Changed
from fleet.ports import Body, Fenced, Key, StoreUnavailable
from fleet.wellknown import LABEL_BINDING, WORK

log = structlog.get_logger(__name__)

FIRST_S = 2.0


class SweepLoop:
    """Looks through all ready members every now and then, and soon after one comes back."""

    name = "sweep"

    def __init__(self, hub: Hub, dispatch: WorkQueue) -> None:
        """`dispatch`: the queue of the dispatch loop, for what it should look at again."""
        self._hub = hub
        self._dispatch = dispatch
        self._due = True

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_member)
        slept = self._hub.config.sweep_s
        while True:
            if self._due or slept >= self._hub.config.sweep_s:
                self._due, slept = False, 0.0
                try:
                    await self.sweep()
                except StoreUnavailable as error:
                    log.warning("sweep put off", error=str(error))
            await self._hub.clock.sleep(FIRST_S)
            slept += FIRST_S

    def _on_member(self, changed: Changed) -> None:
        if changed.what == "ready":
            self._due = True

    async def sweep(self) -> int:
        """One search; returns how many objects it asked to remove."""
        there = [
            (name, tuple(self._hub.members.owned(name)))
            for name in self._hub.members.names()
            if self._hub.members.ready(name)
        ]
        page = await self._hub.store.list(WORK, "resourcebindings", fresh=True)
        bindings = {stored.uid: (stored.key, stored.body) for stored in page.items}
        removed = 0
        for member, bodies in there:
            for body in bodies:
                try:
                    if not b.deleting(body):
                        removed += await self._look_at(member, body, bindings)
                except (Fenced, StoreUnavailable):
                    raise
                except Exception as error:  # a member whose objects make trouble costs the others nothing
                    log.warning("what is in a member cannot be judged", member=member, error=repr(error)[:300])
        return removed

    async def _look_at(self, member: str, body: Body, bindings: dict[str, tuple[Key, Body]]) -> int:
        if is_dependency(body):
            users = users_of(body)
            living = {uid for uid in users if uid in bindings}
            if living == users:
                return 0
            if living:
                await share(self._hub, member, body, living)
                return 0
            if is_kept(self._hub, body):
                await let_stay(self._hub, member, body)
                return 0
        else:
            known = bindings.get(b.labels_of(body).get(LABEL_BINDING, ""))
            if known is not None:
                key, binding = known
                if member not in b.clusters_of(binding) or b.deleting(binding):
                    self._dispatch.add(key)
                return 0
        log.info("removing an orphan", member=member, kind=body.get("kind"), name=body["metadata"]["name"])
        await self._hub.members.delete(member, body)
        return 1
