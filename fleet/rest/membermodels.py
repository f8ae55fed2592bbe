"""The answers of /fleet/v1 about members: clusters, their nodes, and the use of their GPUs."""

from __future__ import annotations

from pydantic import Field

from fleet.rest.models import Amounts, Model


class Nodes(Model):
    total: int
    ready: int


class Taint(Model):
    """Keeps jobs away that do not tolerate it: newcomers, and with NoExecute those that are there too."""

    key: str
    value: str | None = None
    effect: str = Field(description="NoSchedule, PreferNoSchedule or NoExecute.")
    added: str | None = Field(default=None, description="From when on tolerationSeconds count.")


class GpusOfModel(Model):
    """GPUs of one model in a member, as the labels of its nodes name it."""

    model: str = Field(description="Empty where no label names it.")
    allocated: int = Field(description="Asked for by pods on nodes that take pods.")
    free: int
    fragmented: int = Field(description="Of the free ones, those on nodes where others are allocated.")
    cordoned: int = Field(description="On nodes that take no pods: cordoned, not ready or avoided; used or not.")


class Cluster(Model):
    """A member cluster."""

    name: str
    ready: bool
    message: str = Field(description="Why it is not ready, or empty.")
    readySince: str | None = Field(description="When `ready` last changed; null before the first look.")
    version: str | None
    endpoint: str | None
    labels: dict[str, str]
    taints: list[Taint]
    nodes: Nodes
    allocatable: Amounts = Field(description="Of all its nodes, those that take no pods among them.")
    allocated: Amounts = Field(description="Asked for by pods that have a node.")
    free: Amounts
    free_gpus: int
    gpus: list[GpusOfModel] = Field(description="In order of model; empty without GPUs, or before it was looked at.")
    jobs: dict[str, int] = Field(description="Jobs there, counted by state; /fleet/v1/jobs?member=NAME lists them.")


class ClusterList(Model):
    items: list[Cluster]


class JobOnNode(Model):
    namespace: str
    kind: str
    name: str
    queue: str | None = Field(description="Full path of its quota leaf; null outside quota.")
    gpus: int = Field(description="Of this node.")


class Node(Model):
    """A node with GPUs."""

    member: str
    name: str
    model: str = Field(description="Of its GPUs; empty where no label names it.")
    gpus: int
    state: str = Field(description="ready, cordoned (or avoided), or notReady.")
    jobs: list[JobOnNode] = Field(description="Jobs of the hub that the user may get.")
    other: int = Field(description="GPUs that other jobs and other pods use.")


class NodeList(Model):
    at: str | None = Field(description="When the controllers saw them so; null: not yet.")
    items: list[Node] = Field(description="By member and name.")
    left: int = Field(description="Nodes beyond `limit`.")


class PlaceDomain(Model):
    """One domain of a place tree, such as a rack."""

    level: str
    path: str = Field(description="Its names from the root of the tree, with slashes.")
    nodes: int = Field(description="With GPUs.")
    gpus: int
    free: int = Field(description="GPUs that nobody uses, on nodes that take pods.")
    slots: dict[str, int] = Field(description="By 8, 4, 2 and 1: how many pods with so many GPUs have room.")
    names: list[str] = Field(description="Its nodes that lie in no finer domain.")


class PlaceTree(Model):
    levels: list[str] = Field(description="Coarse to fine.")
    domains: list[PlaceDomain] = Field(description="Each after the one that it lies in.")


class MemberTopology(Model):
    member: str
    trees: list[PlaceTree]
    outside: list[str] = Field(description="Nodes with GPUs that lie in no domain.")


class TopologyList(Model):
    at: str | None = Field(description="When the controllers saw the nodes so; null: not yet.")
    items: list[MemberTopology] = Field(description="By member.")
    left: int = Field(description="Nodes beyond the most that are looked at.")


class MemberGpuUse(Model):
    """GPU figures of a member, over all its GPUs that the source knows; null: not told."""

    name: str
    silent: str = Field(description="Why figures are missing, or empty.")
    gpus: int
    utilization: float | None = Field(description="The mean, from 0 to 1.")
    used_bytes: float | None
    memory_bytes: float | None
    power_watts: float | None
    idle: int = Field(description="GPUs that a pod holds and uses by less than 5 %.")


class IdleJob(Model):
    """A job that uses its GPUs little."""

    namespace: str
    kind: str
    name: str
    queue: str | None = Field(description="Full path of its quota leaf; null outside quota.")
    user: str = Field(description="Who created it; empty where nobody knows.")
    member: str
    gpus: int = Field(description="Its GPUs that the source knows.")
    utilization: float = Field(description="Their mean, from 0 to 1.")
    since: str = Field(description="Since when the mean is below the limit asked for, as far as the hub saw.")


class GpuUse(Model):
    at: str | None = Field(description="When the controllers saw it so; null: no Cluster names a source.")
    members: list[MemberGpuUse] | None = Field(description="By name; null without the right to list clusters.")
    jobs: list[IdleJob] = Field(description="The longest idle first.")
    left: int = Field(description="Jobs beyond `limit`, and those that no row has room for.")
