"""GET /fleet/v1/faults: exceptions of the decider, and what it was deciding on."""

from __future__ import annotations

from fleet.controllers.decide.decider import Resort
from fleet.controllers.decide.faults import KEPT, Faults
from fleet.controllers.decide.record import RowPacker
from fleet.controllers.runtime.events import EventRecorder
from fleet.core.notation.codec import decode_snapshot
from fleet.core.snapshot import Snapshot
from tests.controllers.world import member
from tests.rest.rest import Rest, rest


async def fault(hub: Rest, number: int) -> None:
    faults = Faults(hub.world.hub, EventRecorder(hub.world.hub), RowPacker())
    try:
        raise KeyError(number)
    except KeyError as error:
        await faults.tell(error, Resort.UNDECIDED, Snapshot(), 100.0 + number)


async def test_the_newest_faults_are_listed_each_with_what_it_happened_on() -> None:
    async with rest(member("cfa"), start=False) as hub:
        assert (await hub.get("/faults")) == {"items": []}
        for number in range(KEPT + 2):
            await fault(hub, number)
        items = (await hub.get("/faults"))["items"]
        assert [item["error"] for item in items] == [f"KeyError: {number}" for number in range(KEPT + 1, 1, -1)]
        assert (items[0]["resort"], items[0]["at"]) == ("undecided", "1970-01-01T00:01:46Z")
        assert "raise KeyError(number)" in items[0]["trace"]
        document = await hub.get(f"/faults/{items[0]['id']}/snapshot")
        assert decode_snapshot(document) == Snapshot() and document["now"] == 106.0


async def test_a_fault_that_is_not_kept_is_not_found() -> None:
    async with rest(start=False) as hub:
        assert (await hub.refused("GET", "/faults/9/snapshot"))["code"] == 404
        assert (await hub.refused("GET", "/faults/0/snapshot"))["code"] == 422


async def test_faults_are_opened_by_their_paths() -> None:
    async with rest(start=False) as hub:
        await fault(hub, 1)
        for path in ("/faults", "/faults/1/snapshot"):
            assert (await hub.refused("GET", path, token="alice-token"))["code"] == 403
            await hub.grant("alice", {"nonResourceURLs": [f"/fleet/v1{path}"], "verbs": ["get"]})
            answer = await hub.client("alice-token").get(f"/fleet/v1{path}")
            assert answer.status_code == 200, answer.text
