"""A gang whose member took it and made no pods: the difference between nobody there and somebody who cannot."""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.bindings.idle import avoid
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.reason import Code, Reason
from fleet.members.refusals import cause_in
from fleet.values.ports import Body, Key
from fleet.values.untyped import mapping
from fleet.wellknown import CLUSTER


def untouched(copy: Body) -> bool:
    """Whether nobody has written a status. Some APIs store an empty one with the object."""
    return not any(mapping(copy.get("status")).values())


async def why_podless(hub: Hub, member: str, copy: Body, waited_s: float) -> Reason | None:
    """Why there is no pod; None where nothing but time tells. The member is not to get another job of a kind that
    nobody acts on there for a while, and its Cluster says so."""
    kind, since = copy["kind"], f"no pods within {waited_s:.0f} s"
    said = await hub.members.warning(member, copy)
    code = cause_in(said)
    if code is not None:
        return Reason(code, {"member": member, "message": f"{since}: {said}"})
    if untouched(copy):
        group = copy["apiVersion"].rpartition("/")[0]
        now, key = hub.clock.now(), Key(CLUSTER, "clusters", "", member)
        await hub.edit(key, lambda body: not b.deleting(body) and avoid(body, f"{group}/{kind}", now))
        message = f"the {kind} has no status and {since}; is the controller of this kind running?"
        return Reason(Code.NO_CONTROLLER, {"member": member, "message": message})
    return None
