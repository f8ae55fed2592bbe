"""Which policy an object follows, and which members a placement allows: Karmada's rules, as pure functions.

The rules have corners that users rely on (the order of policies, a claim that holds until somebody may pre-empt it),
so they stand here alone, apart from the loops that read and write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.model.unit import AffinityGroup, Toleration
from fleet.model.untyped import mapping, pairs, rows, text, texts, whole
from fleet.ports import Body

_KIND, _SELECTOR, _NAME = 1, 2, 3  # how closely a selector names an object; higher wins at equal priority


def labels_match(selector: object, labels: Mapping[str, str]) -> bool:
    """A metav1.LabelSelector against labels; an empty or missing one matches everything, one that cannot be read
    nothing."""
    if selector is None:
        return True
    if not isinstance(selector, Mapping):
        return False
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(wanted, Mapping) or not isinstance(expressions, list):
        return False
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expression(entry, labels) for entry in expressions)


def _expression(entry: object, labels: Mapping[str, str]) -> bool:
    said = mapping(entry)
    operator, values, value = said.get("operator"), texts(said.get("values")), labels.get(text(said.get("key")))
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    return operator == "DoesNotExist" and value is None


def selects(selectors: object, body: Body, policy_namespace: str = "") -> int:
    """How closely `resourceSelectors` name the object: 0 not at all, 1 by kind, 2 by labels, 3 by name.

    `policy_namespace` is that of a namespaced policy, which reaches only its own namespace.
    """
    meta = body["metadata"]
    best = 0
    for selector in rows(selectors):
        if selector.get("kind") != body.get("kind") or selector.get("apiVersion") != body.get("apiVersion"):
            continue
        namespace = selector.get("namespace") or policy_namespace
        if namespace and namespace != meta.get("namespace", ""):
            continue
        if policy_namespace and policy_namespace != meta.get("namespace", ""):
            continue
        if selector.get("name"):
            found = _NAME if selector["name"] == meta["name"] else 0
        elif selector.get("labelSelector") is not None:
            found = _SELECTOR if labels_match(selector["labelSelector"], pairs(meta.get("labels"))) else 0
        else:
            found = _KIND
        best = max(best, found)
    return best


def of_namespace(policy: Body) -> bool:
    """Whether it is a namespace's own policy, which tenants may write."""
    return bool(policy["metadata"].get("namespace"))


def policy_claim(policy: Body) -> str:
    """How a binding's annotation names the policy: "PropagationPolicy ns/name", "ClusterPropagationPolicy name"."""
    meta = policy["metadata"]
    if meta.get("namespace"):
        return f"PropagationPolicy {meta['namespace']}/{meta['name']}"
    return f"ClusterPropagationPolicy {meta['name']}"


def best_policy(body: Body, policies: Iterable[Body], claim: str = "") -> Body | None:
    """The policy that the object follows, or None.

    Namespaced before cluster-wide, then higher priority, then the closer selector, then by name. The policy that the
    object already follows (`claim`) keeps it as long as it matches, unless a better one says `preemption: Always`.
    """
    ranked: list[tuple[tuple[int, int, int, str], Body]] = []
    for policy in policies:
        meta = policy["metadata"]
        if meta.get("deletionTimestamp"):
            continue
        spec = mapping(policy.get("spec"))
        close = selects(spec.get("resourceSelectors"), body, meta.get("namespace", ""))
        if close:
            order = (0 if meta.get("namespace") else 1, -whole(spec.get("priority")), -close, meta["name"])
            ranked.append((order, policy))
    ranked.sort(key=lambda entry: entry[0])
    if not ranked:
        return None
    for order, policy in ranked:
        if claim and policy_claim(policy) == claim:
            better = [p for o, p in ranked if o[:2] < order[:2] and p["spec"].get("preemption") == "Always"]
            return better[0] if better else policy
    return ranked[0][1]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What affinity and taints look at of a Cluster object."""

    name: str
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]] = ()


def candidate(cluster: Body) -> Candidate:
    spec, meta = mapping(cluster.get("spec")), cluster["metadata"]
    fields = {name: text(spec.get(name)) for name in ("provider", "region", "zone")}
    return Candidate(meta["name"], pairs(meta.get("labels")), fields, rows(spec.get("taints")))


def affinity_matches(affinity: Mapping[str, Any] | None, cluster: Candidate) -> bool:
    """One clusterAffinity; a missing one allows every member."""
    if not affinity:
        return True
    if cluster.name in (affinity.get("exclude") or ()):
        return False
    names = affinity.get("clusterNames") or ()
    if names and cluster.name not in names:
        return False
    if not labels_match(affinity.get("labelSelector"), cluster.labels):
        return False
    expressions = (affinity.get("fieldSelector") or {}).get("matchExpressions") or ()
    return all(_expression(entry, cluster.fields) for entry in expressions)


def affinity_groups(placement: Mapping[str, Any] | None, clusters: Sequence[Candidate]) -> tuple[AffinityGroup, ...]:
    """The placement's affinities resolved to member names, in order; empty when every member is allowed."""
    placement = placement or {}
    ordered = placement.get("clusterAffinities") or ()
    if not ordered:
        if not placement.get("clusterAffinity"):
            return ()
        ordered = [placement["clusterAffinity"]]
    return tuple(
        AffinityGroup(
            str(entry.get("affinityName") or ""), frozenset(c.name for c in clusters if affinity_matches(entry, c))
        )
        for entry in ordered
    )


def allows(placement: Mapping[str, Any] | None, cluster: Candidate) -> bool:
    """Whether the placement's affinities let it stay in this member (taints keep newcomers out, not who is there)."""
    groups = affinity_groups(placement, [cluster])
    return not groups or any(cluster.name in group.members for group in groups)


def cluster_tolerations(placement: Mapping[str, Any] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            str(entry.get("key") or ""),
            str(entry.get("operator") or "Equal"),
            str(entry.get("value") or ""),
            str(entry.get("effect") or ""),
        )
        for entry in (placement or {}).get("clusterTolerations") or ()
    )


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Toleration]) -> bool:
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.get("effect"):
            continue
        if toleration.key and toleration.key != taint.get("key"):
            continue
        if toleration.operator == "Exists" or (toleration.key and toleration.value == (taint.get("value") or "")):
            return True
    return False


def duplicated_to(
    placement: Mapping[str, Any] | None, clusters: Sequence[Candidate], current: Iterable[str]
) -> list[str]:
    """Every member that an object without pods goes to: all that the affinities allow (of ordered ones, the first
    group that has any) and whose taints it tolerates or where it already is. Sorted by name."""
    groups = affinity_groups(placement, clusters)
    allowed = next((g.members for g in groups if g.members), frozenset()) if groups else None
    tolerations, there = cluster_tolerations(placement), set(current)
    return sorted(
        c.name
        for c in clusters
        if (allowed is None or c.name in allowed)
        and (
            c.name in there
            or all(tolerated(t, tolerations) for t in c.taints if t.get("effect") in ("NoSchedule", "NoExecute"))
        )
    )
