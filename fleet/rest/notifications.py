"""The notifications of jobs under /fleet/v1/notifications: those that wait, failed or were delivered lately.

A notification belongs to its receiver: the rights on NotificationReceivers of that namespace open it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from api.wire.rights import Attributes
from fleet.rest.context import RestHub, answer, user_of
from fleet.rest.history import decoded, encoded
from fleet.rest.historydb import HistoryDatabase, unavailable_as_503
from fleet.rest.historymodels import NotificationList, Retried
from fleet.rest.models import Model
from fleet.rest.sight import spaces
from fleet.wellknown import CONFIG

if TYPE_CHECKING:
    from fleet.notify.listing import NotificationSelection

RECEIVERS = "notificationreceivers"
LIMIT, LIMIT_MAX = 100, 1_000
StateName = Literal["Pending", "Retrying", "Delivered", "GaveUp", "NoReceiver"]


class ReceiverFilter(Model):
    """Of which receivers."""

    namespace: str | None = Field(None, min_length=1, max_length=63, description="Only of receivers in this namespace.")
    receiver: str | None = Field(None, min_length=1, max_length=253, description="Only to receivers of this name.")


class NotificationFilter(ReceiverFilter):
    state: list[StateName] = Field([], max_length=5, description="Only in these states. May be repeated.")
    limit: int = Field(LIMIT, ge=1, le=LIMIT_MAX, description="At most so many.")
    continue_: str = Field("", alias="continue", max_length=200, description="As the page before said.")


class RetryFilter(ReceiverFilter):
    id: list[UUID] = Field([], max_length=100, description="Only these. May be repeated.")


def router(hub: RestHub, history: HistoryDatabase) -> APIRouter:
    routes = APIRouter(tags=["notifications"])

    @routes.get("/notifications", response_model=NotificationList, summary="Notifications of jobs")
    async def list_notifications(request: Request, query: Annotated[NotificationFilter, Query()]) -> Response:
        """The newest first; those that are over stay for a week. Needs `list` on notificationreceivers.config.fleet.io,
        in the namespace, everywhere or in some namespaces (then `partial` is true)."""
        from fleet.notify import listing

        reader, which = await history.reader(), _which(hub, request, "list", query, states=query.state)
        after = decoded(query.continue_) if query.continue_ else None
        with unavailable_as_503():
            rows = await reader.rows(listing.page(which, query.limit, after))
        more = listing.mark_of(rows[query.limit - 1]) if len(rows) > query.limit else None
        return answer(
            {
                "items": [listing.row_document(row) for row in rows[: query.limit]],
                "continue": encoded(more) if more is not None else None,
                "partial": query.namespace is None and which.namespaces is not None,
            }
        )

    @routes.post("/notifications/retry", response_model=Retried, summary="Try failed notifications once more")
    async def retry(request: Request, query: Annotated[RetryFilter, Query()]) -> Response:
        """Failed notifications are due now, and have all their tries again where they were given up. Needs `update` on
        notificationreceivers.config.fleet.io, in the namespace, everywhere or in some namespaces."""
        from fleet.notify import listing

        reader, which = await history.reader(), _which(hub, request, "update", query, ids=query.id)
        with unavailable_as_503():
            changed = await reader.changed(listing.once_more(which, hub.objects.clock.now()))
        return answer({"notifications": changed})

    return routes


def _which(
    hub: RestHub,
    request: Request,
    verb: str,
    query: ReceiverFilter,
    *,
    states: Collection[str] = (),
    ids: Collection[UUID] = (),
) -> NotificationSelection:
    """The receivers that were asked for, as far as the user may do this to them. StatusError 403 where that is none."""
    from fleet.notify.listing import NotificationSelection

    kind = hub.registry.kind(CONFIG, "NotificationReceiver")
    assert kind is not None, "the hub serves it always"
    there = spaces(request, verb, kind, query.namespace)
    if not there:
        wanted = Attributes(verb, CONFIG, RECEIVERS, namespace=query.namespace or "")
        raise wanted.refusal(user_of(request))
    seen = None if there == [None] else [space for space in there if space is not None]
    return NotificationSelection(seen, query.receiver, states, [str(one) for one in ids])
