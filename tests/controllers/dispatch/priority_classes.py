"""PriorityClasses of the hub and of a member."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Body, Key
from tests.controllers.world import World

HIGH = Key("scheduling.k8s.io", "priorityclasses", "", "high")


def high(value: int = 10, name: str = "high", **fields: Any) -> Body:
    meta = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value, **fields}


def there(world: World, key: Key = HIGH) -> Body | None:
    return world.members.by_name["cfa"].objects.get(key)
