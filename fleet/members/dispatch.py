"""Putting one object into a member, and taking one out, without ever hurting what is not ours.

Server-side apply with force takes over any object that it meets. So force is only used on an object that was looked at
first and found to be ours, with that object's uid and revision as preconditions. An object that was not there is
applied without force: a foreign one created in between makes it a conflict. Lost preconditions lead to another look, a
bounded number.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from fleet.core.model.reason import Code
from fleet.kinds.lookup import sizes_of
from fleet.members.connection import BAD_ANSWERS, Connection, HttpAnswer, Unreachable
from fleet.members.discovery import ServedResource
from fleet.members.inventory import attempt_of
from fleet.members.members import ActOutcome, ActResult
from fleet.members.refusals import cause_of
from fleet.members.texts import one_line
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text
from fleet.wellknown import ANNOTATION_USERS, FIELD_MANAGER, LABEL_BINDING, LABEL_HUB

LOOKS = 3
EVENTS_MAX = 100  # about one object that are looked through


def outcome_of(answer: HttpAnswer) -> ActOutcome:
    """The meaning of an HTTP status for the caller of the write."""
    if answer.ok:
        return ActOutcome(ActResult.DONE, body=answer.body)
    # 401 is the connection's trouble and 429 a matter of time: neither says anything about the object.
    if answer.status in (401, 429):
        return ActOutcome(ActResult.UNREACHABLE, answer.message)
    if answer.status >= 500:
        return ActOutcome(ActResult.UNREACHABLE, answer.message, cause=cause_of(answer.status, answer.message))
    if answer.status == 404:
        return ActOutcome(ActResult.NOT_FOUND, answer.message)
    if answer.status == 409:
        return ActOutcome(ActResult.CONFLICT, answer.message)
    return ActOutcome(ActResult.REFUSED, answer.message, cause=cause_of(answer.status, answer.message))


def unanswered(error: Unreachable) -> ActOutcome:
    """The outcome of a request without an answer, or with one that means nothing."""
    return ActOutcome(
        ActResult.UNREACHABLE, str(error), cause=Code.MEMBER_FAILS if error.reason == BAD_ANSWERS else None
    )


def why_not(existing: Body, manifest: Body, overwrite: bool) -> str:
    """Why the existing object may not be replaced by the wanted one; "" when it may. An object of another hub is never
    replaced: two hubs that overwrite each other would run one job's master beside the other's workers."""
    have, want = existing["metadata"].get("labels") or {}, manifest["metadata"].get("labels") or {}
    owner = have.get(LABEL_HUB)
    if owner != want.get(LABEL_HUB):
        if owner:
            return f"exists and belongs to hub {owner}"
        return "" if overwrite else "exists and was not created by Fleet"
    if _shared(manifest) and _shared(existing):
        return ""  # used by several bindings: attempts of one say nothing about another
    if have.get(LABEL_BINDING) != want.get(LABEL_BINDING):
        return "" if overwrite else f"exists and belongs to binding {have.get(LABEL_BINDING)}"
    if attempt_of(have) > attempt_of(want):
        return f"exists at attempt {attempt_of(have)}, newer than {attempt_of(want)}"
    return ""


def _shared(body: Body) -> bool:
    return ANNOTATION_USERS in (body["metadata"].get("annotations") or {})


def _missing_namespace(answer: HttpAnswer) -> bool:
    details = answer.body.get("details") or {}
    return answer.status == 404 and details.get("kind") in ("namespaces", "Namespace")


def _object_in(answer: HttpAnswer, path: str) -> Body:
    """The object that the member answered with. Raises Unreachable for anything else: what was done is not known."""
    meta = mapping(answer.body.get("metadata"))
    if not (text(meta.get("uid")) and text(meta.get("resourceVersion"))):
        raise Unreachable(f"its answer about {path} is no object", BAD_ANSWERS)
    return answer.body


def _said_at(event: Body) -> str:
    times = (
        event.get("lastTimestamp"),
        event.get("eventTime"),
        mapping(event.get("metadata")).get("creationTimestamp"),
    )
    return next((text(at) for at in times if at), "")


class Dispatcher:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def look(self, served: ServedResource, body: Body) -> ActOutcome:
        """The object under the name of `body`, whoever put it there."""
        meta = body["metadata"]
        try:
            found = await self._there(served, served.path(meta.get("namespace") or "", meta["name"]), meta["name"])
        except Unreachable as error:
            return unanswered(error)
        return found if isinstance(found, ActOutcome) else ActOutcome(ActResult.DONE, body=found)

    async def apply(
        self, served: ServedResource, body: Body, cached_copy: Body | None, *, overwrite: bool
    ) -> ActOutcome:
        """`cached_copy`: the object at this key, which spares the look. The outcome's body is the stored object. An
        object with another number of pods than the cached one is left as it is: the manifest was made beside that."""
        meta = body["metadata"]
        path = served.path(meta.get("namespace") or "", meta["name"])
        outcome = ActOutcome(ActResult.UNREACHABLE, "not tried")
        try:
            for look in range(LOOKS):
                existing = cached_copy if look == 0 and cached_copy is not None else await self._look(path)
                if isinstance(existing, ActOutcome):
                    return existing
                if existing is not None and (refusal := why_not(existing, body, overwrite)):
                    return ActOutcome(ActResult.CONFLICT, f"{served.kind} {meta['name']} {refusal}", existing)
                if existing is not None and cached_copy is not None and sizes_of(existing) != sizes_of(cached_copy):
                    text = f"the number of pods of {served.kind} {meta['name']} changed meanwhile"
                    return ActOutcome(ActResult.UNREACHABLE, text, existing)
                if existing is not None and existing["metadata"].get("deletionTimestamp"):
                    return ActOutcome(
                        ActResult.UNREACHABLE, f"{served.kind} {meta['name']} is still being deleted", existing
                    )
                outcome = await self._apply_once(path, body, existing)
                if outcome.did is not ActResult.CONFLICT:
                    return outcome
        except Unreachable as error:
            return unanswered(error)
        return outcome

    async def warning(self, body: Body) -> str:
        """The newest Warning event about exactly this object; "" where there is none, or none may be read."""
        meta = body["metadata"]
        params = {"fieldSelector": f"involvedObject.uid={meta['uid']},type=Warning", "limit": str(EVENTS_MAX)}
        path = f"/api/v1/namespaces/{meta['namespace']}/events"
        try:
            answer = await self._connection.request("GET", path, params=params, even_lost=False)
        except Unreachable:
            return ""
        found = rows(answer.body.get("items")) if answer.ok else []
        return one_line(max(found, key=_said_at, default={}).get("message"))

    async def _look(self, path: str) -> Body | ActOutcome | None:
        answer = await self._connection.request("GET", path, even_lost=False)
        if answer.status == 404:
            return None
        return _object_in(answer, path) if answer.ok else outcome_of(answer)

    async def _there(self, served: ServedResource, path: str, name: str) -> Body | ActOutcome:
        """Return what stands at the path, or the outcome where nothing does."""
        existing = await self._look(path)
        return ActOutcome(ActResult.NOT_FOUND, f"{served.kind} {name} is not there") if existing is None else existing

    async def _apply_once(self, path: str, body: Body, existing: Body | None) -> ActOutcome:
        manifest = copy.copy(body)
        manifest["metadata"] = {
            k: v
            for k, v in body["metadata"].items()
            if k not in ("uid", "resourceVersion", "managedFields", "creationTimestamp")
        }
        if existing is not None:
            manifest["metadata"]["uid"] = existing["metadata"]["uid"]
            manifest["metadata"]["resourceVersion"] = existing["metadata"]["resourceVersion"]
        params = {"fieldManager": FIELD_MANAGER, "force": "true" if existing is not None else "false"}
        for attempt in range(2):
            answer = await self._connection.request(
                "PATCH",
                path,
                params=params,
                body=manifest,
                content_type="application/apply-patch+yaml",
                even_lost=False,
            )
            if attempt == 0 and _missing_namespace(answer):
                created = await self._create_namespace(manifest["metadata"]["namespace"])
                if created.did not in (ActResult.DONE, ActResult.CONFLICT):
                    return created
                continue
            break
        outcome = outcome_of(answer)
        if outcome.did is ActResult.NOT_FOUND:
            return ActOutcome(ActResult.REFUSED, outcome.message)
        if outcome.did is ActResult.DONE:
            _object_in(answer, path)
        return outcome

    async def _create_namespace(self, name: str) -> ActOutcome:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        answer = await self._connection.request(
            "POST", "/api/v1/namespaces", params={"fieldManager": FIELD_MANAGER}, body=body, even_lost=False
        )
        return outcome_of(answer)

    async def delete(
        self, served: ServedResource, body: Body, hub: str, *, grace_s: int | None = None, foreground: bool = False
    ) -> ActOutcome:
        """Exactly the object of this uid. A body without a uid names any object of ours under its name."""
        meta = body["metadata"]
        path = served.path(meta.get("namespace") or "", meta["name"])
        try:
            uid = meta.get("uid")
            if uid is None:
                existing = await self._there(served, path, meta["name"])
                if isinstance(existing, ActOutcome):
                    return existing
                if (existing["metadata"].get("labels") or {}).get(LABEL_HUB) != hub:
                    return ActOutcome(ActResult.CONFLICT, f"{served.kind} {meta['name']} was not created by this hub")
                uid = existing["metadata"]["uid"]
            options: Body = {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": uid},
                "propagationPolicy": "Foreground" if foreground else "Background",
            }
            if grace_s is not None:
                options["gracePeriodSeconds"] = grace_s
            answer = await self._connection.request("DELETE", path, body=options, even_lost=False)
        except Unreachable as error:
            return unanswered(error)
        if answer.status == 409 and "uid" in answer.message.lower():
            return ActOutcome(ActResult.NOT_FOUND, answer.message)  # another object has the name now
        return outcome_of(answer)

    async def patch(self, path: str, patch: Body) -> ActOutcome:
        """A strategic merge patch; `patch` names the uid of the object that is meant."""
        try:
            answer = await self._connection.request(
                "PATCH",
                path,
                params={"fieldManager": FIELD_MANAGER},
                body=patch,
                content_type="application/strategic-merge-patch+json",
                even_lost=False,
            )
        except Unreachable as error:
            return unanswered(error)
        if answer.status == 409:
            return ActOutcome(ActResult.NOT_FOUND, answer.message)  # another object has the name now
        return outcome_of(answer)

    async def relabel(
        self,
        served: ServedResource,
        body: Body,
        hub: str,
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> ActOutcome:
        """A merge patch of what stands under the name now, if it is still of the binding that `body` says."""
        meta = body["metadata"]
        path = served.path(meta.get("namespace") or "", meta["name"])
        try:
            existing = await self._there(served, path, meta["name"])
            if isinstance(existing, ActOutcome):
                return existing
            have, want = existing["metadata"].get("labels") or {}, meta.get("labels") or {}
            if have.get(LABEL_HUB) != hub or have.get(LABEL_BINDING) != want.get(LABEL_BINDING):
                return ActOutcome(ActResult.CONFLICT, f"{served.kind} {meta['name']} is not this binding's")
            patch: Body = {
                "metadata": {
                    "uid": existing["metadata"]["uid"],
                    "resourceVersion": existing["metadata"]["resourceVersion"],
                    "labels": dict(labels),
                    "annotations": dict(annotations),
                }
            }
            answer = await self._connection.request(
                "PATCH",
                path,
                params={"fieldManager": FIELD_MANAGER},
                body=patch,
                content_type="application/merge-patch+json",
                even_lost=False,
            )
        except Unreachable as error:
            return unanswered(error)
        if answer.status == 409:
            return ActOutcome(ActResult.UNREACHABLE, answer.message)  # the object changed meanwhile: try again
        return outcome_of(answer)
