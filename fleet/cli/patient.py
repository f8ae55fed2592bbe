"""A hub whose state `fleet doctor` asks for once, and the words of its findings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fleet.cli.status import STATUS

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

PARTS = "/fleet/v1/parts"
DAY_S = 86_400.0


class PatientHub:
    """The hub that is looked at. `now`: this machine's time in epoch seconds, by `clock`. `away`: its database does not
    answer. `unseen`: the checks that the hub did not answer, by its refusal. `parts_at`: this machine's time when the
    hub was asked for its parts, which is later than `now` where an answer before took long."""

    def __init__(self, hub: HubClient, clock: Callable[[], float]) -> None:
        self.hub = hub
        self._clock = clock
        self.now = self.parts_at = clock()
        self.away = False
        self.unseen: dict[str, list[str]] = {}

    @cached_property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.hub.request("GET", STATUS).body
        return found

    @cached_property
    def clusters(self) -> list[dict[str, Any]]:
        from fleet.amc.get import CLUSTERS

        return self.hub.list(CLUSTERS)

    @cached_property
    def parts(self) -> dict[str, Any]:
        """What one API process says of itself and its machine. Raises Refused without the right to it."""
        self.parts_at = self._clock()
        found: dict[str, Any] = self.hub.request("GET", PARTS).body
        return found


def days(until: float, now: float) -> str:
    """How long something still holds, or since when no more."""
    day = datetime.fromtimestamp(until, UTC).date().isoformat()
    left = int((until - now) // DAY_S)
    return f"ended on {day}" if until <= now else f"ends on {day}, in {left} day{'s' if left != 1 else ''}"


def size(amount: float) -> str:
    from fleet.core.model.reason import human

    return human(int(amount), "memory")
