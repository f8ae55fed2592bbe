"""Questions about the whole hub: its queues, members and state, and what-if."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from fleet.client.hubvalues import Cluster, HubStatus, Queue, WhatIf
from fleet.client.steps import Request, Session, Steps, asked, got
from fleet.client.tables import Rows, frame

if TYPE_CHECKING:
    from pandas import DataFrame

USED, MIN, MAX = "used", "min", "max"
_LARGE, _SMALL = "KMGTPE", "mun"
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d+))?")


def queues(session: Session) -> Steps[Rows[Queue]]:
    """The quota tree with its use, parents before their children."""
    found = yield from got(session, "/fleet/v1/queues")
    return Rows((Queue.of(raw) for raw in found["items"]), partial=bool(found["partial"]))


def clusters(session: Session) -> Steps[Rows[Cluster]]:
    """The members and their room."""
    found = yield from got(session, "/fleet/v1/clusters")
    return Rows(Cluster.of(raw) for raw in found["items"])


def status(session: Session) -> Steps[HubStatus]:
    """Whether the hub works, and what is wrong."""
    return HubStatus.of((yield from got(session, "/fleet/v1/status")))


def what_if(session: Session, edits: Iterable[Mapping[str, Any]]) -> Steps[WhatIf]:
    """What would be otherwise after these edits, each as docs/reference/rest.md has them; nothing is changed."""
    answer = yield from asked(session, Request("POST", "/fleet/v1/what-if", {"edits": list(edits)}))
    return WhatIf.of(answer.body)


def usage(session: Session) -> Steps[DataFrame]:
    """What the queues use now, as a DataFrame: a row for each queue and resource, amounts as numbers in base units
    (cores, bytes, GPUs). A `max` that is not set is NaN."""
    all_queues = yield from queues(session)
    return frame(
        [
            {
                "queue": queue.path,
                "parent": queue.parent,
                "resource": resource,
                **{column: _amount(getattr(queue, column).get(resource), column) for column in (USED, MIN, MAX)},
                "waiting": queue.waiting,
                "running": queue.running,
            }
            for queue in all_queues
            for resource in sorted({*queue.used, *queue.min, *queue.max})
        ]
    )


def _amount(quantity: str | None, column: str) -> float:
    """The number that a quantity of Kubernetes means."""
    if quantity is None:
        return float("nan") if column == MAX else 0.0
    found = _QUANTITY.fullmatch(quantity)
    if found is None:
        raise ValueError(f"{quantity} is no quantity")
    number, unit, power = found.groups()
    if unit and unit.endswith("i"):
        return float(Decimal(number) * 1024 ** (_LARGE.index(unit[0].upper()) + 1))
    if unit:
        power = 3 * (_LARGE.index(unit.upper()) + 1) if unit in _LARGE + "k" else -3 * (_SMALL.index(unit) + 1)
    return float(Decimal(number).scaleb(int(power or 0)))
