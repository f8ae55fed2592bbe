"""The explanation of one waiting job, worked out on request: its reason, its place, its estimated start, and the
changes that would start it now.

The newest snapshot of the decider is decided, changed and run forward (fleet/core/foresee/). That takes processor time,
so it is bounded. An explanation is made for a few seconds at most, in a thread of its own, and cached for some seconds.
It names the parts that are not ready by then. Users take turns (api/fairness/questions.py).

Earlier answers are remembered until the job starts, to learn how well ranges fit (fleet/core/foresee/estimate.py:
`stretched`). Only this process knows it, and only of jobs that somebody asked for; ranges are as good as measured
without it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from api.engine.status import StatusError
from api.fairness.questions import Questions
from fleet.admission.latest import LatestSnapshots, StoredSnapshot
from fleet.core.foresee.estimate import Estimate, ScoredEstimate, stretched
from fleet.core.foresee.explanation import Explanation, explain
from fleet.core.foresee.history import History, PastUnit
from fleet.core.model.unit import Phase
from fleet.rest.line import queue_paths
from fleet.rest.past import pasts
from fleet.values.ports import Store

LIMIT_S = 5.0  # of one explanation
KEPT_S = 10.0
KEPT_MOST = 1_000
HISTORY_S = 30.0  # history is read again so often
SCORES_MOST = 400


@dataclass(slots=True)
class _KeptExplanation:
    snapshot: int
    until: float
    explanation: Explanation


class Explanations:
    """Makes them, in turns by user."""

    def __init__(self, store: Store, snapshots: LatestSnapshots, turns: Questions) -> None:
        self._store = store
        self._turns = turns
        self._snapshots = snapshots
        self._kept: OrderedDict[str, _KeptExplanation] = OrderedDict()
        self._pasts: tuple[float, list[PastUnit]] = (float("-inf"), [])
        self._said: OrderedDict[str, tuple[Estimate, float]] = OrderedDict()
        self._scores: list[float] = []

    async def of(self, uid: str, now: float, user: str) -> Explanation:
        """For the waiting unit of the binding with this uid, at the epoch second `now`, asked by a user of this name.
        StatusError 404 when the decider has not seen it yet, or it does not wait; 429 when too many ask."""
        latest = await self._snapshots.latest()
        kept = self._fresh(uid, latest)
        if kept is not None:
            return kept
        async with self._turns.turn(user):
            latest = await self._snapshots.latest()
            return self._fresh(uid, latest) or await self._make(uid, latest, max(now, latest.now))

    def _fresh(self, uid: str, latest: StoredSnapshot) -> Explanation | None:
        kept = self._kept.get(uid)
        if kept is None or kept.until < time.monotonic() or kept.snapshot != latest.id:
            return None
        return kept.explanation

    async def _make(self, uid: str, latest: StoredSnapshot, now: float) -> Explanation:
        unit = latest.snapshot.units.get(uid)
        if unit is None or unit.phase is not Phase.WAITING:
            message = "the decider has not seen it wait yet" if unit is None else "it does not wait: it has its member"
            raise StatusError(404, "NotFound", message)
        history = History(await self._history(latest, now), now)
        scores = list(self._scores)

        def improve(said: Estimate) -> Estimate:
            self._remember(uid, said, now)
            return stretched(said, now, scores)

        def made() -> Explanation:
            began = time.monotonic()
            return explain(
                latest.snapshot,
                uid,
                history,
                now=now,
                limit_s=LIMIT_S,
                improve=improve,
                elapsed_s=lambda: time.monotonic() - began,
            )

        found = await asyncio.to_thread(made)
        self._kept[uid] = _KeptExplanation(latest.id, time.monotonic() + KEPT_S, found)
        self._kept.move_to_end(uid)
        while len(self._kept) > KEPT_MOST:
            self._kept.popitem(last=False)
        return found

    def _remember(self, uid: str, said: Estimate, now: float) -> None:
        """The first that was said: later ones of the same job would count it several times."""
        self._said.setdefault(uid, (said, now))
        while len(self._said) > KEPT_MOST:
            self._said.popitem(last=False)

    async def _history(self, latest: StoredSnapshot, now: float) -> list[PastUnit]:
        if time.monotonic() - self._pasts[0] > HISTORY_S:
            found = await pasts(self._store, latest.snapshot, queue_paths(self._store), now)
            self._pasts = (time.monotonic(), found)
            for past in found:
                said = self._said.get(past.unit.id)
                if said is not None and past.started is not None and past.started >= said[1]:
                    self._scores.append(ScoredEstimate(said[0], said[1], past.started).score)
                    del self._said[past.unit.id]
            del self._scores[:-SCORES_MOST]
        return self._pasts[1]
