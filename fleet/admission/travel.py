"""The objects that may leave the hub at all. Asked when a policy's selection becomes a binding, and again at dispatch.

Fleet's own objects, system namespaces and objects of one cluster never travel. Kinds that grant rights travel by a
cluster-wide policy only: a tenant who could send a RoleBinding would have the rights of the hub's account in a member.
"""

from __future__ import annotations

from api.engine.kind import Kind
from fleet.values.ports import Body, Key
from fleet.wellknown import CLUSTER, CONFIG, POLICY, QUEUE, QUOTA, SYSTEM_NAMESPACES, WORK

NEVER_GROUPS = frozenset({POLICY, WORK, CLUSTER, CONFIG, QUEUE, QUOTA, "coordination.k8s.io", "events.k8s.io"})
NEVER_CORE = frozenset({"events", "nodes", "pods", "endpoints"})
# What the controllers and nodes of one cluster write about it.
NEVER_OTHERS = frozenset(
    {
        ("apps", "controllerrevisions"),
        ("discovery.k8s.io", "endpointslices"),
        ("networking.k8s.io", "ipaddresses"),
        ("resource.k8s.io", "resourceslices"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("storage.k8s.io", "volumeattachments"),
    }
)
NEVER_CONFIGMAPS = frozenset({"kube-root-ca.crt"})  # every cluster makes its own
# A Secret of these types makes the member's own control plane issue credentials.
NEVER_SECRETS = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})
GRANTS_RIGHTS = frozenset(
    {
        "rbac.authorization.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "apiextensions.k8s.io",
    }
)


def propagatable(kind: Kind) -> bool:
    """Whether objects of the kind may travel, if only by a cluster-wide policy."""
    if kind.group in NEVER_GROUPS or (kind.group, kind.resource) in NEVER_OTHERS:
        return False
    return not (kind.group == "" and kind.resource in NEVER_CORE)


def grants_rights(api_version: str) -> bool:
    """Whether objects of the group grant rights to the subjects that they name."""
    return api_version.rpartition("/")[0] in GRANTS_RIGHTS


def why_not(kind: Kind, key: Key, body: Body, *, tenant: bool) -> str:
    """Why the object may not travel by such a policy; "" when it may. `tenant`: the policy is a namespace's own."""
    if not propagatable(kind):
        return f"objects of kind {kind.kind} stay on the hub"
    if key.namespace in SYSTEM_NAMESPACES:  # members' credentials are here
        return f"objects of namespace {key.namespace} stay on the hub"
    if kind.group == "":
        if kind.resource == "namespaces" and key.name in SYSTEM_NAMESPACES:
            return "system namespaces stay on the hub"
        if kind.resource == "configmaps" and key.name in NEVER_CONFIGMAPS:
            return "every cluster makes its own"
        if kind.resource == "secrets" and body.get("type") in NEVER_SECRETS:
            return f"Secrets of type {body['type']} stay on the hub: a member would issue credentials for them"
    if tenant and kind.group in GRANTS_RIGHTS:
        return f"a {kind.kind} grants rights, and travels by a ClusterPropagationPolicy only"
    return ""
