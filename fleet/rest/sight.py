"""The part of the fleet that a user may see: the one place for views whose objects are of many namespaces.

A right in some namespaces shows what is there, and the answer says that it is a part. Of a quota tree such a user sees
the leaves that her namespaces may use and the nodes above them, of other people's jobs sums alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from starlette.requests import Request

from api.engine.kind import Kind
from api.wire.rights import Attributes
from fleet.core.model.unit import Unit
from fleet.core.quota.tree import QuotaTree
from fleet.rest.context import RestHub, allowed, authorizer_of, user_of
from fleet.rest.targets import job_kinds
from fleet.wellknown import QUEUE, QUEUE_NAMESPACE, QUOTA, TREE_NAMESPACE

READ_QUEUES = Attributes("list", QUEUE, "queues", namespace=QUEUE_NAMESPACE)
READ_TREE = Attributes("list", QUOTA, "elasticquotatrees", namespace=TREE_NAMESPACE)


def spaces(request: Request, verb: str, kind: Kind, namespace: str | None = None, name: str = "") -> list[str | None]:
    """Where the user may do so: [None] everywhere, else in these namespaces. `namespace`: the only one to look at."""
    wanted = Attributes(verb, kind.group, kind.resource, namespace=namespace or "", name=name)
    if allowed(request, wanted):
        return [namespace]
    if namespace is not None:
        return []
    granted = sorted(authorizer_of(request).namespaces(user_of(request)))
    inside = (Attributes(verb, kind.group, kind.resource, namespace=space, name=name) for space in granted)
    return [there.namespace for there in inside if allowed(request, there)]


def homes(hub: RestHub, request: Request) -> set[str]:
    """The namespaces where the user may list jobs of some kind, for a user who may not do so everywhere."""
    found = (space for kind in job_kinds(hub.registry) for space in spaces(request, "list", kind))
    return {space for space in found if space is not None}


def nodes_seen(hub: RestHub, request: Request, tree: QuotaTree, names: dict[str, str]) -> Collection[str] | None:
    """The nodes of the quota tree that the user may see; None: all. `names`: of each node's Queue by its path."""
    if allowed(request, READ_QUEUES) and allowed(request, READ_TREE):
        return None
    at_home = homes(hub, request)
    if not at_home:
        return ()

    def usable(path: str) -> bool:
        node = tree.nodes[path]
        use = Attributes("use", QUEUE, "queues", namespace=QUEUE_NAMESPACE, name=names.get(path, ""))
        return not node.namespaces or not at_home.isdisjoint(node.namespaces) or allowed(request, use)

    leaves = [path for path, node in tree.nodes.items() if not node.children and usable(path)]
    return {above for leaf in leaves for above in tree.ancestors(leaf)}


def jobs_seen(hub: RestHub, request: Request) -> Callable[[Unit], bool]:
    """Whether the user may get a unit's job. Rights on a whole namespace are asked about once."""
    answers: dict[tuple[str, str], bool] = {}

    def seen(unit: Unit) -> bool:
        group, _, kind_name = unit.needs_kind.rpartition("/")
        kind = hub.registry.kind(group, kind_name)
        namespace, _, name = unit.name.partition("/")
        if kind is None:
            return False
        key = (unit.needs_kind, namespace)
        if key not in answers:
            answers[key] = bool(spaces(request, "get", kind, namespace))
        return answers[key] or bool(spaces(request, "get", kind, namespace, name))

    return seen


def seen_of(paths: Sequence[str], seen: Collection[str] | None) -> list[str]:
    """The members of `paths` that are among `seen`; None: all."""
    return [path for path in paths if seen is None or path in seen]
