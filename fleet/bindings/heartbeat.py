"""The sign of life of the controllers: the Lease fleet-system/fleet-controllers, and its conclusions about the decider.

The leader renews it every RENEW_S. Its annotation holds a small JSON about its loops and members. All other processes
only read: whether jobs are decided on, and since when not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from fleet.values.ports import Body, Clock, Key, Store
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import mapping, text
from fleet.wellknown import ANNOTATION_HEARTBEAT, SYSTEM_NAMESPACE

LEASE = Key("coordination.k8s.io", "leases", SYSTEM_NAMESPACE, "fleet-controllers")
RENEW_S = 5.0
LATE_S = 15.0  # a Lease that is older: there is no leader
HANGS_S = 60.0  # a decider that has finished no look for so long hangs, or fails each time
LOOKS_S = 20.0  # a look at least so often, whether or not something changed


@dataclass(frozen=True, slots=True)
class Silence:
    """There is no decider. `since`: epoch seconds, None when no decider ever was."""

    since: float | None
    why: str

    def sentence(self, now: float) -> str:
        """One sentence for people."""
        if self.since is None:
            return f"nobody decides: {self.why}"
        return f"nobody decides since {rfc3339(self.since)} ({_length(now - self.since)}): {self.why}"


def absence(lease: Body | None, now: float) -> Silence | None:
    """None while a controllers process leads. `lease`: the object stored under LEASE; `now` in epoch seconds."""
    spec = mapping((lease or {}).get("spec"))
    renewed = seconds(text(spec.get("renewTime")))
    if renewed is None:
        return Silence(None, "no controllers have led this hub yet (fleet controllers; fleet up starts them)")
    if now - renewed > LATE_S:
        return Silence(renewed, f"no controllers process leads; the last one was {text(spec.get('holderIdentity'))}")
    return None


def silence(lease: Body | None, now: float) -> Silence | None:
    """The same, None only while its decider works, too."""
    absent = absence(lease, now)
    if absent is not None or lease is None:
        return absent
    spec = mapping(lease.get("spec"))
    renewed, holder = seconds(text(spec.get("renewTime"))) or now, text(spec.get("holderIdentity"))
    acquired = seconds(text(spec.get("acquireTime"))) or renewed
    looked = max(acquired, seconds(text(report_of(lease).get("looked"))) or 0.0)
    if now - looked > HANGS_S:
        return Silence(looked, f"the decider of {holder} has not finished a look at the fleet; its log says more")
    return None


def silence_of(store: Store, now: float) -> str:
    """The text for people about a hub without a decider; "" while there is one. Asks what this process has seen."""
    found = silence(_lease(store), now)
    return found.sentence(now) if found is not None else ""


def component_checks(store: Store, clock: Clock) -> dict[str, Callable[[], str]]:
    """What is wrong with the controllers, by the names that Kubernetes has for such parts; "" when nothing is."""

    def absent() -> str:
        found = absence(_lease(store), clock.now())
        return found.why if found is not None else ""

    return {"scheduler": lambda: silence_of(store, clock.now()), "controller-manager": absent}


def _lease(store: Store) -> Body | None:
    stored = store.peek(LEASE)
    return stored.body if stored is not None else None


def report_of(lease: Body | None) -> Mapping[str, Any]:
    """The leader's report of itself, as runtime/heartbeat.py writes it; empty when it cannot be read."""
    said = mapping(mapping((lease or {}).get("metadata")).get("annotations")).get(ANNOTATION_HEARTBEAT)
    try:
        return mapping(orjson.loads(text(said) or "{}"))
    except orjson.JSONDecodeError:
        return {}


def _length(span: float) -> str:
    if span < 120:
        return f"{max(0, int(span))} s"
    return f"{int(span // 60)} min" if span < 7200 else f"{int(span // 3600)} h"
