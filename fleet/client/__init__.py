"""Fleet for Python programs and notebooks.

    from fleet.client import Fleet

    fleet = Fleet()
    job = fleet.submit("job.yaml")
    fleet.wait(job)

docs/how-to/use-python.md is the guide, docs/reference/python.md the reference.

A name is imported when it is first used, so that commands of `fleet`, which use a part of this package, start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet.client.errors import (
        AlreadyExists,
        Ambiguous,
        BadConfiguration,
        BadManifest,
        BadRequest,
        Cause,
        Conflict,
        FleetError,
        Forbidden,
        Invalid,
        JobFailed,
        NotFound,
        NotInTime,
        Refused,
        TooManyRequests,
        Unauthorized,
        Unavailable,
        Unreachable,
    )
    from fleet.client.fleet import AsyncFleet, AsyncItems, Fleet, Items
    from fleet.client.history import Figures, PastJob
    from fleet.client.hubvalues import Cluster, Difference, HubStatus, Queue, Standing, WhatIf
    from fleet.client.jobvalues import (
        Change,
        Component,
        Estimate,
        Event,
        Explanation,
        Job,
        JobChange,
        JobDetail,
        LogLine,
        ObjectChange,
        Pod,
        Reason,
    )
    from fleet.client.submitting import Object, Submission
    from fleet.client.tables import Rows
    from fleet.client.transport import HubWarning

_PLACES = {
    "errors": (
        "AlreadyExists",
        "Ambiguous",
        "BadConfiguration",
        "BadManifest",
        "BadRequest",
        "Cause",
        "Conflict",
        "FleetError",
        "Forbidden",
        "Invalid",
        "JobFailed",
        "NotFound",
        "NotInTime",
        "Refused",
        "TooManyRequests",
        "Unauthorized",
        "Unavailable",
        "Unreachable",
    ),
    "fleet": (
        "AsyncFleet",
        "AsyncItems",
        "Fleet",
        "Items",
    ),
    "history": ("Figures", "PastJob"),
    "hubvalues": (
        "Cluster",
        "Difference",
        "HubStatus",
        "Queue",
        "Standing",
        "WhatIf",
    ),
    "jobvalues": (
        "Change",
        "Component",
        "Estimate",
        "Event",
        "Explanation",
        "Job",
        "JobChange",
        "JobDetail",
        "LogLine",
        "ObjectChange",
        "Pod",
        "Reason",
    ),
    "submitting": (
        "Object",
        "Submission",
    ),
    "tables": ("Rows",),
    "transport": ("HubWarning",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}
__all__ = [
    "AlreadyExists",
    "Ambiguous",
    "AsyncFleet",
    "AsyncItems",
    "BadConfiguration",
    "BadManifest",
    "BadRequest",
    "Cause",
    "Change",
    "Cluster",
    "Component",
    "Conflict",
    "Difference",
    "Estimate",
    "Event",
    "Explanation",
    "Figures",
    "Fleet",
    "FleetError",
    "Forbidden",
    "HubStatus",
    "HubWarning",
    "Invalid",
    "Items",
    "Job",
    "JobChange",
    "JobDetail",
    "JobFailed",
    "LogLine",
    "NotFound",
    "NotInTime",
    "Object",
    "ObjectChange",
    "PastJob",
    "Pod",
    "Queue",
    "Reason",
    "Refused",
    "Rows",
    "Standing",
    "Submission",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "WhatIf",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
