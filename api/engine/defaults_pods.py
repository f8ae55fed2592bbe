"""The defaults of pods and pod templates, as in pkg/apis/core/v1/defaults.go of Kubernetes 1.36."""

from __future__ import annotations

import re
from typing import Any

from api.engine.filling import Body, Filler, Zero, all_of, at_each, fill
from fleet.values.quantity import BadQuantity, canonical
from fleet.values.untyped import mapping, rows

MODE = 0o644  # of the files in a volume of a ConfigMap, a Secret, …
TOKEN_SECONDS = 3600
_CONTAINERS = ("containers[]", "initContainers[]", "ephemeralContainers[]")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NAME = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9.\-]+(?::[0-9]+)?/)?{_NAME}(?:/{_NAME})*(?::(?P<tag>[\w][\w.-]{{0,127}}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_IMAGE_MAX = 1000  # characters of a reference that is looked at


def pull_policy(image: Any) -> str:
    """Always for the tag `latest`, which an image without tag and digest has."""
    found = _IMAGE.fullmatch(image) if image.__class__ is str and len(image) <= _IMAGE_MAX else None
    if found is None:
        return "IfNotPresent"
    latest = found["tag"] == "latest" or not (found["tag"] or found["digest"])
    return "Always" if latest else "IfNotPresent"


def amounts(body: Body, field: str) -> None:
    """The amounts of resources below `field` in the one form that Kubernetes writes; others are left to validation."""
    table = body.get(field)
    if table.__class__ is dict:
        for name, amount in table.items():
            try:
                text = canonical(amount, milli=True)
            except BadQuantity:
                continue
            if text != amount:
                table[name] = text


def amount(body: Body, field: str) -> None:
    """One quantity in the form that Kubernetes writes."""
    if body.get(field) is not None:
        try:
            body[field] = canonical(body[field])
        except BadQuantity:
            return


def resources(body: Body) -> None:
    """The amounts of `resources`."""
    found = body.get("resources")
    if found.__class__ is dict:
        amounts(found, "limits")
        amounts(found, "requests")


def _volume(volume: Body) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    empty = volume.get("emptyDir")
    if empty.__class__ is dict:
        amount(empty, "sizeLimit")
    image = volume.get("image")
    if image.__class__ is dict and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference"))


def _accounts(spec: Body) -> None:
    """`serviceAccount` is the older name of `serviceAccountName`."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


_HTTP = {"path": "/", "scheme": "HTTP"}
_PROBE = all_of(
    fill(
        "",
        {
            "timeoutSeconds": Zero(1),
            "periodSeconds": Zero(10),
            "successThreshold": Zero(1),
            "failureThreshold": Zero(3),
        },
    ),
    fill("httpGet", _HTTP),
    fill("grpc", {"service": ""}),
)
_CONTAINER = all_of(
    fill(
        "",
        {
            "imagePullPolicy": lambda container: pull_policy(container.get("image")),
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "resources": {},
        },
    ),
    resources,
    fill("ports[]", {"protocol": "TCP"}),
    *(at_each(probe, _PROBE) for probe in _PROBES),
    at_each("lifecycle", all_of(fill("postStart.httpGet", _HTTP), fill("preStop.httpGet", _HTTP))),
    at_each(
        "env[].valueFrom", all_of(fill("fieldRef", {"apiVersion": "v1"}), fill("resourceFieldRef", {"divisor": "0"}))
    ),
)

_VOLUME = all_of(
    _volume,
    fill("secret", {"defaultMode": MODE}),
    fill("configMap", {"defaultMode": MODE}),
    fill("downwardAPI", {"defaultMode": MODE}),
    fill("downwardAPI.items[].fieldRef", {"apiVersion": "v1"}),
    fill("projected", {"defaultMode": MODE}),
    fill("projected.sources[].serviceAccountToken", {"expirationSeconds": TOKEN_SECONDS}),
    fill("projected.sources[].downwardAPI.items[].fieldRef", {"apiVersion": "v1"}),
    fill("hostPath", {"type": ""}),
    fill("iscsi", {"iscsiInterface": "default"}),
    fill("rbd", {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
    fill("azureDisk", {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False}),
    fill("scaleIO", {"fsType": "xfs", "storageMode": "ThinProvisioned"}),
    fill("ephemeral.volumeClaimTemplate+.spec", {"volumeMode": "Filesystem"}),
    at_each("ephemeral.volumeClaimTemplate.spec", resources),
)

POD_SPEC: Filler = all_of(
    fill(
        "",
        {
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
        },
    ),
    _accounts,
    *(at_each(place, _CONTAINER) for place in _CONTAINERS),
    at_each("volumes[]", _VOLUME),
    lambda spec: amounts(spec, "overhead"),
    resources,
)


def template(place: str) -> Filler:
    """The defaults of the pod template at `place`."""
    if not place:
        return at_each("spec+", POD_SPEC)
    return all_of(fill(f"{place}+.metadata+", {}), at_each(f"{place}.spec+", POD_SPEC))


def _requests(container: Body) -> None:
    """A pod's limits are its requests, where it has none. A template is left as it is."""
    found = mapping(container.get("resources"))
    limits, requests = found.get("limits"), found.get("requests")
    if limits.__class__ is dict and limits and (requests is None or requests.__class__ is dict):
        found["requests"] = {**limits, **(requests or {})}


def _host_ports(spec: Body) -> None:
    if spec.get("hostNetwork") is True:
        for container in (*rows(spec.get("containers")), *rows(spec.get("initContainers"))):
            for port in rows(container.get("ports")):
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort")


POD: Filler = all_of(
    template(""),
    at_each("spec.containers[]", _requests),
    at_each("spec.initContainers[]", _requests),
    fill("spec", {"enableServiceLinks": True}),
    at_each("spec", _host_ports),
)
