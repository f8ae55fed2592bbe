"""Pods and copies that should have left a member and have not: said aloud after a bound, and taken away by force where
that is allowed.

A pod whose node died stays Terminating for ever: the API server waits for a kubelet that is gone. Its job must wait as
well, since the hub cannot tell a dead node from one that only lost its network and still computes. So the bound ends in
a name and not in a second copy: the condition Withdrawn=False, an event and the unit's message say what is waited for.
A job or a policy with ANNOTATION_FORCE_DELETE accepts the risk, and its pods are deleted without grace.
"""

from __future__ import annotations

from collections.abc import Collection

from fleet.bindings import binding as b
from fleet.bindings.conditions import condition, set_condition
from fleet.bindings.unit import QUEUED_PHASES, message_of, phase_of, unit_of
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.pod import PodView
from fleet.members.members import ActResult
from fleet.values.ports import Body, StoredObject
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import digits
from fleet.wellknown import ANNOTATION_FORCE_DELETE, EVICT_FAILED

NAMED_MAX = 3  # pods that a message names
FORCED_AT_ONCE = 100  # pods of one job that one look deletes by force
FORCED = "PodForceDeleted"


class OverdueWithdrawals:
    """Looks after bindings that dispatch is still withdrawing."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events

    async def look(self, stored: StoredObject, left: Collection[str]) -> None:
        """`left`: the members where something of the binding is still to be seen."""
        now = self._hub.clock.now()
        members = [member for member in sorted(left) if self._hub.members.ready(member)]
        leaving = [p for p in self._hub.members.pods_of(stored.uid) if p.member in members and p.terminating]
        accepted = force_after_s(stored.body)
        if accepted is not None:
            await self._force(stored, [p for p in leaving if p.gone_by + accepted <= now][:FORCED_AT_ONCE])
        bound = self._hub.config.withdrawn_s
        late = [pod for pod in leaving if pod.gone_by + bound <= now]
        if late:
            await self._tell(stored, "PodsTerminating", _pods_text(late))
            return
        for member, copy in self._hub.members.copies(stored.uid):
            since = seconds(copy["metadata"].get("deletionTimestamp") or "")
            if member in members and since is not None and since + bound <= now:
                finalizers = ", ".join(copy["metadata"].get("finalizers") or ()) or "none"
                text = f"its copy in member {member} is being deleted since {rfc3339(since)} (finalizers: {finalizers})"
                await self._tell(stored, "CopyTerminating", text)
                return

    async def _force(self, stored: StoredObject, pods: Collection[PodView]) -> None:
        for pod in pods:
            named = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            }
            outcome = await self._hub.members.delete(pod.member, named, grace_s=0)
            if outcome.did is ActResult.DONE:
                text = f"deleted pod {pod.name} on node {pod.node or 'none'} of member {pod.member} by force"
                await self._events.record(stored.body["spec"]["resource"], FORCED, text, warning=True)

    async def _tell(self, stored: StoredObject, reason: str, text: str) -> None:
        told = condition(stored.body, b.WITHDRAWN)
        if told is not None and (told["reason"], told["message"]) == (reason, text):
            return
        now = self._hub.clock.now()

        def unit(body: Body) -> bool:
            status = body.setdefault("status", {})
            if phase_of(body) not in QUEUED_PHASES or message_of(body) == text:
                return False
            status.update(message=text, lastUpdateTime=rfc3339(now))
            return True

        def binding(body: Body) -> bool:
            return set_condition(body, b.WITHDRAWN, False, reason, text, now)

        found = unit_of(self._hub.store.peek, stored.key, stored.uid)
        units = [(found.key, found.uid, unit)] if found is not None else []
        if await self._hub.edit_all([(stored.key, stored.uid, binding), *units]):
            await self._events.record(stored.body["spec"]["resource"], EVICT_FAILED, text, warning=True)


def force_after_s(binding: Body) -> float | None:
    """Seconds after a pod's grace at which it may be deleted by force; None: never. Text that is no number counts as
    never: force is nothing to guess."""
    seconds = digits(b.annotation(binding, ANNOTATION_FORCE_DELETE))
    return None if seconds is None else float(seconds)


def _pods_text(pods: Collection[PodView]) -> str:
    ordered = sorted(pods, key=lambda pod: (pod.member, pod.name))
    named = ", ".join(f"{p.name} on node {p.node or 'none'} of member {p.member}" for p in ordered[:NAMED_MAX])
    more = f" and {len(ordered) - NAMED_MAX} more" if len(ordered) > NAMED_MAX else ""
    since = rfc3339(min(pod.gone_by for pod in ordered))
    return f"waits for pods that are Terminating since {since}: {named}{more}; is the node alive?"
