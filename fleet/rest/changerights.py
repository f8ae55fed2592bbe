"""The kinds of content whose changes a user may hear of: those that she may list. Loaded with the first stream."""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request

from api.engine.kind import Kind
from api.engine.registry import Registry
from api.objects.writing import User
from api.wire.rights import Attributes, Authorizer
from fleet.rest.context import allowed
from fleet.rest.decisions import PATH as DECISIONS
from fleet.rest.sight import READ_QUEUES, READ_TREE, spaces
from fleet.rest.targets import job_kinds
from fleet.wellknown import CLUSTER, CONFIG, POLICY

# By kind of content: the namespaces, None for all; a kind without any is left out.
Seen = dict[str, Collection[str] | None]


def seen_by(registry: Registry, authorizer: Authorizer, user: User) -> Seen:
    request = Request({"type": "http", "headers": [], "fleet.user": user, "fleet.authorizer": authorizer})
    policies = [kind for name in ("PropagationPolicy", "OverridePolicy") if (kind := registry.kind(POLICY, name))]
    receivers = [kind for kind in (registry.kind(CONFIG, "NotificationReceiver"),) if kind]
    sight: Seen = {
        "jobs": _spaces(request, job_kinds(registry)),
        "policies": _spaces(request, policies),
        "receivers": _spaces(request, receivers),
    }
    if sight["jobs"] != () or (allowed(request, READ_QUEUES) and allowed(request, READ_TREE)):
        sight["queues"] = None
    if allowed(request, Attributes("list", CLUSTER, "clusters")):
        sight["members"] = None
    if allowed(request, Attributes("get", path=DECISIONS)):
        sight["decisions"] = None
    return {kind: where for kind, where in sight.items() if where != ()}


def _spaces(request: Request, kinds: list[Kind]) -> Collection[str] | None:
    """The namespaces where the user may list objects of some of the kinds; None: everywhere."""
    found = {space for kind in kinds for space in spaces(request, "list", kind)}
    return None if None in found else tuple(sorted(space for space in found if space is not None))
