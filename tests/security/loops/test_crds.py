"""A CRD that cannot be read says so, and costs the other kinds nothing."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from api.engine.crd import GROUP, RESOURCE
from api.objects.crds import follow_crds
from fleet.values.ports import Body, Key, Put
from fleet.values.wellknown import HANDLING_FAILED
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World
from tests.security.loops.malformed import mutants

CRD: Body = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "goods.example.org", "uid": "g", "creationTimestamp": "2025-01-01T00:00:00Z"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "goods", "singular": "good", "kind": "Good", "listKind": "GoodList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


async def write(world: World, body: Body) -> Key:
    key = Key(GROUP, RESOURCE, "", body["metadata"]["name"])
    await world.store.commit([Put(key, body)])
    return key


def named(body: Body, number: int) -> Body:
    """A copy of another name and, where they can be read, of other names of its kind."""
    new = copy.deepcopy(body)
    new["metadata"].update(name=f"bad{number}s.example.org", uid=f"b{number}")
    names: Any = new["spec"].get("names") if isinstance(new["spec"], dict) else None
    for field, value in names.items() if isinstance(names, dict) else ():
        names[field] = (
            value.replace("good", f"bad{number}").replace("Good", f"Bad{number}") if isinstance(value, str) else value
        )
    return new


async def test_kinds_that_come_later_are_known() -> None:
    world = World()
    bad = [named({**CRD, **body}, number) for number, (_, body) in enumerate(mutants(CRD)) if "spec" in body]
    keys = [await write(world, body) for body in bad if isinstance(body["metadata"], dict)]
    following = asyncio.create_task(follow_crds(world.store, world.registry))
    await write(world, CRD)
    await eventually(lambda: world.registry.kind("example.org", "Good"))
    await settle(30)
    told = [key for key in keys if (s := world.store.peek(key)) is not None and HANDLING_FAILED in str(s.body)]
    assert told
    revision = await world.store.revision()
    await settle(60)
    assert await world.store.revision() == revision and not following.done()
    following.cancel()
