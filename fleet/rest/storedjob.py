"""A job with its binding and unit, as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from api.engine.kind import Kind
from fleet.admission.selecting import best_policy, policies_for, policy_reference, why_untaken
from fleet.bindings import binding as b
from fleet.bindings.names import binding_of
from fleet.bindings.ownerless import in_the_way, let_go
from fleet.bindings.unit import queue_of, unit_of
from fleet.rest.standing import StoredJob
from fleet.values.ports import Body, Key, Store, StoredObject
from fleet.wellknown import LABEL_JOB_UID


def stands(
    store: Store,
    kind: Kind,
    body: Body,
    uid: str,
    paths: Mapping[str, str],
    silence: str,
    peek: Callable[[Key], StoredObject | None] | None = None,
) -> StoredJob:
    """The job, as far as binding and unit are of this very object and not of one before it. `paths`: of quota nodes by
    the names of their Queues; `silence`: since when there is no decider, and why; `peek`: finds binding and unit at
    another time than now."""
    peek = peek or store.peek
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "")
    binding = binding_of(peek, kind.group, kind.kind, namespace, metadata["name"])
    if binding is None or b.labels_of(binding.body).get(LABEL_JOB_UID, uid) != uid:
        key = Key(kind.group, kind.resource, namespace, metadata["name"])
        policies = policies_for(store, kind, key, body)
        policy = best_policy(body, policies)
        taken = binding is not None and let_go(binding.body)
        way = in_the_way(binding.body) if binding is not None and taken else ""
        if policy is not None:
            return StoredJob(kind, body, silence=silence, selected_by=policy_reference(policy), in_the_way=way)
        return StoredJob(kind, body, silence=silence, untaken=why_untaken(body, policies), in_the_way=way)
    unit = unit_of(peek, binding.key, binding.uid)
    if unit is None:
        return StoredJob(kind, body, binding.body)
    queue = queue_of(unit.body)
    return StoredJob(kind, body, binding.body, unit.body, paths.get(queue, queue) or None)
