"""A real hub, Prometheus and Alertmanager beside it: panels and rules have rows, and faults arrive as alerts.

Prometheus runs with the example's configuration and the rules of deploy/monitoring. Only addresses, files and times are
changed: samples are seconds apart, and no alert waits before it fires.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from fleet.monitoring.dashboards import BOARDS
from fleet.monitoring.rules import ALERTS, RECORDINGS
from tests.cli.hub import Up, fleet, until
from tests.console.browser import WALKTHROUGH
from tests.monitoring.test_rules import DEPLOY
from tests.testbed.processes import free_port
from tests.testbed.prometheus import prometheus_binaries

pytestmark = [pytest.mark.xdist_group("monitoring"), pytest.mark.timeout(900)]  # one hub for all
WITHIN_S = 150.0
RECEIVERS = 5
# Metrics without rows in a hub that is well and has just begun, and why.
NO_ROWS = {
    "fleet_loop_restarts_total": "no loop ended",
    "fleet_jobs_finished_total": "no job ended",
    "fleet_evictions_total": "no job was evicted",
    "fleet_lost_gpu_seconds_total": "no work was lost",
    "fleet_api_refused_total": "no client broke a bound",
    "fleet_api_audit_events_total": "the hub has no audit log",
    "fleet_agent_": "no member has an agent",
    "fleet_member_credentials_expiry_timestamp_seconds": "tokens of simulated members name no end",
    "fleet_member_gpu_": "no Cluster names a source of GPU figures",
    "fleet_member_gpus_idle": "likewise",
    "fleet:member_gpu_utilization": "likewise",
    "apiserver_flowcontrol_rejected_requests_total": "nobody floods the hub",
    "fleet_store_database_bytes": "looked at once a minute",
}


class Watch:
    """Prometheus and Alertmanager on ports of this machine."""

    def __init__(self, folder: Path, up: Up, stack: ExitStack) -> None:
        self._prometheus, self._alertmanager = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._configure(folder, up)
        binaries = prometheus_binaries()
        for name, words in (
            ("prometheus", (
                f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/prometheus",
                f"--web.listen-address={self._prometheus}", "--rules.alert.resend-delay=1s",
            )),
            ("alertmanager", (
                f"--config.file={DEPLOY}/alertmanager.yml", f"--storage.path={folder}/alertmanager",
                f"--web.listen-address={self._alertmanager}", "--cluster.listen-address=",
            )),
        ):  # fmt: skip
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            process = subprocess.Popen([binaries / name, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            stack.callback(process.wait, 30)
            stack.callback(process.kill)

    def _configure(self, folder: Path, up: Up) -> None:
        (controllers,) = re.findall(r'metrics of the controllers: https://([^"\s]+)/metrics', up.errors.read_text())
        kubeconfig = yaml.safe_load((up.folder / "kubeconfig").read_text())
        api = urllib.parse.urlparse(kubeconfig["clusters"][0]["cluster"]["server"]).netloc
        targets = {"fleet-api": api, "fleet-controllers": controllers}
        config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "4s", "scrape_timeout": "4s", "evaluation_interval": "1s"}
        config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [self._alertmanager]
        made = fleet("token", "create", "prometheus", "--data-dir", str(up.folder))
        (folder / "token").write_text(made.stdout.strip())
        for job in config["scrape_configs"]:
            job["authorization"]["credentials_file"] = str(folder / "token")
            job["tls_config"]["ca_file"] = str(up.folder / "pki" / "ca.crt")
            job["static_configs"][0]["targets"] = [targets[job["job_name"]]]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        rules = yaml.safe_load((DEPLOY / "rules.yaml").read_text())
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules))

    def ask(self, query: str) -> list[Any]:
        """The rows of a query; an exception where it cannot be parsed, or nobody answers."""
        asked = urllib.parse.urlencode({"query": query})
        rows: list[Any] = _get(f"http://{self._prometheus}/api/v1/query?{asked}")["data"]["result"]
        return rows

    def has(self, query: str) -> bool:
        """Whether it has rows; not yet where Prometheus has just been started."""
        try:
            return bool(self.ask(query))
        except urllib.error.HTTPError as error:
            assert error.code == 503, query
        except OSError:
            pass
        return False

    def await_alert(self, *names: str) -> None:
        """Until Alertmanager has them all, active."""
        for name in names:
            until(f"{name} arrives", lambda name=name: name in self._arrived(), WITHIN_S)  # type: ignore[misc]

    def await_end(self, *names: str) -> None:
        for name in names:
            query = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
            until(f"{name} ends", lambda query=query: not self.has(query), WITHIN_S)  # type: ignore[misc]

    def _arrived(self) -> set[str]:
        try:
            return {alert["labels"]["alertname"] for alert in _get(f"http://{self._alertmanager}/api/v2/alerts")}
        except OSError:
            return set()


def _get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Nothing in it is started again for a hang, so that faults stay until they are mended."""
    running = Up(
        tmp_path_factory.mktemp("monitoring") / "hub", "--members", "2", "--metrics-listen", "127.0.0.1:0",
        "--hang-seconds", "0", "--outgoing-allow", "127.0.0.0/8",
    )  # fmt: skip
    try:
        yield running
    finally:
        for process in psutil.Process(running.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                process.resume()
        assert running.stop() == 0, running.errors.read_text()


@pytest.fixture(scope="module")
def watch(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """One job runs, one waits, and nobody answers the addresses that are to be told of jobs."""
    folder = tmp_path_factory.mktemp("watch")
    with ExitStack() as stack:
        watch = Watch(folder, up, stack)
        submit(up, DEPLOY / "metrics-reader.yaml")
        until("both processes are scraped", lambda: watch.has("count(up == 1) == 2"), WITHIN_S)
        until("none has failed", lambda: watch.has('fleet_notifications_total{outcome="failed"} == 0'), WITHIN_S)
        (folder / "receivers.yaml").write_text(yaml.safe_dump_all(receivers(free_port())))
        submit(up, folder / "receivers.yaml")
        for name in ("quota-tree", "policy-gang-queue", "pytorchjob", "pytorchjob-second"):
            text = (WALKTHROUGH / f"{name}.yaml").read_text()
            text = text.replace("testbed/run-for: 30s", "testbed/run-for: 1h")
            text = text.replace("- name: child-2\n", "- name: child-2\n        min: {nvidia.com/gpu: 16}\n")
            (folder / f"{name}.yaml").write_text(text)
            submit(up, folder / f"{name}.yaml")
        yield watch


def submit(up: Up, file: Path) -> None:
    done = fleet("submit", str(file), "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr


def receivers(port: int) -> Iterator[dict[str, Any]]:
    for number in range(RECEIVERS):
        yield {
            "apiVersion": "config.fleet.io/v1alpha1", "kind": "NotificationReceiver",
            "metadata": {"name": f"away-{number}", "namespace": "fleet-system"},
            "spec": {
                "allNamespaces": True, "selector": {}, "events": ["Started"],
                "webhook": {"url": f"https://127.0.0.1:{port}/"},
            },
        }  # fmt: skip


def test_each_panel_and_each_rule_has_rows(watch: Watch) -> None:
    queries = [query for board in BOARDS for _, panels in board.rows for panel in panels for _, query in panel.queries]
    queries += [rule.query for rule in RECORDINGS] + [alert.value for alert in ALERTS]
    for query in queries:
        if any(metric in query for metric in NO_ROWS):
            watch.ask(query)
        else:
            until(f"{query} has rows", lambda query=query: watch.has(query), WITHIN_S)  # type: ignore[misc]


def test_notifications_that_fail_arrive_as_an_alert(watch: Watch) -> None:
    watch.await_alert("FleetNotificationsFail")


def test_members_that_hang_arrive_as_an_alert(up: Up, watch: Watch) -> None:
    until("the members are ready", lambda: watch.has("sum(fleet_member_ready) == 2"), WITHIN_S)
    up.child("sim").suspend()
    watch.await_alert("FleetMemberNotReady")
    up.child("sim").resume()
    watch.await_end("FleetMemberNotReady")


def test_controllers_that_hang_arrive_as_alerts(up: Up, watch: Watch) -> None:
    up.child("controllers").suspend()
    watch.await_alert("FleetNoLeader", "FleetTargetDown")
    up.child("controllers").resume()
    watch.await_end("FleetNoLeader", "FleetTargetDown")


def test_a_database_that_is_away_arrives_as_alerts(up: Up, watch: Watch) -> None:
    """PostgreSQL takes no connection, and those that were open end."""
    [postmaster] = [
        process
        for process in psutil.Process(up.process.pid).children(recursive=True)
        if process.name() == "postgres" and process.parent().name() != "postgres"  # type: ignore[union-attr]
    ]
    postmaster.suspend()
    for backend in postmaster.children():
        with suppress(psutil.Error):
            if re.search(r"fleet|postgres: \S+ \S+ ", " ".join(backend.cmdline())):
                backend.send_signal(signal.SIGTERM)
    watch.await_alert("FleetDatabaseAway")
    postmaster.resume()
    watch.await_end("FleetDatabaseAway", "FleetNoLeader")
