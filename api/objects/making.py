"""The engine's create and update with the clock, the ids and the options of a write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from api.engine.kind import Kind
from api.engine.write import Author, PreparedWrite, prepare_create, prepare_update
from api.objects.hooking import HookRequest, Hooks, Make, Way
from api.objects.refusing import fitting, name_in
from api.objects.writing import Options
from fleet.values.ports import Body, Clock, Ids

# The body with the values that the webhook of an operator would fill in, before the schema of its kind is asked.
Fill = Callable[[Kind, Body], Body]


def as_it_is(kind: Kind, body: Body) -> Body:
    """Fills nothing in."""
    return body


class BodyMaker:
    """Makes the bodies of one store's objects."""

    def __init__(self, clock: Clock, ids: Ids, fill: Fill) -> None:
        self._clock, self._ids, self.fill = clock, ids, fill

    def create(
        self,
        kind: Kind,
        namespace: str,
        body: Body,
        options: Options,
        with_status: bool,
        draft: bool = False,
        managed: Sequence[Body] | None = None,
    ) -> PreparedWrite:
        return prepare_create(
            kind,
            namespace,
            self.fill(kind, body),
            Author(options.manager),
            now=self._clock.now(),
            uid=self._ids.uid(),
            suffix="" if name_in(body) else self._ids.suffix(),
            field_validation=options.field_validation,
            with_status=with_status,
            draft=draft,
            managed=None if managed is None else [*managed],
        )

    def update(
        self,
        kind: Kind,
        old: Body,
        new: Body,
        options: Options,
        subresource: str,
        *,
        patched: bool = False,
        quote: str = "",
        draft: bool = False,
        managed: Sequence[Body] | None = None,
    ) -> PreparedWrite:
        prepared = prepare_update(
            kind,
            old,
            self.fill(kind, new),
            Author(options.manager, subresource),
            now=self._clock.now(),
            field_validation=options.field_validation,
            patched=patched,
            quote=quote,
            draft=draft,
            managed=None if managed is None else [*managed],
        )
        return prepared if prepared.body is old else fitting(kind, prepared)

    def way(self, hooks: Hooks | None, request: HookRequest, make: Make, *, generates: bool = False) -> Way | None:
        """The way through webhooks and policies; None, and at no cost, where there are none."""
        if hooks is None or request.options.user.hub:
            return None
        hooked = hooks(request)
        if hooked is None:
            return None
        kind, namespace, lax = request.kind, request.namespace, replace(request.options, field_validation="Ignore")

        def remake(old: Body, changed: Body, managed: Sequence[Body]) -> PreparedWrite:
            if old:
                return self.update(kind, old, changed, lax, request.subresource, managed=managed)
            return fitting(kind, self.create(kind, namespace, changed, lax, False, managed=managed))

        return Way(hooked, make, remake, request.operation == "DELETE", generates)
