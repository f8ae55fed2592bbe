"""Components of a gang as a binding stores them, from and to the core's values; both ways exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleet.bindings import binding as b
from fleet.core.model.amounts import Amounts
from fleet.core.model.unit import Component, NodeClaim, Requirement, Toleration
from fleet.kinds.lookup import SIZE_MAX
from fleet.values.ports import Body
from fleet.values.quantity import BadQuantity, quantity, texts_of

WANTED = "wantedComponents"  # in spec, while the job asks for more than `components`, which it has


def to_body(component: Component, priority_class: str = "") -> dict[str, Any]:
    """As in `spec.components[]` of a ResourceBinding. "pods" is implied by the replicas and left out."""
    requirements: dict[str, Any] = {
        "resourceRequest": texts_of({name: n for name, n in component.requests.items_ if name != "pods"})
    }
    claim: dict[str, Any] = {}
    if component.claim.node_selector:
        claim["nodeSelector"] = dict(component.claim.node_selector)
    if component.claim.tolerations:
        claim["tolerations"] = [_toleration_body(entry) for entry in component.claim.tolerations]
    if component.claim.affinity:
        claim["hardNodeAffinity"] = {
            "nodeSelectorTerms": [
                {"matchExpressions": [_requirement_body(r) for r in term]} for term in component.claim.affinity
            ]
        }
    if claim:
        requirements["nodeClaim"] = claim
    if priority_class:
        requirements["priorityClassName"] = priority_class
    return {"name": component.name.lower(), "replicas": component.replicas, "replicaRequirements": requirements}


def _toleration_body(entry: Toleration) -> dict[str, Any]:
    pairs = (("key", entry.key), ("operator", entry.operator), ("value", entry.value), ("effect", entry.effect))
    return {name: value for name, value in pairs if value}


def _requirement_body(entry: Requirement) -> dict[str, Any]:
    body: dict[str, Any] = {"key": entry.key, "operator": entry.operator}
    if entry.values:
        body["values"] = list(entry.values)
    return body


def requests_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The quantities that each of its pods asks for."""
    return (body.get("replicaRequirements") or {}).get("resourceRequest") or {}


def from_body(body: Mapping[str, Any]) -> Component:
    """The core's component. Raises BadQuantity for amounts that are none."""
    requirements = body.get("replicaRequirements") or {}
    requests = {name: _amount(value, name) for name, value in requests_of(body).items()}
    requests["pods"] = 1
    claim = requirements.get("nodeClaim") or {}
    terms = (claim.get("hardNodeAffinity") or {}).get("nodeSelectorTerms") or ()
    return Component(
        name=str(body["name"]),
        replicas=_replicas(body.get("replicas") or 0),
        requests=Amounts.of(requests),
        claim=NodeClaim(
            node_selector=tuple(sorted((claim.get("nodeSelector") or {}).items())),
            tolerations=tuple(
                Toleration(
                    t.get("key") or "", t.get("operator") or "Equal", t.get("value") or "", t.get("effect") or ""
                )
                for t in claim.get("tolerations") or ()
            ),
            affinity=tuple(
                tuple(
                    Requirement(e["key"], e["operator"], tuple(e.get("values") or ()))
                    for e in term.get("matchExpressions") or ()
                )
                for term in terms
            ),
        ),
    )


def components_of(binding: Body) -> tuple[Component, ...]:
    """All of a binding. Raises BadQuantity."""
    return tuple(from_body(body) for body in b.component_bodies(binding))


def wanted_of(binding: Body) -> tuple[Component, ...]:
    """The components that the job of a placed binding asks for, where decide has not given it all of them; () else.
    Raises BadQuantity."""
    return tuple(from_body(body) for body in b.spec_of(binding).get(WANTED) or ())


def _amount(value: object, resource: str) -> int:
    amount = quantity(value, resource)
    if amount < 0:
        raise BadQuantity(f"{str(value)[:40]} is no amount of {resource}")
    return amount


def _replicas(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SIZE_MAX:
        raise BadQuantity(f"{str(value)[:40]} is no number of replicas")
    return value


def total(components: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The requests of the whole gang, as quantities."""
    amounts = Amounts()
    for body in components:
        component = from_body(body)
        amounts = amounts.plus(component.requests, component.replicas)
    return texts_of({name: n for name, n in amounts.items_ if name != "pods"})
