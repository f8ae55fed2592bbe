"""Lists of jobs with a filter by state, queue and member, which look at the jobs that match alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fleet.rest import matching
from fleet.rest.standing import StoredJob, state_of
from fleet.rest.states import State
from fleet.values.ports import Body, Delete, Key, Put, Write
from fleet.wellknown import KUBEFLOW, QUEUE, QUEUE_NAMESPACE, WORK, binding_name, unit_name
from tests.rest.rest import Rest, fill, rest

OTHER = Put(
    Key(QUEUE, "queues", QUEUE_NAMESPACE, "root-other"),
    {"metadata": {"name": "root-other", "annotations": {"kube-queue/quota-fullname": "root/other"}}},
)
FILTERS = (
    {"state": "Queued"},
    {"state": "Placed"},
    {"state": "Deleting"},
    {"state": "Unclaimed"},
    {"member": "cfa"},
    {"state": ["Placed", "Unclaimed"]},
    {"queue": "root/other"},
    {"queue": "root"},
    {"queue": "root/big", "member": "cfa"},
)


def key(number: int, part: str = "binding") -> Key:
    name = f"job-{number:05}"
    bound = binding_name("PyTorchJob", name)
    return {
        "job": Key(KUBEFLOW, "pytorchjobs", "default", name),
        "binding": Key(WORK, "resourcebindings", "default", bound),
        "unit": Key(QUEUE, "queueunits", "default", unit_name(bound)),
    }[part]


def edited(hub: Rest, number: int, part: str, section: str, **fields: Any) -> Put:
    stored = hub.world.store.peek(key(number, part))
    assert stored is not None
    body: Body = stored.body
    return Put(stored.key, {**body, section: {**body.get(section, {}), **fields}})


def matches(job: dict[str, Any], asked: dict[str, Any]) -> bool:
    states = asked.get("state", job["state"])
    return (
        (job["state"] in states if isinstance(states, list) else job["state"] == states)
        and f"{job['queue'] or ''}/".startswith(asked.get("queue", "") and f"{asked['queue']}/")
        and asked.get("member") in (None, job["member"])
    )


async def test_a_filter_finds_what_a_look_at_each_job_finds_however_the_jobs_change() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 12)

        async def after(*writes: Write) -> Sequence[dict[str, Any]]:
            await hub.world.store.commit(writes)
            every: list[dict[str, Any]] = (await hub.get("/jobs"))["items"]
            for asked in FILTERS:
                assert await hub.jobs(**asked) == [job["name"] for job in every if matches(job, asked)], asked
            return every

        await after(OTHER)
        placed = {"clusters": [{"name": "cfa"}]}
        every = await after(*(edited(hub, number, "binding", "spec", **placed) for number in (0, 1)))
        assert [job["state"] for job in every[:3]] == ["Placed", "Placed", "Queued"]
        await after(edited(hub, 2, "unit", "spec", queue="root-other"), edited(hub, 0, "binding", "spec", clusters=[]))
        await after(edited(hub, 1, "job", "metadata", deletionTimestamp="2026-11-26T20:00:00Z"))
        every = await after(Delete(key(3)), edited(hub, 2, "job", "metadata", uid="another"))
        assert [job["state"] for job in every[:4]] == ["Queued", "Deleting", "Unclaimed", "Unclaimed"]
        every = await after(*(Delete(key(4, part)) for part in ("job", "binding", "unit")))
        assert len(every) == 11


async def test_a_job_whose_state_cannot_be_told_beforehand_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: StoredJob) -> State:
        if job.binding is not None and job.binding["metadata"]["uid"] == "b5":
            raise ValueError("of this job alone")
        return state_of(job)

    monkeypatch.setattr(matching, "state_of", broken)
    async with rest(start=False) as hub:
        await fill(hub, 12)
        await hub.world.store.commit([edited(hub, 5, "binding", "spec", clusters=[{"name": "cfa"}])])
        assert await hub.jobs(state="Placed") == ["job-00005"]


async def test_the_unit_of_an_earlier_job_of_the_name_says_nothing_of_this_one() -> None:
    async with rest(start=False) as hub:
        await fill(hub, 2)
        over = edited(hub, 0, "unit", "status", phase="Succeed")
        left = Put(
            over.key, {**over.body, "metadata": {**over.body["metadata"], "ownerReferences": [{"uid": "before"}]}}
        )
        await hub.world.store.commit([left])
        job = await hub.job("job-00000")
        assert (job["state"], job["queue"], job["position"], job["reason"]) == ("Queued", None, None, None)
        assert await hub.jobs(state="Succeeded") == []
        assert await hub.jobs(state="Queued") == ["job-00000", "job-00001"]
