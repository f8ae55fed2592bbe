"""The values that a kube-apiserver fills in or rewrites in built-in kinds when it decodes them, beyond their schemas.

The values are filled in on every way in (create, update, each kind of patch, apply), since all of them decode.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from api.engine.builtin_admission import ADMISSION
from api.engine.defaults import DEFAULTS
from api.engine.kind import Body, Kind
from fleet.values.times import rfc3339_micro, seconds

_RBAC = "rbac.authorization.k8s.io"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def complete(kind: Kind, body: Body) -> None:
    """Change `body` in place. Values of a wrong type are left alone: validation names them."""
    if kind.builtin:
        own = _OWN.get((kind.group, kind.resource))
        if own is not None:
            own(body)


def _secret(body: Body) -> None:
    """`stringData`, which is write-only, goes into `data`, and wins. Without a type a Secret is Opaque."""
    string_data: Any = body.get("stringData")
    data: Any = body.get("data")
    sound = string_data.__class__ is dict and (data is None or data.__class__ is dict)
    if sound and all(value.__class__ is str for value in string_data.values()):
        del body["stringData"]
        if string_data:
            body["data"] = {**(data or {}), **{k: b64encode(v.encode()).decode() for k, v in string_data.items()}}
    if not body.get("type"):
        body["type"] = "Opaque"
    _bytes(body.get("data"))


def _config_map(body: Body) -> None:
    _bytes(body.get("binaryData"))


def _bytes(data: Any) -> None:
    """Go writes base64 without ends of lines, and with no bits that say nothing."""
    if data.__class__ is not dict:
        return
    for key, value in data.items():
        if value.__class__ is str and (value[-1:] == "=" or "\n" in value or "\r" in value):
            try:
                data[key] = b64encode(b64decode(value.replace("\r", "").replace("\n", ""), validate=True)).decode()
            except ValueError:
                continue  # validation names it


def _lease(body: Body) -> None:
    """Times are written in UTC."""
    spec = body.get("spec")
    if spec.__class__ is dict:
        for field in ("acquireTime", "renewTime"):
            value = spec.get(field)
            if value.__class__ is str and value[-1:] != "Z":
                found = seconds(value)
                if found is not None and "." in value:
                    spec[field] = rfc3339_micro(found)


def _priority_class(body: Body) -> None:
    if body.get("preemptionPolicy") is None:
        body["preemptionPolicy"] = "PreemptLowerPriority"
    if body.get("value") is None:
        body["value"] = 0


def _role_binding(body: Body) -> None:
    ref, subjects = body.get("roleRef"), body.get("subjects")
    if ref.__class__ is dict and not ref.get("apiGroup"):
        body["roleRef"] = {**ref, "apiGroup": _RBAC}
    if subjects.__class__ is list:
        for subject in subjects:
            if subject.__class__ is dict and not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _RBAC


def namespace(body: Body) -> None:
    """Every Namespace carries its name as a label."""
    metadata = body.get("metadata")
    if metadata.__class__ is dict and metadata.get("name").__class__ is str and metadata["name"]:
        labels = metadata.get("labels")
        if labels is None or labels.__class__ is dict:
            metadata["labels"] = {**(labels or {}), NAMESPACE_LABEL: metadata["name"]}


_OWN: dict[tuple[str, str], Callable[[Body], None]] = {
    **DEFAULTS,
    ("", "secrets"): _secret,
    ("", "configmaps"): _config_map,
    ("coordination.k8s.io", "leases"): _lease,
    ("", "namespaces"): namespace,
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    (_RBAC, "rolebindings"): _role_binding,
    (_RBAC, "clusterrolebindings"): _role_binding,
    **ADMISSION,
}
