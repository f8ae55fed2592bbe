"""A request to a webhook that an object of the hub names: admission and conversion alike.

A webhook is named by a URL, or by a Service of the hub. The hub has no cluster network, so a Service leads to an
address in one of two ways: an ExternalName, or Endpoints that somebody wrote. The address is then subject to what the
hub's own requests may reach (api/outgoing).
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from api.outgoing import OutgoingClient, OutgoingError, Reason
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import mapping, rows, text, texts, whole

_SERVICE_OF_SLICE = "kubernetes.io/service-name"
_HTTPS_PORT = 443


class HookFailure(Exception):
    """The webhook gave no answer. The text is for the client."""


@dataclass(frozen=True, slots=True)
class _Target:
    """`display_url`: the URL in refusals, which for a Service has the Service's name."""

    url: str
    display_url: str
    server_name: str | None = None


class HookClient:
    """Sends one JSON body to what a clientConfig names, through the one client for outgoing requests."""

    def __init__(self, outgoing: OutgoingClient, store: Store) -> None:
        self._outgoing, self._store = outgoing, store

    async def post(self, client: Body, body: bytes, *, timeout: float, limit: int, query: str = "") -> bytes:
        """The content of the answer. Raises HookFailure. `client`: a clientConfig; `query`: for the URL."""
        try:
            target = self._target(client)
        except LookupError as problem:
            raise HookFailure(str(problem.args[0])) from None
        suffix = f"{'&' if '?' in target.url else '?'}{query}" if query else ""
        try:
            answer = await self._outgoing.request(
                "POST",
                target.url + suffix,
                body=body,
                ca=_authorities(client),
                headers={"content-type": "application/json", "accept": "application/json"},
                server_name=target.server_name,
                timeout=timeout,
                limit=limit,
            )
        except OutgoingError as problem:
            why = "context deadline exceeded" if problem.reason is Reason.TIMED_OUT else str(problem)
            raise HookFailure(f'Post "{target.display_url}{suffix}": {why}') from None
        if not 200 <= answer.status < 300:
            raise HookFailure(f"the server answers HTTP {answer.status}")
        return answer.body

    def _target(self, client: Body) -> _Target:
        url = client.get("url")
        if url.__class__ is str:
            return _Target(url, url)
        service = mapping(client.get("service"))
        namespace, name = text(service.get("namespace")), text(service.get("name"))
        port, path = whole(service.get("port"), _HTTPS_PORT), "/" + text(service.get("path")).lstrip("/")
        full = f"{name}.{namespace}.svc"
        host, reached = self._address(namespace, name, port)
        where = f"[{host}]" if ":" in host else host
        return _Target(f"https://{where}:{reached}{path}", f"https://{full}:{port}{path}", full)

    def _address(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """Where a port of a Service is reached; LookupError says why it is not."""
        stored = self._store.peek(Key("", "services", namespace, name))
        if stored is None:
            raise LookupError(f'service "{name}" not found')
        spec = mapping(stored.body.get("spec"))
        if spec.get("type") == "ExternalName":
            return text(spec.get("externalName")), port
        served = next((item for item in rows(spec.get("ports")) if item.get("port") == port), None)
        if served is None:
            raise LookupError(f'no service port {port} found for service "{name}"')
        found = self._endpoint(namespace, name, text(served.get("name")))
        if found is None:
            why = "the hub has no pods: give it Endpoints, or the type ExternalName"
            raise LookupError(f'no endpoints available for service "{name}" ({why})')
        return found

    def _endpoint(self, namespace: str, name: str, port: str) -> tuple[str, int] | None:
        """The first ready address behind a named port of a Service."""
        for stored in self._store.scan("discovery.k8s.io", "endpointslices", namespace=namespace):
            labels = mapping(mapping(stored.body.get("metadata")).get("labels"))
            number = _port(stored.body.get("ports"), port)
            if labels.get(_SERVICE_OF_SLICE) != name or number is None:
                continue
            for endpoint in rows(stored.body.get("endpoints")):
                addresses = texts(endpoint.get("addresses"))
                if addresses and mapping(endpoint.get("conditions")).get("ready") is not False:
                    return addresses[0], number
        listed = self._store.peek(Key("", "endpoints", namespace, name))
        for subset in rows(listed.body.get("subsets")) if listed is not None else ():
            number = _port(subset.get("ports"), port)
            for address in rows(subset.get("addresses")):
                if number is not None and text(address.get("ip")):
                    return text(address.get("ip")), number
        return None


def _port(ports: Any, name: str) -> int | None:
    for item in rows(ports):
        if text(item.get("name")) == name and item.get("port").__class__ is int:
            return int(item["port"])
    return None


def _authorities(client: Body) -> str | None:
    """The CA certificates of the configuration; None: those of the machine."""
    bundle = client.get("caBundle")
    if not bundle:
        return None
    try:
        return b64decode(bundle, validate=True).decode("ascii")
    except (binascii.Error, ValueError, TypeError):
        raise HookFailure("caBundle is not base64 of PEM") from None
