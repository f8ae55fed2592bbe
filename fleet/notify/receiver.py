"""A NotificationReceiver as a value, and which jobs it is told of. Pure.

A receiver is told of the jobs of its namespace that its selector takes, and of those that name it by the annotation
fleet.io/notify. One in fleet-system, where administrators alone write, may have the jobs of all namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from api.engine.selectors import Requirement, from_object, holds
from fleet.core.model.notificationevent import NotificationEvent, receivers_of
from fleet.values.ports import Body
from fleet.values.untyped import mapping, text, texts, whole
from fleet.wellknown import ANNOTATION_NOTIFY, SYSTEM_NAMESPACE

EVENTS = (
    NotificationEvent.SUCCEEDED,
    NotificationEvent.FAILED,
    NotificationEvent.EVICTED,
)  # of a receiver that names none
_DURATION = re.compile(r"([1-9]\d{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class MessageForm(StrEnum):
    FLEET = "Fleet"  # JSON, as of Standard Webhooks
    SLACK = "Slack"


@dataclass(frozen=True, slots=True)
class Web:
    """An address of https. `url`: in the object, or `url_of`: (name, key) of a Secret that has it, since an address may
    itself be a secret. `signed_by`: (name, key) of the Secret with the key for signatures."""

    form: MessageForm
    url: str = ""
    url_of: tuple[str, str] | None = None
    ca: str | None = None
    signed_by: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail server. `login`: name of the Secret with `username` and `password`. `implicit`: TLS from the first byte;
    otherwise STARTTLS. There is no mail without TLS."""

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    implicit: bool = False
    login: str = ""
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class Receiver:
    """`selector`: None takes the jobs that name the receiver alone."""

    namespace: str
    name: str
    events: frozenset[NotificationEvent]
    way: Web | Mail
    selector: tuple[Requirement, ...] | None = None
    everywhere: bool = False
    long_s: float | None = None


def receiver_of(body: Body) -> Receiver:
    """The value of an object that admission has let in."""
    metadata, spec = mapping(body.get("metadata")), mapping(body.get("spec"))
    namespace = text(metadata.get("namespace"))
    events = frozenset(
        NotificationEvent(event) for event in texts(spec.get("events")) if event in tuple(NotificationEvent)
    ) or frozenset(EVENTS)
    long_s = lasting(text(spec.get("waitsLongerThan")))
    if long_s is not None:
        events |= {NotificationEvent.WAITS_LONG}
    selector = spec.get("selector")
    return Receiver(
        namespace,
        text(metadata.get("name")),
        events,
        _mail(spec["smtp"]) if "smtp" in spec else _web(spec["webhook"]),
        selector=None if selector is None else from_object(selector),
        everywhere=spec.get("allNamespaces") is True and namespace == SYSTEM_NAMESPACE,
        long_s=long_s,
    )


def lasting(said: str) -> float | None:
    """Seconds of a text such as 90m, 2h or 1d; None for any other."""
    found = _DURATION.fullmatch(said)
    return float(found[1]) * _SECONDS[found[2]] if found else None


def asks_for(receiver: Receiver, event: NotificationEvent, job: Body) -> bool:
    """Whether the receiver is to be told of this event of this job."""
    metadata = mapping(job.get("metadata"))
    namespace = text(metadata.get("namespace"))
    if namespace != receiver.namespace and receiver.namespace != SYSTEM_NAMESPACE:
        return False
    wanted = _named(metadata).get(receiver.name, frozenset())
    if event in (receiver.events if wanted is None else wanted):
        return True
    if receiver.selector is None or event not in receiver.events:
        return False
    return (namespace == receiver.namespace or receiver.everywhere) and holds(
        receiver.selector, mapping(metadata.get("labels"))
    )


def _named(metadata: Mapping[str, object]) -> dict[str, frozenset[NotificationEvent] | None]:
    said = text(mapping(metadata.get("annotations")).get(ANNOTATION_NOTIFY))
    try:
        return receivers_of(said) if said else {}
    except ValueError:  # written before this check was there
        return {}


def _web(spec: Body) -> Web:
    return Web(
        MessageForm(text(spec.get("format")) or MessageForm.FLEET),
        text(spec.get("url")),
        _of_secret(spec.get("urlFrom")),
        text(spec.get("caBundle")) or None,
        _of_secret(spec.get("signingKey")),
    )


def _of_secret(reference: object) -> tuple[str, str] | None:
    found = mapping(reference)
    return (text(found.get("name")), text(found.get("key"))) if found else None


def _mail(spec: Body) -> Mail:
    implicit = spec.get("tls") == "Implicit"
    return Mail(
        text(spec.get("host")),
        whole(spec.get("port"), 465 if implicit else 587),
        text(spec.get("from")),
        tuple(texts(spec.get("to"))),
        implicit,
        text(mapping(spec.get("login")).get("name")),
        text(spec.get("caBundle")) or None,
    )
