"""A copy that ran, and that its member does not have any more: the job is lost there.

Nobody can tell whether it had done its work, so it is not sent anew: it would run a second time. The member is asked
first, since a cache that shows nothing is no answer. The loss is the infrastructure's fault, and counts as a try; a
policy with failover for applications starts the job anew.
"""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.bindings.attemptwork import lost_in, ran
from fleet.bindings.faults import AttemptFault
from fleet.controllers.runtime.hub import Hub
from fleet.members.members import ActResult
from fleet.values.ports import StoredObject
from fleet.values.untyped import mapping, pairs
from fleet.wellknown import LABEL_BINDING

AGAIN_S = 5.0  # between two questions to a member that does not answer them


async def loss(hub: Hub, stored: StoredObject) -> tuple[AttemptFault | None, float | None]:
    """The fault of a placed gang whose copy its member does not show: None while it may come (again). Then the seconds
    until the member is to be asked once more, too; None where it need not be."""
    binding = stored.body
    known = lost_in(binding)
    member = b.clusters_of(binding)[0]
    if known is not None or b.finished(binding) or not hub.members.ready(member):
        return known, None
    uid = binding["metadata"]["uid"]
    if not ran(binding, hub.members.pods_of(uid)):
        return None, None
    resource = b.resource_of(binding)
    place = {name: resource[name] for name in ("name", "namespace") if resource.get(name)}
    named = {"apiVersion": resource["apiVersion"], "kind": resource["kind"], "metadata": place}
    answer = await hub.members.look(member, named)
    if answer.did not in (ActResult.DONE, ActResult.NOT_FOUND):
        return None, AGAIN_S
    now = hub.store.peek(stored.key)
    if now is None or now.revision != stored.revision:
        return None, 0.0  # what it says may be of another attempt by now
    labels = pairs(mapping(mapping(answer.body).get("metadata")).get("labels"))
    if labels.get(LABEL_BINDING) == uid:
        return None, AGAIN_S  # the watch has not shown it yet
    why = f"its copy is gone from member {member}, where it had run"
    return AttemptFault(infrastructure=True, why=why, lost=True), None
