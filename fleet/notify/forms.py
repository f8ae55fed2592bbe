"""One happening in the form that its receiver reads: signed JSON, a message for Slack, a mail. Pure.

The JSON and its signature follow Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over id, time and body. By it a
receiver can tell a notification of the hub from any other request, and by the id a repeated one.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from email.headerregistry import Address
from email.message import EmailMessage

import orjson

from fleet.core.model.notificationevent import NotificationEvent
from fleet.notify.happening import Happening
from fleet.notify.receiver import Mail, MessageForm
from fleet.values.durations import human
from fleet.values.times import rfc3339

_SECRET_PREFIX = "whsec_"  # of a signing key in base64, as Standard Webhooks write it
_VERB = {
    NotificationEvent.STARTED: "has started",
    NotificationEvent.SUCCEEDED: "has succeeded",
    NotificationEvent.FAILED: "has failed",
    NotificationEvent.EVICTED: "was evicted",
    NotificationEvent.WAITS_LONG: "still waits",
}


def line(happening: Happening) -> str:
    """The happening as one sentence."""
    job = f"{happening.kind} {happening.namespace}/{happening.name}"
    size = f" ({happening.gpus} GPUs)" if happening.gpus else ""
    where = f" in {happening.member}" if happening.member else ""
    said = f"{job}{size} {_VERB[happening.told]}{where}"
    if happening.told is NotificationEvent.WAITS_LONG:
        said += f" after {human(max(0.0, happening.at - happening.submitted))}"
    why = happening.message or happening.why
    return f"{said}: {why}" if why else said


def content(form: MessageForm, happening: Happening) -> bytes:
    """The body of a request."""
    if form is MessageForm.SLACK:
        return orjson.dumps({"text": _for_slack(line(happening))})
    data = {
        "event": happening.told,
        "namespace": happening.namespace,
        "name": happening.name,
        "kind": happening.kind,
        "uid": happening.uid,
        "attempt": happening.number,
        "user": happening.user,
        "queue": happening.queue,
        "gpus": happening.gpus,
        "member": happening.member,
        "submitted": rfc3339(happening.submitted),
        "reason": happening.why,
        "message": happening.message,
        "text": line(happening),
    }
    return orjson.dumps({"type": f"job.{happening.told.lower()}", "timestamp": rfc3339(happening.at), "data": data})


def signed(identity: str, at: float, body: bytes, key: bytes | None) -> Mapping[str, str]:
    """The headers that name the notification, and sign it where there is a key."""
    headers = {"webhook-id": identity, "webhook-timestamp": str(int(at))}
    if key is not None:
        over = b".".join((identity.encode(), headers["webhook-timestamp"].encode(), body))
        headers["webhook-signature"] = "v1," + b64encode(hmac.digest(key, over, "sha256")).decode()
    return headers


def signing_key(stored: bytes) -> bytes:
    """The key that a Secret has: bytes, or a text of Standard Webhooks. ValueError where that is not base64."""
    said = stored.strip()
    return b64decode(said[len(_SECRET_PREFIX) :], validate=True) if said.startswith(_SECRET_PREFIX.encode()) else said


def mail(to: Mail, identity: str, happening: Happening) -> EmailMessage:
    message = EmailMessage()
    message["From"] = Address(addr_spec=to.sender)
    message["To"] = tuple(Address(addr_spec=one) for one in to.to)
    message["Subject"] = f"[Fleet] {happening.namespace}/{happening.name} {_VERB[happening.told]}"
    message["Message-ID"] = f"<{identity}@fleet>"
    rows = [
        line(happening),
        "",
        f"Time:      {rfc3339(happening.at)}",
        f"Submitted: {rfc3339(happening.submitted)}",
        f"User:      {happening.user or '-'}",
        f"Queue:     {happening.queue or '-'}",
    ]
    message.set_content("\n".join(rows) + "\n")
    return message


def _for_slack(said: str) -> str:
    """Slack takes these three for markup."""
    return said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
