"""The PriorityClasses that placeholders name: in the member before the first of them, which is refused without.

The class is a dependency of the job as in dispatch, which sends it again with the job and takes it away at the job's
end. What is sent here for a job that does not start in that member is taken away here.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet.bindings.matching import candidate
from fleet.controllers.dispatch.classes import KIND, classes_of_pods
from fleet.controllers.dispatch.dependencies import Dependencies
from fleet.controllers.dispatch.overrides import OVERRIDES
from fleet.controllers.runtime.hub import Hub
from fleet.members.members import ActOutcome
from fleet.values.ports import Body, StoredObject
from fleet.wellknown import CLUSTER, POLICY


class PlaceholderClasses:
    """Sends the classes ahead of placeholders, and remembers where. A new process does not know it: its sweep
    removes such a class once the binding is gone."""

    def __init__(self, hub: Hub, dependencies: Dependencies) -> None:
        self._hub = hub
        self._dependencies = dependencies
        self._recipients: dict[str, set[str]] = {}  # members by binding

    async def send(self, stored: StoredObject, member: str, pods: Iterable[Body]) -> ActOutcome | None:
        """An outcome where one could not be sent. A class that the hub does not have, or may not write, is left to the
        member."""
        classes = classes_of_pods(pods)
        cluster = self._hub.peek(CLUSTER, "clusters", "", member)
        if not classes or cluster is None or not stored.body["spec"].get("propagateDeps"):
            return None
        overrides = [body for resource in OVERRIDES for body in self._hub.bodies(POLICY, resource)]
        self._recipients.setdefault(stored.uid, set()).add(member)
        outcome, _ = await self._dependencies.send(stored, member, classes, (), candidate(cluster), overrides)
        return outcome

    def sent_for(self, uid: str) -> bool:
        """Whether a member may have classes that this process sent ahead for the binding."""
        return uid in self._recipients

    async def settle(self, uid: str, target: str, placed: Iterable[str]) -> bool:
        """Take the classes back from members where the binding neither wants room nor is placed; False while a member
        has not done so. Where the binding is placed, dispatch has them from now on."""
        members = self._recipients.get(uid, set())
        members.difference_update(placed)
        for member in sorted(members - {target}):
            copies = [body for body in self._dependencies.used_in(member, uid) if body["kind"] == KIND]
            if all([await self._dependencies.release(member, body, uid) for body in copies]):
                members.discard(member)
        if not members:
            self._recipients.pop(uid, None)
        return not members - {target}
