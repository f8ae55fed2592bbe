"""The leader's sign of life that says whether jobs are decided on (fleet/bindings/heartbeat.py).

A loop makes its content, which is bounded: the worst loops, a few keys, some members. `beat` writes it under the
leader's epoch. The leadership's thread calls that, so that a loop that is busy does not look like one that is gone.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol

import orjson

from fleet import __version__
from fleet.bindings.heartbeat import LATE_S, LEASE, LOOKS_S, RENEW_S
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.unit import Phase
from fleet.core.snapshot import Snapshot
from fleet.values.ports import Body, CommitResult, Conflict, StaleEpoch, StoreUnavailable, Write
from fleet.values.times import rfc3339, rfc3339_micro
from fleet.wellknown import ANNOTATION_HEARTBEAT

LOOK_EACH = int(LOOKS_S // RENEW_S)  # beats
LOOPS_MAX = 20
ERROR_MAX = 200  # characters
NAMES_MAX = 5  # keys that are set aside
MEMBERS_MAX = 100
FAILING_S = 60.0  # a loop that failed or ended within this is told of


class Commit(Protocol):
    """`Store.commit`."""

    async def __call__(self, writes: Sequence[Write], *, epoch: int | None = None) -> CommitResult | Conflict: ...


class Heartbeat:
    """See the module. `holder`: name of this process; `look_again` makes the decider look."""

    name = "heartbeat"

    def __init__(self, hub: Hub, holder: str, look_again: Callable[[], None]) -> None:
        self._hub, self._holder, self._look_again = hub, holder, look_again
        self._acquired = hub.clock.now()
        self._counted: dict[str, tuple[int, float]] = {}  # loop -> failures and restarts, and when they last grew
        self._waiting: dict[str, Any] = {}
        self.note()
        self._refused: Exception | None = None  # of the last renewal that no database and no other leader explains

    async def run(self) -> None:
        for number in count():
            if number % LOOK_EACH == 0:
                self._look_again()
                self._waiting = waiting_of(self._hub.metrics.snapshot)
            self.note()
            await self._hub.clock.sleep(RENEW_S)
            refused, self._refused = self._refused, None
            if refused is not None:  # a bug, which is this loop's: it is counted, and told of
                raise refused

    async def beat(self, commit: Commit) -> None:
        """Renew the Lease by `commit`. Safe in a thread: it reads nothing that a loop changes."""
        try:
            await self._renew(commit)
        except (StaleEpoch, StoreUnavailable):
            raise
        except Exception as error:
            self._refused = error
            raise

    async def _renew(self, commit: Commit) -> None:
        renewed, content = rfc3339_micro(self._hub.clock.now()), self._content

        def change(lease: Body) -> Body:
            spec = lease.setdefault("spec", {})
            if spec.get("holderIdentity") != self._holder:
                spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
            spec.update(
                holderIdentity=self._holder,
                acquireTime=rfc3339_micro(self._acquired),
                renewTime=renewed,
                leaseDurationSeconds=int(LATE_S),
            )
            lease["metadata"].setdefault("annotations", {})[ANNOTATION_HEARTBEAT] = content
            return lease

        if isinstance(await commit([self._hub.change(LEASE, change)], epoch=self._hub.epoch), Conflict):
            body = change(
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": LEASE.name, "namespace": LEASE.namespace},
                    "spec": {"leaseTransitions": -1},
                }
            )
            new = self._hub.new(LEASE.group, LEASE.resource, LEASE.namespace, body)
            await commit([new], epoch=self._hub.epoch)

    def note(self) -> None:
        """Make the content anew. On the loop of the controllers alone."""
        self._content = orjson.dumps(self.report()).decode()

    def report(self) -> dict[str, Any]:
        """The content of the annotation."""
        hub, metrics = self._hub, self._hub.metrics
        now = hub.clock.now()
        aside = sorted(f"{loop.name}: {key}" for loop in metrics.loops for key in loop.aside)
        return {
            "version": __version__,
            "looked": rfc3339(metrics.looked_at) if metrics.looked_at > self._acquired else None,
            "decided": rfc3339(metrics.decided_at) if metrics.decided_at else None,
            "failing": self._failing(now)[:LOOPS_MAX],
            "refused": metrics.refused.causes(now),
            "waiting": self._waiting,
            "aside": {"count": len(aside), "first": [name[:200] for name in aside[:NAMES_MAX]]},
            "members": {
                name: {"ready": hub.members.ready(name), "silent_s": _whole(hub.members.silent_s(name))}
                for name in sorted(hub.members.names())[:MEMBERS_MAX]
            },
        }

    def _failing(self, now: float) -> list[dict[str, Any]]:
        """Loops with failures or ends of late."""
        loops: list[dict[str, Any]] = []
        for loop in self._hub.metrics.loops:
            ends = self._hub.metrics.ends.get(loop.name, 0)
            so_many = loop.failures + ends
            before, at = self._counted.get(loop.name, (0, 0.0))
            if so_many > before:
                at = now
            self._counted[loop.name] = (so_many, at)
            if at and now - at < FAILING_S:
                loops.append(
                    {
                        "loop": loop.name,
                        "failures": loop.failures,
                        "restarts": ends,
                        "last": rfc3339(at),
                        "error": loop.last_error[:ERROR_MAX],
                    }
                )
        return loops


def waiting_of(snapshot: Snapshot) -> dict[str, Any]:
    """How many jobs wait, and the user who has most of them."""
    users = Tally(unit.user for unit in snapshot.units.values() if unit.phase is Phase.WAITING)
    jobs = users.total()
    del users[""]
    user, most = max(users.items(), key=lambda item: item[1], default=("", 0))
    return {"jobs": jobs, "user": user, "most": most}


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds)
