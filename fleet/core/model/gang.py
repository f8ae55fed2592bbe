"""Keys by which gangs are told apart: equal for gangs that ask for the same, and much cheaper than their components."""

from __future__ import annotations

from typing import Any

from fleet.core.model.unit import Component, NodeClaim

Key = tuple[Any, ...]


def gang_key(components: tuple[Component, ...]) -> Key:
    """Return a key that is equal for equal components, and much cheaper to hash and compare."""
    return tuple([(part.name, part.replicas, part.requests.items_, node_claim_key(part.claim)) for part in components])


def node_claim_key(claim: NodeClaim) -> Key:
    """Return a key that is equal for equal claims; () for the claim that asks for nothing. Keys can be ordered."""
    if not (claim.node_selector or claim.tolerations or claim.affinity):
        return ()
    return (
        claim.node_selector,
        tuple((t.key, t.operator, t.value, t.effect) for t in claim.tolerations),
        tuple(tuple((term.key, term.operator, term.values) for term in terms) for terms in claim.affinity),
    )
