"""`kubectl amc top`: CPU and memory that nodes or pods of members use, where the members tell it.

The figures are those of metrics.k8s.io, which a metrics-server in the member serves. A member without one is a line on
stderr.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from fleet.amc import table
from fleet.amc.client import Client, NoAnswer
from fleet.amc.get import Query, at_once, of_members, proxy, silence
from fleet.values.quantity import BadQuantity, quantity

METRICS = "/apis/metrics.k8s.io/v1beta1"
NO_METRICS = "tells no usage: it does not serve metrics.k8s.io (a metrics-server would)"
Body = dict[str, Any]


def top(client: Client, query: Query) -> tuple[str, list[str]]:
    """The table of `query.words` ("nodes" or "pods"), and the lines for stderr. Raises NoAnswer and Refused."""
    read: Callable[[Client, str, Query], list[list[str]]] = _nodes if query.words == ["nodes"] else _pods

    def one(member: str) -> tuple[list[list[str]], str]:
        try:
            return read(client, member, query), ""
        except NoAnswer as error:
            return [], silence(member, error)
        except _NoFigures as untold:
            return [], f"cluster({member}): {untold}"

    found = at_once(one, of_members(client, query.members))
    rows = [row for some, _ in found for row in some]
    complaints = [complaint for _, complaint in found if complaint]
    spaced = ["NAMESPACE"] if query.words == ["pods"] and query.namespace is None else []
    shares = ["CPU(%)"] if query.words == ["nodes"] else []
    head = [*spaced, "NAME", "CLUSTER", "CPU(cores)", *shares, "MEMORY(bytes)", *(["MEMORY(%)"] if shares else [])]
    printed = table.lines(rows if query.no_headers else [head, *rows]) if rows else []
    return "".join(line + "\n" for line in printed), complaints


class _NoFigures(Exception):
    """The member does not tell; the text says why."""


def _nodes(client: Client, member: str, query: Query) -> list[list[str]]:
    usage = _items(client, member, f"{METRICS}/nodes", query)
    room = {
        node["metadata"]["name"]: (node.get("status") or {}).get("allocatable") or {}
        for node in _items(client, member, "/api/v1/nodes", query)
    }
    rows = []
    for item in _of_names(usage, query):
        name, used = item["metadata"]["name"], item.get("usage") or {}
        cpu, memory = _amount(used, "cpu"), _amount(used, "memory")
        here = room.get(name, {})
        rows.append(
            [name, member, cores(cpu), _share(cpu, here, "cpu"), mebibytes(memory), _share(memory, here, "memory")]
        )
    return rows


def _pods(client: Client, member: str, query: Query) -> list[list[str]]:
    space = f"/namespaces/{quote(query.namespace, safe='')}" if query.namespace is not None else ""
    rows = []
    for item in _of_names(_items(client, member, f"{METRICS}{space}/pods", query), query):
        cpu, memory = pod_usage(item)
        spaced = [item["metadata"].get("namespace", "")] if query.namespace is None else []
        rows.append([*spaced, item["metadata"]["name"], member, cores(cpu), mebibytes(memory)])
    return rows


def pod_usage(item: Body) -> tuple[int, int]:
    """What the containers of a PodMetrics use: thousandths of a core, and bytes."""
    usages = [container.get("usage") or {} for container in item.get("containers") or []]
    return sum(_amount(used, "cpu") for used in usages), sum(_amount(used, "memory") for used in usages)


def cores(milli: int) -> str:
    return f"{milli}m"


def mebibytes(amount: int) -> str:
    return f"{amount >> 20}Mi"


def _items(client: Client, member: str, path: str, query: Query) -> list[Body]:
    given = f"?{urlencode({'labelSelector': query.selector})}" if query.selector else ""
    answer = client.get(f"{proxy(member)}{path}{given}")
    if answer.status == 404:
        raise _NoFigures(NO_METRICS)
    if not answer.ok or not isinstance(answer.body, dict):
        raise _NoFigures(" ".join(answer.message.split()))
    return sorted(answer.body.get("items") or [], key=lambda item: str(item["metadata"].get("name")))


def _of_names(items: list[Body], query: Query) -> list[Body]:
    return [item for item in items if not query.names or item["metadata"]["name"] in query.names]


def _amount(amounts: Body, resource: str) -> int:
    try:
        return quantity(amounts.get(resource, 0), resource)
    except BadQuantity:
        return 0


def _share(used: int, room: Body, resource: str) -> str:
    whole = _amount(room, resource)
    return f"{100 * used // whole}%" if whole else "<unknown>"
