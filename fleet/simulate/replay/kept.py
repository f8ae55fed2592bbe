"""The GPUs that stand idle beside waiting jobs which could use them, since reservations of heads keep them."""

from __future__ import annotations

from fleet.core.foresee.forward import Forward
from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.order import queue_order
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Code
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
    nodes: dict[str, ForwardNodes] = {name: there.copy() for name, there in run.nodes.items()}
    snapshot = run.snapshot()
    tree = snapshot.tree
    usage = Usage.of(tree, snapshot.units.values()) if tree is not None else None
    started = [(run.units[placement.unit], placement.member) for placement in plan.placements]
    for unit, member in started:
        nodes[member].seat(unit)
    kept = 0
    for unit in [*(unit for unit, _ in started), *sorted(refused, key=queue_order)]:
        account = account_of(tree, unit) if tree is not None else None
        waits = unit.id in plan.reasons
        if waits and usage is not None and account is not None and usage.refusal(account, request_of(unit)) is not None:
            continue
        if waits and not any(nodes[name].seat(unit) for name in sorted(nodes)):
            continue
        kept += unit.total[GPU] if waits else 0
        if usage is not None and account is not None:
            usage.charge(account, request_of(unit))
    return kept
