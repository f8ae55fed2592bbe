"""Which policy an object follows: Karmada's rules, as pure functions.

The rules have corners that users rely on: the order of policies, and when another policy than the one that an object
follows may pre-empt it.
"""

from __future__ import annotations

from collections.abc import Iterable

from api.engine.kind import Kind
from fleet.admission.travel import propagatable, why_not
from fleet.admission.workloads import INSTEAD, stays_with_its_pods
from fleet.bindings.matching import labels_match
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import mapping, pairs, rows, text, whole
from fleet.wellknown import POLICY

UNTAKEN = "no PropagationPolicy or ClusterPropagationPolicy selects it"

_KIND, _SELECTOR, _NAME = 1, 2, 3  # how closely a selector names an object; higher wins at equal priority


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


def policy_reference(policy: Body) -> str:
    """How a binding's annotation names the policy: "PropagationPolicy ns/name", "ClusterPropagationPolicy name"."""
    meta = policy["metadata"]
    if meta.get("namespace"):
        return f"PropagationPolicy {meta['namespace']}/{meta['name']}"
    return f"ClusterPropagationPolicy {meta['name']}"


def best_policy(body: Body, policies: Iterable[Body], followed_policy: str = "") -> Body | None:
    """The policy that the object follows, or None.

    Namespaced before cluster-wide, then higher priority, then the closer selector, then by name. The policy that the
    object already follows (`followed_policy`: the reference to it) keeps it as long as it matches, unless a better one
    says `preemption: Always`.
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
        if followed_policy and policy_reference(policy) == followed_policy:
            better = [p for o, p in ranked if o[:2] < order[:2] and p["spec"].get("preemption") == "Always"]
            return better[0] if better else policy
    return ranked[0][1]


def why_untaken(body: Body, policies: Iterable[Body]) -> str:
    """Why none of the policies selects the object: one may name its kind in a version that is served no more."""
    api_version, group = text(body.get("apiVersion")), text(body.get("apiVersion")).rpartition("/")[0]
    for policy in policies:
        for selector in rows(mapping(policy.get("spec")).get("resourceSelectors")):
            named = text(selector.get("apiVersion"))
            if named == api_version or named.rpartition("/")[0] != group:
                continue
            if selects([{**selector, "apiVersion": api_version}], body, policy["metadata"].get("namespace", "")):
                return f"{policy_reference(policy)} names {named} {body['kind']}, and the hub has it as {api_version}"
    return UNTAKEN


def untaken(kind: Kind, key: Key, why: str = UNTAKEN) -> str:
    """The text about an object with pods that no policy takes."""
    name = f"{kind.kind} {key.namespace}/{key.name}" if key.namespace else f"{kind.kind} {key.name}"
    if not propagatable(kind) or stays_with_its_pods(kind):
        instead = INSTEAD.get((kind.group, kind.kind), "submit a job").format(name=key.name)
        return f"no policy takes {name}: objects of this kind stay on the hub, where nothing runs them; {instead}"
    return f"no policy takes {name}: {why}"


def policies_for(store: Store, kind: Kind, key: Key, body: Body) -> list[Body]:
    """The stored policies that may take the object at all: cluster-wide ones and those of its namespace."""
    found = [stored.body for stored in store.scan(POLICY, "clusterpropagationpolicies")]
    if key.namespace:
        found += [stored.body for stored in store.scan(POLICY, "propagationpolicies", namespace=key.namespace)]
    return [policy for policy in found if not why_not(kind, key, body, tenant=of_namespace(policy))]
