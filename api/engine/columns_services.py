"""Services, endpoints, ingresses, volumes and their classes as kubectl shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from api.engine.columns_workloads import NONE, selector_text
from fleet.values.durations import human
from fleet.values.untyped import at, mapping, rows

Body = dict[str, Any]
_SHOWN = 3  # items of a list in one cell
_DEFAULT_OF = {
    "IngressClass": ("ingressclass.kubernetes.io/is-default-class",),
    "StorageClass": (
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ),
}
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _some(items: Sequence[str], empty: str) -> str:
    """The first items, and the number of the others."""
    text = ",".join(items[:_SHOWN])
    more = len(items) - _SHOWN
    return f"{text} + {more} more..." if more > 0 else text or empty


def service_cluster_ip(body: Body, now: float) -> str:
    return str(body.get("spec", {}).get("clusterIP") or NONE)


def service_external_ip(body: Body, now: float) -> str:
    spec = body.get("spec", {})
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or NONE)
    ingress = (body.get("status", {}).get("loadBalancer") or {}).get("ingress") or []
    found = [entry.get("ip") or entry.get("hostname") or "" for entry in ingress] + (spec.get("externalIPs") or [])
    return ",".join(found) or ("<pending>" if spec.get("type") == "LoadBalancer" else NONE)


def service_ports(body: Body, now: float) -> str:
    ports = []
    for port in body.get("spec", {}).get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol') or 'TCP'}")
    return ",".join(ports) or NONE


def _addresses(body: Body) -> Iterator[str]:
    for subset in rows(body.get("subsets")):
        addresses = [str(address.get("ip")) for address in rows(subset.get("addresses"))]
        ports = rows(subset.get("ports"))
        if not ports:
            yield from addresses
        for port in ports:
            for address in addresses:
                yield f"[{address}]:{port.get('port')}" if ":" in address else f"{address}:{port.get('port')}"


def slice_ports(body: Body, now: float) -> str:
    ports = [port.get("port") or port.get("name") for port in rows(body.get("ports"))]
    return _some(["*" if port is None else str(port) for port in ports], "<unset>")


def slice_endpoints(body: Body, now: float) -> str:
    ready = [str(address) for endpoint in rows(body.get("endpoints")) for address in endpoint.get("addresses") or []]
    return _some(ready, "<unset>")


def ingress_hosts(body: Body, now: float) -> str:
    return _some([rule["host"] for rule in rows(at(body, "spec", "rules")) if rule.get("host")], "*")


def ingress_address(body: Body, now: float) -> str:
    entries = rows(at(body, "status", "loadBalancer", "ingress"))
    return ",".join(sorted({str(entry.get("ip") or entry.get("hostname") or "") for entry in entries} - {""}))


def ingress_class_parameters(body: Body, now: float) -> str:
    parameters = mapping(at(body, "spec", "parameters"))
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters.get('kind')}{group}/{parameters.get('name')}"


def ip_parent(body: Body, now: float) -> str:
    parent = mapping(at(body, "spec", "parentRef"))
    if not parent:
        return NONE
    resource = f"{parent.get('resource') or ''}.{parent['group']}" if parent.get("group") else parent.get("resource")
    return "/".join(str(part) for part in (str(resource).lower(), parent.get("namespace"), parent.get("name")) if part)


def name_with_default(body: Body, now: float) -> str:
    """The name of a class, and whether objects without a class get it."""
    annotations = mapping(at(body, "metadata", "annotations"))
    chosen = any(annotations.get(key) == "true" for key in _DEFAULT_OF.get(str(body.get("kind")), ()))
    return f"{body['metadata']['name']}{' (default)' if chosen else ''}"


# -- volumes


def _modes(modes: Any) -> str:
    return ",".join(_ACCESS_MODES.get(mode, mode) for mode in modes or [])


def pvc_status(body: Body, now: float) -> str:
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(body.get("status", {}).get("phase") or "")


def _bound(body: Body) -> bool:
    return bool(body.get("spec", {}).get("volumeName"))


def pvc_capacity(body: Body, now: float) -> str:
    return str((body.get("status", {}).get("capacity") or {}).get("storage", "")) if _bound(body) else ""


def pvc_access_modes(body: Body, now: float) -> str:
    return _modes(at(body, "status", "accessModes")) if _bound(body) else ""


def pvc_attributes_class(body: Body, now: float) -> str:
    return str(body.get("spec", {}).get("volumeAttributesClassName") or "<unset>")


def pv_claim(body: Body, now: float) -> str:
    claim = mapping(at(body, "spec", "claimRef"))
    return f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else ""


def csi_token_requests(body: Body, now: float) -> str:
    requests = at(body, "spec", "tokenRequests")
    return "<unset>" if requests is None else ",".join(str(request.get("audience")) for request in rows(requests))


def claim_state(body: Body, now: float) -> str:
    """Of a ResourceClaim."""
    deleted, status = bool(body["metadata"].get("deletionTimestamp")), mapping(body.get("status"))
    states = ["deleted"] if deleted else []
    if "allocation" in status:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def flow_dangling(body: Body, now: float) -> str:
    conditions = rows(at(body, "status", "conditions"))
    return next((str(c.get("status")) for c in conditions if c.get("type") == "Dangling"), "?")


def csr_duration(body: Body, now: float) -> str:
    asked = at(body, "spec", "expirationSeconds")
    return NONE if asked is None else human(asked)


def csr_condition(body: Body, now: float) -> str:
    types = {row.get("type") for row in rows(at(body, "status", "conditions"))}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    words += ["Failed"] if "Failed" in types else []
    words += ["Issued"] if at(body, "status", "certificate") else []
    return ",".join(words)


SERVICES: dict[str, Callable[[Body, float], Any]] = {
    "service_cluster_ip": service_cluster_ip,
    "service_external_ip": service_external_ip,
    "service_ports": service_ports,
    "endpoints": lambda body, now: _some(list(_addresses(body)), NONE),
    "slice_ports": slice_ports,
    "slice_endpoints": slice_endpoints,
    "ingress_hosts": ingress_hosts,
    "ingress_address": ingress_address,
    "ingress_ports": lambda body, now: "80, 443" if at(body, "spec", "tls") else "80",
    "ingress_class_parameters": ingress_class_parameters,
    "ip_parent": ip_parent,
    "service_cidrs": lambda body, now: ",".join(at(body, "spec", "cidrs") or []),
    "pod_selector": lambda body, now: selector_text(at(body, "spec", "podSelector")),
    "name_with_default": name_with_default,
    "pvc_status": pvc_status,
    "pvc_capacity": pvc_capacity,
    "pvc_access_modes": pvc_access_modes,
    "pvc_attributes_class": pvc_attributes_class,
    "pv_access_modes": lambda body, now: _modes(at(body, "spec", "accessModes")),
    "pv_claim": pv_claim,
    "csi_drivers": lambda body, now: len(rows(at(body, "spec", "drivers"))),
    "csi_modes": lambda body, now: ",".join(at(body, "spec", "volumeLifecycleModes") or []) or NONE,
    "csi_token_requests": csi_token_requests,
    "claim_state": claim_state,
    "flow_dangling": flow_dangling,
    "csr_duration": csr_duration,
    "csr_condition": csr_condition,
}
