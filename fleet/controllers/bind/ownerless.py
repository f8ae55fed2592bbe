"""Bindings whose object is gone and let them go: named while their copy is in a member, and ended with it.

A job of the same name that asks for it takes such a binding over. Nothing else of the binding changes, so its pods run
on, and the copy follows the new job from then on.
"""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.bindings.ownerless import is_ownerless
from fleet.controllers.bind.spec import reference_to
from fleet.controllers.runtime.hub import Hub
from fleet.values.ports import Body, StoredObject
from fleet.wellknown import ANNOTATION_TAKES_OVER, LABEL_JOB_UID, LABEL_OWNERLESS


async def settle_ownerless(hub: Hub, binding: StoredObject) -> None:
    """Mark it while it is placed. Nothing of it could be sent anew, so one that waits or leaves its member goes."""
    if b.clusters_of(binding.body):
        await hub.edit(binding.key, _marked, uid=binding.uid)
    else:
        await hub.delete(binding.key, uid=binding.uid)


async def taken_over(hub: Hub, binding: StoredObject, job: StoredObject) -> bool:
    """Whether the job owns the binding now, since it asks for that."""
    if b.annotation(job.body, ANNOTATION_TAKES_OVER) != "true" or not b.clusters_of(binding.body):
        return False
    return await hub.edit(binding.key, lambda body: _owned(body, job.body), uid=binding.uid)


def _marked(binding: Body) -> bool:
    if is_ownerless(binding):
        return False
    binding["metadata"].setdefault("labels", {})[LABEL_OWNERLESS] = "true"
    return True


def _owned(binding: Body, job: Body) -> bool:
    reference, meta = reference_to(job), binding["metadata"]
    meta["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    meta["labels"][LABEL_JOB_UID] = reference["uid"]
    meta["labels"].pop(LABEL_OWNERLESS, None)
    binding["spec"]["resource"]["uid"] = reference["uid"]
    return True
