"""The receivers on the hub: which of them are told of a happening, and what their Secrets hold."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping

import structlog

from fleet.bindings import binding as b
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.notificationevent import NotificationEvent
from fleet.notify.happening import Happening
from fleet.notify.receiver import Receiver, asks_for, receiver_of
from fleet.notify.sender import SECRET_TYPE
from fleet.values.ports import Body
from fleet.values.untyped import mapping, text
from fleet.wellknown import CONFIG

RESOURCE = "notificationreceivers"

log = structlog.get_logger(__name__)


class Receivers:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def find(self, namespace: str, name: str) -> Receiver | None:
        body = self._hub.peek(CONFIG, RESOURCE, namespace, name)
        return None if body is None else _read(body)

    def all(self) -> list[Receiver]:
        found = (_read(stored.body) for stored in self._hub.store.scan(CONFIG, RESOURCE))
        return [receiver for receiver in found if receiver is not None]

    def asking(self, happening: Happening, job: Body, among: list[Receiver]) -> Iterator[Receiver]:
        """Those that are to be told of a happening of this job."""
        for receiver in among:
            if asks_for(receiver, happening.told, job):
                yield receiver

    def job(self, seen: Body, uid: str) -> Body | None:
        """The job that an object is, or that a binding is of; None when it is not there any more."""
        reference = b.resource_of(seen) if seen.get("kind") == "ResourceBinding" else None
        if reference is None:
            return seen
        group = text(reference.get("apiVersion")).rpartition("/")[0]
        kind = self._hub.registry.kind(group, text(reference.get("kind")))
        if kind is None:
            return None
        found = self._hub.peek(kind.group, kind.resource, text(reference.get("namespace")), text(reference.get("name")))
        return found if found is not None and mapping(found.get("metadata")).get("uid") == uid else None

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """The data of a Secret that is there for notifications."""
        body = self._hub.peek("", "secrets", namespace, name)
        if body is None or body.get("type") != SECRET_TYPE:
            return None
        try:
            return {key: b64decode(text(value)) for key, value in mapping(body.get("data")).items()}
        except binascii.Error:
            return None


def long_waits(among: list[Receiver]) -> float | None:
    """The shortest wait, in seconds, that some receiver calls long."""
    return min(
        (one.long_s for one in among if one.long_s is not None and NotificationEvent.WAITS_LONG in one.events),
        default=None,
    )


def _read(body: Body) -> Receiver | None:
    """A receiver that cannot be read costs itself alone."""
    try:
        return receiver_of(body)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        log.warning("a receiver cannot be read", name=mapping(body.get("metadata")).get("name"), error=repr(error))
        return None
