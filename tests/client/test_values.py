"""Results as values: what they read, what a notebook shows, what is left out, and names that come from the package."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

import fleet.client
from fleet.client import (
    Change,
    Estimate,
    Explanation,
    Figures,
    Fleet,
    Job,
    JobChange,
    JobDetail,
    LogLine,
    NotInTime,
    Object,
    PastJob,
    Queue,
    Rows,
    WhatIf,
)

RAW = {
    "namespace": "team",
    "kind": "Job",
    "name": "<b>",
    "state": "Queued",
    "created": "2026-11-23T10:00:00Z",
    "reason": {"code": "QuotaExhausted", "text": "8 < 16 & more", "numbers": {"short": 8}},
    "later": "a new field",
}


def test_a_value_has_its_types_and_the_json_beside() -> None:
    job = Job.of(RAW)
    assert job.created == datetime(2026, 11, 23, 10, tzinfo=UTC) and job.member is None
    assert job.reason is not None and (job.reason.code, job.reason.numbers) == ("QuotaExhausted", {"short": 8})
    assert job.raw["later"] == "a new field" and "raw" not in job.row()
    assert repr(job) == str(job) == "<job team/<b> Queued: 8 < 16 & more>"
    assert JobDetail.of({**RAW, "components": [{"name": "worker", "replicas": 2}]}).components[0].replicas == 2
    with pytest.raises(AttributeError):
        job.state = "Running"  # type: ignore[misc]


def test_a_notebook_shows_tables_whose_text_is_escaped() -> None:
    rows = Rows([Job.of(RAW)] * 201, partial=True)
    shown = rows._repr_html_()
    assert "<b>" not in shown and "&lt;b&gt;" in shown and "8 &lt; 16 &amp; more" in shown
    assert "… and 1 more" in shown and "only what you may see" in shown
    assert "2026-11-23 10:00:00+00:00" in Job.of(RAW)._repr_html_()
    assert Rows[Job]()._repr_html_() == "<p>nothing</p>"


def test_a_frame_has_a_row_for_each_record() -> None:
    frame = Rows([Job.of(RAW)]).df()
    assert frame.loc[0, "reason"] == "8 < 16 & more" and frame.loc[0, "created"].year == 2026
    queue = Queue.of({"path": "root", "namespaces": ["a", "b"], "used": {"cpu": "1"}})
    assert queue.row()["namespaces"] == ["a", "b"] and Rows([queue]).df().loc[0, "used"] == {"cpu": "1"}


def test_the_past_has_names_of_python_and_each_figure_a_column() -> None:
    past = PastJob.of({"name": "old", "gpuHours": 2.5, "waitedS": 60, "ranS": 9, "submitted": "2026-11-23T10:00:00Z"})
    assert (past.gpu_hours, past.waited_s, past.ran_s) == (2.5, 60, 9) and past.submitted is not None
    rows = Rows([Figures.of({"key": "alice", "gpuHours": 2.5})])
    assert list(rows.df().columns) == ["key", "gpuHours"] and "<td>alice</td><td>2.5</td>" in rows._repr_html_()


def test_answers_are_printed_as_people_read_them() -> None:
    queued = JobDetail.of({**RAW, "name": "train", "position": 2})
    assert repr(queued) == "<job team/train Queued at place 2: 8 < 16 & more>"
    told = Explanation(
        job=queued,
        place=2,
        ahead=5,
        estimate=Estimate(why="nothing is known of the past"),
        changes=(Change(text="8 more GPUs in root/a"),),
    )
    assert str(told).splitlines() == [
        "job team/train Queued at place 2: 8 < 16 & more",
        "place 2 in its queue, 5 jobs of the fleet before it",
        "start: nothing is known of the past",
        "would start it now: 8 more GPUs in root/a",
    ]
    assert "<td>8 more GPUs in root/a</td>" in told._repr_html_()
    row = {
        "job": "team/a",
        "change": "starts",
        "before": {"state": "Waits"},
        "after": {"state": "Starts", "member": "m"},
    }
    assert str(WhatIf.of({"rows": [row]})) == "team/a starts: Waits → Starts in m"
    assert str(WhatIf()) == "nothing would be otherwise"
    assert repr([Object(kind="Job", namespace="n", name="j")]) == "[<job n/j>]"
    assert str(JobChange("ADDED", queued)).startswith("ADDED <job team/train") and "0.125" in repr(Change(cost=1 / 8))
    assert "not finished after 2 s: Queued: 8 < 16 & more" in str(NotInTime(queued, "finished", 2))


def test_lines_of_logs_are_rows_and_what_goes_on_is_never_read_by_a_notebook() -> None:
    lines = Rows([LogLine(pod="a-0", text="epoch 1", rank=0)])
    assert (
        lines.df().to_dict("records") == [{"pod": "a-0", "text": "epoch 1", "rank": 0}] and str(lines[0]) == "epoch 1"
    )
    with Fleet(server="https://127.0.0.1:1", token="t") as fleet:
        for endless in (fleet.watch(), fleet.watch_objects("v1", "Pod"), fleet.logs("a", follow=True)):
            assert endless._repr_html_() is None and "read it in a loop" in repr(endless)
        assert repr(fleet.jobs()) == "<jobs: read it in a loop, by .all() or by .df()>"
        with pytest.raises(TypeError, match="unexpected keyword argument 'every_s'"):
            fleet.watch(every_s=1.0)  # type: ignore[call-arg]


def test_every_name_of_the_package_is_there() -> None:
    assert [name for name in fleet.client.__all__ if getattr(fleet.client, name, None) is None] == []
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = fleet.client.Nothing


def test_the_command_line_starts_without_the_weight_of_a_transport() -> None:
    heavy = "{'httpx', 'asyncio', 'kubernetes', 'pandas', 'orjson'}"
    code = f"import sys, fleet.client.verbs, fleet.client.resources; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
