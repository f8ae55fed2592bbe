"""What each node of a quota tree is charged, added up by somebody who follows the bindings from outside (I3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.chaos.client import Body
from tests.chaos.work import name_of

GPU, JOBS_MAX = "nvidia.com/gpu", "kube-queue/max-jobs"
Limits = Mapping[str, Mapping[str, int]]  # of the nodes of the tree, by their last names
Paths = Mapping[str, Sequence[str]]  # of the namespaces: the nodes that a job there counts at


class Bookkeeper:
    """Follows every binding, event by event, and adds up what each node of the tree uses."""

    def __init__(self, limits: Limits, paths: Paths) -> None:
        self._limits, self._paths = limits, paths
        self._charged: dict[str, tuple[str, int]] = {}  # job -> namespace, GPUs
        self.used: Counter[tuple[str, str]] = Counter()
        self.most: Counter[tuple[str, str]] = Counter()
        self.above: list[str] = []

    def see(self, type_: str, binding: Body) -> None:
        name = name_of(binding)
        before = self._charged.pop(name, None)
        if before is not None:
            self._add(*before, sign=-1)
        spec = binding["spec"]
        holds = spec.get("clusters") or spec.get("gracefulEvictionTasks")
        if type_ != "DELETED" and holds and not finished(binding):
            gpus = sum(
                component["replicas"] * int(component["replicaRequirements"]["resourceRequest"].get(GPU, 0))
                for component in spec["components"]
            )
            self._charged[name] = (binding["metadata"]["namespace"], gpus)
            self._add(*self._charged[name], sign=1)

    def _add(self, namespace: str, gpus: int, *, sign: int) -> None:
        for node in self._paths.get(namespace, ()):
            for resource, amount in ((GPU, gpus), (JOBS_MAX, 1)):
                at = (node, resource)
                self.used[at] += sign * amount
                self.most[at] = max(self.most[at], self.used[at])
                limit = self._limits[node].get(resource)
                if sign > 0 and limit is not None and self.used[at] > limit:
                    self.above.append(f"{node}: {self.used[at]} of at most {limit} {resource}")


def finished(binding: Body) -> bool:
    conditions = (binding.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)
