"""A manifest as the unit that it would become, without a hub to submit it to: for questions such as `what-if`.

The steps are those of the loops themselves: the policy that selects it, its binding, the binding's unit. Where no
policy is known, a policy that lets every job go anywhere stands in, and the job queues if there is a quota tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fleet.admission.selecting import best_policy
from fleet.bindings import passing
from fleet.bindings.elastic import least_of, resized
from fleet.bindings.matching import ClusterFields, candidate
from fleet.bindings.unit import limit_of
from fleet.controllers.bind.loop import wanted_of_job
from fleet.controllers.bind.spec import new_binding
from fleet.controllers.decide.units import base_unit
from fleet.core.model.member import Member
from fleet.core.model.unit import Unit
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Snapshot
from fleet.kinds import interpreter_of
from fleet.values.ports import Body, Store
from fleet.values.untyped import pairs
from fleet.wellknown import CLUSTER, POLICY, binding_name


class NoUnit(ValueError):
    """The manifest would not become a waiting unit; the text says why."""


def unit_of(
    body: Body,
    *,
    namespace: str,
    now: float,
    tree: QuotaTree | None,
    clusters: Sequence[ClusterFields],
    policies: Iterable[Body] | None,
    priority_classes: Iterable[Body] = (),
    hub_requires_queue: bool = False,
) -> Unit:
    """The unit as it waits right after it was submitted at `now`, named namespace/name. An elastic job starts when its
    smallest size fits. `namespace`: where the manifest names none; `policies` None: the one that stands in. Raises
    NoUnit."""
    interpreter = interpreter_of(str(body.get("apiVersion")), str(body.get("kind")))
    name = (body.get("metadata") or {}).get("name")
    if interpreter is None:
        raise NoUnit(f"{body.get('kind')} of {body.get('apiVersion')} is no job kind")
    namespace = body["metadata"].get("namespace") or namespace
    uid = f"submitted/{namespace}/{body['kind']}/{name}"
    job: Body = {**body, "metadata": {**body["metadata"], "namespace": namespace, "uid": uid}}
    policy = _anywhere(job, tree) if policies is None else best_policy(job, policies)
    if policy is None:
        raise NoUnit(f"no policy selects {body['kind']} {namespace}/{name}")
    if (((policy["spec"].get("placement") or {}).get("replicaScheduling")) or {}).get("customSchedulingType") != "Gang":
        field = "placement.replicaScheduling.customSchedulingType"
        raise NoUnit(f"policy {policy['metadata']['name']} selects {namespace}/{name}, but its {field} is not Gang")
    try:
        must = passing.why_queued(policy, tree, namespace, pairs(job["metadata"].get("labels")), hub=hub_requires_queue)
        inputs = wanted_of_job(job, policy, interpreter, priority_classes, must)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise NoUnit(f"{body['kind']} {namespace}/{name} cannot be read: {type(error).__name__}: {error}") from error
    if not inputs.components:
        raise NoUnit(f"{body['kind']} {namespace}/{name} cannot be read: it has no pods, or none that can be read")
    binding = new_binding(job, inputs, namespace, binding_name(str(body["kind"]), str(name)), now)
    binding["metadata"]["uid"] = uid
    unit = base_unit(binding, tree, clusters)
    components = resized(unit.components, least_of(binding))
    limit = limit_of(None, binding)
    return replace(
        unit,
        components=components,
        created_at=now,
        suspended=inputs.suspended,
        walltime_s=float(limit) if limit else None,
    )


def unit_in(store: Store, body: Body, namespace: str, now: float, snapshot: Snapshot) -> Unit:
    """The same on a hub, with its policies, priority classes and members. Raises NoUnit."""

    def bodies(group: str, resource: str, where: str | None = None) -> list[Body]:
        return [stored.body for stored in store.scan(group, resource, namespace=where)]

    candidates = {found["metadata"]["name"]: candidate(found) for found in bodies(CLUSTER, "clusters")}
    policies = bodies(POLICY, "clusterpropagationpolicies") + bodies(POLICY, "propagationpolicies", namespace)
    return unit_of(
        body,
        namespace=namespace,
        now=now,
        tree=snapshot.tree,
        policies=policies,
        clusters=[candidates.get(name) or as_candidate(snapshot.members[name]) for name in sorted(snapshot.members)],
        priority_classes=bodies("scheduling.k8s.io", "priorityclasses"),
        hub_requires_queue=passing.hub_requires_queue(store),
    )


def _anywhere(job: Body, tree: QuotaTree | None) -> Body:
    return {
        "metadata": {"name": "any"},
        "spec": {
            "resourceSelectors": [{"apiVersion": job["apiVersion"], "kind": job["kind"]}],
            "placement": {"replicaScheduling": {"customSchedulingType": "Gang"}},
            "suspension": {"scheduling": tree is not None},
        },
    }


def as_candidate(member: Member) -> ClusterFields:
    """A member of a snapshot as policies look at it."""
    fields = {"provider": member.provider, "region": member.region, "zone": member.zone}
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in member.taints]
    return ClusterFields(member.name, dict(member.labels), fields, taints)
