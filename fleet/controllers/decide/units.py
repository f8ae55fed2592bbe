"""A unit of the core, made of its binding, its QueueUnit, its pods and its copies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fleet.bindings import after
from fleet.bindings import binding as b
from fleet.bindings.claims import claim_of
from fleet.bindings.components import components_of
from fleet.bindings.domains import chosen_of, within
from fleet.bindings.elastic import resized
from fleet.bindings.extent import excess_of, set_aside
from fleet.bindings.failures import backoff_until, backoffs, failures_of, gave_up
from fleet.bindings.heads import head_of
from fleet.bindings.leaf import leaf_for
from fleet.bindings.matching import (
    ClusterFields,
    affinity_groups,
    affinity_matches,
    cluster_tolerations,
    standby,
)
from fleet.bindings.nomination import reserved_placement_of
from fleet.bindings.notice import leaving_s
from fleet.bindings.rules import rules_of
from fleet.bindings.unit import active, evicted, limit_of, priority_of
from fleet.controllers.decide.sizes import placed_sizes, waiting_sizes
from fleet.controllers.fields.starting import SHARE_UNTIL
from fleet.core.model.amounts import NOTHING
from fleet.core.model.pod import PodView
from fleet.core.model.unit import AffinityGroup, Component, Phase, Unit
from fleet.core.quota.tree import QuotaTree
from fleet.members.nodes import ANY_VALUE
from fleet.values.ports import Body, StoredObject
from fleet.values.quantity import BadQuantity
from fleet.values.times import seconds
from fleet.values.untyped import number, text
from fleet.wellknown import (
    ANNOTATION_CHECKPOINT,
    ANNOTATION_CREATOR,
    ANNOTATION_MOVE,
)


def base_inputs(binding: Body) -> object:
    """All of the binding that `base_unit` and `asked_of_nodes` read, where its uid is the same: the generation stands
    for its spec. A binding that only has another status has an equal one."""
    meta = binding["metadata"]
    return meta.get("generation"), meta.get("labels"), meta.get("annotations"), b.under_quota(binding)


def base_unit(binding: Body, tree: QuotaTree | None, clusters: Sequence[ClusterFields]) -> Unit:
    """The unit of a waiting binding, from the binding alone. Components that do not parse make a unit without any,
    which decide refuses with a reason. A gang that passes a bound is held; one that runs stays charged."""
    excess = excess_of(binding)  # counted before anything is parsed
    if excess is not None:
        binding = set_aside(binding)
    spec, meta = binding["spec"], binding["metadata"]
    resource = spec["resource"]
    labels = meta.get("labels") or {}
    placement = spec.get("placement") or {}
    try:
        components = components_of(binding)
    except BadQuantity:
        components = ()
    failures, over = failures_of(binding), gave_up(binding)
    over = excess.held_why if excess is not None else over
    obstacle = None if over else after.obstacle(binding)
    group = resource["apiVersion"].rsplit("/", 1)[0] if "/" in resource["apiVersion"] else ""
    return Unit(
        id=meta["uid"],
        name=b.job_name(binding),
        components=components,
        leaf=leaf_for(tree, resource.get("namespace", ""), labels) if b.under_quota(binding) else None,
        priority=b.priority_of(binding),
        preemptible=b.preemptible(binding),
        created_at=seconds(meta.get("creationTimestamp")) or 0.0,
        enqueued_at=b.enqueued_at(binding),
        affinity_groups=_narrowed(affinity_groups(placement, clusters), b.annotation(binding, ANNOTATION_MOVE)),
        tolerations=cluster_tolerations(placement),
        needs_kind=f"{group}/{resource['kind']}",
        avoid=standby(placement, clusters).union(failure.member for failure in failures if failure.member),
        preferences=_preferences(placement, clusters),
        backoff_until=backoff_until(failures),
        attempts=max(b.attempt(binding), backoffs(failures)),
        failed_why=failures[-1].message if failures and failures[-1].backoff else "",
        held=bool(over) or obstacle is not None,
        held_why=over if obstacle is None else obstacle.text,
        after=obstacle is not None,
        waits_turn=obstacle is not None and not obstacle.never,
        release_helps=excess is None and (obstacle is None or not obstacle.never),
        user=b.annotation(binding, ANNOTATION_CREATOR),
        rules=rules_of(binding),
    )


def _narrowed(groups: tuple[AffinityGroup, ...], member: str) -> tuple[AffinityGroup, ...]:
    """The affinities of its policy, with the one member that a person moves it to; without one as they are."""
    if not member:
        return groups
    if not groups:
        return (AffinityGroup("", frozenset({member})),)
    return tuple(replace(group, members=group.members & {member}) for group in groups)


def unreadable_unit(binding: StoredObject, body: Body, error: Exception) -> Unit:
    """A unit that says so and never starts, for a binding that a person wrote by hand, or that a bug meets."""
    why = f"its ResourceBinding cannot be read, {type(error).__name__}: {error}"[:300]
    name = text(b.resource_of(body).get("name")) or binding.key.name
    unit = Unit(binding.uid, f"{binding.key.namespace}/{name}", (Component("unknown", 1, NOTHING),), None)
    return replace(unit, held=True, held_why=why, release_helps=False)


def asked_of_nodes(unit: Unit, wanted: Sequence[Component] = ()) -> frozenset[tuple[str, str]]:
    """Every label pair that node selectors, required affinities and rules name, for `Members.tell_apart`. An
    operator that names no single value asks for every value of its label. `wanted`: the components that a unit with its
    room asks for, where these are more."""
    components = (*unit.components, *wanted)
    selected = {pair for component in components for pair in component.claim.node_selector}
    terms = [term for component in components for group in component.claim.affinity for term in group]
    close = {(rule.level, ANY_VALUE) for rule in unit.rules}
    named = {(term.key, value) for term in terms if term.operator in ("In", "NotIn") for value in term.values}
    open_ = {(term.key, ANY_VALUE) for term in terms if term.operator not in ("In", "NotIn")}
    return frozenset(selected | close | named | open_)


def _preferences(placement: Mapping[str, object], clusters: Sequence[ClusterFields]) -> tuple[tuple[str, int], ...]:
    scheduling = placement.get("replicaScheduling")
    weights = (scheduling.get("weightPreference") or {}) if isinstance(scheduling, dict) else {}
    found: dict[str, int] = {}
    for entry in weights.get("staticWeightList") or ():
        for cluster in clusters:
            if affinity_matches(entry.get("targetCluster"), cluster):
                found[cluster.name] = max(found.get(cluster.name, 0), number(entry.get("weight") or 0))
    return tuple(sorted(found.items()))


def now_unit(
    base: Unit,
    binding: Body,
    queue_unit: Body | None,
    pods: Sequence[PodView],
    copies: Sequence[tuple[str, Body]],
) -> Unit | None:
    """The unit as it stands now; None when it neither waits nor uses anything."""
    meta = binding["metadata"]
    generation = f"{meta.get('generation', 0)}/{_which(queue_unit)}"
    placed, tasks = b.clusters_of(binding), b.tasks_of(binding)
    if not placed and not tasks and not b.deleting(binding):
        if b.queued(binding) and queue_unit is None:
            return None  # enqueue has not made it yet: a unit that is not in the queue does not leave it
        waiting = _as_queued(base, binding, queue_unit)
        reserved_placement = reserved_placement_of(queue_unit)
        if reserved_placement is not None and b.queued(
            binding
        ):  # with quota and room, and no more than placeholders in the member
            member_pods = [pod for pod in pods if pod.member == reserved_placement.member]
            components = resized(waiting.components, dict(reserved_placement.replicas))
            return replace(
                waiting,
                components=components,
                phase=Phase.PLACED,
                member=reserved_placement.member,
                placed_at=reserved_placement.since,
                share_until=reserved_placement.share_until,
                backoff_until=None,
                generation=generation,
                visible=visible(components, member_pods, final=False),
            )
        head = head_of(binding if queue_unit is None else queue_unit)
        waiting = waiting_sizes(waiting, binding)
        return replace(waiting, claim=claim_of(queue_unit), head=head, generation=generation)
    places = b.places_of(binding)
    pods, copies = [pod for pod in pods if pod.member in places], [one for one in copies if one[0] in places]
    if not b.charged(binding, pods):
        return None
    leaving = bool(tasks) or b.deleting(binding)
    member = tasks[0]["fromCluster"] if tasks else placed[0] if placed else pods[0].member
    copy_there = any(name == member for name, _ in copies)
    member_pods = [pod for pod in pods if pod.member == member]
    admitted = within(base.components, chosen_of(binding))
    charged = b.charged_components(admitted, member_pods, over=b.finished(binding) and not tasks) or admitted
    return replace(
        placed_sizes(_as_queued(base, binding, queue_unit), binding),
        components=charged,
        phase=Phase.EVICTING if leaving else Phase.PLACED,
        member=member,
        placed_at=seconds(b.placed_at(binding)),
        share_until=seconds(b.status_of(binding).get(SHARE_UNTIL) or ""),
        visible=visible(charged, member_pods, final=leaving and not copy_there),
        leaving_at=seconds(tasks[0].get("creationTimestamp") or "") if tasks else None,
        checkpoint_at=_checkpoint(binding, member_pods, copies),
        leaving_s=leaving_s(binding),
        backoff_until=None,
        generation=generation,
    )


def _checkpoint(binding: Body, pods: Iterable[PodView], copies: Iterable[tuple[str, Body]]) -> float | None:
    """The latest that the job, its copy or one of its pods tells of."""
    told = [seconds(b.annotation(body, ANNOTATION_CHECKPOINT)) for body in (binding, *(body for _, body in copies))]
    return max([at for at in (*told, *(pod.checkpoint_at for pod in pods)) if at], default=None)


def _as_queued(base: Unit, binding: Body, queue_unit: Body | None) -> Unit:
    """With the values that people set while it waits: on its QueueUnit, or on the job itself."""
    suspended, stopped = b.suspended(binding), not active(queue_unit)
    priority, limit = priority_of(queue_unit, binding), limit_of(queue_unit, binding)
    if not (suspended or stopped or b.held(binding)) and priority == base.priority and limit is None:
        return base
    eviction = evicted(queue_unit) if stopped else None
    over = eviction is not None and eviction.get("reason") == b.OVER_TIME and base.release_helps
    if base.waits_turn and (stopped or b.held(binding)):
        base = replace(base, held_why="", after=False, waits_turn=False)  # that comes first
    return replace(
        base,
        priority=priority,
        walltime_s=float(limit) if limit else None,
        suspended=suspended,
        held=suspended or stopped or b.held(binding) or base.held,
        held_why=str(eviction["message"]) if over and eviction is not None else base.held_why,
    )


def _which(queue_unit: Body | None) -> str:
    """Its generation, and the mark that tells it from a deleted one of the same name before it."""
    if queue_unit is None:
        return "-"
    return f"{queue_unit['metadata'].get('generation', 0)}.{queue_unit['metadata'].get('uid', '')[:8]}"


def visible(components: Sequence[Component], pods: Sequence[PodView], *, final: bool) -> tuple[tuple[str, int], ...]:
    """How many replicas of each component need no assumed room: their pods have a node, which the inventory counts,
    or are finished. `final`: no more pods will come."""
    counts: dict[str, int] = {}
    for pod in pods:
        if (pod.node and pod.phase != "Failed") or pod.phase == "Succeeded":
            counts[pod.component.lower()] = counts.get(pod.component.lower(), 0) + 1
    return tuple(
        (
            component.name,
            component.replicas if final else min(component.replicas, counts.get(component.name.lower(), 0)),
        )
        for component in components
    )
