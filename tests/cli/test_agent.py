"""`fleet join --agent` and `fleet agent`: a member that the hub cannot reach joins, works, and leaves."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from fleet.amc.get import CLUSTERS
from fleet.cli.joining import SECRETS
from fleet.values.kubeconfig.files import load
from tests.cli.agent import NOWHERE, agent, pull, simulated
from tests.cli.amc_objects import job
from tests.cli.hub import Up, fleet, refusal, until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases"


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    with simulated(tmp_path_factory.mktemp("sim")) as found:
        yield found


def amc(up: Up, *arguments: str) -> str:
    """The output of `kubectl amc`."""
    return fleet(*arguments, "--kubeconfig", str(up.folder / "kubeconfig"), program="kubectl-amc").stdout


def state(up: Up, name: str = "edge") -> dict[str, str]:
    cluster = up.hub.find(f"{CLUSTERS}/{name}") or {}
    conditions = (cluster.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == "Ready"), {})


def test_a_member_behind_a_firewall_from_its_join_to_its_end(api_server: tuple[Path, str], tmp_path: Path) -> None:
    kubeconfig, address = api_server
    up = Up(tmp_path / "hub")
    try:
        manifest = pull(up, kubeconfig)
        assert [body["kind"] for body in manifest] == ["Namespace", "ServiceAccount", "Secret", "Deployment"]
        until("it waits for its agent", lambda: "agent is not connected (it never was)" in state(up).get("message", ""))
        with agent(manifest, tmp_path, address) as running:
            until("it is ready", lambda: state(up).get("status") == "True")
            listed = fleet("clusters", "-o", "json", "--data-dir", str(up.folder)).stdout
            assert '"mode": "Pull"' in listed and NOWHERE in listed
            proxied = up.hub.request("GET", f"{CLUSTERS}/edge/proxy/api/v1/nodes")
            assert proxied.body["items"]
            jobs = f"{CLUSTERS}/edge/proxy/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
            up.hub.request("POST", jobs, job("made-there"))
            until("its pod is listed", lambda: "Running" in amc(up, "get", "pod", "-m", "edge"))
            said = amc(up, "logs", "made-there-master-0", "-m", "edge")
            assert said == "made-there-master-0/pytorch: Running in the simulated cluster cfa\n"
            running.kill()
            until("its agent is missed", lambda: "its agent is not connected (since 20" in state(up).get("message", ""))
        with agent(manifest, tmp_path, address):
            until("it is back", lambda: state(up).get("status") == "True")
            psutil.Process(up.child("api").pid).kill()
            lease = f"{LEASES}/agent-edge"
            until("another API process holds the tunnel", lambda: _number(up, lease) == 3)
            until("it is ready again", lambda: state(up).get("status") == "True" and _proxied(up))
            left = fleet("unjoin", "edge", "--data-dir", str(up.folder))
            assert left.returncode == 0, left.stderr
            assert [item["metadata"]["name"] for item in up.hub.list(SECRETS)] == []
            assert up.hub.find(lease) is None
    finally:
        up.stop()


def _number(up: Up, lease: str) -> int:
    with contextlib.suppress(Exception):  # the API is being started again
        return int((up.hub.find(lease) or {"spec": {}})["spec"].get("leaseTransitions") or 0)
    return 0


def _proxied(up: Up) -> bool:
    with contextlib.suppress(Exception):
        return bool(up.hub.request("GET", f"{CLUSTERS}/edge/proxy/api/v1/nodes").body["items"])
    return False


def test_joins_that_are_refused(api_server: tuple[Path, str], tmp_path: Path) -> None:
    kubeconfig, _ = api_server
    up = Up(tmp_path / "hub")
    try:
        where = ("--data-dir", str(up.folder), "--kubeconfig", str(kubeconfig))
        assert "no name for a member" in refusal(fleet("join", "Bad_Name", "--agent", *where))
        assert "not an https:// URL" in refusal(fleet("join", "edge", "--agent", "--hub-url", "hub:6440", *where))
        assert "belong to --agent" in refusal(fleet("join", "edge", "--hub-url", "https://hub:6440", *where))
        assert [item["metadata"]["name"] for path in (CLUSTERS, SECRETS) for item in up.hub.list(path)] == []
        written = tmp_path / "agent.yaml"
        done = fleet("join", "edge", "--agent", "--hub-url", "https://hub.example:6440", "-o", str(written), *where)
        assert done.returncode == 0 and done.stdout == "" and "is joined; apply" in done.stderr
        assert written.stat().st_mode & 0o777 == 0o600
        deployment = list(yaml.safe_load_all(written.read_text()))[-1]
        assert "https://hub.example:6440" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        kept = load([kubeconfig])
        secret = up.hub.find(f"{SECRETS}/agent-edge")
        assert kept.server == NOWHERE and secret is not None and "fleet-agent." not in str(secret)
    finally:
        up.stop()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--hub", "http://hub:6440"), "not an https:// URL"),
        (("--hub", "https://hub:6440"), "--api is needed outside a pod"),
        (("--hub", "https://hub:6440", "--api", "here"), "--api here: not HOST:PORT"),
        (("--hub", "https://hub:6440", "--api", "127.0.0.1:1"), "holds no token"),
        (("--hub", "https://hub:6440", "--api", "127.0.0.1:1", "--ca-file", "missing"), "cannot read missing"),
    ],
)
def test_agents_that_do_not_start(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    environment = {} if "KUBERNETES_SERVICE_HOST" not in os.environ else {"KUBERNETES_SERVICE_HOST": ""}
    done = fleet("agent", "edge", "--token-file", str(tmp_path / "token"), *arguments, **environment)
    assert says in refusal(done)


def test_metrics_of_an_agent_want_a_token_and_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("token")
    words = ("agent", "edge", "--hub", "https://hub.example:6440", "--token-file", str(tmp_path / "token"))
    served = ("--api", "127.0.0.1:1", "--metrics-listen", "127.0.0.1:0")
    assert "--metrics-key-file go together" in refusal(fleet(*words, *served))
    others = (f"--metrics-{name}-file" for name in ("token", "cert", "key"))
    given = [word for option in others for word in (option, str(tmp_path / "token"))]
    assert f"cannot use {tmp_path}/token with {tmp_path}/token" in refusal(fleet(*words, *served, *given))
