"""Failing nodes: the members' models show no room there for a time, new copies keep off them, and the Cluster names
them. The kinds that it names as avoided come back when their time is over.
"""

from __future__ import annotations

from collections.abc import Iterable

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings import idle
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.failing import (
    FIELD,
    FailingNode,
    avoided_in,
    failing_nodes,
    failures_at,
    still_avoided,
    to_body,
)
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.values.ports import Body, Event, EventType, Key
from fleet.wellknown import CLUSTER, NODE_AVOIDED, NODES_AVOIDED, WORK

NAMED_MAX = 5  # nodes that the condition names


class NodesLoop:
    """A Loop."""

    name = "nodes"

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._failures: dict[Key, list[tuple[str, str, float]]] = {}  # of a binding, as they were seen last
        sources = [Source(CLUSTER, "clusters"), Source(WORK, "resourcebindings", self._on_binding)]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=1)

    async def run(self) -> None:
        await self.controller.run()

    def _on_binding(self, event: Event) -> Iterable[Key]:
        """Most bindings have no failures, and most changes of the others are no failure."""
        key, body = event.stored.key, event.stored.body
        found = failures_at(body) if b.is_gang(body) and event.type is not EventType.DELETED else []
        before = self._failures.pop(key, [])
        if found:
            self._failures[key] = found
        members = {member for member, _, _ in (*found, *before)} if found != before else ()
        return [Key(CLUSTER, "clusters", "", member) for member in members]

    async def reconcile(self, key: Key) -> float | None:
        stored, now = self._hub.store.peek(key), self._hub.clock.now()
        if stored is None:
            self._hub.members.avoid_nodes(key.name, frozenset())
            return None
        bodies = [self._hub.store.peek(binding_key) for binding_key in list(self._failures)]
        failures = failing_nodes(key.name, [binding.body for binding in bodies if binding is not None], now)
        new = {failure.node for failure in failures}
        failures += [failure for failure in still_avoided(stored.body, now) if failure.node not in new]
        self._hub.members.avoid_nodes(key.name, frozenset(failure.node for failure in failures))
        known = avoided_in(stored.body)
        await self._hub.edit(key, lambda body: settle(body, failures, now) | idle.settle(body, now), uid=stored.uid)
        for failure in failures:
            if failure.node not in known:
                await self._events.record(stored.body, NODE_AVOIDED, failure.text, warning=True)
        ends = [failure.until for failure in failures] + list(idle.idle_kinds(stored.body, now).values())
        return min(ends) - now + 0.01 if ends else None


def settle(cluster: Body, failures: list[FailingNode], now: float) -> bool:
    """Name the nodes in the Cluster's status, in place; False when it names them."""
    status, entries = cluster.setdefault("status", {}), [to_body(failure) for failure in failures]
    if not failures:
        return (status.pop(FIELD, None) is not None) | drop_condition(cluster, NODES_AVOIDED)
    changed = status.get(FIELD) != entries
    status[FIELD] = entries
    more = f" and {len(failures) - NAMED_MAX} more" if len(failures) > NAMED_MAX else ""
    message = "; ".join(failure.text for failure in failures[:NAMED_MAX]) + more
    return set_condition(cluster, NODES_AVOIDED, True, "NodesFail", message, now) or changed
