"""The objects that pods need beside their job: copies in the member, shared by all bindings that name them, gone with
the last.

Claims are the exception: deleting one deletes its volume, and with it the checkpoints that a job which moves or starts
again wants to find. A claim stays in the member when its last user leaves, without our labels, and serves the next job
that names it; only when its original on the hub was deleted does it go. The volume itself never travels.

The users of a copy are written on the copy itself, so nothing is lost with this process. Two bindings that touch one
copy at the same time take turns, and each sees what the other wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from fleet.admission.travel import why_not
from fleet.bindings import binding as b
from fleet.bindings.matching import ClusterFields
from fleet.controllers.dispatch import classes
from fleet.controllers.dispatch.drift import Drift
from fleet.controllers.dispatch.manifests import (
    DEPENDENCIES,
    OFTEN_LOCAL,
    VOLUME_CLAIM,
    dependency,
    hash_of,
    headless,
    is_dependency,
    key_of,
    users_of,
    with_users,
)
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.controllers.runtime.index import BindingIndex
from fleet.controllers.runtime.terms import Terms, stamp_of, stamped
from fleet.core.model.reason import Code
from fleet.kinds.interpreter import Dependency
from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body, Key, StoredObject
from fleet.values.untyped import mapping, rows, text
from fleet.wellknown import (
    ANNOTATION_HASH,
    ANNOTATION_SENT,
    ANNOTATION_USERS,
    DEPENDENCY_DIFFERS,
    LABEL_BINDING,
    LABEL_CODE,
    LABEL_HUB,
    LABEL_SWEEP,
    PRIORITY_CLASS_DIFFERS,
    WORK,
)

NAMED_MAX = 3  # keys that a warning names
# The dependencies whose content the pods read: a foreign one of other content is never taken for the hub's in silence,
# and one of the hub's that the member changes is put back. Others it may have reasons to change.
_CONTENT = {"ConfigMap": ("binaryData", "data"), "Secret": ("data",)}
TOLD_MAX = 10_000  # warnings that are kept in mind, so that none is said at each look


class _LocalCause(StrEnum):
    """Why a dependency is not sent, for people."""

    NOT_ON_HUB = "not on the hub"
    STAYS = "its type stays on the hub"
    NOT_HEADLESS = "not headless: a policy of its own may send it"


class Dependencies:
    """Sends and withdraws what pod templates name: ConfigMaps, Secrets, claims, accounts, Services,
    PriorityClasses."""

    def __init__(self, hub: Hub, index: BindingIndex, terms: Terms, events: EventRecorder, drift: Drift) -> None:
        self._hub = hub
        self._drift = drift
        self._index = index
        self._terms = terms
        self._events = events
        self._warnings: set[tuple[str, str, str]] = set()  # uid of a binding, member and text of a warning
        self._locks: dict[tuple[str, Key], asyncio.Lock] = {}
        self._bindings: dict[Key, set[Key]] = {}

    def bindings_of(self, key: Key) -> Iterable[Key]:
        """The bindings that named this object when they were looked at."""
        return tuple(self._bindings.get(key, ()))

    def are_sent(self, dependency: Dependency) -> bool:
        """Whether the hub has the object and may send it."""
        key = key_of(dependency)
        source = self._hub.store.peek(key)
        if source is None or b.deleting(source.body):
            return False
        return not why_not(self._hub.registry.need(key.group, key.resource), key, source.body, tenant=True)

    def code_of(self, job: Body, wanted: Iterable[Dependency]) -> list[Dependency]:
        """The ConfigMaps that hold the code of the job, or of its sweep: they are a part of it, and go where it
        goes."""
        of = {job["metadata"]["name"], (job["metadata"].get("labels") or {}).get(LABEL_SWEEP)}
        found = ((one, self._hub.store.peek(key_of(one))) for one in wanted if one[0] == "ConfigMap")
        return [
            one
            for one, stored in found
            if stored is not None and (stored.body["metadata"].get("labels") or {}).get(LABEL_CODE, "") in of
        ]

    async def send(
        self,
        stored: StoredObject,
        member: str,
        dependencies: Iterable[Dependency],
        optional: Collection[Dependency],
        cluster: ClusterFields,
        overrides: Sequence[Body],
    ) -> tuple[ActOutcome | None, list[str]]:
        """An outcome when one could not be sent (later ones are not tried), and the dependencies that the pods do not
        get as the hub has them. `optional`: those that pods start without, and that the hub need not have. Something
        foreign of that name in the member is left as it is, unless the policy overwrites it."""
        missing: list[str] = []
        for kind, namespace, name in self._with_secrets(dependencies):
            key = key_of((kind, namespace, name))
            self._bindings.setdefault(key, set()).add(stored.key)
            source = self._hub.store.peek(key)
            why = self._why_kept(kind, key, source)
            if source is None or why:
                local = kind in OFTEN_LOCAL or (kind, namespace, name) in optional
                if not local or why is not _LocalCause.NOT_ON_HUB:
                    missing.append(f"{kind} {namespace}/{name} ({why})")
                continue
            async with self._lock(member, key):
                live_copy = self._hub.members.find(member, key)
                if live_copy is not None and not is_dependency(live_copy):
                    continue  # propagated there by a binding of its own
                users = {stored.uid, *(self._users(live_copy) if live_copy is not None else ())}
                body = dependency(source.body, self._hub.hub_id, users, cluster, overrides)
                as_sent = live_copy if live_copy is not None and hash_of(live_copy) == hash_of(body) else None
                changed = self._drift.look(stored, member, body, as_sent if kind in _CONTENT else None)
                if as_sent is not None and not b.deleting(as_sent) and not changed:
                    continue
                if kind == classes.KIND and live_copy is not None and classes.difference(body, live_copy):
                    outcome = await self._hub.members.delete(member, live_copy)  # such a change is refused
                    return ActOutcome(ActResult.UNREACHABLE, f"{kind} {name} is made anew in the member"), missing
                sent = stamped(body, await self._stamp(live_copy, stored.revision))
                overwrite = kind in _CONTENT and b.overwrites(stored.body)
                outcome = await self._hub.members.apply(member, sent, overwrite=overwrite)
                if changed and outcome.did is ActResult.DONE and outcome.body is not None:
                    await self._drift.put_back(stored, member, body, outcome.body, changed)
            if outcome.did is ActResult.CONFLICT and outcome.body is not None:
                missing += await self._foreign(stored, member, body, outcome.body)
            if kind == classes.KIND and outcome.cause is Code.MEMBER_FORBIDS:
                missing.append(f"{kind} {name} (member {member} gives the hub no right to it)")
            elif outcome.did not in (ActResult.DONE, ActResult.CONFLICT):
                return outcome, missing
        return None, missing

    def _why_kept(self, kind: str, key: Key, source: StoredObject | None) -> _LocalCause | None:
        """Why a dependency is not sent; None where it is."""
        if source is None:
            return _LocalCause.NOT_ON_HUB
        if why_not(self._hub.registry.need(key.group, key.resource), key, source.body, tenant=True):
            return _LocalCause.STAYS
        if b.deleting(source.body):
            return _LocalCause.NOT_ON_HUB
        if kind == "Service" and not headless(source.body):
            return _LocalCause.NOT_HEADLESS
        return None

    async def _foreign(self, stored: StoredObject, member: str, body: Body, live_copy: Body) -> list[str]:
        """Tell once that the member's own object of that name counts, where it differs from the hub's. Returns what
        the pods do not get of the hub's: the value of a class is no such thing."""
        meta = body["metadata"]
        named = f"{body['kind']} {meta.get('namespace', '')}/{meta['name']}".replace(" /", " ")
        if body["kind"] == classes.KIND:
            await self._warn(stored, PRIORITY_CLASS_DIFFERS, member, named, classes.difference(body, live_copy))
        elif differs := _difference(body, live_copy):
            await self._warn(stored, DEPENDENCY_DIFFERS, member, named, differs)
            return [f"{named} (member {member} has one of its own, with {differs})"]
        return []

    async def _warn(self, stored: StoredObject, reason: str, member: str, named: str, differs: str) -> None:
        """Say once that the object of the member is left as it is."""
        text = f"{named} of member {member} is its own and stays as it is: it has {differs}"
        if differs and (stored.uid, member, text) not in self._warnings:
            if len(self._warnings) >= TOLD_MAX:
                self._warnings.clear()
            self._warnings.add((stored.uid, member, text))
            await self._events.record(stored.body["spec"]["resource"], reason, text, warning=True)

    def _with_secrets(self, wanted: Iterable[Dependency]) -> list[Dependency]:
        """With the Secrets that service accounts add to their pods, and those that they name beside and the hub may
        send: tokens are the member's own."""
        closure = {dependency for dependency in wanted if dependency[0] in DEPENDENCIES}
        for kind, namespace, name in tuple(closure):
            account = self._hub.peek("", "serviceaccounts", namespace, name) if kind == "ServiceAccount" else None
            for entry in rows((account or {}).get("imagePullSecrets")):
                closure.add(("Secret", namespace, str(entry["name"])))
            named = (("Secret", namespace, text(entry.get("name"))) for entry in rows((account or {}).get("secrets")))
            closure.update(secret for secret in named if self.are_sent(secret))
        return sorted(closure)

    def used_in(self, member: str, uid: str) -> list[Body]:
        """The copies in the member that the binding uses."""
        return [body for body in self._hub.members.owned(member) if is_dependency(body) and uid in users_of(body)]

    async def release(self, member: str, copy: Body, uid: str, *, stays: bool = False) -> bool:
        """Take the binding off the copy's users, and the copy away with the last; `stays`: leave it to the member
        instead, without our marks. False: try again."""
        group, resource = DEPENDENCIES.get(copy["kind"], ("", ""))
        key = Key(group, resource, copy["metadata"].get("namespace", ""), copy["metadata"]["name"])
        async with self._lock(member, key):
            live_copy = self._hub.members.find(member, key)
            if live_copy is None or not is_dependency(live_copy) or uid not in users_of(live_copy):
                return True
            if b.deleting(live_copy):
                return False
            others = {user for user in users_of(live_copy) if user != uid}
            if not self._terms.undone(live_copy):
                others &= self._living()
            if others or not (stays or is_kept(self._hub, live_copy)):
                return (await share(self._hub, member, live_copy, others)).did is ActResult.NOT_FOUND
            return (await let_stay(self._hub, member, live_copy)).did is not ActResult.UNREACHABLE

    def _users(self, copy: Body) -> Collection[str]:
        """The bindings that use a copy. Where a restored backup has undone its sending, unknown ones count too: they
        may belong to copies that still run."""
        return users_of(copy) if self._terms.undone(copy) else self._known(users_of(copy))

    async def _stamp(self, there: Body | None, revision: int) -> str:
        """The stamp for a copy that is sent: a new one, but an undone one stays as long as its users count."""
        old = stamp_of(there) if there is not None and self._terms.undone(there) else None
        return old.text if old is not None else await self._terms.stamp(revision)

    def _known(self, users: Collection[str]) -> list[str]:
        """The uids that are bindings of this hub: the list on a copy counts for no other uid."""
        others = [uid for uid in users if self._index.key(uid) is None]  # or not seen yet, after a start
        return list(set(users).difference(others) | (self._living().intersection(others) if others else set()))

    def _living(self) -> set[str]:
        return {stored.uid for stored in self._hub.scan(WORK, "resourcebindings")}

    def _lock(self, member: str, key: Key) -> asyncio.Lock:
        return self._locks.setdefault((member, key), asyncio.Lock())


def _difference(wanted: Body, there: Body) -> str:
    """How the content of a foreign ConfigMap or Secret differs from the hub's, without its values; "" for not."""
    fields = _CONTENT.get(str(wanted.get("kind")), ())
    have, want = ({key: v for f in fields for key, v in mapping(body.get(f)).items()} for body in (there, wanted))
    keys = sorted(key for key in {*have, *want} if have.get(key) != want.get(key))
    more = f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else ""
    return f"another value of {', '.join(keys[:NAMED_MAX])}{more}" if keys else ""


def is_kept(hub: Hub, copy: Body) -> bool:
    """Whether a copy stays in its member when no binding of ours uses it any more: see the module."""
    if copy.get("kind") != VOLUME_CLAIM:
        return False
    meta = copy["metadata"]
    source = hub.peek(*DEPENDENCIES[VOLUME_CLAIM], meta.get("namespace", ""), meta["name"])
    return source is not None and not b.deleting(source)


async def share(hub: Hub, member: str, copy: Body, users: Collection[str], *, stamp: str = "") -> ActOutcome:
    """Write down who uses the copy now; with no users it is deleted. `stamp`: a new one, in place of its own."""
    if not users:
        return await hub.members.delete(member, copy)
    old = stamp_of(copy)
    text = stamp or (old.text if old is not None else "")
    annotation = {ANNOTATION_SENT: text} if text else {}
    if copy.get("kind") != VOLUME_CLAIM:
        body = with_users(copy, hub.hub_id, users)
        body["metadata"]["annotations"].update(annotation)
        return await hub.members.apply(member, body)
    # Most of a claim may never change: only who uses it is written, so that none of the member's defaults become ours.
    marks = with_users(copy, hub.hub_id, users)["metadata"]
    labels, annotations = marks["labels"], marks["annotations"]
    return await hub.members.relabel(
        member,
        copy,
        {LABEL_BINDING: labels[LABEL_BINDING]},
        {**annotation, ANNOTATION_USERS: annotations[ANNOTATION_USERS], ANNOTATION_HASH: annotations[ANNOTATION_HASH]},
    )


async def let_stay(hub: Hub, member: str, copy: Body) -> ActOutcome:
    """Take our marks off the copy."""
    return await hub.members.relabel(
        member,
        copy,
        dict.fromkeys((LABEL_HUB, LABEL_BINDING)),
        dict.fromkeys((ANNOTATION_USERS, ANNOTATION_HASH, ANNOTATION_SENT)),
    )
