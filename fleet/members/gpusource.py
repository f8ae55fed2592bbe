"""The source of a member's GPU figures, as `spec.metrics` of its Cluster names it.

A source is a set of DCGM exporters or a Prometheus. The hub reaches exporters, and a Prometheus inside the member, by
the proxy of the member's own API server. So a member behind an agent needs no other way in. A Prometheus elsewhere is
an https address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.values.names import label_problems, label_value_problems, qualified_name_problems
from fleet.values.ports import Body
from fleet.values.untyped import mapping, pairs, text, whole

EXPORTER_PORT, PROMETHEUS_PORT = 9400, 9090
LABELS_MOST = 10
SCHEMES = ("http", "https")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*\Z")
Fault = tuple[str, Any, str]  # path under spec.metrics, value, what is wrong


@dataclass(frozen=True, slots=True)
class Exporters:
    """Pods of one namespace in the member, each with an exporter for its own node."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    port: int
    scheme: str


@dataclass(frozen=True, slots=True)
class Prometheus:
    """`base`: the path of its proxy in the member's API, or the https address of one elsewhere. `secret`: the name of
    the Secret with the token, and `ca` the certificates to trust, of one elsewhere."""

    base: str
    elsewhere: bool = False
    secret: str = ""
    ca: str = ""


Source = Exporters | Prometheus


def source_of(cluster: Body) -> Source | None:
    """None for a Cluster that names no source, or none that can be used."""
    metrics = mapping(mapping(cluster.get("spec")).get("metrics"))
    if not metrics or next(faults(metrics), None) is not None:
        return None
    if "dcgm" in metrics:
        dcgm = mapping(metrics["dcgm"])
        labels = tuple(sorted(pairs(dcgm.get("labels")).items()))
        return Exporters(text(dcgm.get("namespace")), labels, *_at(dcgm, EXPORTER_PORT))
    prometheus = mapping(metrics["prometheus"])
    if prometheus.get("url"):
        secret = text(mapping(prometheus.get("secretRef")).get("name"))
        return Prometheus(text(prometheus["url"]).rstrip("/"), True, secret, text(prometheus.get("caBundle")))
    port, scheme = _at(prometheus, PROMETHEUS_PORT)
    target = proxied("services", text(prometheus.get("namespace")), text(prometheus.get("service")), port, scheme)
    return Prometheus(f"{target}{text(prometheus.get('path'))}")


def proxied(resource: str, namespace: str, name: str, port: int, scheme: str) -> str:
    """The path of the proxy to a pod or Service, in the API of its cluster."""
    secure = "https:" if scheme == "https" else ""
    return f"/api/v1/namespaces/{namespace}/{resource}/{secure}{name}:{port}/proxy"


def _at(given: Body, port: int) -> tuple[int, str]:
    return whole(given.get("port"), port), text(given.get("scheme")) or "http"


def faults(metrics: Body) -> Iterator[Fault]:
    """What keeps `spec.metrics` from naming a source. The schema has checked types and bounds of stored ones."""
    if ("dcgm" in metrics) == ("prometheus" in metrics):
        yield ("", metrics, "exactly one of dcgm and prometheus names where the figures are")
        return
    name = "dcgm" if "dcgm" in metrics else "prometheus"
    source = mapping(metrics[name])
    url = text(source.get("url"))
    if name == "prometheus" and bool(url) == bool(source.get("service")):
        yield (name, source, "exactly one of url and service names the Prometheus")
    elif url:
        if not url.startswith("https://") or "?" in url or "#" in url:
            yield (f"{name}.url", url, "must be an address of https, without a query")
        others = [field for field in ("namespace", "port", "scheme", "path") if field in source]
        yield from ((f"{name}.{field}", source[field], "is for a service, not for a url") for field in others)
    else:
        yield from _inside(name, source)


def _inside(name: str, source: Body) -> Iterator[Fault]:
    for field in ("namespace", *(("service",) if name == "prometheus" else ())):
        for problem in label_problems(text(source.get(field))):
            yield (f"{name}.{field}", source.get(field), problem)
    if not 1 <= whole(source.get("port"), 1) <= 65535:
        yield (f"{name}.port", source.get("port"), "must be between 1 and 65535")
    if (text(source.get("scheme")) or "http") not in SCHEMES:
        yield (f"{name}.scheme", source.get("scheme"), f"must be one of {', '.join(SCHEMES)}")
    if not _PREFIX.match(text(source.get("path"))):
        yield (f"{name}.path", source["path"], "must be steps of letters, digits and ._~-, each after a /")
    if name == "dcgm":
        labels = pairs(source.get("labels"))
        if not labels or len(labels) > LABELS_MOST:
            yield ("dcgm.labels", labels, f"must be the 1 to {LABELS_MOST} labels that all exporters have")
        for key, value in labels.items():
            for problem in (*qualified_name_problems(key), *label_value_problems(value)):
                yield (f"dcgm.labels[{key}]", value, problem)
    for field in ("secretRef", "caBundle"):
        if field in source:
            yield (f"{name}.{field}", source[field], "is for a prometheus with a url")
