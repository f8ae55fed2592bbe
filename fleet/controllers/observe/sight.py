"""What the members' caches show of a placed gang, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.bindings import binding as b
from fleet.bindings.faults import AttemptFault
from fleet.core.model.pod import PodView
from fleet.kinds import Health, JobState
from fleet.values.ports import Body

_OVER = {JobState.SUCCEEDED: "Succeeded", JobState.FAILED: "Failed"}


@dataclass(frozen=True, slots=True)
class Sight:
    """The view of a placed gang: its copy of the current attempt and that copy's pods."""

    copy: Body | None
    pods: Sequence[PodView]
    state: JobState
    message: str
    health: Health
    over_time: frozenset[str] = frozenset()  # components whose pods come and go
    fault: AttemptFault | None = None  # of a job that has failed
    by_pods: bool = False  # its status says nothing, and its pods say that it runs
    in_turn: bool = False  # some of its pods are made only when others run or have ended

    @property
    def over(self) -> str:
        """Succeeded, Failed, or "" while it is not over."""
        return _OVER.get(self.state, "")

    @property
    def lost(self) -> bool:
        """Whether there is no copy any more, of a job that had run."""
        return self.fault is not None and self.fault.lost


def whole(binding: Body, sight: Sight) -> bool:
    """Whether every replica of every component has a pod with a node (or a pod that ran and is finished). Components
    whose pods come and go are not waited for; a gang of them alone is whole with its first pod."""
    have: dict[str, int] = {}
    for pod in sight.pods:
        if pod.node or pod.phase in ("Succeeded", "Failed"):
            have[pod.component.lower()] = have.get(pod.component.lower(), 0) + 1
    wanted = {c["name"]: int(c["replicas"]) for c in b.component_bodies(binding) if c["name"] not in sight.over_time}
    return all(have.get(name, 0) >= count for name, count in wanted.items()) and (bool(wanted) or bool(have))
