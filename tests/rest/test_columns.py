"""`kubectl get -o wide` of jobs, QueueUnits and bindings: the words of `fleet jobs`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from fleet.controllers.decide import queueitems
from fleet.values.untyped import mapping
from tests.controllers.bind.policies import everywhere
from tests.controllers.fastloop import eventually
from tests.controllers.world import member, policy, pytorchjob, tree
from tests.rest.rest import Rest, rest

TABLE = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
WIDE = ["Queue", "Position", "Member", "GPUs", "Reason"]


async def table(hub: Rest, path: str) -> tuple[list[str], list[str], dict[str, list[Any]]]:
    """The names of the columns that always show, of those of -o wide, and the last five cells of each row by name."""
    found = (await hub.client().get(path, headers=TABLE)).json()
    columns = found["columnDefinitions"]
    shown, wide = ([c["name"] for c in columns if c["priority"] == priority] for priority in (0, 1))
    return shown, wide, {row["cells"][0]: row["cells"][-len(WIDE) :] for row in found["rows"]}


async def test_a_job_that_waits_and_one_that_runs_show_what_fleet_jobs_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueitems, "REFRESH_S", 0.05)
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await hub.world.apply(pytorchjob("two"))
        await eventually(lambda: hub.world.message("two"))
        await eventually(lambda: any(mapping(q.get("status")).get("queueItemDetails") for q in hub.world.all("Queue")))
        listed = {job["name"]: job for job in (await hub.get("/jobs"))["items"]}
        reason = listed["two"]["reason"]["text"]
        assert "already runs 1 of at most 1" in reason
        runs, waits = ["root/child-2", None, "cfa", 3, None], ["root/child-2", 1, None, 3, reason]
        assert await table(hub, JOBS) == (["Name", "State", "Age"], WIDE, {"one": runs, "two": waits})
        shown, wide, found = await table(hub, UNITS)
        assert (shown, wide) == (["Name", "Phase", "Age"], ["Priority", *WIDE])
        assert found == {"one-pytorchjob-rb-qu": runs, "two-pytorchjob-rb-qu": waits}
        shown, wide, found = await table(hub, BINDINGS)
        assert (shown, wide) == (["Name", "Scheduled", "FullyApplied", "Age"], WIDE)
        assert found == {"one-pytorchjob": runs, "two-pytorchjob": waits}
        assert (await table(hub, f"{JOBS}/two"))[2] == {"two": waits}


async def test_a_job_that_no_policy_takes_says_so() -> None:
    async with rest(start=False) as hub:
        await hub.world.apply(pytorchjob("lonely"))
        [queue, place, at, gpus, reason] = (await table(hub, JOBS))[2]["lonely"]
        assert (queue, place, at, gpus) == (None, None, None, 3)
        assert reason


async def test_a_binding_of_no_job_shows_nothing_there() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    async with rest(member("cfa"), objects=[everywhere("ConfigMap"), config]) as hub:
        await eventually(lambda: hub.world.binding("c", "configmap"))
        assert (await table(hub, BINDINGS))[2] == {"c-configmap": [None] * len(WIDE)}


async def test_kinds_that_are_no_jobs_have_no_such_columns() -> None:
    async with rest(start=False) as hub:
        shown, wide, _ = await table(hub, "/api/v1/namespaces/default/configmaps")
        assert (shown, wide) == (["Name", "Data", "Age"], [])


def test_the_columns_load_no_pydantic() -> None:
    """A hub that is asked by Kubernetes clients alone starts without it."""
    code = "import sys, fleet.rest.columns; print(*[name for name in ('pydantic', 'fastapi') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    assert done.stdout.split() == []
