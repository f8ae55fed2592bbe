"""Times and periods that a request names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field

from fleet.rest.context import wrong
from fleet.rest.models import Model
from fleet.values.times import in_utc, rfc3339


def _in_calendar(at: datetime) -> datetime:
    there = in_utc(at)
    if there is None:
        raise ValueError("is in no year from 1 to 9999 of UTC")
    return there


Moment = Annotated[AwareDatetime, AfterValidator(_in_calendar)]


class PeriodFilter(Model):
    from_: Moment | None = Field(None, alias="from", description="RFC 3339.")
    to: Moment | None = Field(None, description="Up to this time, without it; now unless given.")

    def period(self, now: datetime, length: timedelta) -> tuple[datetime, datetime]:
        """StatusError 422 for one that ends before it begins."""
        end = self.to or now
        start = self.from_ or max(end, datetime.min.replace(tzinfo=UTC) + length) - length
        if start >= end:
            raise wrong("from", f"{rfc3339(start.timestamp())} is not before `to`, {rfc3339(end.timestamp())}")
        return start, end
