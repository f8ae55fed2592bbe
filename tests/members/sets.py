"""Random node and pod sets from a seed, for the comparison of the hub's fit with a real kube-scheduler.

A world is some nodes of one member that share a label, with pods that select this label. So many worlds are placed at
once and none sees another.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random

from tests.members.builders import Body

WORLD = "truth/world"
HOST = "kubernetes.io/hostname"
GPU, NIC, HUGE = "nvidia.com/gpu", "example.com/nic", "hugepages-2Mi"
RUNTIME = "truth-overhead"  # a RuntimeClass
OVERHEAD = {"cpu": "30m", "memory": "20Mi"}
CLAIM = "truth-claim"  # a ResourceClaim of a device that no node has
# Objects that the worlds need in the member, by collection.
BESIDE: dict[str, Body] = {
    "/apis/node.k8s.io/v1/runtimeclasses": {
        "metadata": {"name": RUNTIME},
        "handler": "truth",
        "overhead": {"podFixed": OVERHEAD},
    },
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": {
        "metadata": {"name": CLAIM},
        "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "nowhere"}}]}},
    },
}
CPU = ["0", "1m", "100m", "250m", "0.5", "1", "1.5", "2", "1e0", "15e-1", "0.001k", "300u", "1500u", "1000001n"]
BYTES = ["0", "1", "1e3", "64Mi", "100M", "1.5Gi", "0.5Gi", "1Gi", "1073741825", "1.1", "100m", "1500m", "12e6", "2Ki"]
TAINTS = [
    {"key": key, **({"value": value} if value else {}), "effect": effect}
    for key in ("team", "gpu-only", "example.com/spot")
    for value in ("", "a", "b")
    for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")
]
LABELS = {
    "zone": ["a", "b", ""],
    "generation": ["7", "10", "007", "1_0", "9x", "99999999999999999999", "9223372036854775807"],
    "example.com/tier": ["gold", "silver"],
}
NUMBERS = ["5", "7", "9", "10", "0", "1_0", "9223372036854775806"]
_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Kubelet",
    "message": "",
    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@dataclass(frozen=True)
class WorldSet:
    """The nodes of one world as they are created, and the specs of its pods in their order. `refused` holds the numbers
    of the pods that no API server takes."""

    name: str
    nodes: tuple[Body, ...]
    pods: tuple[Body, ...]
    refused: frozenset[int]


def world(seed: int, number: int, pods: int) -> WorldSet:
    rng = Random(f"{seed}/{number}")
    name = f"w{seed}-{number}"
    absent = rng.random() < 0.4
    nodes = tuple(_node(rng, name, f"{name}-n{each}", absent) for each in range(rng.randint(1, 4)))
    specs: list[Body] = []
    refused: set[int] = set()
    for each in range(pods):
        spec = _pod(rng, name, [node["metadata"]["name"] for node in nodes], absent)
        if rng.random() < 0.03:
            spec["containers"][0]["resources"] = {"limits": {GPU: rng.choice(["0.5", "500m", "1.5"])}}
            refused.add(each)
        specs.append(spec)
    return WorldSet(name, nodes, tuple(specs), frozenset(refused))


# -- nodes


def _node(rng: Random, world: str, name: str, absent: bool) -> Body:
    room = {
        "cpu": rng.choice(["4", "3500m", "8", "3.9995", "4000500u"]),
        "memory": rng.choice(["8Gi", "6442450945", "7e9", "5.5Gi"]),
        "pods": rng.choice(["3", "5", "20", "20"]),
    }
    if rng.random() < 0.8:
        room["ephemeral-storage"] = rng.choice(["10Gi", "5e9"])
    if rng.random() < 0.7:
        room[GPU] = rng.choice(["1", "4", "8", "0"])
    if rng.random() < 0.4:
        room[NIC] = rng.choice(["2", "1k"])
    if rng.random() < 0.3:
        room[HUGE] = "64Mi"
    labels = {WORLD: world}
    if rng.random() < 0.9:
        labels[HOST] = name if rng.random() < 0.8 else f"host-{name}"
    if rng.random() < 0.2:
        labels["example.com/machine"] = name
    for key, values in LABELS.items():
        if rng.random() < 0.6:
            labels[key] = rng.choice(values)
    taints = {(t["key"], t["effect"]): t for t in rng.choices(TAINTS, k=rng.choice([0, 0, 0, 0, 1, 2]))}
    fault = rng.choice(["", "", "cordoned", "not ready"]) if absent else ""
    spec: Body = {"taints": list(taints.values())}
    if fault == "cordoned":
        spec["unschedulable"] = True
    ready = {**_READY, "status": "False" if fault == "not ready" else "True"}
    annotations = {"kwok.x-k8s.io/node": "fake"}
    if fault == "not ready":
        annotations["kwok.x-k8s.io/status"] = "custom"  # else it is made ready
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


# -- pods


def _pod(rng: Random, world: str, nodes: list[str], absent: bool) -> Body:
    containers = [_container(rng, f"c{n}") for n in range(rng.choice([1, 1, 1, 2, 3]))]
    spec: Body = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": containers,
        "nodeSelector": {WORLD: world},
    }
    init = [_container(rng, f"i{n}", init=True) for n in range(rng.choice([0, 0, 1, 2, 3]))]
    if init:
        spec["initContainers"] = init
    if rng.random() < 0.15:
        spec["runtimeClassName"], spec["overhead"] = RUNTIME, dict(OVERHEAD)
    if rng.random() < 0.3:
        spec["resources"] = _of_the_pod(rng)
    if rng.random() < 0.12:
        key = rng.choice(sorted(LABELS))
        spec["nodeSelector"][key] = rng.choice(LABELS[key])
    if rng.random() < 0.08:
        spec["nodeSelector"][HOST] = rng.choice(nodes)
    if rng.random() < 0.4:
        terms = [_term(rng, nodes) for _ in range(rng.choice([1, 2, 2, 3]))]
        required = {"nodeSelectorTerms": terms}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if rng.random() < 0.6:
        spec["tolerations"] = list(_tolerations(rng, absent))
    return spec


def _container(rng: Random, name: str, *, init: bool = False) -> Body:
    asked = {
        "cpu": (rng.choice(CPU), 0.7),
        "memory": (rng.choice(BYTES), 0.6),
        "ephemeral-storage": (rng.choice(BYTES), 0.2),
    }
    requests: Body = {}
    limits: Body = {}
    for resource, (amount, likely) in asked.items():
        if rng.random() < likely:
            way = rng.random()
            if way < 0.6:
                requests[resource] = amount
            else:
                limits[resource] = amount
                if way < 0.7:
                    requests[resource] = "0"
    for resource, amount in ((GPU, rng.choice(["1", "2", "1e0", "0"])), (NIC, "1"), (HUGE, "4Mi")):
        if rng.random() < {GPU: 0.35, NIC: 0.1, HUGE: 0.05}[resource]:
            limits[resource] = amount
            if rng.random() < 0.3:
                requests[resource] = amount
    if HUGE in limits and "memory" not in {**requests, **limits}:
        requests["memory"] = "1Mi"
    found: Body = {"name": name, "image": "example/train:1"}
    if requests or limits:
        found["resources"] = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    if init and rng.random() < 0.5:
        found["restartPolicy"] = "Always"
    return found


def _of_the_pod(rng: Random) -> Body:
    """Large amounts, for an API server refuses less than the containers ask for."""
    given: Body = {}
    for resource, amount in (("cpu", rng.choice(["1", "2500m", "3"])), ("memory", rng.choice(["1Gi", "3Gi", "3e9"]))):
        way = rng.random()
        if way < 0.35:
            given.setdefault("requests", {})[resource] = amount
        elif way < 0.8:
            given.setdefault("limits", {})[resource] = amount
    return given or {"limits": {"memory": "3Gi"}}


def _term(rng: Random, nodes: list[str]) -> Body:
    expressions, fields = [], []
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        key = rng.choice([*LABELS, HOST, "example.com/machine", "none"])
        operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        expression: Body = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            values = [*LABELS.get(key, ["x"]), *(nodes if "/" in key else [])]
            expression["values"] = rng.sample(values, rng.randint(1, min(3, len(values))))
        elif operator in ("Gt", "Lt"):
            expression["key"] = rng.choice(["generation", "generation", "generation", key])
            expression["values"] = [rng.choice(NUMBERS)]
        expressions.append(expression)
    if rng.random() < 0.2:
        operator = rng.choice(["In", "NotIn"])
        fields.append({"key": "metadata.name", "operator": operator, "values": [rng.choice(nodes)]})
    return {key: value for key, value in (("matchExpressions", expressions), ("matchFields", fields)) if value}


def _tolerations(rng: Random, absent: bool) -> Iterator[Body]:
    for _ in range(rng.randint(1, 3)):
        taint = rng.choice(TAINTS)
        way = rng.randrange(7)
        if way == 0 and not absent:
            yield {"operator": "Exists"}
        elif way == 1 and not absent:
            yield {"operator": "Exists", "effect": taint["effect"]}
        elif way == 2:
            yield {"key": taint["key"], "operator": "Exists"}
        elif way == 3:
            yield {"key": taint["key"], "operator": "Equal", "value": taint.get("value", "")}
        elif way == 4:
            yield {"key": taint["key"], "effect": taint["effect"]}
        elif way == 5:
            yield {"key": taint["key"], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}
        else:
            yield {**taint, "operator": "Equal"}


# The features that the hub leaves to the member: each with a pod that is alone on one node of 4 CPUs, and whether the
# scheduler finds a node for it where the hub says the opposite. docs/known-limits.md names the same.
_LABELLED = {"labelSelector": {"matchLabels": {"of": "nobody"}}, "topologyKey": HOST}
EXCLUDED: dict[str, tuple[Body, bool]] = {
    "pod affinity": (
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_LABELLED]}}},
        False,
    ),
    "topology spread": (
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "rack",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"of": "nobody"}},
                }
            ]
        },
        False,
    ),
    "host ports": ({"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}, False),
    "volumes": ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}}]}, False),
    "resource claims": ({"resourceClaims": [{"name": "r", "resourceClaimName": CLAIM}]}, False),
    "overhead that only the member's RuntimeClass names": (
        {"runtimeClassName": RUNTIME, "containers": [{"resources": {"requests": {"cpu": "3980m"}}}]},
        False,
    ),
    "tolerating a cordoned node": ({"tolerations": [{"operator": "Exists"}]}, True),
}


def excluded(number: int, feature: str) -> tuple[WorldSet, Body]:
    """A world of one node, and the pod of this feature. For host ports the world's first pod has the port already."""
    name = f"x{number}"
    room = {"cpu": "4", "memory": "4Gi", "pods": "9"}
    node: Body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"{name}-n0",
            "labels": {WORLD: name, HOST: name},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"unschedulable": EXCLUDED[feature][1]},
        "status": {"capacity": room, "allocatable": room, "conditions": [_READY]},
    }
    more = deepcopy(EXCLUDED[feature][0])
    (container,) = more.pop("containers", [{}])
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {WORLD: name},
        "containers": [{"name": "c", "image": "example/train:1", **container}],
        **more,
    }
    first = (spec,) if feature == "host ports" else ()
    return WorldSet(name, (node,), first, frozenset()), spec


def filling(world: str, node: Body, free: Body) -> Body:
    """The spec of a pod that asks for exactly these amounts on one node, whatever its taints are."""
    name = node["metadata"]["name"]
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {WORLD: world},
        "containers": [{"name": "c", "image": "example/train:1", "resources": {"limits": deepcopy(free)}}],
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    }
