"""The names in a job: a PriorityClass must be on the hub; objects that its pods use may also be in the member.

Everything is looked up in what this process has in memory, so that a write costs no more than before.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence

from api.admission.causes import invalid
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.admission.operators import asked_anew
from fleet.kinds import pods
from fleet.kinds.interpreter import Interpreter
from fleet.values.names import SUBDOMAIN_MAX
from fleet.values.ports import Body, Key
from fleet.values.untyped import at, mapping, text

PRIORITY = "scheduling.k8s.io"
SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")  # every cluster has them
NAMED_MAX = 5  # warnings of one write
RESOURCES = {
    "ConfigMap": "configmaps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
}


def unknown_class(review: Review, name: str) -> str:
    """The flaw in the name of a PriorityClass; "" for an existing one, and for none."""
    if not name or name in SYSTEM_CLASSES or review.store is None:
        return ""
    if review.store.peek(Key(PRIORITY, "priorityclasses", "", name)) is not None:
        return ""
    # A large object is looked at in a thread, where a list may change under the reader; a long name is like none.
    stored = () if review.large or len(name) > SUBDOMAIN_MAX else review.store.scan(PRIORITY, "priorityclasses")
    near = difflib.get_close_matches(name, [one.key.name for one in stored], n=1)
    return "the hub has no PriorityClass of this name" + (f"; did you mean {near[0]}?" if near else "")


def known_classes(interpreter: Interpreter) -> Callable[[Review], Sequence[Cause]]:
    """The check of one job's PriorityClasses."""

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or not asked_anew(review):
            return ()
        before = dict(_classes(review.old, interpreter)) if review.old is not None else {}
        new = ((field, name) for field, name in _classes(review.new, interpreter) if before.get(field) != name)
        return [invalid(field, name, why) for field, name in new if (why := unknown_class(review, name))]

    return check


def _classes(job: Body, interpreter: Interpreter) -> Iterator[tuple[str, str]]:
    for template in interpreter.templates(job):
        yield f"{template.path}.spec.priorityClassName", text(at(template.template.get("spec"), "priorityClassName"))
    field = interpreter.priority_class_field
    if field:
        yield field, text(at(job, *field.split(".")))


def used_by_pods(interpreter: Interpreter) -> Callable[[Review], Sequence[Cause]]:
    """The check of the objects that the pods of one job use. The check only warns, since an object may come later, or
    be in the member."""

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or review.store is None or not asked_anew(review):
            return ()
        dependencies = {
            (kind, name)
            for template in interpreter.templates(review.new)
            for kind, _, name in pods.dependencies(
                review.namespace, mapping(template.template.get("spec")), optional=False
            )
        }
        peek = review.store.peek
        missing = sorted(
            one for one in dependencies if peek(Key("", RESOURCES[one[0]], review.namespace, one[1])) is None
        )
        review.warnings.extend(
            f"{kind} {review.namespace}/{name} is not on the hub: its pods start where the member has one"
            for kind, name in missing[:NAMED_MAX]
        )
        if len(missing) > NAMED_MAX:
            review.warnings.append(f"{len(missing) - NAMED_MAX} more that its pods use are not on the hub")
        return ()

    return check
