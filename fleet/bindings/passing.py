"""Which policies take gangs past a queue, and whether they may: pure functions of a policy and the quota tree.

A gang on a leaf waits in the leaf's queue, unless its policy leaves `suspension.scheduling` out and was written by a
user with the verb `bypass` on that queue. The API notes such a right on the policy (ANNOTATION_BYPASSES); bind reads
it. So a policy from before this check, or a policy that reaches a leaf which came later, counts as one that suspends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson

from fleet.bindings.leaf import leaf_for
from fleet.core.quota.tree import QuotaTree
from fleet.kinds import interpreter_of
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import at, mapping, pairs, rows, text, texts
from fleet.wellknown import ANNOTATION_BYPASSES, HUB_CONFIG, REQUIRE_QUEUE, SYSTEM_NAMESPACE

ALL = "*"  # in a mark: the queues of all leaves
REQUIRED_BY_HUB = f'{REQUIRE_QUEUE}: "true" in ConfigMap {SYSTEM_NAMESPACE}/{HUB_CONFIG}'
_CONFIG = Key("", "configmaps", SYSTEM_NAMESPACE, HUB_CONFIG)


def passing_kinds(policy: Body) -> tuple[str, ...]:
    """The gang kinds that the policy takes without suspending them, sorted; none for a policy that queues."""
    if at(policy, "spec", "suspension", "scheduling") is True:
        return ()
    return tuple(sorted({text(selector.get("kind")) for selector in _of_gangs(policy)}))


def _of_gangs(policy: Body) -> list[dict[str, object]]:
    selectors = rows(at(policy, "spec", "resourceSelectors"))
    return [s for s in selectors if interpreter_of(s.get("apiVersion"), s.get("kind")) is not None]


def passed_leaves(policy: Body, tree: QuotaTree | None) -> tuple[str, ...]:
    """The leaves, sorted, whose gangs a policy with `passing_kinds` can select. A leaf without namespaces is open to
    the namespaces that hang on no leaf."""
    if tree is None or not passing_kinds(policy):
        return ()
    namespaces = _namespaces(policy)
    leaves = [path for path, node in tree.nodes.items() if not node.children]
    if namespaces is None:
        return tuple(sorted(leaves))
    found: set[str] = set()
    for namespace in namespaces:
        own = tree.leaf_of(namespace)
        found |= {own} if own is not None else {path for path in leaves if not tree.nodes[path].namespaces}
    return tuple(sorted(found))


def _namespaces(policy: Body) -> set[str] | None:
    """The namespaces whose gangs the policy can select; None for all."""
    own = text(policy["metadata"].get("namespace"))
    if own:
        return {own}
    named = {text(selector.get("namespace")) for selector in _of_gangs(policy)}
    return None if "" in named else named


@dataclass(frozen=True, slots=True)
class Bypass:
    """The content of a policy's mark: the user who wrote it, and the leaves whose queues she had the right to pass."""

    by: str
    leaves: tuple[str, ...]

    def covers(self, leaves: Iterable[str]) -> bool:
        return ALL in self.leaves or set(leaves) <= set(self.leaves)

    @property
    def mark(self) -> str:
        """The annotation's value."""
        return orjson.dumps({"by": self.by, "leaves": list(self.leaves)}).decode()


def bypass_of(policy: Body) -> Bypass:
    """The mark of a policy; one without leaves where there is none that can be read."""
    said = pairs(policy["metadata"].get("annotations")).get(ANNOTATION_BYPASSES, "")
    try:
        found = mapping(orjson.loads(said)) if said else {}
    except ValueError:
        found = {}
    return Bypass(text(found.get("by")), texts(found.get("leaves")))


def required_by(tree: QuotaTree | None, leaves: Iterable[str], *, hub: bool) -> str:
    """The setting that lets no policy pass one of the leaves' queues, in words; "" for none. `hub`: the hub requires
    the queue."""
    if tree is None:
        return ""
    if hub:
        return REQUIRED_BY_HUB
    node = next((node for leaf in leaves if (node := tree.queue_required_by(leaf))), "")
    return f"{REQUIRE_QUEUE}: true at node {node} of the quota tree" if node else ""


def hub_requires_queue(store: Store) -> bool:
    """Whether the hub's ConfigMap lets no policy pass a queue, as this process has seen it."""
    stored = store.peek(_CONFIG)
    return stored is not None and at(stored.body, "data", REQUIRE_QUEUE) == "true"


def leaf_of_gang(tree: QuotaTree, namespace: str, labels: Mapping[str, str]) -> str | None:
    """The leaf whose queue the gang waits in, None for none. A label that names no leaf is no way past the leaf of the
    namespace."""
    named = leaf_for(tree, namespace, labels)
    return named if tree.is_leaf(named) else tree.leaf_of(namespace)


def why_queued(
    policy: Body, tree: QuotaTree | None, namespace: str, labels: Mapping[str, str], *, hub: bool = False
) -> str:
    """Why a gang waits in a queue although its policy does not suspend it; "" when it need not."""
    if tree is None or not passing_kinds(policy):
        return ""
    leaf = leaf_of_gang(tree, namespace, labels)
    leaves = (leaf,) if leaf is not None else ()
    required = required_by(tree, leaves, hub=hub)
    if required:
        return required
    if bypass_of(policy).covers(leaves):
        return ""
    return f'nobody with the verb "bypass" on the queue of {leaf} has written the policy'
