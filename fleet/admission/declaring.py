"""WorkloadInterpreters: a declaration that could not be read, or not be afforded, is refused, and so is a second one of
a kind. A declaration whose kind has gangs that are not over stays, since nothing else says what pods they have."""

from __future__ import annotations

from collections.abc import Sequence

from api.admission.causes import invalid
from api.admission.rule import Checks, immutable, of_new
from api.engine.status import Cause, forbidden
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.admission.travel import GRANTS_RIGHTS, NEVER_GROUPS
from fleet.bindings import binding as b
from fleet.kinds.declaration import flaws_of
from fleet.kinds.lookup import shipped
from fleet.values.ports import Body, Store
from fleet.values.untyped import at, mapping, text
from fleet.wellknown import WORK

Target = tuple[str, str]


def target_of(declaration: Body) -> Target:
    target = mapping(at(declaration, "spec", "target"))
    return text(target.get("group")), text(target.get("kind"))


def _readable(body: Body) -> Sequence[Cause]:
    return [invalid(flaw.field, flaw.value, flaw.why) for flaw in flaws_of(mapping(body.get("spec")))]


def _not_the_hubs(body: Body) -> Sequence[Cause]:
    group, kind = target_of(body)
    taken = group in NEVER_GROUPS or group in GRANTS_RIGHTS
    if (taken or group == "") and (group, kind) not in shipped():
        return [
            invalid("spec.target", f"{group}/{kind}", "is a kind of the hub's own, or none that has pods of its own")
        ]
    return ()


def _used(review: Review) -> Sequence[Cause]:
    """The deletion of a declaration, as long as there are gangs of its kind."""
    if review.operation != "DELETE" or review.old is None or review.store is None:
        return ()
    group, kind = target_of(review.old)
    count = live_gangs(review.store, (group, kind))
    if count:
        gangs = f"{count} gang{'s' if count > 1 else ''} of {kind} ({group}) {'are' if count > 1 else 'is'}"
        why = f"{gangs} not over; delete them first, or change this declaration"
        raise forbidden(review.kind.group, review.kind.resource, review.name, why)
    return ()


def live_gangs(store: Store, target: Target) -> int:
    """How many jobs of a kind have a binding as a gang, and are not over."""
    count = 0
    for stored in store.scan(WORK, "resourcebindings"):
        resource = b.resource_of(stored.body)
        if text(resource.get("kind")) != target[1] or text(resource.get("apiVersion")).rpartition("/")[0] != target[0]:
            continue
        count += b.is_gang(stored.body) and not b.finished(stored.body)
    return count


async def _one_of_a_kind(review: Review, objects: Objects) -> Sequence[Cause]:
    if review.new is None or review.subresource:
        return ()
    target = target_of(review.new)
    for other in await objects.list(review.kind):
        name = other["metadata"]["name"]
        if name != review.name and target_of(other) == target:
            why = f"WorkloadInterpreter {name} declares this kind already"
            return [invalid("spec.target", "/".join(target), why)]
    return ()


RULE = Checks(
    of_new(_readable),
    of_new(_not_the_hubs),
    immutable("spec.target"),
    _used,
    ask=_one_of_a_kind,
)
