"""Built-in kinds: namespaces that stay, data that is frozen, priorities that do not change under running work."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence

import orjson

from api.admission.causes import forbidden, invalid
from api.admission.kubernetes.containers import config_key_problems
from api.admission.rule import Checks, dig, immutable, of_new
from api.engine.status import Cause, StatusError
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.values.ports import Body

_PLAIN_KEY = re.compile(r"[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,252}")  # nearly all keys; the others are looked at closely
_ACCOUNT = "kubernetes.io/service-account.name"  # an annotation
_DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_DATA_MAX = 1 << 20
_PRIORITY_MAX = 1_000_000_000


def namespace_rule(kept: Collection[str]) -> Checks:
    """The rule of namespaces, of which some may not be deleted."""

    def check(review: Review) -> Sequence[Cause]:
        if review.operation == "DELETE" and review.name in kept:
            message = f'namespaces "{review.name}" is forbidden: this namespace may not be deleted'
            raise StatusError(403, "Forbidden", message, kind="namespaces", name=review.name)
        return ()

    return Checks(check)


def _data(body: Body) -> Sequence[Cause]:
    """Keys and size of a ConfigMap's or a Secret's data."""
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    causes = []
    for field, entries in (("data", data), ("binaryData", binary)):
        for key in entries:
            if not _PLAIN_KEY.fullmatch(key):
                causes += [invalid(f"{field}[{key}]", key, why) for why in config_key_problems(key)]
    causes += [invalid(f"data[{key}]", key, "duplicate of key present in binaryData") for key in data if key in binary]
    secret = body.get("kind") == "Secret"
    size = _decoded(data) if secret else sum(map(_bytes, data.values()))
    if size + _decoded(binary) > _DATA_MAX:
        text = f"Too long: may not be more than {_DATA_MAX} bytes"
        causes.append(Cause("data" if secret else "[]", text, "FieldValueTooLong"))
    return causes


def _bytes(value: str | None) -> int:
    """None: in an object that was stored before the hub dropped such values."""
    if value is None:
        return 0
    return len(value) if value.isascii() else len(value.encode())


def _decoded(entries: Mapping[str, str | None]) -> int:
    """The bytes of values in base64."""
    return sum(len(value) // 4 * 3 - value[-2:].count("=") for value in entries.values() if value is not None)


def _typed(body: Body) -> Sequence[Cause]:
    """The keys that a Secret of a type of Kubernetes must have."""
    data, kind = body.get("data") or {}, body.get("type") or ""
    if kind == "kubernetes.io/service-account-token":
        named = (dig(body, "metadata.annotations") or {}).get(_ACCOUNT)
        return [] if named else [_missing(f"metadata.annotations[{_ACCOUNT}]")]
    if kind in _DOCKER:
        key = _DOCKER[kind]
        if key not in data:
            return [_missing(f"data[{key}]")]
        try:
            sound = isinstance(orjson.loads(b64decode(data[key] or "")), dict)
        except ValueError:
            sound = False
        return [] if sound else [invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object")]
    if kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
        return [_missing("data[username]"), _missing("data[password]")]
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        return [_missing("data[ssh-privatekey]")]
    if kind == "kubernetes.io/tls":
        return [_missing(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _missing(path: str) -> Cause:
    return Cause(path, "Required value", "FieldValueRequired")


def _frozen(review: Review) -> Sequence[Cause]:
    """`immutable: true` cannot be taken back, and its data cannot change."""
    if review.new is None or review.old is None or not review.old.get("immutable"):
        return ()
    fields = ("data", "binaryData", "immutable")
    return [
        Cause(field, "Forbidden: field is immutable when `immutable` is set", "FieldValueForbidden")
        for field in fields
        if (review.new.get(field) or None) != (review.old.get(field) or None)
    ]


def _priority(body: Body) -> Sequence[Cause]:
    value = body.get("value")
    if isinstance(value, int) and value > _PRIORITY_MAX and not body["metadata"]["name"].startswith("system-"):
        why = f"maximum allowed value of a user defined priority is {_PRIORITY_MAX}"
        return [forbidden("value", why)]
    return ()


def _same_priority(review: Review) -> Sequence[Cause]:
    if review.new is None or review.old is None or review.new.get("value") == review.old.get("value"):
        return ()
    return [forbidden("value", "may not be changed in an update.")]


async def _one_default(review: Review, objects: Objects) -> Sequence[Cause]:
    if review.new is None or not review.new.get("globalDefault"):
        return ()
    for other in await objects.list(review.kind):
        name = other["metadata"]["name"]
        if other.get("globalDefault") and name != review.name:
            message = (
                f'priorityclasses.scheduling.k8s.io "{review.name}" is forbidden: '
                f"PriorityClass {name} is already marked as default"
            )
            raise StatusError(
                403, "Forbidden", message, group=review.kind.group, kind=review.kind.resource, name=review.name
            )
    return ()


def _lease(body: Body) -> Sequence[Cause]:
    spec = body.get("spec") or {}
    causes = []
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        causes.append(invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if spec.get("leaseTransitions") is not None and spec["leaseTransitions"] < 0:
        causes.append(invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0"))
    return causes


CONFIG_MAP = Checks(of_new(_data), _frozen)
SECRET = Checks(of_new(_data), of_new(_typed), _frozen, immutable("type"))
PRIORITY_CLASS = Checks(
    of_new(_priority),
    _same_priority,
    immutable("preemptionPolicy"),
    ask=_one_default,
)
LEASE = Checks(of_new(_lease))
