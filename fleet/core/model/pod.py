"""A pod in a member."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.core.model.amounts import Amounts


@dataclass(frozen=True, slots=True)
class PodView:
    """The fields that Fleet keeps of a pod in a member."""

    member: str
    namespace: str
    name: str
    uid: str
    node: str  # "" while it is not scheduled
    phase: str  # Pending | Running | Succeeded | Failed | Unknown
    ready: bool
    terminating: bool
    binding: str  # value of LABEL_BINDING, "" for pods that are not ours
    component: str
    attempt: int
    requests: Amounts
    reason: str = ""  # why it is not scheduled, or why it failed
    since: float = 0.0  # epoch seconds of its creation
    gone_by: float = 0.0  # of a terminating pod: epoch seconds at which its grace ends
    checkpoint_at: float = 0.0  # epoch seconds up to which its work is saved; 0.0: not said
    placeholder: bool = False  # keeps room for a pod of the job, and does no work
    gated: bool = False  # waits for the hub before the scheduler may look at it
    takes: str = ""  # of a gated pod: the placeholder whose place it gets
    failed_with: str = ""  # of a failed pod: the reason in its status, one word
    disruption: str = ""  # the reason of its condition DisruptionTarget, while that is true
    exits: tuple[tuple[int, str], ...] = ()  # of its containers that failed: exit code and reason

    @property
    def holds_room(self) -> bool:
        """Whether it counts on its node, as kube-scheduler counts."""
        return bool(self.node) and self.phase not in ("Succeeded", "Failed")
