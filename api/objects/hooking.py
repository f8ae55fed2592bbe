"""Admission by webhooks and policies in a write: where the objects ask, and what becomes of a body that was changed.

The order is a kube-apiserver's: the body is decoded and gets its defaults, then it may be changed, then it is checked,
and last it may be refused. An answer may take seconds, so nothing of this runs under the writer's lock. A write that
loses to another one in the meantime is made anew, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from api.engine.bounds import private
from api.engine.kind import Kind
from api.engine.write import PreparedWrite
from api.objects.apart import apart_if
from api.objects.writing import Options, User
from fleet.values.ports import Body


@dataclass(frozen=True, slots=True)
class HookRequest:
    """A request to write, or to connect. `name` is "" while a generated one is not known. `sent_options`:
    DeleteOptions, or the options of a connection."""

    operation: str  # CREATE | UPDATE | DELETE | CONNECT
    kind: Kind
    subresource: str
    namespace: str
    name: str
    options: Options
    sent_options: Body | None = None


class RequestHooks(Protocol):
    """The webhooks and policies that one request may concern. Both methods raise StatusError to refuse. `warnings`: for
    the client."""

    warnings: list[str]

    async def mutate(self, new: Body | None, old: Body | None) -> Body | None:
        """The changed body, or None where it stays. `new` may not be changed; it is None for a deletion."""
        ...

    async def validate(self, new: Body | None, old: Body | None) -> None: ...


Hooks = Callable[[HookRequest], RequestHooks | None]  # None: nothing is registered that such a request may concern
Make = Callable[[Body, bool], PreparedWrite]  # from the stored body ({} for a new object), and whether it is a draft
Remake = Callable[[Body, Body, list[Body]], PreparedWrite]  # stored and changed body, managedFields of the draft


@dataclass(frozen=True, slots=True)
class Way:
    """How one write goes through its webhooks and policies."""

    hooked: RequestHooks
    make: Make
    remake: Remake
    deletes: bool = False
    generates: bool = False  # a name, which is not known before the object is made for good

    async def prepare(self, old: Body, large: bool) -> PreparedWrite:
        """The object to store, after all that may change it. `old`: {} for a new object."""
        if self.deletes:
            prepared = self.make(old, False)
            await self.hooked.mutate(None, old)
            return prepared
        draft = await apart_if(large, self.make, old, True)
        body = private(draft.body)
        if not old:
            for key in ("uid", "creationTimestamp", *(("name",) if self.generates else ())):
                body["metadata"].pop(key, None)
        changed = await self.hooked.mutate(body, old or None)
        if changed is None:
            return await apart_if(large, self.make, old, False)
        managed = draft.body["metadata"].get("managedFields") or []
        prepared = await apart_if(large, self.remake, old, changed, managed)
        return PreparedWrite(prepared.body, (*draft.warnings, *prepared.warnings), prepared.finished)

    async def validate(self, prepared: PreparedWrite, old: Body) -> None:
        await self.hooked.validate(None if self.deletes else prepared.body, old or None)

    def warned(self, *others: str) -> tuple[str, ...]:
        """All warnings for the client; a second try says nothing twice."""
        return tuple(dict.fromkeys((*others, *self.hooked.warnings)))


async def may_connect(
    hooks: Hooks | None, kind: Kind, namespace: str, name: str, subresource: str, user: User, options: Body
) -> tuple[Body, tuple[str, ...]]:
    """Ask webhooks and policies about a request that connects to the object (exec, attach, a proxy). `options` is the
    body that they see: a PodExecOptions, with apiVersion and kind. Gives the options to connect with, which a webhook
    may have changed, and warnings for the client. Raises StatusError for a refusal."""
    if hooks is None or user.hub:
        return options, ()
    hooked = hooks(HookRequest("CONNECT", kind, subresource, namespace, name, Options(user, ""), options))
    if hooked is None:
        return options, ()
    options = await hooked.mutate(options, None) or options
    await hooked.validate(options, None)
    return options, tuple(dict.fromkeys(hooked.warnings))


# Annotations that webhooks and policies give to the audit record of a request: set to a dict by the keeper of records.
# No argument: it changes no answer, and rules, webhooks and tokens write to it below functions that know no request.
AUDITED: ContextVar[dict[str, str] | None] = ContextVar("audited", default=None)


def annotate(key: str, value: str) -> None:
    """Note an annotation for the audit record of this request, where there is one."""
    record = AUDITED.get()
    if record is not None:
        record.setdefault(key, value)
