"""The right to write a policy that takes gangs past a queue: users with the verb `bypass` on the queue of each leaf.

The rule sees the policy as it will be stored, after every other check of it. It notes the right on the policy
(fleet/bindings/passing.py says what for), and takes away what a client says there. A write that leaves the spec as it
is needs no right; when its user has the right, it notes it, so that a policy from before this check counts again.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.engine.status import Cause, forbidden
from api.objects.objects import Objects
from api.objects.writing import Review, Rule
from api.wire.rights import Attributes, Authorizer
from fleet.admission.leaves import Leaves
from fleet.bindings.passing import (
    ALL,
    Bypass,
    bypass_of,
    hub_requires_queue,
    passed_leaves,
    passing_kinds,
    required_by,
)
from fleet.values.ports import Body, Store
from fleet.wellknown import ANNOTATION_BYPASSES, POLICY, QUEUE, QUEUE_NAMESPACE

RESOURCES = ("propagationpolicies", "clusterpropagationpolicies")
VERB = "bypass"
_NAMED_MAX = 3


def install(objects: Objects, authorizer: Authorizer) -> None:
    """Put the check behind the rule that `objects` has for policies."""
    for resource in RESOURCES:
        if objects.registry.resource(POLICY, resource) is not None:
            at = (POLICY, resource)
            objects.rules[at] = BypassRule(authorizer, objects.store, objects.rules.get(at))


class BypassRule:
    """An admission rule for one kind of policy, behind another. It waits for nothing itself."""

    def __init__(self, authorizer: Authorizer, store: Store, first: Rule | None) -> None:
        self._authorizer = authorizer
        self._store = store
        self._leaves = Leaves(store)
        self._first = first

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]:
        looked_at = review.new is not None and not review.user.hub and not review.subresource
        if looked_at:
            _keep_mark(review)
        causes = await self._first(review, objects) if self._first is not None else ()
        if looked_at and not causes:
            await self._leaves.refresh()
            self._settle(review)
        return causes

    def _settle(self, review: Review) -> None:
        """Note the right, or refuse with StatusError 403."""
        assert review.new is not None
        kinds = passing_kinds(review.new)
        if not kinds:
            _write_mark(review.new, "")
            return
        changed = review.old is None or review.old.get("spec") != review.new.get("spec")
        tree = self._leaves.tree()
        leaves = passed_leaves(review.new, tree)
        required = required_by(tree, leaves, hub=hub_requires_queue(self._store))
        if changed and required:
            raise _refusal(review, f"nobody takes {', '.join(kinds)} past a queue: {required}")
        everywhere = self._may(review, "")
        lacking = [] if everywhere else [leaf for leaf in leaves if not self._may_pass(review, leaf)]
        if everywhere or (leaves and not lacking):
            self._note(review, Bypass(review.user.name, (ALL,) if everywhere else leaves), changed)
        elif changed and lacking:
            raise _refusal(review, self._needed(review, kinds, lacking))
        elif changed:
            _write_mark(review.new, "")

    def _note(self, review: Review, found: Bypass, changed: bool) -> None:
        assert review.new is not None
        if not changed and bypass_of(review.new).covers(found.leaves):
            return
        _write_mark(review.new, found.mark)
        if not changed:
            by = f'user "{review.user.name}", who has the verb "{VERB}" on queues.{QUEUE}'
            review.warnings.append(f"the policy takes gangs past their queues from now on: it was written by {by}")

    def _may_pass(self, review: Review, leaf: str) -> bool:
        queue = self._leaves.queue_of(leaf)
        return bool(queue) and self._may(review, queue)

    def _may(self, review: Review, queue: str) -> bool:
        return self._authorizer.allowed(review.user, Attributes(VERB, QUEUE, "queues", "", QUEUE_NAMESPACE, queue))

    def _needed(self, review: Review, kinds: Sequence[str], lacking: Sequence[str]) -> str:
        tree = self._leaves.tree()
        assert tree is not None, "without a tree there are no leaves"
        queues = [
            f"{self._leaves.queue_of(leaf) or leaf} (leaf {leaf} of {_of(tree.nodes[leaf].namespaces)})"
            for leaf in lacking[:_NAMED_MAX]
        ]
        more = [f"{len(lacking) - _NAMED_MAX} more"] if len(lacking) > _NAMED_MAX else []
        return (
            f'user "{review.user.name}" needs the verb "{VERB}" on queues.{QUEUE} {", ".join([*queues, *more])} in'
            f" namespace {QUEUE_NAMESPACE}, since the policy takes {', '.join(kinds)} past these queues;"
            " with spec.suspension.scheduling: true they wait there, and no right is needed"
        )


def _of(namespaces: Sequence[str]) -> str:
    if not namespaces:
        return "every namespace without a leaf of its own"
    more = ", …" if len(namespaces) > _NAMED_MAX else ""
    return f"namespace {', '.join(namespaces[:_NAMED_MAX])}{more}"


def _refusal(review: Review, why: str) -> Exception:
    return forbidden(review.kind.group, review.kind.resource, review.name, why)


def _keep_mark(review: Review) -> None:
    """The mark as it was stored, not the client's: a manifest from `kubectl get -o yaml` holds one."""
    assert review.new is not None
    annotations = ((review.old or {}).get("metadata") or {}).get("annotations") or {}
    _write_mark(review.new, annotations.get(ANNOTATION_BYPASSES) or "")


def _write_mark(policy: Body, mark: str) -> None:
    metadata = policy["metadata"]
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != ANNOTATION_BYPASSES}
    if mark:
        annotations[ANNOTATION_BYPASSES] = mark
    if annotations:
        metadata["annotations"] = annotations
    elif "annotations" in metadata:
        del metadata["annotations"]
