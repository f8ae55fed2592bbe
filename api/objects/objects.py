"""Kubernetes objects over a store: every reader and writer of Fleet, inside and outside, goes through here.

`Objects` joins the pure engine (what an object means) with a Store (where it is). The API, the controllers, the
garbage collector and the simulated members all write through it, so a rule stands once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from api.engine import patch as patches
from api.engine.apply import apply_new, apply_to, check_configuration
from api.engine.bounds import encoded, private
from api.engine.deletion import prepare_delete
from api.engine.kind import Kind
from api.engine.registry import Registry
from api.engine.status import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    not_found,
)
from api.engine.strategic import go_text
from api.engine.write import Author, PreparedWrite, need_version
from api.objects.apart import LARGE_BYTES, apart, apart_if
from api.objects.controllerwrites import ATTEMPTS_MAX, ControllerWrites, key_of
from api.objects.hooking import HookRequest, Hooks, Make, Way
from api.objects.making import BodyMaker, Fill, as_it_is
from api.objects.patching import patcher
from api.objects.refusing import fitting, name_in, need_namespace, refuse
from api.objects.rewrite import Rewrite, Turns
from api.objects.versions import Versions
from api.objects.writing import Options, Review, Rule, WriteOutcome, as_stored
from api.slices import unhurried
from fleet.values.ports import (
    ABSENT,
    Body,
    Clock,
    CommitResult,
    Ids,
    Put,
    Selector,
    Store,
    StoredObject,
    Write,
)

EVERY_KIND = ("*", "*")  # in `rules`: the rule of kinds that have none of their own
DELETED_AT_ONCE = 50  # of a collection
GENERATE_ATTEMPTS_MAX = 8  # of a generated name that is taken; then 409 AlreadyExists


class Objects(ControllerWrites):
    """The one way to read and write objects. Signatures here are the contract of the whole project."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        ids: Ids,
        rules: dict[tuple[str, str], Rule] | None = None,  # (group, resource) -> rule
        *,
        fill: Fill = as_it_is,
        graceful_pods: bool = False,  # pods with a node wait for their kubelet: for simulated members
    ) -> None:
        super().__init__(store, clock, BodyMaker(clock, ids, fill))
        self.registry = registry
        self.ids = ids
        self.rules = rules if rules is not None else {}
        self.hooks: Hooks | None = None  # webhooks and policies, which the hub's own writes do not ask
        self.versions = Versions(store)  # the store as a kind in one of its versions sees it
        self._graceful_pods = graceful_pods
        self._turns = Turns()

    # Reading: bodies are shared and must not be changed by the caller.
    async def get(self, kind: Kind, namespace: str, name: str, *, fresh: bool = True, alone: bool = False) -> Body:
        """The object, or StatusError 404."""
        body = await self.find(kind, namespace, name, fresh=fresh, alone=alone)
        if body is None:
            raise not_found(kind.group, kind.resource, name)
        return body

    async def find(
        self, kind: Kind, namespace: str, name: str, *, fresh: bool = True, alone: bool = False
    ) -> Body | None:
        stored = await self.versions.of(kind).get(key_of(kind, namespace, name), fresh=fresh, alone=alone)
        return stored.body if stored is not None else None

    async def list(
        self, kind: Kind, namespace: str | None = None, *, selector: Selector | None = None, fresh: bool = True
    ) -> list[Body]:
        source = self.versions.of(kind)
        page = await source.list(kind.group, kind.resource, namespace=namespace, selector=selector, fresh=fresh)
        return [stored.body async for stored in unhurried(page.items)]

    # Writing, as clients ask for it: all the rules, admission included.
    async def create(
        self, kind: Kind, namespace: str, body: Body, options: Options, *, with_status: bool = False
    ) -> WriteOutcome:
        """StatusError 409 when it exists, 404 or 403 when its namespace is missing or going, 422 when it is invalid.
        `with_status` (for controllers): the status given is stored by the same write."""
        await need_namespace(self.store, kind, namespace, body)
        generated = not name_in(body)
        data = encoded(body)

        def make(old: Body, draft: bool = False) -> PreparedWrite:
            return fitting(kind, self._bodies.create(kind, namespace, orjson.loads(data), options, with_status, draft))

        asked = HookRequest("CREATE", kind, "", namespace, "" if generated else body["metadata"]["name"], options)
        way = self._bodies.way(self.hooks, asked, make, generates=generated)
        for attempt in range(GENERATE_ATTEMPTS_MAX):
            prepared, warnings, also = await self._admitted(kind, namespace, make, way, options, len(data))
            new = prepared.body
            name = new["metadata"]["name"]
            if options.dry_run:
                if await self.store.get(key_of(kind, namespace, name), alone=options.alone) is not None:
                    raise already_exists(kind.group, kind.resource, name)
                return WriteOutcome(new, created=True, warnings=warnings)
            put = Put(key_of(kind, namespace, name), new, ABSENT)
            outcome = await self.versions.of(kind).commit([put, *also], epoch=options.epoch)
            if isinstance(outcome, CommitResult):
                return as_stored(outcome.stored[0], new, created=True, warnings=warnings)
            if outcome.index == 0 and (not generated or attempt == GENERATE_ATTEMPTS_MAX - 1):
                raise already_exists(kind.group, kind.resource, name, generated=generated)
        raise conflict(kind.group, kind.resource, name)

    async def update(
        self, kind: Kind, namespace: str, name: str, body: Body, options: Options, subresource: str = ""
    ) -> WriteOutcome:
        """Replace the object, or its status. With metadata.resourceVersion a changed object is a 409 Conflict."""

        data = encoded(body)

        def make(old: Body, draft: bool = False) -> PreparedWrite:
            need_version(kind, name, body)  # after the object is found: a missing one is a 404 first
            return self._bodies.update(kind, old, orjson.loads(data), options, subresource, draft=draft)

        given = name_in(body)
        if given and given != name:
            raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
        return await self._rewrite(kind, namespace, name, make, options, subresource, size=len(data))

    async def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Any,
        patch_type: str,
        options: Options,
        subresource: str = "",
    ) -> WriteOutcome:
        """`patch_type` is the media type: application/{json-patch+json,merge-patch+json,strategic-merge-patch+json,
        apply-patch+yaml}; `patch` is the parsed body. An apply creates what is missing."""
        if patch_type == patches.APPLY:
            return await self._apply(kind, namespace, name, patch, options, subresource)
        change = patcher(kind, patch_type)
        data = encoded(patch)

        def make(old: Body, draft: bool = False) -> PreparedWrite:
            given = orjson.loads(data)  # changes of one try must not be part of the next
            quote = go_text(given) if patch_type == patches.STRATEGIC else ""
            new = private(change(old, given))
            return self._bodies.update(kind, old, new, options, subresource, patched=True, quote=quote, draft=draft)

        return await self._rewrite(kind, namespace, name, make, options, subresource, size=len(data))

    async def _apply(
        self, kind: Kind, namespace: str, name: str, config: Any, options: Options, subresource: str
    ) -> WriteOutcome:
        if config.__class__ is not dict:
            raise bad_request("error decoding patch: an applied configuration is an object")
        raw = encoded(config)
        author = Author(options.manager, subresource)

        def checked() -> tuple[Body, bytes]:
            config: Body = orjson.loads(raw)
            check_configuration(kind, namespace, name, config)  # which also fills in what a client may leave out
            config = self._bodies.fill(kind, config)
            return config, encoded(config)

        config, data = await apart(checked) if len(raw) > LARGE_BYTES else checked()

        def make(old: Body, draft: bool = False) -> PreparedWrite:
            return fitting(
                kind,
                apply_to(
                    kind,
                    old,
                    orjson.loads(data),
                    author,
                    now=self.clock.now(),
                    force=options.force,
                    field_validation=options.field_validation,
                    draft=draft,
                ),
            )

        def make_new(old: Body, draft: bool = False) -> PreparedWrite:
            return fitting(
                kind,
                apply_new(
                    kind,
                    namespace,
                    orjson.loads(data),
                    author,
                    now=self.clock.now(),
                    uid=self.ids.uid(),
                    field_validation=options.field_validation,
                    draft=draft,
                ),
            )

        way = self._bodies.way(self.hooks, HookRequest("CREATE", kind, "", namespace, name, options), make_new)

        for _ in range(ATTEMPTS_MAX):
            try:
                return await self._rewrite(kind, namespace, name, make, options, subresource, size=len(data))
            except StatusError as error:
                if error.code != 404 or subresource or config["metadata"].get("resourceVersion"):
                    raise
            if options.may_create is not None:
                options.may_create()
            await need_namespace(self.store, kind, namespace, config)
            prepared, warnings, also = await self._admitted(kind, namespace, make_new, way, options, len(data))
            if options.dry_run:
                return WriteOutcome(prepared.body, created=True, warnings=warnings)
            put = Put(key_of(kind, namespace, name), prepared.body, ABSENT)
            outcome = await self.versions.of(kind).commit([put, *also], epoch=options.epoch)
            if isinstance(outcome, CommitResult):
                return as_stored(outcome.stored[0], prepared.body, created=True, warnings=warnings)
        raise conflict(kind.group, kind.resource, name)

    async def delete(
        self, kind: Kind, namespace: str, name: str, options: Options, delete_options: Body | None = None
    ) -> WriteOutcome:
        """`deleted` when it is gone; otherwise the body says that it is going, and names the finalizers."""

        def make(old: Body, draft: bool = False) -> PreparedWrite:
            return prepare_delete(kind, old, delete_options, now=self.clock.now(), graceful=self._graceful_pods)

        return await self._rewrite(kind, namespace, name, make, options, "", "DELETE", sent_options=delete_options)

    async def delete_collection(
        self,
        kind: Kind,
        namespace: str | None,
        options: Options,
        *,
        selector: Selector | None = None,
        delete_options: Body | None = None,
    ) -> Sequence[StoredObject]:
        """DELETE on a collection: each object by itself, a few at once, so that they share transactions. An object that
        goes meanwhile is no error. Returns the objects as they were found. The first refusal is raised after the others
        of its group are done."""
        source = self.versions.of(kind)
        found = (await source.list(kind.group, kind.resource, namespace=namespace, selector=selector)).items
        objects: list[StoredObject] = []
        for start in range(0, len(found), DELETED_AT_ONCE):
            group = found[start : start + DELETED_AT_ONCE]
            deletes = [
                self.delete(kind, stored.key.namespace, stored.key.name, options, dict(delete_options or {}))
                for stored in group
            ]
            for stored, outcome in zip(group, await asyncio.gather(*deletes, return_exceptions=True), strict=True):
                if not isinstance(outcome, BaseException):
                    objects.append(stored)
                elif not (isinstance(outcome, StatusError) and outcome.code == 404):
                    raise outcome
        return objects

    # -- inside

    async def _admitted(
        self, kind: Kind, namespace: str, make: Make, way: Way | None, options: Options, size: int
    ) -> tuple[PreparedWrite, tuple[str, ...], Sequence[Write]]:
        """A new object that all agree with, the warnings for its client, and the writes to commit with it."""
        large = size > LARGE_BYTES
        if way is not None:
            prepared = await way.prepare({}, large)
        else:
            prepared = await apart_if(large, make, {}, False)
        review = await self._admit_new(kind, namespace, prepared.body, options, large)
        if way is None:
            return prepared, (*prepared.warnings, *review.warnings), review.also
        await way.validate(prepared, {})
        return prepared, way.warned(*prepared.warnings, *review.warnings), review.also

    async def _rewrite(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        make: Make,
        options: Options,
        subresource: str,
        operation: str = "UPDATE",
        *,
        size: int = 0,
        sent_options: Body | None = None,
    ) -> WriteOutcome:
        warned: list[str] = []  # by the rule, about the last try
        unchanged: list[Body] = []  # the stored body, where the last try changes nothing

        def noted(old: Body, draft: bool = False) -> PreparedWrite:
            prepared = make(old, draft)
            unchanged[:] = [old] if prepared.body is old and not prepared.finished else []
            return prepared

        def review(prepared: PreparedWrite, old: Body, large: bool = False) -> Review:
            new = None if operation == "DELETE" else prepared.body
            warned.clear()
            return Review(
                operation,
                kind,
                subresource,
                namespace,
                name,
                new,
                old,
                options.user,
                options.dry_run,
                large=large,
                warnings=warned,
                store=self.store,
            )

        async def admit(prepared: PreparedWrite, old: Body, large: bool) -> None:
            if rule is not None:
                refuse(kind, name, await rule(review(prepared, old, large), self))

        def check(prepared: PreparedWrite, old: Body) -> None:
            if pure is not None:
                refuse(kind, name, pure(review(prepared, old)))

        way = self._bodies.way(
            self.hooks, HookRequest(operation, kind, subresource, namespace, name, options, sent_options), noted
        )
        rule = self._rule(kind)
        pure = getattr(rule, "pure", None)  # see writing.Rule
        source = self.versions.of(kind)
        locked = source is self.store and (rule is None or pure is not None)
        rewrite = Rewrite(
            kind,
            key_of(kind, namespace, name),
            noted,
            admit,
            check if locked else None,
            options.epoch,
            options.dry_run,
            size,
            way,
            options.alone,
        )
        written = await rewrite.run(source, self.clock, self._turns)
        if unchanged and rule is not None and pure is not None and operation == "UPDATE" and not subresource:
            same = PreparedWrite(private(unchanged[0]))  # a rule may fill in defaults, and the stored body is shared
            with contextlib.suppress(StatusError):  # the stored object stays, even if a rule refuses it now
                await rule(review(same, unchanged[0], size > LARGE_BYTES), self)
        if way is not None:
            return replace(written, warnings=way.warned(*written.warnings, *warned))
        return replace(written, warnings=(*written.warnings, *warned)) if warned else written

    async def _admit_new(self, kind: Kind, namespace: str, new: Body, options: Options, large: bool) -> Review:
        """Ask the rule about a new object; the review has its warnings, and the writes to commit together."""
        name, rule = new["metadata"]["name"], self._rule(kind)
        review = Review(
            "CREATE",
            kind,
            "",
            namespace,
            name,
            new,
            None,
            options.user,
            options.dry_run,
            large=large,
            store=self.store,
        )
        if rule is not None:
            refuse(kind, name, await rule(review, self))
        return review

    def _rule(self, kind: Kind) -> Rule | None:
        return self.rules.get((kind.group, kind.resource)) or self.rules.get(EVERY_KIND)
