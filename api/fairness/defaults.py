"""The priority levels and flow schemas that a kube-apiserver brings, by name: the specs of its version 1.36."""

from __future__ import annotations

from fleet.values.ports import Body

GROUP = "flowcontrol.apiserver.k8s.io"
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"  # "true": the spec follows the version of the server
MANDATORY = ("exempt", "catch-all")
"""The levels and the schemas without which requests would have no class."""
_EVERYBODY = ("system:unauthenticated", "system:authenticated")


def _queued(shares: int, lendable: int, queues: int = 128, hand: int = 6) -> Body:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    return {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": shares,
            "lendablePercent": lendable,
            "limitResponse": {"type": "Queue", "queuing": queuing},
        },
    }


LEVELS: dict[str, Body] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    },
    "system": _queued(30, 33, 64),
    "node-high": _queued(40, 25, 64),
    "leader-election": _queued(10, 0, 16, 4),
    "workload-high": _queued(40, 50),
    "workload-low": _queued(100, 90),
    "global-default": _queued(20, 50),
}


def _groups(*names: str) -> list[Body]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Body]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


_SYSTEM_ACCOUNTS = [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}]


def _resources(verbs: tuple[str, ...], groups: tuple[str, ...], names: tuple[str, ...], cluster: bool) -> Body:
    rule: Body = {"verbs": [*verbs], "apiGroups": [*groups], "resources": [*names], "namespaces": ["*"]}
    return rule | {"clusterScope": True} if cluster else rule


_LEASES = ("coordination.k8s.io",), ("leases",), False
_ALL_RESOURCES = _resources(("*",), ("*",), ("*",), True)


def _rule(subjects: list[Body], *resources: Body, paths: tuple[str, ...] = (), verb: str = "*") -> Body:
    rule: Body = {"subjects": subjects}
    if resources:
        rule["resourceRules"] = [*resources]
    if paths:
        rule["nonResourceRules"] = [{"verbs": [verb], "nonResourceURLs": [*paths]}]
    return rule


def _everything(subjects: list[Body]) -> Body:
    return _rule(subjects, _ALL_RESOURCES, paths=("*",))


def _schema(level: str, precedence: int, by: str, rule: Body) -> Body:
    spec: Body = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]}
    return spec | {"distinguisherMethod": {"type": by}} if by else spec


_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_PROBES = ("/healthz", "/readyz", "/livez")
SCHEMAS: dict[str, Body] = {
    "exempt": _schema("exempt", 1, "", _everything(_groups("system:masters"))),
    "probes": _schema("exempt", 2, "", _rule(_groups(*_EVERYBODY), paths=_PROBES, verb="get")),
    "system-leader-election": _schema(
        "leader-election",
        100,
        "ByUser",
        _rule([*_users(_MANAGER, _SCHEDULER), *_SYSTEM_ACCOUNTS], _resources(("get", "create", "update"), *_LEASES)),
    ),
    "system-node-high": _schema(
        "node-high",
        400,
        "ByUser",
        _rule(
            _groups("system:nodes"),
            _resources(("*",), ("",), ("nodes", "nodes/status"), True),
            _resources(("*",), *_LEASES),
        ),
    ),
    "system-nodes": _schema("system", 500, "ByUser", _everything(_groups("system:nodes"))),
    "kube-controller-manager": _schema("workload-high", 800, "ByNamespace", _everything(_users(_MANAGER))),
    "kube-scheduler": _schema("workload-high", 800, "ByNamespace", _everything(_users(_SCHEDULER))),
    "kube-system-service-accounts": _schema("workload-high", 900, "ByNamespace", _everything(_SYSTEM_ACCOUNTS)),
    "service-accounts": _schema("workload-low", 9000, "ByUser", _everything(_groups("system:serviceaccounts"))),
    "global-default": _schema("global-default", 9900, "ByUser", _everything(_groups(*_EVERYBODY))),
    "catch-all": _schema("catch-all", 10000, "ByUser", _everything(_groups(*_EVERYBODY))),
}
