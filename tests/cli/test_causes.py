"""An operator's day: each trouble is made on a running hub, and `fleet status` or `fleet doctor` leads to its cause.

A full disk is made in tests/chaos/test_disk_full.py, and a hub whose processes hang in test_hangs.py.
"""

from __future__ import annotations

import itertools
import json
import shutil
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from fleet.amc.get import proxy
from fleet.bindings.finding import Finding
from fleet.bindings.warnings import WAITING_LEAST
from fleet.cli.doctor import CHECKS, looked
from fleet.cli.patient import PatientHub
from fleet.cli.status import STATUS
from fleet.hub import pki
from tests.cli.hub import Up, fleet, refusal, until
from tests.controllers.world import policy, tree
from tests.monitoring.faults import away, frozen, locked
from tests.monitoring.scene import CONFIGMAPS, POLICY, TEAM, configmap, job
from tests.testbed.processes import free_port

WITHIN_S = 120.0
OVERRIDES = "/apis/policy.one.alibabacloud.com/v1alpha1/clusteroverridepolicies"
POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/{}/propagationpolicies"
JOBS = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
pytestmark = [pytest.mark.xdist_group("causes"), pytest.mark.timeout(900)]  # one hub for all of them


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Nothing of it is started again for a hang."""
    running = Up(
        tmp_path_factory.mktemp("causes") / "hub",
        "--members",
        "2",
        "--hang-seconds",
        "0",
        "--outgoing-allow",
        "127.0.0.0/8",
    )
    try:
        running.hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": TEAM}})
        running.hub.request("POST", POLICIES.format(TEAM), POLICY)
        yield running
    finally:
        for process in psutil.Process(running.process.pid).children(recursive=True):
            with suppress(psutil.Error):  # some have ended since
                process.resume()
        assert running.stop() == 0, running.errors.read_text()


def findings(up: Up) -> list[Finding]:
    """What `fleet doctor` lists, without a process for each look."""
    patient = PatientHub(up.hub, time.time)
    return [one for check in CHECKS for one in looked(check, patient)]


def found(up: Up, check: str, why: str = "") -> Finding:
    """The finding of this check with these words, when it is there."""
    kept: list[Finding] = []

    def there() -> bool:
        kept[:] = [one for one in findings(up) if one.check == check and why in one.why]
        return bool(kept)

    until(f"doctor says {check}", there, WITHIN_S)
    assert kept[0].what_to_do
    return kept[0]


def screen(up: Up) -> str:
    return fleet("status", "--data-dir", str(up.folder)).stdout


def well(up: Up) -> bool:
    return bool(up.hub.request("GET", STATUS).body["healthy"]) and not findings(up)


@pytest.fixture(autouse=True)
def sound(up: Up) -> None:
    """What the test before made is over, and told of no more."""
    until("nothing is wrong", lambda: well(up), WITHIN_S)


def test_nodes_that_are_not_ready_are_counted(up: Up) -> None:
    nodes = [node["metadata"]["name"] for node in up.hub.request("GET", f"{proxy('cfa')}/api/v1/nodes").body["items"]]

    def tell(status: str) -> None:
        for name in nodes[: len(nodes) // 2]:
            condition = {"type": "Ready", "status": status, "reason": "KubeletStopped", "message": "stopped posting"}
            up.hub.request(
                "PATCH",
                f"{proxy('cfa')}/api/v1/nodes/{name}/status",
                {"status": {"conditions": [condition]}},
                content_type="application/merge-patch+json",
            )

    tell("Unknown")
    try:
        finding = found(up, "nodes-not-ready", f"{len(nodes) // 2} of {len(nodes)} nodes are not ready")
        assert (finding.name, finding.member) == ("cfa", "cfa")
        assert f"Look at:    Cluster cfa: {finding.why}" in screen(up)
        assert fleet("doctor", "--member", "cfa", "--data-dir", str(up.folder)).returncode == 1
    finally:
        tell("True")


def test_an_override_policy_that_fails_for_every_job_is_named(up: Up) -> None:
    gone = [{"path": "/spec/template/spec/nothing/here", "operator": "remove"}]
    body = {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "ClusterOverridePolicy",
        "metadata": {"name": "no-such-field"},
        "spec": {"overrideRules": [{"overriders": {"plaintext": gone}}]},
    }
    up.hub.request("POST", OVERRIDES, body)
    names = [f"overridden-{number}" for number in range(3)]
    for name in names:
        up.hub.request("POST", JOBS, job(name))
    try:
        finding = found(up, "jobs-refused", "3 jobs")
        assert (finding.kind, finding.namespace) == ("Job", TEAM) and finding.name in names
        assert "override policy no-such-field: remove /spec/template" in finding.why
        assert "no-such-field" in screen(up)
    finally:
        up.hub.request("DELETE", f"{OVERRIDES}/no-such-field")
        for name in names:
            up.hub.request("DELETE", f"{JOBS}/{name}")


def test_a_webhook_that_fails_every_create_is_named(up: Up) -> None:
    hook = {
        "name": "checks.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{free_port()}/"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    up.hub.request("POST", WEBHOOKS, {"metadata": {"name": "checks"}, "webhooks": [hook]})
    try:
        numbers = itertools.count()

        def refused() -> bool:
            return up.hub.client.request("POST", CONFIGMAPS, configmap(f"hooked-{next(numbers)}")).status == 500

        for _ in range(3):
            until("a create is refused", refused, WITHIN_S)
        finding = found(up, "webhook-fails")
        assert (finding.kind, finding.name) == ("ValidatingWebhookConfiguration", "checks")
        assert "webhook checks.example.com failed, and their requests are refused" in finding.why
        assert finding.why.endswith("it takes no connection") and "delete" in finding.what_to_do
        assert "checks.example.com" in screen(up)
    finally:
        up.hub.request("DELETE", f"{WEBHOOKS}/checks")


def test_a_session_that_locks_a_table_is_named(up: Up) -> None:
    with locked(up, "objects"):
        finding = found(up, "database-blocked")
        assert "a write has not happened within 2 s: process " in finding.why and "idle in transaction" in finding.why
        assert "pg_terminate_backend(" in finding.what_to_do
        until("status knows", lambda: "the database takes no writes: " in screen(up), WITHIN_S)
        assert {one.check for one in findings(up)} == {"database-blocked"}, "the rest follows from it"


def test_an_api_process_without_its_database_stays_in_reach_and_says_why(up: Up) -> None:
    with away(up):
        began = time.monotonic()
        assert up.hub.client.get("/readyz/shutdown").status == 200
        assert time.monotonic() - began < 3, "load balancers wait no longer"
        assert up.hub.client.get("/readyz?exclude=controllers").status == 503
        until("status knows", lambda: "the database does not answer in time" in screen(up), WITHIN_S)
        assert "start PostgreSQL" in found(up, "database").what_to_do
        assert "nobody-decides" not in {one.check for one in findings(up)}, "no advice to start what runs"


def test_a_member_that_is_down_is_named(up: Up) -> None:
    with frozen(up.child("sim")):
        finding = found(up, "member-not-ready")
        assert finding.member == "cfa" and "does not answer" in finding.why
        assert "Wrong:      member cfa is not ready: " in screen(up)
    logged = [line for line in (up.folder / "logs/controllers.log").read_text().splitlines() if "not ready" in line]
    assert {json.loads(line)["level"] for line in logged} == {"warning"}


@pytest.mark.parametrize("dead", [False, True])
def test_controllers_that_hang_or_are_gone_are_named(up: Up, dead: bool) -> None:
    """A supervisor starts them again where they are gone, so it is stopped meanwhile."""
    with frozen(up.child("controllers")) if not dead else frozen(psutil.Process(up.process.pid)):
        if dead:
            up.child("controllers").kill()
        finding = found(up, "nobody-decides")
        assert "no controllers process leads; the last one was " in finding.why and "its log" in finding.what_to_do
        assert "Wrong:      nobody decides since " in screen(up)


def test_the_user_whose_jobs_are_most_of_those_that_wait_is_named(up: Up) -> None:
    up.hub.put_object(TREES, tree(max_jobs=0))
    up.hub.put_object(POLICIES.format("default"), policy(queue=True))
    jobs = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
    pod = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
    replicas = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": pod}}

    def submit(number: int) -> int:
        body: Any = {"metadata": {"name": f"many-{number}"}, "spec": {"pytorchReplicaSpecs": replicas}}
        return up.hub.client.request("POST", jobs, body).status

    try:
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(submit, range(WAITING_LEAST))) == {201}
        finding = found(up, "user-floods")
        assert (finding.kind, finding.name) == ("User", "admin")
        assert f"has {WAITING_LEAST} of the {WAITING_LEAST} jobs that wait" in finding.why
    finally:
        up.hub.request("DELETE", jobs)
        up.hub.request("DELETE", f"{TREES}/elasticquotatree")


def test_a_certificate_that_has_ended_is_named(up: Up, tmp_path: Path) -> None:
    """That of the file, which the next start would show; and one that is shown now, by which nobody gets further."""
    authority = (up.folder / "pki" / "ca.crt", up.folder / "pki" / "ca.key")
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    ended = pki.utcnow() - timedelta(days=800)
    pki.make_server_certificate(*authority, certificate, key, ["127.0.0.1"], now=ended)
    kept = tmp_path / "kept.crt"
    shutil.copy(up.folder / "pki" / "server.crt", kept)
    shutil.copy(certificate, up.folder / "pki" / "server.crt")
    try:
        finding = found(up, "certificate")
        assert "the certificate of the server ended on " in finding.why
    finally:
        shutil.copy(kept, up.folder / "pki" / "server.crt")
    with served(certificate, key) as address:
        document = yaml.safe_load((up.folder / "kubeconfig").read_text())
        document["clusters"][0]["cluster"]["server"] = address
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
        for command in ("status", "doctor"):
            said = refusal(fleet(command, "--kubeconfig", str(tmp_path / "kubeconfig")))
            assert "its certificate is not trusted (certificate has expired)" in said


@contextmanager
def served(certificate: Path, key: Path) -> Iterator[str]:
    """A server that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
