"""The requests of a pod on a node, as kube-scheduler computes them.

The same sum must come out for a pod template on the hub and for a pod that a member shows, or room would be counted
twice or not at all: hence one function, used by job interpretation and by the inventories of the members.

- A resource with a limit and no request is requested at its limit (what API defaulting does to containers).
- The sum is rounded up once, to whole bytes and thousandths of a CPU.
- Ordinary containers add up. Init containers run one after another, so the largest counts; sidecars (init containers
  with restartPolicy Always) keep running beside what starts after them.
- Pod-level requests stand for the sum of the containers (cpu, memory and huge pages). A pod-level limit without a
  request is the request of a resource that no container asks for, and of huge pages.
- Overhead of the runtime class comes on top, and every pod takes one of the node's "pods".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fleet.core.model.amounts import Amounts
from fleet.values.quantity import nanos, quantity, rounded
from fleet.values.untyped import mapping, rows

POD_LEVEL = ("cpu", "memory")
POD_LEVEL_PREFIX = "hugepages-"


@lru_cache(maxsize=8192)
def _amount(value: str | int | float, resource: str) -> int:
    return quantity(value, resource)


def amounts(quantities: Any) -> dict[str, int]:
    """A ResourceList in base units. Raises BadQuantity."""
    if quantities.__class__ is not dict:
        return {}
    return {name: _amount(q, name) if isinstance(q, str) else quantity(q, name) for name, q in quantities.items()}


@lru_cache(maxsize=8192)
def _parts(value: str, resource: str) -> int:
    return nanos(value, resource)


def _exact(quantities: Any) -> dict[str, int]:
    """A ResourceList in 10⁻⁹ of its units. Raises BadQuantity."""
    given = mapping(quantities)
    return {name: _parts(q, name) if isinstance(q, str) else nanos(q, name) for name, q in given.items()}


def _requested(container: Mapping[str, Any]) -> dict[str, int]:
    """The requests of one container, limits standing in for requests that are not given."""
    resources = mapping(container.get("resources"))
    requested = _exact(resources.get("limits"))
    requested.update(_exact(resources.get("requests")))
    return requested


def _of_the_pod(resources: Any, containers: Mapping[str, int]) -> dict[str, int]:
    """The requests of a pod's own `resources`, which stand for what its containers ask for."""
    resources = mapping(resources)
    limits, requested = _exact(resources.get("limits")), _exact(resources.get("requests"))
    for name, limit in limits.items():
        if name not in containers or name.startswith(POD_LEVEL_PREFIX):
            requested.setdefault(name, limit)
    return {name: n for name, n in requested.items() if name in POD_LEVEL or name.startswith(POD_LEVEL_PREFIX)}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(amount, total.get(name, 0))  # a zero, too, for it names the resource


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """The requests of a pod with this spec (a pod's, or a template's), "pods": 1 included. Raises BadQuantity."""
    running: dict[str, int] = {}
    for container in rows(spec.get("containers")):
        _add(running, _requested(container))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in rows(spec.get("initContainers")):
        requests = _requested(container)
        if container.get("restartPolicy") == "Always":
            _add(running, requests)
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            at_once = dict(sidecars)
            _add(at_once, requests)
            _raise_to(starting, at_once)
    _raise_to(running, starting)
    running.update(_of_the_pod(spec.get("resources"), running))
    _add(running, _exact(spec.get("overhead")))
    return Amounts.of({**{name: rounded(parts, name) for name, parts in running.items()}, "pods": 1})
