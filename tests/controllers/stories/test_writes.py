"""The writes that a job costs the hub: at most eight from its submission until it is bound, alone or among many."""

from __future__ import annotations

import pytest

from fleet.bindings import binding as b
from fleet.values.ports import Event
from fleet.wellknown import QUEUE, WORK
from tests.controllers.fastloop import eventually
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

WRITES_MAX = 8
SAME_COMMIT = 2  # the unit and the event stand right after the binding
WRITTEN = (("kubeflow.org", "pytorchjobs"), (WORK, "resourcebindings"), (QUEUE, "queueunits"), ("", "events"))


async def written(world: World, since: int) -> list[Event]:
    """Everything that was written of jobs after the revision."""
    found: list[Event] = []
    for group, resource in WRITTEN:
        watch = await world.store.watch(group, resource, namespace="default", since=since)
        while (event := await watch.next(timeout=0)) is not None:
            found.append(event)
        await watch.aclose()
    return found


@pytest.mark.parametrize("jobs", [1, 40])
async def test_a_job_costs_at_most_eight_writes_from_its_submission_until_it_is_bound(jobs: int) -> None:
    async with hub(member("cfa", count=20), member("cfb", count=20)) as world:
        await world.apply(tree(max_jobs=jobs), policy(queue=True))
        await eventually(lambda: world.queues())
        before = await world.store.revision()
        names = [f"job-{number:02}" for number in range(jobs)]
        await world.apply(*(pytorchjob(name, workers=0) for name in names))
        await eventually(lambda: all(world.placed(name) for name in names))
        events = await written(world, before)
        for name in names:
            of_job = [event for event in events if event.stored.key.name.startswith(name)]
            bound = next(
                event.revision
                for event in sorted(of_job, key=lambda event: event.revision)
                if event.stored.key.resource == "resourcebindings" and b.clusters_of(event.stored.body)
            )
            cost = [str(e.stored.key) for e in of_job if e.revision <= bound + SAME_COMMIT]
            assert len(cost) <= WRITES_MAX, cost
            assert {key.split()[0].split(".")[0] for key in cost} == {resource for _, resource in WRITTEN}
