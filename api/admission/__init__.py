"""Kubernetes' own refusals beyond the schema: `Objects` asks `rules()`, and `kubernetes.check` of all other kinds."""

from __future__ import annotations

from collections.abc import Collection

from api.admission import core, crds, dynamic, roles, signing
from api.admission.rule import Checks

_RBAC = "rbac.authorization.k8s.io"


def rules(kept: Collection[str], seeded: str) -> dict[tuple[str, str], Checks]:
    """(group, resource) -> its rule. `kept`: namespaces that may not be deleted. `seeded`: the annotation of the
    definitions that the server brought by itself."""
    return {
        ("", "namespaces"): core.namespace_rule(kept),
        ("", "configmaps"): core.CONFIG_MAP,
        ("", "secrets"): core.SECRET,
        ("scheduling.k8s.io", "priorityclasses"): core.PRIORITY_CLASS,
        ("coordination.k8s.io", "leases"): core.LEASE,
        (_RBAC, "roles"): roles.ROLE,
        (_RBAC, "clusterroles"): roles.CLUSTER_ROLE,
        (_RBAC, "rolebindings"): roles.ROLE_BINDING,
        (_RBAC, "clusterrolebindings"): roles.CLUSTER_ROLE_BINDING,
        ("apiextensions.k8s.io", "customresourcedefinitions"): crds.rule(seeded),
        (dynamic.GROUP, "validatingwebhookconfigurations"): dynamic.WEBHOOKS,
        (dynamic.GROUP, "mutatingwebhookconfigurations"): dynamic.WEBHOOKS,
        (dynamic.GROUP, "validatingadmissionpolicies"): dynamic.POLICY,
        (dynamic.GROUP, "validatingadmissionpolicybindings"): dynamic.BINDING,
        (dynamic.GROUP, "mutatingadmissionpolicies"): dynamic.MUTATING,
        (dynamic.GROUP, "mutatingadmissionpolicybindings"): dynamic.MUTATING_BINDING,
        (signing.GROUP, signing.RESOURCE): signing.RULE,
    }
