"""Questions to a Prometheus outside the member: by https, through the hub's one client for such servers."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error

from api.outgoing import OutgoingClient, OutgoingError
from fleet.members.gpufigures import ANSWER_BYTES_MAX, NoFigures
from fleet.members.gpusource import Prometheus
from fleet.values.ports import Key, Store
from fleet.values.untyped import mapping, text
from fleet.wellknown import SYSTEM_NAMESPACE

SECRET_TYPE = "fleet.io/metrics"  # no other Secret is read, so that a Cluster gives away none


async def asked_elsewhere(
    outgoing: OutgoingClient, store: Store, source: Prometheus, path: str, within_s: float
) -> bytes:
    """The answer at the path below the address. Raises NoFigures."""
    headers = {"accept": "application/json"}
    if source.secret:
        headers["authorization"] = f"Bearer {_token(store, source.secret)}"
    try:
        answer = await outgoing.request(
            "GET", source.base + path, headers=headers, ca=source.ca or None, timeout=within_s, limit=ANSWER_BYTES_MAX
        )
    except OutgoingError as error:
        raise NoFigures(f"its Prometheus: {error}") from None
    if answer.status != 200:
        raise NoFigures(f"its Prometheus answers {answer.status}")
    return answer.body


def _token(store: Store, name: str) -> str:
    stored = store.peek(Key("", "secrets", SYSTEM_NAMESPACE, name))
    if stored is None or stored.body.get("type") != SECRET_TYPE:
        raise NoFigures(f"there is no Secret {SYSTEM_NAMESPACE}/{name} of type {SECRET_TYPE}")
    try:
        token = b64decode(text(mapping(stored.body.get("data")).get("token")), validate=True).decode("ascii").strip()
    except (Base64Error, UnicodeDecodeError):
        token = ""
    if not token.isprintable() or not token:
        raise NoFigures(f"the Secret {SYSTEM_NAMESPACE}/{name} has no usable token")
    return token
