"""The data of a job: a claim that its pods name is in the member already, or goes there with the job.

The hub never makes up a claim: an empty volume in place of a data set would let the job run on nothing. Pods whose
claim does not exist stay Pending for ever, so such a job is not sent. Only claims of a job that is not there yet are
looked for, since what runs has its volumes.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet.bindings import binding as b
from fleet.controllers.dispatch.manifests import VOLUME_CLAIM
from fleet.kinds.interpreter import Dependency, Interpreter
from fleet.members.members import ActOutcome, ActResult, Members
from fleet.values.ports import Body

LOOKED_FOR_MAX = 50  # claims of one job; the rest is left to the member
NAMED_MAX = 5


async def without_data(
    members: Members, member: str, job: Body, interpreter: Interpreter, is_sent: Callable[[Dependency], bool]
) -> ActOutcome | None:
    """NO_DATA with the names of the claims that are neither in the member nor sent there; what the member answers when
    that cannot be known yet; None when the job has its data. `job`: the manifest for this member."""
    named = sorted(entry for entry in interpreter.dependencies(job) if entry[0] == VOLUME_CLAIM)
    missing: list[str] = []
    for kind, namespace, name in [entry for entry in named if not is_sent(entry)][:LOOKED_FOR_MAX]:
        volume_claim = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
        found = await members.look(member, volume_claim)
        if found.did is ActResult.UNREACHABLE:
            return found
        if found.did is ActResult.NOT_FOUND or (found.body is not None and b.deleting(found.body)):
            missing.append(f"{namespace}/{name}")
    if not missing:
        return None
    more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
    return ActOutcome(ActResult.NO_DATA, ", ".join(missing[:NAMED_MAX]) + more)
