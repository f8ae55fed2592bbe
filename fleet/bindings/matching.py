"""Which members a placement allows: Karmada's rules, as pure functions, apart from the loops that read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleet.core.model.unit import AffinityGroup, Toleration
from fleet.values.ports import Body
from fleet.values.times import seconds
from fleet.values.untyped import mapping, pairs, rows, text, texts

PREFER = "PreferNoSchedule"
EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class ClusterFields:
    """The fields of a Cluster object that affinity and taints look at."""

    name: str
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]] = ()


def labels_match(selector: object, labels: Mapping[str, str]) -> bool:
    """A metav1.LabelSelector against labels; an empty or missing one matches everything, an unreadable one nothing."""
    if selector is None:
        return True
    if not isinstance(selector, Mapping):
        return False
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(wanted, Mapping) or not isinstance(expressions, list):
        return False
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(expression_matches(entry, labels) for entry in expressions)


def expression_matches(entry: object, labels: Mapping[str, str]) -> bool:
    said = mapping(entry)
    operator, values, value = said.get("operator"), texts(said.get("values")), labels.get(text(said.get("key")))
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    return operator == "DoesNotExist" and value is None


def candidate(cluster: Body) -> ClusterFields:
    spec, meta = mapping(cluster.get("spec")), cluster["metadata"]
    fields = {name: text(spec.get(name)) for name in ("provider", "region", "zone")}
    return ClusterFields(meta["name"], pairs(meta.get("labels")), fields, rows(spec.get("taints")))


def affinity_matches(affinity: Mapping[str, Any] | None, cluster: ClusterFields) -> bool:
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
    return all(expression_matches(entry, cluster.fields) for entry in expressions)


def affinity_groups(
    placement: Mapping[str, Any] | None, clusters: Sequence[ClusterFields]
) -> tuple[AffinityGroup, ...]:
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


def allows(placement: Mapping[str, Any] | None, cluster: ClusterFields) -> bool:
    """Whether the placement's affinities let it stay in this member (taints keep newcomers out, not who is there)."""
    groups = affinity_groups(placement, [cluster])
    return not groups or any(cluster.name in group.members for group in groups)


def toleration(entry: Mapping[str, Any]) -> Toleration:
    return Toleration(
        str(entry.get("key") or ""),
        str(entry.get("operator") or "Equal"),
        str(entry.get("value") or ""),
        str(entry.get("effect") or ""),
    )


def cluster_tolerations(placement: Mapping[str, Any] | None) -> tuple[Toleration, ...]:
    """The tolerations that let newcomers in. A toleration that ends after `tolerationSeconds` lets present work stay
    for a while, and no newcomer past a NoExecute taint."""
    tolerations: list[Toleration] = []
    for entry in (placement or {}).get("clusterTolerations") or ():
        if entry.get("tolerationSeconds") is None:
            tolerations.append(toleration(entry))
        elif not entry.get("effect"):
            tolerations.append(replace(toleration(entry), effect="NoSchedule"))
    return tuple(tolerations)


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Toleration]) -> bool:
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.get("effect"):
            continue
        if toleration.key and toleration.key != taint.get("key"):
            continue
        if toleration.operator == "Exists" or (toleration.key and toleration.value == (taint.get("value") or "")):
            return True
    return False


def until(placement: Mapping[str, Any] | None, taint: Mapping[str, Any], now: float) -> float | None:
    """Epoch seconds up to which the placement tolerates this NoExecute taint; None: for ever."""
    added = seconds(text(taint.get("timeAdded"))) or now
    matching = [
        entry for entry in rows(mapping(placement).get("clusterTolerations")) if tolerated(taint, (toleration(entry),))
    ]
    if not matching:
        return min(added, now)
    limits = [entry["tolerationSeconds"] for entry in matching if entry.get("tolerationSeconds") is not None]
    return added + max(0.0, float(min(limits))) if limits else None


def standby(placement: Mapping[str, Any] | None, clusters: Iterable[ClusterFields]) -> frozenset[str]:
    """The members whose taints with the effect PreferNoSchedule the placement does not tolerate: it goes there last."""
    tolerations = [toleration(entry) for entry in (placement or {}).get("clusterTolerations") or ()]
    return frozenset(
        c.name for c in clusters if not all(tolerated(t, tolerations) for t in c.taints if t.get("effect") == PREFER)
    )


def repels(placement: Mapping[str, Any] | None, cluster: ClusterFields) -> bool:
    """Whether a taint of the member keeps newcomers with this placement out."""
    tolerations = cluster_tolerations(placement)
    repelling = [taint for taint in cluster.taints if taint.get("effect") in ("NoSchedule", "NoExecute")]
    return not all(tolerated(taint, tolerations) for taint in repelling)


def duplicated_to(
    placement: Mapping[str, Any] | None, clusters: Sequence[ClusterFields], current: Iterable[str]
) -> list[str]:
    """Every member that an object without pods goes to. The affinities allow it (of ordered ones, the first group that
    has any). The object tolerates its taints, or is there already and need not leave (`current`). Sorted by name."""
    groups = affinity_groups(placement, clusters)
    allowed = next((g.members for g in groups if g.members), frozenset()) if groups else None
    there = set(current)
    return sorted(
        c.name
        for c in clusters
        if (allowed is None or c.name in allowed) and (c.name in there or not repels(placement, c))
    )
