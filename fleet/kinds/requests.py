"""The requests of a pod on a node, as kube-scheduler computes them.

The same sum must come out for a pod template on the hub and for a pod that a member shows, or room would be counted
twice or not at all: hence one function, used by job interpretation and by the inventories of the members.

- A resource with a limit and no request is requested at its limit (what API defaulting does to containers).
- Ordinary containers add up. Init containers run one after another, so the largest counts; sidecars (init containers
  with restartPolicy Always) keep running beside what starts after them.
- Pod-level resources, where given, stand for the sum of the containers (cpu, memory and huge pages).
- Overhead of the runtime class comes on top, and every pod takes one of the node's "pods".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fleet.model.amounts import Amounts
from fleet.model.quantity import quantity
from fleet.model.untyped import mapping, rows

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


def resources_requested(resources: Any) -> dict[str, int]:
    """The requests of one `resources` field, limits standing in for requests that are not given."""
    resources = mapping(resources)
    requested = amounts(resources.get("limits"))
    requested.update(amounts(resources.get("requests")))
    return requested


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, 0):
            total[name] = amount


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """The requests of a pod with this spec (a pod's, or a template's), "pods": 1 included. Raises BadQuantity."""
    running: dict[str, int] = {}
    for container in rows(spec.get("containers")):
        _add(running, resources_requested(container.get("resources")))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in rows(spec.get("initContainers")):
        asked = resources_requested(container.get("resources"))
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            _add(sidecars, asked)
            _raise_to(starting, sidecars)
        else:
            at_once = dict(sidecars)
            _add(at_once, asked)
            _raise_to(starting, at_once)
    _raise_to(running, starting)
    for name, amount in resources_requested(spec.get("resources")).items():
        if name in POD_LEVEL or name.startswith(POD_LEVEL_PREFIX):
            running[name] = amount
    _add(running, amounts(spec.get("overhead")))
    running["pods"] = 1
    return Amounts.of(running)
