"""The answers to a client when the store cannot serve it: one text for each case, the same under every path."""

from __future__ import annotations

from api.engine.status import StatusError, unavailable
from fleet.values.ports import ExpiredRevision, FutureRevision, StaleEpoch, StoreFull, StoreUnavailable

REFUSALS = (StoreUnavailable, ExpiredRevision, FutureRevision, StaleEpoch)


def store_refusal(error: StoreUnavailable) -> StatusError:
    """503, to be tried again. Details of the database are for the log, not for clients."""
    if isinstance(error, StoreFull):
        return unavailable("the database has no disk space left: reads go on, writes are refused until there is some")
    return unavailable("the database of the hub cannot be reached now")


def refusal_of(error: Exception) -> StatusError:
    """The answer to one of REFUSALS."""
    match error:
        case StoreUnavailable():
            return store_refusal(error)
        case ExpiredRevision():
            return StatusError(410, "Expired", "The requested state is no longer kept")
        case FutureRevision():
            return StatusError(504, "Timeout", str(error))
    return unavailable("this process no longer leads")
