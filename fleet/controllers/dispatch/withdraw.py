"""Taking objects out of members that a binding does not want there (any more), and knowing which are still left.
Objects that are "left" keep an eviction task and a finalizer in place, so it must never be answered too early: a member
that cannot be asked counts as having something, until it answers, is gone from the hub, or is given up by its
annotation.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from fleet.bindings import binding as b
from fleet.bindings.failures import left_behind
from fleet.bindings.preserved import keep, preserve
from fleet.controllers.dispatch.dependencies import Dependencies
from fleet.controllers.dispatch.finishedwork import FinishedWork
from fleet.controllers.dispatch.manifests import marks
from fleet.controllers.dispatch.notice import Notice
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.members.members import ActResult
from fleet.values.ports import Body, Key
from fleet.values.untyped import mapping, text
from fleet.wellknown import (
    ANNOTATION_FORCE_REMOVAL,
    ANNOTATION_HASH,
    ANNOTATION_JOB,
    ANNOTATION_SENT,
    ATTEMPT,
    CLUSTER,
    LABEL_BINDING,
    LABEL_HUB,
    WORK,
)

log = structlog.get_logger(__name__)


class Withdrawal:
    """See the module."""

    def __init__(self, hub: Hub, dependencies: Dependencies, events: EventRecorder) -> None:
        self._hub = hub
        self._notice = Notice(hub)
        self._finished = FinishedWork(hub, events)
        self._dependencies = dependencies
        self._uncertain: dict[str, set[str]] = {}  # binding uid -> members where an apply may still land

    def uncertain(self, binding: Body, member: str) -> None:
        """An apply was not answered, and may have happened, or happen yet."""
        self._uncertain.setdefault(binding["metadata"]["uid"], set()).add(member)

    def staying(self, binding: Body, members: tuple[str, ...]) -> tuple[str, ...]:
        """Without those that go, where the job is over: its copy leaves them, and it stays over."""
        if not b.is_gang(binding) or not b.finished(binding):
            return members
        clusters = {member: self._hub.peek(CLUSTER, "clusters", "", member) for member in members}
        return tuple(member for member, cluster in clusters.items() if cluster is not None and not b.deleting(cluster))

    def pause(self, binding: Body) -> float | None:
        """Seconds until a notice of it ends."""
        return self._notice.pause(binding)

    def forget(self, uid: str) -> None:
        self._uncertain.pop(uid, None)

    def clusters_mark(self) -> object:
        """Changes when a Cluster comes, goes, is being deleted or given up."""
        return sorted(
            (c["metadata"]["name"], b.deleting(c), _given_up(c)) for c in self._hub.bodies(CLUSTER, "clusters")
        )

    def touched(self, binding: Body) -> set[str]:
        """Every member where something of it may be."""
        uid, members = binding["metadata"]["uid"], self._hub.members
        found = self._sent_to(binding)
        found |= {member for member, _ in (*members.copies(uid), *members.companions(uid))}
        behind = left_behind(binding)
        return found | {pod.member for pod in members.pods_of(uid) if pod.member in behind and not pod.placeholder}

    def _sent_to(self, binding: Body) -> set[str]:
        """The members that it was sent to, and that have not yet shown that nothing is left."""
        found = {name for item in b.copies_of(binding) if (name := text(item.get("clusterName")))}
        return found.union(b.places_of(binding), self._uncertain.get(binding["metadata"]["uid"], ()))

    async def withdraw(self, binding: Body, keep: Sequence[str]) -> set[str]:
        """Ask every member but `keep` (and `keep` for older attempts) to remove what it has of the binding; returns the
        members where something is, or may be, left. A member that it was not sent to is not waited for, whatever the
        member shows with its uid."""
        if b.attempt(binding) == 0:
            return set()
        holders: set[str] = set()
        recipients = self._sent_to(binding) | left_behind(binding)
        for member in sorted(self.touched(binding)):
            if self._given_up(member):
                continue
            if member in keep:
                await self._remove_older(binding, member)
            elif member not in recipients:
                await self._remove_stray(binding, member)
            elif not self._hub.members.ready(member) or not await self._remove(binding, member):
                holders.add(member)
        return holders

    async def let_stay(self, binding: Body, members: Sequence[str]) -> set[str]:
        """Give the objects of the binding over to these members: the objects stay, without our marks. Pods keep the
        labels that their template gave them. Returns the members where that could not be done yet."""
        holders: set[str] = set()
        for member in members:
            if self._given_up(member) or b.attempt(binding) == 0:
                continue
            outcome = await self._hub.members.relabel(
                member,
                self._named(binding),
                dict.fromkeys((LABEL_HUB, LABEL_BINDING, ATTEMPT)),
                dict.fromkeys((ANNOTATION_JOB, ANNOTATION_HASH, ANNOTATION_SENT)),
            )
            if not self._hub.members.ready(member) or outcome.did is ActResult.UNREACHABLE:
                holders.add(member)
                continue
            for copy in self._dependencies.used_in(member, binding["metadata"]["uid"]):
                if not await self._dependencies.release(member, copy, binding["metadata"]["uid"], stays=True):
                    holders.add(member)
        return holders

    def _given_up(self, member: str) -> bool:
        cluster = self._hub.peek(CLUSTER, "clusters", "", member)
        return cluster is None or _given_up(cluster)

    async def _remove_companions(self, binding: Body, member: str, attempt: int) -> bool:
        """Remove what stands beside the copies of attempts up to this one; True when nothing of it is left."""
        nothing = True
        for name, body in self._hub.members.companions(binding["metadata"]["uid"]):
            if name == member and b.attempt_of_copy(body) <= attempt:
                nothing = False
                if not b.deleting(body):
                    await self._hub.members.delete(member, body)
        return nothing

    async def _remove_older(self, binding: Body, member: str) -> None:
        if b.finished(binding):
            return  # by this very copy, which finishedwork.py has found
        await self._remove_companions(binding, member, b.attempt(binding) - 1)
        for name, body in self._hub.members.copies(binding["metadata"]["uid"]):
            older = name == member and b.attempt_of_copy(body) < b.attempt(binding) and not b.deleting(body)
            if older and not await self._finished.spares(binding, member, body):
                await self._hub.members.delete(member, body)

    async def _remove_stray(self, binding: Body, member: str) -> None:
        """Remove copies from a member that it was not sent to. Nothing that they say counts."""
        if not self._hub.members.ready(member):
            return
        await self._remove_companions(binding, member, b.attempt(binding))
        for name, body in self._hub.members.copies(binding["metadata"]["uid"]):
            known = b.deleting(binding) or b.attempt_of_copy(body) <= b.attempt(binding)
            if name == member and known and not b.deleting(body):
                await self._hub.members.delete(member, body)

    async def _remove(self, binding: Body, member: str) -> bool:
        """True when the member shows nothing of it any more."""
        uid, nothing = binding["metadata"]["uid"], True
        for name, body in self._hub.members.copies(uid):
            if name != member:
                continue
            if b.attempt_of_copy(body) > b.attempt(binding) and not b.deleting(binding):
                log.warning("a newer attempt than the hub knows is left alone", member=member, binding=uid)
                continue
            nothing = False
            if not b.deleting(body):
                await self._end(binding, member, body)
        if nothing:
            nothing = await self._remove_companions(binding, member, b.attempt(binding))
        if nothing and (not b.is_gang(binding) or member in self._uncertain.get(uid, ())):
            nothing = await self._remove_by_name(binding, member)
        if nothing:
            self._uncertain.get(uid, set()).discard(member)
        if any(pod.member == member and not pod.placeholder for pod in self._hub.members.pods_of(uid)):
            nothing = False
        if nothing:
            for copy in self._dependencies.used_in(member, uid):
                nothing = await self._dependencies.release(member, copy, uid) and nothing
        return nothing

    async def _end(self, binding: Body, member: str, copy: Body) -> None:
        """Delete the copy, unless it has notice or has done its work."""
        if not b.deleting(binding):
            if await self._notice.runs(binding, member, copy) or await self._finished.spares(binding, member, copy):
                return
            await self._keep_state(binding, copy)
            await self._notice.end_pods(binding, member)
        self._notice.forget(copy["metadata"]["uid"])
        await self._hub.members.delete(member, copy)

    async def _keep_state(self, binding: Body, copy: Body) -> None:
        """The state as the copy shows it at the end of its notice is newer than at its beginning."""
        found = preserve(binding, mapping(copy.get("status")))
        meta = binding["metadata"]
        if found.values and b.tasks_of(binding):
            key = Key(WORK, "resourcebindings", meta.get("namespace", ""), meta["name"])
            await self._hub.edit(key, lambda body: keep(body, found.values), uid=meta["uid"])

    async def _remove_by_name(self, binding: Body, member: str) -> bool:
        """For what the cache need not show: objects without pods, and jobs whose apply was not answered."""
        resource = binding["spec"]["resource"]
        key = object_key(self._hub.registry, resource)
        if key is None:
            return True
        live_copy = self._hub.members.find(member, key)
        if (
            live_copy is not None
            and (live_copy["metadata"].get("labels") or {}).get(LABEL_BINDING) != binding["metadata"]["uid"]
        ):
            return True
        if live_copy is not None and b.deleting(live_copy):
            return False
        outcome = await self._hub.members.delete(member, live_copy or self._named(binding))
        # A conflict is an object that is not ours; an object of a kind that a member does not know cannot be there.
        return outcome.did in (ActResult.NOT_FOUND, ActResult.CONFLICT, ActResult.REFUSED)

    def _named(self, binding: Body) -> Body:
        """As much of its object as names it in a member."""
        resource = binding["spec"]["resource"]
        meta = {"name": resource["name"], "labels": marks(self._hub.hub_id, binding)}
        if resource.get("namespace"):
            meta["namespace"] = resource["namespace"]
        return {"apiVersion": resource["apiVersion"], "kind": resource["kind"], "metadata": meta}


def _given_up(cluster: Body) -> bool:
    return b.deleting(cluster) and b.annotation(cluster, ANNOTATION_FORCE_REMOVAL) == "true"
