"""GPUs in amounts, and their model as labels of nodes name it."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping

from fleet.core.model.amounts import gpus_in
from fleet.core.model.member import Pool
from fleet.members.members import Closed

# The labels of GPU feature discovery, of ACK, of GKE, and of the traces that a replay reads.
MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "aliyun.accelerator/nvidia_name",
    "cloud.google.com/gke-accelerator",
    "gpu-model",
)


GPU_PARTS = ("allocated", "free", "fragmented", "cordoned")


def model_of(labels: Iterable[tuple[str, str]]) -> str:
    """The model of the GPUs of nodes with these labels; "" where no label tells it."""
    found = dict(labels)
    return next((found[name] for name in MODEL_LABELS if found.get(name)), "")


def by_model(pools: Iterable[Pool], closed: Iterable[Closed]) -> Mapping[str, Tally[str]]:
    """GPUs of one member by model: allocated, free, and cordoned on the nodes that take no pods, used or not. Of the
    free ones, those on nodes where others are taken are fragmented too."""
    tallies: dict[str, Tally[str]] = {}
    for pool in pools:
        whole = gpus_in(pool.allocatable)
        for vector, nodes in pool.free:
            free = gpus_in(vector)
            if nodes > 0 and (whole or free):
                counts = tallies.setdefault(model_of(pool.labels), Tally())
                counts["free"] += free * nodes
                counts["allocated"] += max(0, whole - free) * nodes
                counts["fragmented"] += free * nodes if free < whole else 0
    for labels, amounts in closed:
        if gpus := gpus_in(amounts):
            tallies.setdefault(model_of(labels), Tally())["cordoned"] += gpus
    return tallies
