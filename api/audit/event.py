"""The words of an audit event (audit.k8s.io/v1), field by field as a kube-apiserver writes them.

An event is a dict in the order of their fields. Bodies come as JSON and stay as they are; without managedFields they
are read and written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from api.audit.policy import AuditedRequest, Level, Stage
from fleet.values.times import rfc3339_micro

API_VERSION = "audit.k8s.io/v1"
USER_AGENT_CHARACTERS_MAX = 1024
ADDRESSES_MAX = 32  # of the proxies that a request names
TRUNCATED = "audit.k8s.io/truncated"  # the annotation of an event that lost its bodies
DECISION, REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
_STATUS_FIELDS = ("status", "message", "reason", "details", "code")

Body = dict[str, Any]


def user_info(name: str, uid: str, groups: Sequence[str], extra: Iterable[tuple[str, Sequence[str]]]) -> Body:
    info: Body = {"username": name} if name else {}
    if uid:
        info["uid"] = uid
    if groups:
        info["groups"] = list(groups)
    named = {key: list(values) for key, values in extra}
    return info | ({"extra": named} if named else {})


def object_ref(request: AuditedRequest) -> Body | None:
    """The object that a request is about; None for a path that is no resource."""
    if request.path:
        return None
    reference = {
        "resource": request.resource,
        "namespace": request.namespace,
        "name": request.name,
        "apiGroup": request.group,
        "apiVersion": request.version,
        "subresource": request.subresource,
    }
    return {key: value for key, value in reference.items() if value}


def complete_ref(ref: Body, body: Any) -> None:
    """Add what the body of a request says of its object, where the path says nothing."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if isinstance(metadata, Mapping):
        for key in ("namespace", "name", "uid", "resourceVersion"):
            value = metadata.get(key)
            if isinstance(value, str) and value:
                ref.setdefault(key, value[:253])


def response_status(code: int, status: Any = None) -> Body:
    """`status`: the body of the answer, where that is a Status."""
    said: Body = {"metadata": {}}
    if isinstance(status, Mapping) and status.get("kind") == "Status":
        said |= {key: status[key] for key in _STATUS_FIELDS if status.get(key)}
    said["code"] = code
    return said


def addresses(forwarded: str, real: str, peer: str) -> list[str]:
    """The addresses that a request came by: those that its headers name, which its client may have made up, and last
    that of the connection."""
    if not (forwarded or real):
        return [peer] if peer else []
    found = [_address(text) for text in forwarded.split(",", ADDRESSES_MAX)[:ADDRESSES_MAX]]
    chain = [text for text in found if text]
    real = _address(real)
    if real and real not in chain:
        chain.append(real)
    if peer and (not chain or chain[-1] != peer):
        chain.append(peer)
    return chain


def _address(text: str) -> str:
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        return ""


def agent(text: str) -> str:
    return text if len(text) <= USER_AGENT_CHARACTERS_MAX else f"{text[:USER_AGENT_CHARACTERS_MAX]}...TRUNCATED"


def event(
    level: Level,
    audit_id: str,
    stage: Stage,
    facts: Body,
    ref: Body | None,
    outcome: Body,
    received: float,
    now: float,
    annotations: Mapping[str, str],
) -> Body:
    """`facts`: from requestURI to userAgent; `outcome`: responseStatus, requestObject and responseObject, or less."""
    document: Body = {
        "kind": "Event",
        "apiVersion": API_VERSION,
        "level": level.word,
        "auditID": audit_id,
        "stage": stage.value,
        **facts,
    }
    if ref is not None:
        document["objectRef"] = ref
    document |= outcome
    document["requestReceivedTimestamp"] = rfc3339_micro(received)
    document["stageTimestamp"] = rfc3339_micro(now)
    if annotations:
        document["annotations"] = dict(annotations)
    return document


def without_managed_fields(body: Any) -> Any:
    """The object, the list or the Table, with no managedFields of any of its objects. Changes it in place."""
    if not isinstance(body, dict):
        return body
    rows = body.get("rows") if body.get("kind") == "Table" else ()
    items = body.get("items")
    objects = [body, *(items if isinstance(items, list) else ()), *(_object_of(row) for row in rows or ())]
    for found in objects:
        metadata = found.get("metadata") if isinstance(found, dict) else None
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
    return body


def _object_of(row: Any) -> Any:
    return row.get("object") if isinstance(row, dict) else None
