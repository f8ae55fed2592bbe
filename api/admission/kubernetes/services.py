"""Services, Endpoints, EndpointSlices, Ingresses and NetworkPolicies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from api.admission.causes import duplicate, forbidden, invalid, required, unsupported
from api.admission.kubernetes.containers import PROTOCOLS, port_name_problems, port_or_name
from api.admission.kubernetes.language import (
    Check,
    Object,
    at,
    between,
    every,
    label,
    labels_at,
    needed,
    of,
    of_spec,
    one_of,
    port_problems,
    selector_at,
    subdomain,
    subset_of,
)
from api.engine.status import Cause
from fleet.values.names import label_problems, qualified_name_problems, subdomain_problems

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITY_MAX = 86400
_IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def _ip_problems(text: str) -> Iterator[str]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        yield _IP_TEXT


def _cidr_problems(text: str) -> Iterator[str]:
    try:
        ipaddress.ip_network(text, strict=False)
        if "/" not in text:
            yield _CIDR_TEXT
    except ValueError:
        yield _CIDR_TEXT


# -- Service


def _headless(spec: Object) -> bool:
    return spec.get("clusterIP") == "None" or (spec.get("clusterIPs") or [""])[0] == "None"


def _service(spec: Object, path: str) -> Iterator[Cause]:
    kind, ports = spec.get("type"), spec.get("ports") or []
    if not ports and not _headless(spec) and kind != "ExternalName":
        yield required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and _headless(spec):
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        name = (spec.get("externalName") or "").removesuffix(".")
        if not name:
            yield required("spec.externalName")
        else:
            yield from (invalid("spec.externalName", name, why) for why in subdomain_problems(name))
    yield from _service_ports(ports, kind)
    yield from labels_at(spec.get("selector"), "spec.selector")
    if kind != "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not None:
        yield forbidden("spec.allocateLoadBalancerNodePorts", "may only be used when `type` is 'LoadBalancer'")
    outside = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    policy = spec.get("externalTrafficPolicy")
    if policy and not outside:
        yield invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")


def _service_ports(ports: list[Object], kind: object) -> Iterator[Cause]:
    names: set[str] = set()
    numbers: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        place, name = f"spec.ports[{index}]", port.get("name") or ""
        if not name and len(ports) > 1:
            yield required(f"{place}.name")
        elif name:
            yield from (invalid(f"{place}.name", name, why) for why in label_problems(name))
            if name in names:
                yield duplicate(f"{place}.name", name)
            names.add(name)
        number = port.get("port") or 0
        yield from (invalid(f"{place}.port", number, why) for why in port_problems(number))
        yield from _SERVICE_PORT(port, place)
        if kind == "ClusterIP" and port.get("nodePort"):
            yield forbidden(f"{place}.nodePort", "may not be used when `type` is 'ClusterIP'")
        key = (port.get("protocol"), number)
        if key in numbers:
            yield duplicate(place, {"port": number, "protocol": port.get("protocol")})
        numbers.add(key)


_SERVICE_PORT = every(
    one_of("protocol", *PROTOCOLS), port_or_name("targetPort"), of("appProtocol", qualified_name_problems)
)
_SERVICE_FIELDS = every(
    one_of("type", *_TYPES),
    one_of("sessionAffinity", "ClientIP", "None"),
    at("sessionAffinityConfig.clientIP", between("timeoutSeconds", 1, _AFFINITY_MAX)),
    one_of("internalTrafficPolicy", "Cluster", "Local", needed=False),
    lambda spec, path: (
        invalid(f"spec.externalIPs[{index}]", ip, why)
        for index, ip in enumerate(spec.get("externalIPs") or ())
        for why in _ip_problems(ip)
    ),
)


# -- Endpoints and EndpointSlices


def _slice(body: Object, path: str) -> Iterator[Cause]:
    family = body.get("addressType") or ""
    if not family:
        yield required("addressType")
    elif family not in ("FQDN", "IPv4", "IPv6"):
        yield unsupported("addressType", family, ("FQDN", "IPv4", "IPv6"))
    for index, endpoint in enumerate(body.get("endpoints") or ()):
        place, addresses = f"endpoints[{index}].addresses", endpoint.get("addresses") or []
        if not addresses:
            yield required(place, "must contain at least 1 address")
        for position, address in enumerate(addresses):
            problems = subdomain_problems(address) if family == "FQDN" else list(_ip_problems(address))
            yield from (invalid(f"{place}[{position}]", address, why) for why in problems)
            if not problems and family in ("IPv4", "IPv6") and (":" in address) != (family == "IPv6"):
                yield invalid(place, address, f"must be an {family} address")
    names: set[str] = set()
    for index, port in enumerate(body.get("ports") or ()):
        name = port.get("name") or ""
        if name in names:
            yield duplicate(f"ports[{index}].name", name)
        names.add(name)
        if name:
            yield from (invalid(f"ports[{index}].name", name, why) for why in label_problems(name))


def _ip_problems_again(text: str) -> Iterator[str]:
    """Kubernetes parses an address of an Endpoints twice."""
    if any(_ip_problems(text)):
        yield "must be a valid IP address"


_ADDRESS = every(needed("ip"), of("ip", _ip_problems), of("ip", _ip_problems_again), of("hostname", label_problems))


def _subset(subset: Object, path: str) -> Iterator[Cause]:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield required(path, "must specify `addresses` or `notReadyAddresses`")
    ports = subset.get("ports") or ()
    for index, port in enumerate(ports):
        place, name = f"{path}.ports[{index}]", port.get("name") or ""
        if not name and len(ports) > 1:
            yield required(f"{place}.name")
        elif name:
            yield from (invalid(f"{place}.name", name, why) for why in label_problems(name))
        number = port.get("port") or 0
        yield from (invalid(f"{place}.port", number, why) for why in port_problems(number))


_ENDPOINTS = at(
    "subsets[]",
    _subset,
    at("addresses[]", _ADDRESS),
    at("notReadyAddresses[]", _ADDRESS),
    at("ports[]", one_of("protocol", *PROTOCOLS)),
)


# -- Ingress


def _backend(backend: Object, path: str) -> Iterator[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from needed("kind", "name")(resource, f"{path}.resource")
    elif service is None:
        yield invalid(path, "", "resource or service backend is required")
    else:
        yield from needed("name")(service, f"{path}.service")
        yield from label("name")(service, f"{path}.service")
        port = service.get("port") or {}
        number, name = port.get("number"), port.get("name")
        if number and name:
            yield invalid(path, "", "cannot set both port name & port number")
        elif number:
            yield from (invalid(f"{path}.service.port.number", number, why) for why in port_problems(number))
        elif name:
            yield from (invalid(f"{path}.service.port.name", name, why) for why in port_name_problems(name))
        else:
            yield required(path, "port name or number is required")


def _ingress(spec: Object, path: str) -> Iterator[Cause]:
    rules = spec.get("rules") or ()
    if not rules and spec.get("defaultBackend") is None:
        yield invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(rules):
        place, host = f"spec.rules[{index}]", rule.get("host") or ""
        if host:
            yield from _host(host, f"{place}.host")
        http = rule.get("http")
        if http is None:
            continue
        if not http.get("paths"):
            yield required(f"{place}.http.paths")
        for position, entry in enumerate(http.get("paths") or ()):
            yield from _path(entry, f"{place}.http.paths[{position}]")


def _host(host: str, path: str) -> Iterator[Cause]:
    try:
        ipaddress.ip_address(host)
        yield invalid(path, host, "must be a DNS name, not an IP address")
    except ValueError:
        name = host.removeprefix("*.")
        yield from (invalid(path, host, why) for why in subdomain_problems(name))


def _path(entry: Object, path: str) -> Iterator[Cause]:
    kind, text = entry.get("pathType"), entry.get("path") or ""
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield unsupported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(f"{path}.path", text, "must be an absolute path")
    yield from _backend(entry.get("backend") or {}, f"{path}.backend")


# -- NetworkPolicy


def _peer(peer: Object, path: str) -> Iterator[Cause]:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    for name in ("podSelector", "namespaceSelector"):
        yield from selector_at(peer.get(name), f"{path}.{name}")
    if not given:
        yield required(path, "must specify a peer")
    elif "ipBlock" in given and len(given) > 1:
        yield forbidden(path, "may not specify both ipBlock and another peer")
    block = peer.get("ipBlock")
    if block is not None:
        cidr = block.get("cidr") or ""
        if not cidr:
            yield required(f"{path}.ipBlock.cidr")
        else:
            yield from (invalid(f"{path}.ipBlock.cidr", cidr, why) for why in _cidr_problems(cidr))


def _policy_port(port: Object, path: str) -> Iterator[Cause]:
    first, last = port.get("port"), port.get("endPort")
    if first is not None:
        yield from port_or_name("port")(port, path)
    if last is None:
        return
    if first is None:
        yield invalid(f"{path}.endPort", last, "may not be specified when `port` is not specified")
    elif isinstance(first, str):
        yield invalid(f"{path}.endPort", last, "may not be specified when `port` is non-numeric")
    elif last < first:
        yield invalid(f"{path}.endPort", first, "must be greater than or equal to `port`")


_POLICY_PORT = every(one_of("protocol", "TCP", "UDP", "SCTP", needed=False), _policy_port)
_NETWORK_POLICY = at(
    "spec",
    lambda spec, path: selector_at(spec.get("podSelector"), "spec.podSelector"),
    at("ingress[]", at("ports[]", _POLICY_PORT), at("from[]", _peer)),
    at("egress[]", at("ports[]", _POLICY_PORT), at("to[]", _peer)),
    subset_of("policyTypes", "Ingress", "Egress"),
)


def _prefixed_path(text: str) -> Iterator[str]:
    domain, slash, rest = text.partition("/")
    if not slash or not domain or not rest:
        yield 'must be a domain-prefixed path (such as "acme.io/foo")'
    else:
        yield from subdomain_problems(domain)


_INGRESS_CLASS = at(
    "spec",
    needed("controller"),
    of("controller", _prefixed_path),
    at(
        "parameters",
        needed("kind", "name"),
        one_of("scope", "Cluster", "Namespace"),
        subdomain("apiGroup"),
        label("namespace"),
    ),
)

CHECKS: dict[tuple[str, str], Check] = {
    ("", "services"): of_spec(_SERVICE_FIELDS, _service),
    ("", "endpoints"): _ENDPOINTS,
    ("discovery.k8s.io", "endpointslices"): every(_slice, at("ports[]", one_of("protocol", *PROTOCOLS))),
    ("networking.k8s.io", "ingresses"): of_spec(_ingress, subdomain("ingressClassName")),
    ("networking.k8s.io", "ingressclasses"): _INGRESS_CLASS,
    ("networking.k8s.io", "networkpolicies"): _NETWORK_POLICY,
}
