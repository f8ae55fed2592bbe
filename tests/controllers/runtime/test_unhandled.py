"""A loop that keeps failing on a job's binding: the job says so, to kubectl and over REST, until it is handled again.

The fault is forced where it was met: the store refuses what the loop writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.engine.status import StatusError
from api.loops.controller import ASIDE_S, Controller
from fleet.values.ports import Body, StoreFull
from fleet.values.wellknown import HANDLING_FAILED
from fleet.wellknown import FULLY_APPLIED
from tests.controllers.fastloop import eventually
from tests.controllers.world import member, policy, pytorchjob, tree
from tests.rest.rest import Rest, rest

Refuses = Callable[[Body], bool]


def over_the_job(body: Body) -> bool:
    """The writes of observe about a job that runs."""
    return body["kind"] == "PyTorchJob" and any(c["type"] == "Running" for c in body["status"]["conditions"])


def every_status_of_the_job(body: Body) -> bool:
    return body["kind"] == "PyTorchJob" and "status" in body


def sent(body: Body) -> bool:
    """The writes of dispatch about a binding."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return body["kind"] == "ResourceBinding" and any(c["type"] == FULLY_APPLIED for c in conditions)


def unit(body: Body) -> bool:
    return bool(body["kind"] == "QueueUnit")


INVALID = StatusError(422, "Invalid", "status.conditions[0].lastUpdateTime: of another tenant: unknown field")


def refuse(hub: Rest, monkeypatch: pytest.MonkeyPatch, refuses: Refuses, error: Exception = INVALID) -> None:
    """Every write of the controllers whose result is so fails."""
    objects = hub.world.objects
    change, new = objects.prepare_change, objects.prepare_new

    def checked(body: Body | None) -> Body | None:
        if body is not None and refuses(body):
            raise error
        return body

    def prepare_change(
        kind: Any, namespace: str, name: str, edit: Callable[[Body], Body | None], *a: Any, **k: Any
    ) -> Any:
        return change(kind, namespace, name, lambda body: checked(edit(body)), *a, **k)

    def prepare_new(kind: Any, namespace: str, body: Body, *a: Any, **k: Any) -> Any:
        return new(kind, namespace, checked(body) or body, *a, **k)

    monkeypatch.setattr(objects, "prepare_change", prepare_change)
    monkeypatch.setattr(objects, "prepare_new", prepare_new)


def on_job(hub: Rest) -> Body:
    return hub.world.condition(hub.world.see("PyTorchJob", "one"), HANDLING_FAILED)


@pytest.mark.parametrize(
    ("loop", "refuses"),
    [
        pytest.param("observe", over_the_job, id="observe cannot write the job"),
        pytest.param("dispatch", sent, id="dispatch cannot write the binding"),
        pytest.param("enqueue", unit, id="enqueue cannot write the unit"),
    ],
)
async def test_a_job_says_which_loop_cannot_handle_it_until_that_can(
    monkeypatch: pytest.MonkeyPatch, loop: str, refuses: Refuses
) -> None:
    async with rest(member("cfa"), objects=[tree(max_jobs=9), policy(queue=True)]) as hub:
        refuse(hub, monkeypatch, refuses)
        await hub.world.apply(pytorchjob("one"))
        told = await eventually(lambda: on_job(hub), within_s=60)
        assert told["reason"] == f"{loop}:StatusError" and "another tenant" not in told["message"]
        assert hub.world.state("one") != HANDLING_FAILED  # STATE is what it was
        job = await hub.job("one")
        assert job["reason"]["code"] == HANDLING_FAILED and job["reason"]["text"].startswith(f"{loop} cannot handle")
        [listed] = (await hub.get("/jobs"))["items"]
        assert listed["reason"] == job["reason"]
        assert [c["status"] for c in job["conditions"] if c["type"] == HANDLING_FAILED] == ["True"]
        monkeypatch.undo()
        await eventually(lambda: hub.world.state("one") == "Running" and not on_job(hub), within_s=ASIDE_S + 60)
        job = await hub.until("one", lambda job: job["state"] == "Running")
        assert job["reason"] is None


async def test_a_job_whose_own_status_cannot_be_written_has_an_event_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with rest(member("cfa"), objects=[tree(max_jobs=9), policy(queue=True)]) as hub:
        refuse(hub, monkeypatch, every_status_of_the_job)
        await hub.world.apply(pytorchjob("one"))
        [event] = await eventually(lambda: hub.world.events("one", HANDLING_FAILED), within_s=60)
        assert event["involvedObject"]["kind"] == "PyTorchJob" and "observe cannot handle" in event["message"]
        assert (await hub.job("one"))["reason"]["code"] == HANDLING_FAILED


@pytest.mark.parametrize(
    ("loop", "refuses"), [pytest.param("dispatch", sent, id="binding"), pytest.param("enqueue", unit, id="unit")]
)
async def test_lines_about_the_failure_name_the_job(
    monkeypatch: pytest.MonkeyPatch, loop: str, refuses: Refuses
) -> None:
    with capture_logs() as lines:
        async with rest(member("cfa"), objects=[tree(max_jobs=9), policy(queue=True)]) as hub:
            refuse(hub, monkeypatch, refuses)
            await hub.world.apply(pytorchjob("one"))
            await eventually(lambda: any(one["event"] == "set aside" for one in lines), within_s=60)
    failed = [
        one for one in lines if one.get("controller") == loop and one["event"] in ("reconcile failed", "set aside")
    ]
    assert failed and {(one["namespace"], one["kind"], one["name"]) for one in failed} == {
        ("default", "PyTorchJob", "one")
    }


async def test_a_line_about_a_store_that_takes_no_write_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs() as lines:
        async with rest(member("cfa"), objects=[tree(max_jobs=9), policy(queue=True)]) as hub:
            refuse(hub, monkeypatch, unit, StoreFull("the database has no space left"))
            await hub.world.apply(pytorchjob("one"))
            await eventually(lambda: any(one["event"] == "store unavailable" for one in lines), within_s=60)
            [enqueue] = [
                one for one in hub.world.hub.metrics.loops if isinstance(one, Controller) and one.name == "enqueue"
            ]
            assert enqueue.last_error.endswith("one-pytorchjob: the database has no space left")
    assert {one["error"] for one in lines if one["event"] == "store unavailable"} == {"the database has no space left"}
