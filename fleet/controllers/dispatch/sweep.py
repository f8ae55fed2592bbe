"""Searching the members for objects that no binding wants (I6): the leftovers of a crash or a late answer.

Dispatch removes the objects that it knows of; this loop finds those that no loop knows of any more. The loop looks at
the member first and at the hub after it, so that an object that was just sent always finds its binding.

Copies that were sent after the backup from which the database was restored are no orphans: people may want them. Such
copies stay, and while a member has one, the loop removes no orphan there (unknowncopies.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from api.loops.workqueue import WorkQueue
from fleet.bindings import binding as b
from fleet.controllers.dispatch.adopting import Adoption, AdoptionRefusal
from fleet.controllers.dispatch.dependencies import is_kept, let_stay, share
from fleet.controllers.dispatch.manifests import is_dependency, users_of
from fleet.controllers.dispatch.unknowncopies import Bindings, Records, is_unknown
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.terms import Terms, stamp_of
from fleet.members.members import ActResult, MemberChange
from fleet.values.ports import Body, StaleEpoch, StoreUnavailable
from fleet.wellknown import LABEL_BINDING, WORK

log = structlog.get_logger(__name__)

FIRST_S = 2.0
AFTER_LAST_STAMP = 1_000_000  # revisions that an undone past may have used after the last copy that it sent
LEAP_MAX = 1_000_000_000  # a stamp so much higher than the store's revision was written by another hand


class SweepLoop:
    """Looks through all ready members every now and then, and soon after one comes back."""

    name = "sweep"

    def __init__(self, hub: Hub, dispatch: WorkQueue, terms: Terms) -> None:
        """`dispatch`: the queue of the dispatch loop, for what it should look at again."""
        self._hub = hub
        self._dispatch = dispatch
        self._terms = terms
        self._records = Records(hub)
        self._adoption = Adoption(hub)
        self._raised = False
        self._due = True

    async def run(self) -> None:
        self._hub.members.subscribe(self._on_member)
        slept = self._hub.config.sweep_s
        while True:
            if self._due or slept >= self._hub.config.sweep_s or self._records.ordered(self._hub.members.names()):
                self._due, slept = False, 0.0
                try:
                    await self.sweep()
                except StoreUnavailable as error:
                    log.warning("sweep put off", error=str(error))
            await self._hub.clock.sleep(FIRST_S)
            slept += FIRST_S

    def _on_member(self, changed: MemberChange) -> None:
        if changed.what == "ready":
            self._due = True

    async def sweep(self) -> int:
        """One search; returns how many objects it asked to remove."""
        await self._terms.begin()
        copies = [
            (name, tuple(self._hub.members.owned(name)))
            for name in self._hub.members.names()
            if self._hub.members.ready(name)
        ]
        page = await self._hub.store.list(WORK, "resourcebindings", fresh=True)
        bindings = {stored.uid: (stored.key, stored.body) for stored in page.items}
        removed = 0
        for member, bodies in copies:
            bodies = tuple(body for body in bodies if not b.deleting(body))
            unknown = self._unknown(member, bodies, bindings, page.revision)
            if unknown or self._records.has_record(member):
                removed += await self._settle(member, unknown, bindings, page.revision)
            for body in () if unknown else bodies:
                try:
                    removed += await self._look_at(member, body, bindings)
                except (StaleEpoch, StoreUnavailable):
                    raise
                except Exception as error:  # a member whose objects make trouble costs the others nothing
                    log.warning("what is in a member cannot be judged", member=member, error=repr(error)[:300])
        await self._records.forget_lost()
        return removed

    def _unknown(self, member: str, bodies: Sequence[Body], bindings: Bindings, revision: int) -> list[Body]:
        """The copies that a later past of the database decided on, which a restored backup has undone."""
        unknown = []
        for body in bodies:
            try:
                if is_unknown(body, bindings, self._terms, revision):
                    unknown.append(body)
            except Exception as error:
                log.warning("what is in a member cannot be judged", member=member, error=repr(error)[:300])
        return unknown

    async def _settle(self, member: str, unknown: Sequence[Body], bindings: Bindings, revision: int) -> int:
        """Carry out the orders of people about unknown copies, and write down which are left."""
        orders, removed = self._records.orders(member), 0
        rest: list[Body] = []
        problems: dict[str, str] = {}
        await self._raise_revision(unknown, revision)
        for body in unknown:
            if orders.cover(body, unknown):
                log.info("removing an unknown copy", member=member, kind=body["kind"], name=body["metadata"]["name"])
                if await self._remove_unknown(member, body, bindings, revision):
                    removed += 1
                    continue
            elif body["metadata"]["uid"] in orders.adopt and await self._adopt(member, body, bindings, problems):
                continue
            rest.append(body)
        if await self._records.write(member, rest, problems) and rest:
            text = "copies of writes that a restored backup has undone: orphans of this member stay, see fleet doctor"
            log.warning(text, member=member, copies=len(rest))
        return removed

    async def _adopt(self, member: str, body: Body, bindings: Bindings, problems: dict[str, str]) -> bool:
        """Whether the copy is a job of the hub now; `problems` gets the reason where not."""
        fields = {"member": member, "kind": body["kind"], "name": body["metadata"]["name"]}
        try:
            await self._adoption.adopt(member, body, bindings)
        except AdoptionRefusal as error:
            problems[body["metadata"]["uid"]] = str(error)
            log.warning("an unknown copy is not adopted", **fields, why=str(error))
            return False
        log.info("adopted an unknown copy", **fields)
        self._due = True  # what it uses is known, too, from the next look on
        return True

    async def _remove_unknown(self, member: str, body: Body, bindings: Bindings, revision: int) -> bool:
        """Whether it is gone, or going; what bindings of the hub still use stays for them."""
        users = users_of(body) if is_dependency(body) else frozenset[str]()
        living = users & bindings.keys()
        if living:
            stamp = await self._terms.stamp(revision)
            outcome = await share(self._hub, member, body, living, stamp=stamp)
        elif users and is_kept(self._hub, body):
            outcome = await let_stay(self._hub, member, body)
        else:
            outcome = await self._hub.members.delete(member, body)
        return outcome.did in (ActResult.DONE, ActResult.NOT_FOUND)

    async def _raise_revision(self, unknown: Sequence[Body], revision: int) -> None:
        """Clients have seen revisions that the database has undone. None of those is used twice, so that a client that
        resumes there is told to list again (I5). Once for a leader: members are not trusted with more."""
        stamps = [stamp for stamp in map(stamp_of, unknown) if stamp is not None and stamp.term]
        highest = max((s.revision for s in stamps if s.revision < revision + LEAP_MAX), default=0)
        if self._raised or highest == 0 or highest + AFTER_LAST_STAMP <= revision:
            return
        self._raised = True
        await self._hub.store.raise_to(highest + AFTER_LAST_STAMP)
        log.warning("a restored backup has undone revisions: the next ones are higher", undone=highest)

    async def _look_at(self, member: str, body: Body, bindings: Bindings) -> int:
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
