"""Policies that wait for their `dependentOverrides`: nothing new follows such a policy until all of them exist.

As in Karmada, a PropagationPolicy names OverridePolicies of its own namespace, and a ClusterPropagationPolicy names
ClusterOverridePolicies. An object that follows the policy already goes on following it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.admission.selecting import of_namespace, policy_reference
from fleet.bindings import binding as b
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.kinds import Interpreter
from fleet.values.ports import Body, Key, StoredObject
from fleet.values.times import rfc3339
from fleet.values.untyped import mapping, rows, texts
from fleet.wellknown import NAME_TAKEN, PENDING, POLICY, POLICY_FAILED

MISSING = "DependentOverridesMissing"
_REASONS = (MISSING, NAME_TAKEN)  # of the condition that this module writes


def named_by(policy: Body) -> tuple[Key, ...]:
    """The override policies that the policy depends on."""
    namespace = policy["metadata"].get("namespace") or ""
    resource = "overridepolicies" if of_namespace(policy) else "clusteroverridepolicies"
    return tuple(Key(POLICY, resource, namespace, name) for name in texts(b.spec_of(policy).get("dependentOverrides")))


def waiting_for(hub: Hub, key: Key, policies: Iterable[str]) -> Iterator[Body]:
    """The policies of these resources that depend on this override policy."""
    for resource in policies:
        yield from (policy for policy in hub.bodies(POLICY, resource) if key in named_by(policy))


def why_waits(hub: Hub, policy: Body) -> str:
    """The text that says which override policies are missing; "" when none is."""
    missing = [key for key in named_by(policy) if hub.store.peek(key) is None]
    if not missing:
        return ""
    kind = "OverridePolicy" if of_namespace(policy) else "ClusterOverridePolicy"
    named = ", ".join(f"{kind} {key.namespace}/{key.name}".replace(" /", " ") for key in missing)
    return f"{policy_reference(policy)} waits for its dependentOverrides: {named} (not on the hub)"


async def tell(
    hub: Hub,
    events: EventRecorder,
    stored: StoredObject,
    interpreter: Interpreter | None,
    why: str,
    reason: str = MISSING,
) -> None:
    """Say with an event, and with a condition of a job, why nothing happens to it yet. `why`: "" takes the condition
    off."""
    if why:
        await events.once(stored.body, POLICY_FAILED if reason == MISSING else reason, why)
    if interpreter is not None and (why or _told(stored.body)):
        at = rfc3339(hub.clock.now())
        await hub.edit(stored.key, lambda job: _shown(job, interpreter, why, reason, at), uid=stored.uid)


def _shown(job: Body, interpreter: Interpreter, why: str, reason: str, at: str) -> bool:
    if [entry.get("message") for entry in _told(job)] == ([why] if why else []):
        return False
    had = rows(mapping(job.get("status")).get("conditions"))
    others = [entry for entry in had if entry.get("reason") not in _REASONS]
    said = interpreter.condition(PENDING, "True", reason, why, at) if why else {}
    if why and not said:
        return False  # the status of its kind has no conditions; the Event says it
    new = [said] if said else []
    job["status"] = {**interpreter.first_status, **mapping(job.get("status")), "conditions": [*new, *others]}
    return True


def _told(job: Body) -> list[Body]:
    conditions = rows(mapping(job.get("status")).get("conditions"))
    return [dict(entry) for entry in conditions if entry.get("reason") in _REASONS]
