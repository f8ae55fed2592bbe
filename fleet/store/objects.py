"""Kubernetes objects over a store: every reader and writer of Fleet, inside and outside, goes through here.

`Objects` joins the pure engine (what an object means) with a Store (where it is). The API, the controllers, the
garbage collector and the simulated members all write through it, so a rule stands once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fleet.engine.kind import Kind
from fleet.engine.registry import Registry
from fleet.engine.status import Cause
from fleet.ports import Body, Clock, Ids, Selector, Store


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as authentication found it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """How a write is asked for: the query parameters that all writing verbs share."""

    user: User
    manager: str  # field manager: the fieldManager parameter or the User-Agent's prefix
    dry_run: bool = False
    field_validation: str = "Strict"  # Strict | Warn | Ignore
    force: bool = False  # apply only
    epoch: int | None = None  # leadership epoch to check in the commit


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write. `warnings` are texts for `Warning: 299` headers (fieldValidation=Warn, deprecations)."""

    body: Body
    created: bool = False
    deleted: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Review:
    """What an admission rule looks at."""

    operation: str  # CREATE | UPDATE | DELETE
    kind: Kind
    subresource: str
    namespace: str
    name: str
    new: Body | None
    old: Body | None
    user: User
    dry_run: bool


class Rule(Protocol):
    """Validation beyond the schema for one kind. Returns the causes of a 422, or raises StatusError for anything else
    (403, 409, 400). May default fields of `review.new` in place before it answers."""

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]: ...


class Objects:
    """The one way to read and write objects. Signatures here are the contract of the whole project."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        ids: Ids,
        rules: dict[tuple[str, str], Rule] | None = None,  # (group, resource) -> rule
    ) -> None: ...

    # Reading: bodies are shared and must not be changed by the caller.
    async def get(self, kind: Kind, namespace: str, name: str, *, fresh: bool = True) -> Body: ...  # or StatusError 404

    async def find(self, kind: Kind, namespace: str, name: str, *, fresh: bool = True) -> Body | None: ...

    async def list(self, kind: Kind, namespace: str | None = None, *, selector: Selector | None = None, fresh: bool = True) -> list[Body]: ...

    # Writing, as clients ask for it: all the rules, admission included.
    async def create(self, kind: Kind, namespace: str, body: Body, options: Options) -> Written: ...

    async def update(self, kind: Kind, namespace: str, name: str, body: Body, options: Options, subresource: str = "") -> Written: ...

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, patch_type: str, options: Options, subresource: str = "",
    ) -> Written:
        """`patch_type` is the media type: application/{json-patch+json,merge-patch+json,strategic-merge-patch+json,
        apply-patch+yaml}; `patch` is the parsed body."""
        ...

    async def delete(self, kind: Kind, namespace: str, name: str, options: Options, delete_options: Body | None = None) -> Written: ...

    # Writing, as controllers do it.
    async def change(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Body], Body | None], options: Options, *,
        subresource: str = "", generation: int | None = None, uid: str | None = None,
    ) -> Body | None:
        """Read-modify-write under the writer's lock: `change` gets a private copy of the newest body. Generation and
        managedFields are kept by the engine. None when the object is missing or (uid, generation) do not hold."""
        ...


Handler = Callable[[Body], Awaitable[None]]
