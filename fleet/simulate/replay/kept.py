"""The GPUs that stand idle beside waiting jobs which could use them, since reservations of heads keep them."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.core.foresee.forward import Forward
from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.order import queue_order
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Code
from fleet.core.model.unit import Unit
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.usage import Usage, account_of, request_of
from fleet.simulate.replay.trace import GPU

_BY_RESERVATIONS = (Code.BEHIND_HEAD, Code.COLLECTS)  # a head may wait for the heads ahead of it


class KeptGpus:
    """GPU seconds over one run. Between two decisions the GPUs count as the first of them left them."""

    def __init__(self) -> None:
        self.gpu_s = 0.0
        self._gpus = 0
        self._since = 0.0

    def see(self, run: Forward, plan: Plan) -> None:
        """Count a decision, before it is carried out."""
        self.gpu_s += self._gpus * (run.now - self._since)
        self._gpus, self._since = _kept(run, plan), run.now


def _kept(run: Forward, plan: Plan) -> int:
    """The GPUs of the jobs that would start, one after the other in queue order, beside all that the plan starts."""
    refused = [run.units[key] for key, reason in plan.reasons.items() if reason.code in _BY_RESERVATIONS]
    if not refused:
        return 0
    trial = _Trial(run)
    for placement in plan.placements:
        trial.start(run.units[placement.unit], [placement.member])
    members = sorted(run.nodes)
    able = [unit for unit in sorted(refused, key=queue_order) if trial.admits(unit) and trial.start(unit, members)]
    return sum(unit.total[GPU] for unit in able)


class _Trial:
    """Nodes and quota of a moment, to start jobs in."""

    def __init__(self, run: Forward) -> None:
        snapshot = run.snapshot()
        self._tree = snapshot.tree or QuotaTree("", {})
        self._usage = Usage.of(self._tree, snapshot.units.values())
        self._nodes: dict[str, ForwardNodes] = {name: there.copy() for name, there in run.nodes.items()}

    def admits(self, unit: Unit) -> bool:
        """Whether quota has room for a job."""
        account = account_of(self._tree, unit)
        return account is None or self._usage.refusal(account, request_of(unit)) is None

    def start(self, unit: Unit, members: Iterable[str]) -> bool:
        """Start a job in the first of these members that takes it; False if none does."""
        account, able = account_of(self._tree, unit), any(self._nodes[name].seat(unit) for name in members)
        if able and account is not None:
            self._usage.charge(account, request_of(unit))
        return able
