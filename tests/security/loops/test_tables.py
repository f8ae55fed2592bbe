"""Tables and lists of the Kubernetes face beside malformed objects: they answer, one row an object."""

from __future__ import annotations

import copy

import pytest

from tests.controllers.world import member
from tests.rest.rest import rest
from tests.security.loops.malformed import mutants
from tests.security.loops.world import KINDS, batches, good_world, kind_of, renamed, sample, write

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accept", [TABLE, "application/json"], ids=["table", "list"])
async def test_lists_answer(kind: str, accept: str) -> None:
    async with rest(member("cfa", count=40)) as hub:
        await good_world(hub.world)
        found = hub.world.all(kind)
        if not found:
            return
        pattern = copy.deepcopy(next((b for b in found if "good" in b["metadata"]["name"]), found[-1]))
        await hub.world.kill()
        known = kind_of(hub.world, pattern)
        path = f"/apis/{known.api_version}" if known.group else f"/api/{known.version}"
        number = 0
        for batch in batches(sample(list(mutants(pattern)))):
            for _, body in batch:
                number += 1
                await write(hub.world, renamed(body, f"bad-{number}", number))
            answer = await hub.client().get(f"{path}/{known.resource}", headers={"accept": accept})
            assert answer.status_code == 200, (answer.text[:300], [what for what, _ in batch])
            rows = answer.json()["rows" if accept is TABLE else "items"]
            assert len(rows) == len(hub.world.store.scan(known.group, known.resource))
