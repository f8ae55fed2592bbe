"""ElasticQuotaTree: one tree, in kube-system, that adds up; a leaf with work on it stays.

The rules for the tree itself are in fleet/core/quota/parse.py; here are the rules that need other objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.admission.causes import invalid
from api.admission.rule import Checks, of_new
from api.engine.status import Cause, conflict
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.admission import misspelt
from fleet.bindings.unit import FAILED, SUCCEEDED, phase_of, queue_of
from fleet.core.quota.parse import leaf_fields, validate_tree, without_queue
from fleet.values.ports import ABSENT, Body, Expect, Key, Put, StoredObject
from fleet.values.times import rfc3339
from fleet.values.untyped import at, whole
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, QUEUE, TREE_NAMESPACE

LEASES = "coordination.k8s.io"
GUARD = "elasticquotatree"  # a Lease in the trees' namespace
_NAMED_MAX = 3


def _tree(body: Body) -> Sequence[Cause]:
    return [Cause(flaw.field, flaw.message, flaw.reason) for flaw in validate_tree(body.get("spec"))]


def _queues(review: Review) -> Sequence[Cause]:
    """Of each node a Queue is made, whose name is made of the node's. What was stored before this check may stay."""
    if review.new is None or review.subresource:
        return ()
    before = without_queue(review.old.get("spec")) if review.old is not None else {}
    flaws = without_queue(review.new.get("spec"))
    return [Cause(flaw.field, flaw.message, flaw.reason) for path, flaw in flaws.items() if path not in before]


def _place(review: Review) -> Sequence[Cause]:
    if review.operation != "CREATE" or review.namespace == TREE_NAMESPACE:
        return ()
    return [invalid("metadata.namespace", review.namespace, f"the quota tree stands in {TREE_NAMESPACE}")]


async def _others(review: Review, objects: Objects) -> Sequence[Cause]:
    if review.operation == "CREATE":
        guard = Key(LEASES, "leases", TREE_NAMESPACE, GUARD)
        last = await objects.store.get(guard)  # before the trees are looked at
        for tree in await objects.list(review.kind):
            name = tree["metadata"]["name"]
            if name != review.name:
                why = f"there is a quota tree already: {tree['metadata']['namespace']}/{name}"
                raise conflict(review.kind.group, review.kind.resource, review.name, why)
        review.also.append(_turn(guard, last, review.name, objects))
    if review.operation == "UPDATE" and not review.subresource:
        causes = await _kept_leaves(review, objects)
        if causes:
            return causes
    return await misspelt.of_tree(review, objects)


def _turn(guard: Key, last: StoredObject | None, tree: str, objects: Objects) -> Put:
    """Of trees that are made at the same moment the first takes the turn; the others lose this precondition, and look
    again. The Lease counts the turns and stays when the tree goes."""
    now = rfc3339(objects.clock.now())
    metadata = {"name": GUARD, "namespace": TREE_NAMESPACE, "uid": objects.ids.uid(), "creationTimestamp": now}
    turns = 0
    if last is not None:
        metadata = last.body["metadata"]
        turns = whole(at(last.body, "spec", "leaseTransitions"), 0)
    body: Body = {
        "apiVersion": f"{LEASES}/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {"holderIdentity": tree, "leaseTransitions": turns + 1},
    }
    return Put(guard, body, ABSENT if last is None else Expect(revision=last.revision))


async def _kept_leaves(review: Review, objects: Objects) -> Sequence[Cause]:
    """A leaf may go, or become an inner node, when nothing waits or runs there."""
    before = leaf_fields((review.old or {}).get("spec"))
    removed = {path: before[path] for path in before.keys() - leaf_fields((review.new or {}).get("spec")).keys()}
    if not removed:
        return ()
    units, queues = objects.registry.resource(QUEUE, "queueunits"), objects.registry.resource(QUEUE, "queues")
    if units is None or queues is None:
        return ()
    leaf_of = {
        queue["metadata"]["name"]: at(queue, "metadata", "annotations", ANNOTATION_QUOTA_FULLNAME)
        for queue in await objects.list(queues)
    }
    work: dict[str, list[str]] = {}
    for unit in await objects.list(units):
        leaf = leaf_of.get(queue_of(unit))
        if leaf in removed and phase_of(unit) not in (SUCCEEDED, FAILED):
            metadata = unit["metadata"]
            work.setdefault(leaf, []).append(f"{metadata['namespace']}/{metadata['name']}")
    causes = []
    for leaf, names in sorted(work.items()):
        shown = ", ".join(sorted(names)[:_NAMED_MAX]) + (", …" if len(names) > _NAMED_MAX else "")
        why = f"Forbidden: leaf {leaf} cannot go while work waits or runs there: {len(names)} ({shown})"
        causes.append(Cause(removed[leaf], why, "FieldValueForbidden"))
    return causes


RULE = Checks(_place, of_new(_tree), _queues, ask=_others)
