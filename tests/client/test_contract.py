"""Every operation on a real hub, through both clients."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from fleet.client import (
    AlreadyExists,
    Ambiguous,
    AsyncFleet,
    BadManifest,
    BadRequest,
    Fleet,
    HubWarning,
    Invalid,
    NotFound,
    NotInTime,
)
from tests.cli.hub import Up
from tests.cli.manifests import GPU, job, written
from tests.client.conftest import Face

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"on": "yes"}}
BATCH = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "running"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
}


async def test_a_job_is_submitted_waited_for_read_and_cancelled(face: Face) -> None:
    submitted = await face.call("submit", job("whole"))
    assert (submitted.kind, submitted.namespace, submitted.name) == ("PyTorchJob", "default", "whole")
    started = await face.call("wait", submitted, until="started", timeout=90)
    assert (started.state, started.member, started.gpus, started.queue) == ("Running", "cfa", 8, "root/a")
    assert started.created is not None and started.created.tzinfo is not None and started.raw["state"] == "Running"
    assert repr(started) == "<pytorchjob default/whole Running in cfa>"

    lines = await face.all("logs", submitted, rank=0)
    assert [line.pod for line in lines] == ["whole-worker-0"] and "simulated cluster cfa" in lines[0].text
    assert await face.all("all_logs", submitted) == lines
    pods = await face.call("pods", submitted)
    assert [(pod.name, pod.rank, pod.member, pod.phase) for pod in pods] == [("whole-worker-0", 0, "cfa", "Running")]
    with pytest.raises(BadRequest, match="has ranks 0 to 0, not 3"):
        await face.all("logs", "whole", rank=3)
    assert "ScheduleBindingSucceed" in {event.reason for event in await face.call("events", started)}

    await face.call("cancel", submitted)
    gone = await face.call("wait", submitted, until="deleted", timeout=60)
    assert gone.state == "Deleted" and (await face.call("wait", "whole", until="deleted")).name == "whole"
    with pytest.raises(NotFound, match='no job "whole" in namespace default'):
        await face.call("job", "whole")
    await face.call("wait", submitted, until="deleted", timeout=1)


async def test_jobs_are_listed_by_filters_page_by_page(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.client.jobs.PAGE", 1)
    assert [one.name for one in await face.all("jobs", kind="PyTorchJob", all_namespaces=True)] == ["long", "running"]
    assert [one.name for one in await face.all("jobs", state=["Running"], queue="root", member="cfa")] == ["running"]
    assert await face.all("jobs", labels="team=none") == []
    assert await face.all("jobs", namespace="elsewhere") == []
    with pytest.raises(Invalid) as refused:
        await face.all("jobs", state="Sleeping")
    assert [cause.field for cause in refused.value.causes] == ["state.0"]


async def test_a_waiting_job_is_explained(face: Face) -> None:
    told = await face.call("explain", "pytorchjob/long", patience_s=90)
    assert told.answered and told.reason.code == told.job.reason.code and not told.starts
    assert told.estimate.outcome in ("NeverStarts", "NotEstimated") and told.changes == ()
    unasked = await face.call("explain", "running", patience_s=0)
    assert not unasked.answered and unasked.job.state == "Running"


async def test_the_verbs_write_what_kubectl_would_write(face: Face) -> None:
    await face.call("submit", job("verbs", labels={"team": "v"}))
    try:
        await face.call("wait", "verbs", until="started", timeout=90)
        with pytest.warns(HubWarning, match="this one runs on"):
            await face.call("hold", "verbs")
        await face.call("suspend", "verbs")
        await _until(face, "verbs", "Suspended")
        await face.call("resume", "verbs")
        await _until(face, "verbs", "Held")
        await face.call("priority", "verbs", 7)
        await face.call("release", "verbs")
        assert (await face.call("wait", "verbs", until="started", timeout=90)).priority == 7
    finally:
        await face.call("cancel", "verbs")


async def _until(face: Face, name: str, *states: str) -> None:
    for _ in range(600):
        if (await face.call("job", name)).state in states:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is not {states}")


async def test_files_are_submitted_applied_and_deleted_whole(face: Face, tmp_path: Path) -> None:
    named = {**job("x"), "metadata": {"generateName": "many-"}}
    file = written(tmp_path / "all.yaml", CONFIG, {"apiVersion": "v1", "kind": "List", "items": [named]})
    submitted = await face.call("submit", file)
    try:
        assert [one.is_job for one in submitted] == [False, True] and submitted.name.startswith("many-")
        with pytest.raises(AlreadyExists):
            await face.call("submit", CONFIG)
        applied = await face.call("apply", {**CONFIG, "data": {"on": "no"}})
        assert applied[0].raw["data"] == {"on": "no"}
        with pytest.raises(Ambiguous, match="0 jobs"):
            _ = applied.name
        assert (await face.call("submit", {**CONFIG, "metadata": {"name": "dry"}}, dry_run=True))[0].name == "dry"
    finally:
        await face.call("cancel", submitted)
        assert await face.call("delete", [CONFIG, {**CONFIG, "metadata": {"name": "dry"}}]) == 1


async def test_an_image_and_a_command_make_a_job(face: Face) -> None:
    how = {"image": "train:1", "gpus": 1, "env": {"LR": "0.1"}, "mounts": {"data": "/data"}}
    with pytest.warns(HubWarning, match="PersistentVolumeClaim default/data is not on the hub"):
        ran = await face.call("run", command="python -m train --name 'a b'", workers=2, **how)
    try:
        detail = await face.call("job", ran)
        assert (detail.kind, detail.gpus, detail.pods) == ("PyTorchJob", 2, 2) and detail.name.startswith("run-")
        shape = ran.job.raw["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
        assert [*shape.get("command", ()), *shape.get("args", ())] == ["python", "-m", "train", "--name", "a b"]
    finally:
        await face.call("cancel", ran)
    with pytest.raises(BadManifest, match="gpus: -1 is less than 0"):
        await face.call("run", command=["x"], image="i", gpus=-1)


async def test_a_name_of_two_kinds_must_name_its_kind(face: Face) -> None:
    with pytest.warns(HubWarning, match="no policy takes Job"):
        await face.call("submit", BATCH)
    try:
        with pytest.raises(Ambiguous, match="Job/running, PyTorchJob/running"):
            await face.call("job", "running")
        assert (await face.call("job", "job/running")).kind == "Job"
    finally:
        await face.call("cancel", "Job/running")


async def test_bad_input_is_refused_in_one_line(face: Face, tmp_path: Path) -> None:
    for manifest, said in (
        ({"kind": "Job"}, "document 1 is no object: apiVersion, kind and metadata.name are required"),
        ([], "no object in it"),
        (tmp_path / "none.yaml", "cannot read .*none.yaml: No such file"),
        (_put(tmp_path / "bad.yaml", "a: [1"), "is not YAML"),
        (_put(tmp_path / "twice.yaml", "a: 1\na: 2"), "line 1: a is given twice"),
        ({"apiVersion": "no.such/v1", "kind": "Thing", "metadata": {"name": "x"}}, 'does not serve kind "Thing"'),
    ):
        with pytest.raises(BadManifest, match=said):
            await face.call("submit", manifest)
    with pytest.raises(BadManifest, match="is of namespace b, not a"):
        await face.call("submit", {**CONFIG, "metadata": {"name": "x", "namespace": "b"}}, namespace="a")
    with pytest.raises(BadRequest, match="unknown field"):
        await face.call("submit", {**job("typo"), "specs": {}})
    with pytest.raises(NotInTime, match="pytorchjob default/long is not started after 0 s"):
        await face.call("wait", "long", until="started", timeout=0)
    with pytest.raises(ValueError, match="until must be one of started, finished, deleted"):
        await face.call("wait", "long", until="later")


def _put(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


async def test_the_hub_is_shown_as_values_and_frames(face: Face) -> None:
    queues = {queue.path: queue for queue in await face.call("queues")}
    assert queues["root/a"].parent == "root" and queues["root/a"].max[GPU] == "64"
    assert [(one.name, one.ready) for one in await face.call("clusters")] == [("cfa", True)]
    status = await face.call("status")
    assert status.healthy and status.database == "ok"
    edits = [{"Scale": {"member": "cfa", "pool": 0, "by": 8}}]
    differences = {row.job: row for row in (await face.call("what_if", edits)).rows}
    assert differences == {} or differences["default/long"].change == "waits"
    usage = await face.call("usage")
    used = usage[(usage["queue"] == "root/a") & (usage["resource"] == GPU)].iloc[0]
    assert used["used"] >= 8 and used["max"] == 64
    assert math.isnan(usage[usage["resource"] == "memory"].iloc[0]["max"])


async def test_the_past_is_listed_and_reported(face: Face) -> None:
    past = await face.all("history", kind="PyTorchJob", all_namespaces=True)
    assert {one.kind for one in past} <= {"PyTorchJob"} and all(one.gpu_hours >= 0 for one in past)
    report = await face.call("report", "waits", by="namespace")
    assert not report.partial and {row.key for row in report} <= {"default"}
    with pytest.raises(Invalid, match="by"):
        await face.call("report", by="colour")


async def test_a_watch_says_what_changes(up: Up) -> None:
    seen: list[tuple[str, str]] = []
    async with AsyncFleet(data_dir=up.folder) as fleet, asyncio.timeout(90):
        await fleet.submit(job("watched", labels={"watched": "yes"}))
        async for change in fleet.watch(labels="watched=yes"):
            seen.append((change.type, change.job.state))
            if change.job.state == "Running" and change.type != "DELETED":
                await fleet.cancel(change.job)
            if change.type == "DELETED":
                break
    assert [kind for kind, _ in seen if kind != "MODIFIED"] == ["ADDED", "DELETED"]
    assert any(state == "Running" for _, state in seen)


def test_a_client_says_where_it_is_and_help_says_how_to_call_it(up: Up) -> None:
    with Fleet(data_dir=up.folder, namespace="team") as fleet:
        assert repr(fleet).startswith("Fleet(https://127.0.0.1:") and fleet.namespace == "team"
        assert list(fleet.jobs()) == [] and len(fleet.jobs(all_namespaces=True).df()) >= 2
        assert "<table>" in (fleet.jobs(namespace="default")._repr_html_() or "")
    assert Fleet.wait.__doc__ == AsyncFleet.wait.__doc__ != ""
