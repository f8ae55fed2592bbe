"""Ids of spans, the spans of a life, the option, and the queue towards a collector, without a hub."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fleet.accounts.fold import JobLife
from fleet.accounts.recorder import JobChange
from fleet.accounts.run import AttemptOutcome, AttemptRun
from fleet.cli.failure import Failure
from fleet.controllers.history.lives import spans
from fleet.hub.tracing import endpoint_of
from fleet.traces.span import TraceSpan, read_traceparent, trace_id, traceparent
from fleet.traces.traces import QUEUE_MOST, Traces
from fleet.wellknown import NO_POLICY
from tests.traces.collector import Collector, until

UID = "6f1c2a9e-0d4b-4c3e-9a7f-1b2c3d4e5f60"


def test_the_trace_of_a_job_has_its_uid() -> None:
    assert f"{trace_id(UID):032x}" == UID.replace("-", "")
    assert read_traceparent(traceparent(UID, "dispatch")) is not None
    assert trace_id("no uid") == 0


@pytest.mark.parametrize("header", ["", "00-zz-11-01", f"00-{'0' * 32}-{'1' * 16}-01", f"ff-{'1' * 32}-{'1' * 16}-01"])
def test_a_header_that_names_no_span_is_passed_over(header: str) -> None:
    assert read_traceparent(header) is None


def test_each_change_of_a_life_gives_the_spans_that_it_ends() -> None:
    waits = JobLife(UID, 10.0, "team-a", "train", "PyTorchJob", spell=(NO_POLICY, 10.0))
    bound = life(waits, spell=("Undecided", 11.0))
    placed = life(bound, spell=None, attempts=1, run=AttemptRun(1, 20.0, "east", ()))
    runs = life(placed, run=AttemptRun(1, 20.0, "east", (), started=25.0))
    over = life(
        runs, run=AttemptRun(1, 20.0, "east", (), started=25.0, ended=40.0, outcome=AttemptOutcome.FAILED), ended=40.0
    )
    over = life(over, state="Failed")

    assert of(waits, bound) == {"binding": (10.0, 11.0)}
    assert of(bound, placed) == {"waiting": (11.0, 20.0), "queued": (10.0, 20.0)}
    assert of(placed, runs) == {"starting": (20.0, 25.0)}
    assert of(runs, over) == {"running": (25.0, 40.0), "attempt": (20.0, 40.0), "job PyTorchJob": (10.0, 40.0)}
    assert [span.error for span in spans(JobChange(runs, over, {}, 40.0))] == ["", "Failed", "Failed"]


def life(before: JobLife, **changed: Any) -> JobLife:
    from dataclasses import replace

    return replace(before, **changed)


def of(before: JobLife, after: JobLife) -> dict[str, tuple[float, float]]:
    at = after.run.placed if after.run is not None else 11.0
    return {span.name: (span.start, span.end) for span in spans(JobChange(before, after, {}, at))}


@pytest.mark.parametrize("url", ["collector:4318", "ftp://collector", "http://", "http://a b", "http://collector:0"])
def test_an_endpoint_that_is_no_url_is_refused_by_its_name(url: str) -> None:
    with pytest.raises(Failure, match="--otlp-endpoint"):
        endpoint_of(url)


def test_the_path_of_traces_is_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert endpoint_of("http://collector:4318/") == "http://collector:4318/v1/traces"
    assert endpoint_of("http://collector:4318/v1/traces") == "http://collector:4318/v1/traces"
    assert endpoint_of(None) == ""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert endpoint_of("http://collector:4318") == ""


def test_without_an_endpoint_no_process_loads_the_sdk() -> None:
    program = "import sys, fleet.hub.compose, fleet.hub.composeapi, fleet.controllers.manager, api.server.app\n"
    program += "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_spans_beyond_the_queue_are_dropped_and_counted() -> None:
    collector = Collector()
    collector.status = 503
    traces, registry = Traces(f"{collector.url}/v1/traces", "test", {}), CollectorRegistry()
    traces.show(registry)
    try:
        traces.add_all(TraceSpan(UID, str(n), "one", 1.0, 2.0) for n in range(2 * QUEUE_MOST + 1000))
        until("a batch that is lost, or one under way", lambda: collector.asked)
        text = generate_latest(registry).decode()
        dropped = next(line for line in text.splitlines() if 'outcome="dropped"' in line)
        assert float(dropped.split()[-1]) > 0
    finally:
        traces.close()
        collector.stop()


def test_what_waits_is_sent_at_the_end_of_a_process() -> None:
    collector = Collector()
    traces = Traces(f"{collector.url}/v1/traces", "test", {})
    traces.add(TraceSpan(UID, "one", "one", 1.0, 2.0))
    traces.close()
    assert until("the span", lambda: [span.name for span in collector.spans]) == ["one"]
    collector.stop()
