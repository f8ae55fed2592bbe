"""The input and the answer of a write through `Objects`, and the view of an admission rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from api.engine.kind import Kind
from api.engine.status import Cause
from fleet.values.ports import Body, Store, StoredObject, Write

if TYPE_CHECKING:
    from api.objects.objects import Objects


@dataclass(frozen=True, slots=True)
class User:
    """The user, as authentication found her. `hub`: the hub itself, which no request can say of its user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    hub: bool = False
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """How a write is asked for: the query parameters that all writing verbs share."""

    user: User
    manager: str  # field manager: the fieldManager parameter or the User-Agent's prefix
    dry_run: bool = False
    field_validation: str = "Strict"  # Strict | Warn | Ignore
    force: bool = False  # apply only
    epoch: int | None = None  # leadership epoch to check in the commit
    alone: bool = False  # is the request the only one of its user?
    # Asked before an apply creates what is missing: raises StatusError 403 for a user who may patch but not create.
    may_create: Callable[[], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome of a write. `what`: the object as it is stored now, or its body where nothing was stored. `put`: the
    body that the store was given, where it is stored as it was given. `warnings` are texts for `Warning: 299` headers
    (of the engine, and of rules)."""

    what: StoredObject | Body
    created: bool = False
    deleted: bool = False
    warnings: tuple[str, ...] = ()
    put: Body | None = None

    @property
    def body(self) -> Body:
        """The object. Its bytes are parsed only where `put` is not there."""
        if not isinstance(self.what, StoredObject):
            return self.what
        if self.put is None:
            return self.what.body_once()
        return {**self.put, "metadata": {**self.put["metadata"], "resourceVersion": str(self.what.revision)}}


def as_stored(
    stored: StoredObject, put: Body, *, created: bool = False, warnings: tuple[str, ...] = ()
) -> WriteOutcome:
    """The outcome of a write that the store has taken; it may show another form than it was given."""
    return WriteOutcome(stored, created=created, warnings=warnings, put=put if type(stored) is StoredObject else None)


@dataclass(frozen=True, slots=True)
class Review:
    """The input of an admission rule."""

    operation: str  # CREATE | UPDATE | DELETE
    kind: Kind
    subresource: str
    namespace: str
    name: str
    new: Body | None
    old: Body | None
    user: User
    dry_run: bool
    # On CREATE: writes of the same commit, whose preconditions make what the rule saw hold. When one fails, the rule is
    # asked again.
    also: list[Write] = field(default_factory=list)
    large: bool = False  # long work should not be done on the event loop (apart.py)
    warnings: list[str] = field(default_factory=list)  # a rule's words to the client about what it lets pass
    store: Store | None = None  # for `peek` and `scan` alone, which wait for nothing, in the view of this process


class Rule(Protocol):
    """Validation beyond the schema for one kind. Returns the causes of a 422, or raises StatusError for anything else
    (403, 409, 400). May default fields of `review.new` in place before it answers.

    A rule that looks at the review alone may have an attribute `pure`, itself as a plain function of the review. A rule
    with this attribute is asked under the writer's lock too (api/admission/rule.py), and about an update that changes
    nothing: `new` is `old` then, and only its warnings count."""

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]: ...
