"""Traces and logs of a hub that runs: the life of one job, as a collector and `fleet logs --hub` have it."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cli.hub import Up, fleet, until
from tests.console.browser import WALKTHROUGH
from tests.traces.collector import Collector

JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
NAMES = {"create PyTorchJob", "binding", "queued", "decision", "dispatch", "starting", "running", "attempt"}
CLIENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("traces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        hub = Up(folder / "hub", "--members", "1", "--otlp-endpoint", collector.url)
    try:
        for name in ("quota-tree", "policy-gang-queue"):
            done = fleet("submit", str(WALKTHROUGH / f"{name}.yaml"), "--data-dir", str(hub.folder))
            assert done.returncode == 0, done.stderr
        yield hub
    finally:
        assert hub.stop() == 0, hub.errors.read_text()


def api(up: Up) -> httpx.Client:
    server = yaml.safe_load((up.folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    token = (up.folder / "tokens.csv").read_text().split(",")[0]
    trusted = ssl.create_default_context(cafile=up.folder / "pki" / "ca.crt")
    return httpx.Client(base_url=server, verify=trusted, headers={"authorization": f"Bearer {token}"}, timeout=60)


def manifest(name: str) -> str:
    text = (WALKTHROUGH / "pytorchjob.yaml").read_text().replace("testbed/run-for: 30s", "testbed/run-for: 1s")
    found = next(line.split(":")[1].strip() for line in text.splitlines() if line.startswith("  name:"))
    return text.replace(f"name: {found}", f"name: {name}", 1)


def submitted(up: Up, name: str, **headers: str) -> tuple[str, str]:
    """(uid, request id)."""
    with api(up) as client:
        answer = client.post(JOBS, content=manifest(name), headers={"content-type": "application/yaml", **headers})
    assert answer.status_code == 201, answer.text
    return answer.json()["metadata"]["uid"], answer.headers["audit-id"]


def ended(up: Up, name: str) -> bool:
    done = fleet("logs", "--hub", "--job", name, "--data-dir", str(up.folder))
    return "state=Succeeded" in done.stdout


def about(up: Up, *words: str) -> str:
    done = fleet("logs", "--hub", *words, "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_life_of_a_job_is_one_trace_whose_id_is_its_uid(up: Up, collector: Collector) -> None:
    uid, request = submitted(up, "traced", traceparent=CLIENT)

    until("the span of the whole life", lambda: any(s.name == "job PyTorchJob" for s in collector.of(uid)))
    until("all spans", lambda: {s.name for s in collector.of(uid)} >= NAMES)

    spans = {span.name: span for span in collector.of(uid)}
    root = spans["job PyTorchJob"]
    assert root.parent_span_id == b""
    known = {span.span_id for span in collector.of(uid)}
    assert all(span.parent_span_id in known for span in collector.of(uid) if span is not root)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in collector.of(uid))
    assert said(root)["fleet.state"] == "Succeeded" and said(root)["fleet.name"] == "traced"
    created = spans["create PyTorchJob"]
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in created.links] == [tuple(CLIENT.split("-")[1:3])]
    assert said(created)["fleet.request"] == request and said(created)["user.name"] == "admin"
    assert said(spans["dispatch"])["fleet.outcome"] == "Done"
    assert spans["dispatch"].parent_span_id == spans["attempt"].span_id
    assert spans["decision"].parent_span_id == spans["queued"].span_id
    assert {r["service.name"] for r in collector.resources} == {"fleet-api", "fleet-controllers"}


def test_the_log_of_the_hub_tells_the_way_of_one_job_in_order(up: Up) -> None:
    uid, request = submitted(up, "logged")
    until("its end in the log", lambda: ended(up, "logged"))

    lines = about(up, "--job", "logged").splitlines()

    at = [
        next(n for n, line in enumerate(lines) if word in line)
        for word in ("a job is given a place", "a job is sent to its member", "state=Succeeded")
    ]
    assert at == sorted(at)  # the line of the request comes after its answer, which nobody waits for
    assert all(f"uid={uid}" in line and "name=logged" in line for line in lines), lines
    assert [line.split()[1] for line in lines if "verb=create" in line] == ["api"]
    assert about(up, "--request", request).count("verb=create") == 1
    until("the same by its uid", lambda: about(up, "--job", uid) == about(up, "--job", "logged"))


def test_the_id_of_a_refused_request_finds_its_line(up: Up) -> None:
    with api(up) as client:
        refused = client.post(JOBS, json={"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {}})
        hidden = client.get("/api/v1/namespaces/default/secrets/none?token=very-secret", headers={"audit-id": "mine-1"})
    assert refused.status_code == 422 and hidden.headers["audit-id"] == "mine-1"

    lines = about(up, "--request", refused.headers["audit-id"]).splitlines()

    assert len(lines) == 1 and "code=422" in lines[0] and "user=admin" in lines[0] and "ms=" in lines[0]
    assert "code=404" in about(up, "--request", "mine-1")
    everything = about(up)
    assert "very-secret" not in everything and api(up).headers["authorization"].split()[1] not in everything


def test_a_collector_that_is_away_delays_no_job(up: Up, collector: Collector) -> None:
    collector.status = 500
    try:
        submitted(up, "untraced")
        until("its end in the log", lambda: ended(up, "untraced"))
        until("a line about the collector", lambda: "the collector takes no spans" in about(up))
    finally:
        collector.status = 200


def test_lines_that_come_are_followed(up: Up) -> None:
    words = ["logs", "--hub", "-f", "--since", "1s", "--job", "followed", "--data-dir", str(up.folder)]
    program = str(Path(fleet.__globals__["BIN"]) / "fleet")
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True) as following:
        try:
            submitted(up, "followed")
            assert following.stdout is not None
            assert "name=followed" in following.stdout.readline()
        finally:
            following.kill()


def said(span: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}
