"""Objects with pods that no policy takes say so: a job, a Pod, or any object with a pod template.

Without a policy an object stays on the hub and nothing happens to it, which looks like a job that waits. Such an object
gets one warning Event after a few seconds, since a policy of the same batch may still take it.
"""

from __future__ import annotations

from collections.abc import Iterable

from api.engine.kind import Kind
from api.loops.controller import Controller, Source
from fleet.admission.selecting import best_policy, policies_for, untaken, why_untaken
from fleet.admission.travel import NEVER_GROUPS
from fleet.admission.workloads import WITH_PODS, carries_pods
from fleet.bindings import binding as b
from fleet.bindings.names import binding_of
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.kinds import interpreter_for
from fleet.values.ports import Event, EventType, Key
from fleet.values.times import seconds
from fleet.values.untyped import text
from fleet.wellknown import NO_POLICY

PATIENCE_S = 5.0  # after its creation, for its policy to come
_REFRESH = Key("", "", "", "which kinds there are")


class UntakenLoop:
    """Tells of objects with pods that no policy takes, each once."""

    name = "untaken"

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._judged: set[str] = set()  # uids of objects that were told of, or need not be
        crds = Source("apiextensions.k8s.io", "customresourcedefinitions", lambda event: (_REFRESH,))
        self.controller = Controller(self.name, hub.store, [crds], self.reconcile, workers=1)

    async def run(self) -> None:
        self.controller.queue.add(_REFRESH)
        await self.controller.run()

    def _keys(self, event: Event) -> Iterable[Key]:
        if event.type is EventType.DELETED:
            self._judged.discard(event.stored.uid)
        elif event.stored.uid not in self._judged:
            yield event.stored.key

    async def reconcile(self, key: Key) -> float | None:
        if key == _REFRESH:
            kinds = filter(_may_have_pods, self._hub.registry)
            self.controller.follow_only(Source(kind.group, kind.resource, self._keys) for kind in kinds)
            return None
        stored, kind = self._hub.store.peek(key), self._hub.registry.resource(key.group, key.resource)
        if stored is None or kind is None or stored.uid in self._judged:
            return None
        if interpreter_for(kind) is None and not carries_pods(stored.body):
            return None  # looked at again when it changes
        created = seconds(text(stored.body["metadata"].get("creationTimestamp"))) or 0.0
        left = created + PATIENCE_S - self._hub.clock.now()
        if left > 0:
            return left + 0.01
        self._judged.add(stored.uid)
        if b.deleting(stored.body) or self._taken(kind, key, stored.body):
            return None
        why = why_untaken(stored.body, policies_for(self._hub.store, kind, key, stored.body))
        await self._events.once(stored.body, NO_POLICY, untaken(kind, key, why))
        return None

    def _taken(self, kind: Kind, key: Key, body: dict[str, object]) -> bool:
        if binding_of(self._hub.store.peek, kind.group, kind.kind, key.namespace, key.name) is not None:
            return True
        return best_policy(body, policies_for(self._hub.store, kind, key, body)) is not None


def _may_have_pods(kind: Kind) -> bool:
    if interpreter_for(kind) is not None or (kind.group, kind.kind) in WITH_PODS:
        return True
    return not kind.builtin and kind.group not in NEVER_GROUPS
