"""Ready-made roles for the people of a fleet, between the roles of Kubernetes and `cluster-admin`.

None of them reads Secrets, gives rights to others, passes a queue or looks into a member with the hub's own account.
As in Kubernetes, readers see logs, and writers of jobs may open a shell in the pods of their namespace.
"""

from __future__ import annotations

from fleet.values.ports import Body
from fleet.wellknown import CLUSTER, CONFIG, HYPERNODES, POLICY, QUEUE, QUOTA, WORK

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_ALL = [*_READ, *_WRITE]
_JOBS = {
    "argoproj.io": ["workflows"],
    "batch": ["jobs"],
    "batch.volcano.sh": ["jobs"],
    "jobset.x-k8s.io": ["jobsets"],
    "kubeflow.org": ["jaxjobs", "mpijobs", "paddlejobs", "pytorchjobs", "pytorchjobs/scale", "tfjobs", "xgboostjobs"],
    "leaderworkerset.x-k8s.io": ["leaderworkersets"],
    "ray.io": ["rayclusters", "rayjobs"],
    "sparkoperator.k8s.io": ["sparkapplications"],
    "trainer.kubeflow.org": ["trainjobs"],
}
_POLICIES = ["propagationpolicies", "overridepolicies"]
_POLICIES_FOR_ALL = ["clusterpropagationpolicies", "clusteroverridepolicies"]
_POLICY_GROUPS = [POLICY, "policy.karmada.io"]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Body:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


# The log of a job and the list of its pods, of each kind with pods.
JOB_LOGS = [
    _rule([group], [f"{name}/{part}" for name in names if "/" not in name for part in ("log", "pods")], ["get"])
    for group, names in _JOBS.items()
]
SHELLS = _rule([""], ["pods/attach", "pods/exec", "pods/portforward"], ["create", "get"])
_VIEWER = [
    *(_rule([group], names, _READ) for group, names in _JOBS.items()),
    *JOB_LOGS,
    _rule([""], ["pods/log"], ["get"]),
    _rule(["", "events.k8s.io"], ["events"], _READ),
    _rule([""], ["namespaces", "pods"], _READ),
    _rule(_POLICY_GROUPS, [*_POLICIES, *_POLICIES_FOR_ALL], _READ),
    _rule([WORK], ["resourcebindings"], _READ),
    _rule([QUEUE], ["queues", "queueunits"], _READ),
    _rule([QUOTA], ["elasticquotatrees"], _READ),
    _rule([CLUSTER], ["clusters"], _READ),
    _rule([HYPERNODES], ["hypernodes"], _READ),
    _rule([CONFIG], ["notificationreceivers"], _READ),
]
# Views of the whole hub that are paths, and no resources: decisions, faults and the newest snapshot show the names,
# sizes and reasons of all jobs, which readers of all namespaces may see. What-if and replays change nothing.
_VIEWS = ["/fleet/v1/decisions", "/fleet/v1/decisions/*", "/fleet/v1/faults", "/fleet/v1/faults/*"]
_OPERATOR = [
    *_VIEWER,
    {"nonResourceURLs": [*_VIEWS, "/fleet/v1/parts", "/fleet/v1/snapshot", "/metrics"], "verbs": ["get"]},
    {"nonResourceURLs": ["/fleet/v1/decisions/*", "/fleet/v1/what-if"], "verbs": ["post"]},
]
_JOB_SUBMITTER = [
    *_VIEWER,
    *(_rule([group], names, _ALL) for group, names in _JOBS.items()),
    _rule([""], ["configmaps", "persistentvolumeclaims"], _ALL),
    SHELLS,
]
_QUEUE_ADMIN = [
    *_VIEWER,
    _rule([QUOTA], ["elasticquotatrees"], _ALL),
    _rule([QUEUE], ["queues", "queueunits"], ["patch", "update"]),
    _rule([QUEUE], ["queues"], ["use"]),
]
_FLEET_ADMIN = [
    *_QUEUE_ADMIN,
    *_OPERATOR[len(_VIEWER) :],
    _rule([CLUSTER], ["clusters"], _ALL),
    _rule([HYPERNODES], ["hypernodes"], _ALL),
    _rule(_POLICY_GROUPS, [*_POLICIES, *_POLICIES_FOR_ALL], _ALL),
    _rule([CONFIG], ["workloadinterpreters", "notificationreceivers"], _ALL),
    _rule(["scheduling.k8s.io"], ["priorityclasses"], _ALL),
]

READY_ROLES: dict[str, list[Body]] = {
    "viewer": _VIEWER,
    "fleet-operator": _OPERATOR,
    "job-submitter": _JOB_SUBMITTER,
    "queue-admin": _QUEUE_ADMIN,
    "fleet-admin": _FLEET_ADMIN,
}


def role_with(verb: str, group: str, resource: str) -> str:
    """The first of these roles, from the least on, that has the verb; "" for none."""
    for name, rules in READY_ROLES.items():
        for rule in rules:
            if group in rule.get("apiGroups", ()) and resource in rule["resources"] and verb in rule["verbs"]:
                return name
    return ""
