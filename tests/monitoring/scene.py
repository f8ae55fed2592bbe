"""A hub that has seen some of everything, so that each metric has rows, and with some standing troubles.

Jobs run, wait, have ended and were moved. A member is behind an agent, and tells figures of its GPUs. Clients were
refused. Nobody answers the addresses that are to be told of jobs, and the hub's credentials in `cfb` end tomorrow, as
does an authority of clients' certificates.
"""

from __future__ import annotations

import base64
import itertools
import re
import socket
import ssl
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from fleet.amc.get import CLUSTERS, proxy
from fleet.cli.hub import connect
from fleet.hub import pki
from tests.checkout import ROOT
from tests.cli.agent import agent, pull, simulated
from tests.cli.hub import Up, fleet, until
from tests.console.browser import WALKTHROUGH
from tests.console.scene import EXPORTERS
from tests.monitoring.watch import DEPLOY, WITHIN_S, Watch
from tests.testbed.processes import free_port

RECEIVERS = 5
TEAM = "team"  # a namespace outside quota
EDGE = "edge"  # the member behind an agent
EDGE_PODS = f"{proxy(EDGE)}/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
BINDINGS = f"/apis/work.karmada.io/v1alpha2/namespaces/{TEAM}/resourcebindings"
USER = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "flood"}


def start(folder: Path) -> Up:
    """Nothing in it is started again for a hang, so that faults stay until they are mended."""
    tomorrow(folder)
    return Up(
        folder / "hub",
        "--members",
        "2",
        "--metrics-listen",
        "127.0.0.1:0",
        "--hang-seconds",
        "0",
        "--outgoing-allow",
        "127.0.0.0/8",
        "--client-ca-file",
        str(folder / "tomorrow.crt"),
        "--audit-policy-file",
        str(ROOT / "docs" / "how-to" / "audit-policy.yaml"),
        "--audit-log-path",
        str(audit_log(folder)),
    )


def audit_log(folder: Path) -> Path:
    return folder / "audit.log"


def tomorrow(folder: Path) -> None:
    """An authority that ends in a day, and its key."""
    made = pki.utcnow() - pki.CA_LIFE + timedelta(days=1)
    pki.make_ca(folder / "tomorrow.crt", folder / "tomorrow.key", now=made)


def watched(up: Up, folder: Path, stack: ExitStack) -> Watch:
    """Prometheus and Alertmanager beside the hub."""
    (controllers,) = re.findall(r'metrics of the controllers: https://([^"\s]+)/metrics', up.errors.read_text())
    made = fleet("token", "create", "prometheus", "--data-dir", str(up.folder))
    (folder / "token").write_text(made.stdout.strip())
    submit(up, DEPLOY / "metrics-reader.yaml")
    return Watch(
        folder,
        stack,
        {"fleet-api": api_of(up), "fleet-controllers": controllers},
        token=folder / "token",
        authority=up.folder / "pki" / "ca.crt",
    )


def api_of(up: Up) -> str:
    kubeconfig = yaml.safe_load((up.folder / "kubeconfig").read_text())
    return str(urllib.parse.urlparse(kubeconfig["clusters"][0]["cluster"]["server"]).netloc)


def stage(up: Up, watch: Watch, folder: Path, stack: ExitStack) -> None:
    """Rows for each metric; the counters of failed notifications and of lost audit events have been seen at 0."""
    until("none has failed", lambda: watch.has('fleet_notifications_total{outcome="failed"} == 0'), WITHIN_S)
    write(up, folder, *receivers(free_port()), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    for name in ("quota-tree", "policy-gang-queue", "pytorchjob", "pytorchjob-second"):
        text = (WALKTHROUGH / f"{name}.yaml").read_text()
        text = text.replace("testbed/run-for: 30s", "testbed/run-for: 1h")
        text = text.replace("- name: child-2\n", "- name: child-2\n        min: {nvidia.com/gpu: 16}\n")
        (folder / f"{name}.yaml").write_text(text)
        submit(up, folder / f"{name}.yaml")
    write(up, folder, POLICY, job("short", "0.5s"), job("moved", "1h", gpus=1))
    behind_an_agent(up, folder, stack)
    move(up, "moved")
    new_credentials(up, folder, "cfb")
    rubbish(up)
    flood(up, folder)


def submit(up: Up, file: Path) -> None:
    done = fleet("submit", str(file), "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr


def write(up: Up, folder: Path, *objects: dict[str, Any]) -> None:
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    submit(up, folder / "objects.yaml")


def receivers(port: int) -> Iterator[dict[str, Any]]:
    for number in range(RECEIVERS):
        yield {
            "apiVersion": "config.fleet.io/v1alpha1",
            "kind": "NotificationReceiver",
            "metadata": {"name": f"away-{number}", "namespace": "fleet-system"},
            "spec": {
                "allNamespaces": True,
                "selector": {},
                "events": ["Started"],
                "webhook": {"url": f"https://127.0.0.1:{port}/"},
            },
        }


POLICY: dict[str, Any] = {
    "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "at-once", "namespace": TEAM},
    "spec": {
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"}},
        "resourceSelectors": [{"apiVersion": "batch/v1", "kind": "Job"}],
    },
}


def job(name: str, run_for: str = "1h", gpus: int = 0) -> dict[str, Any]:
    """A job that queues nowhere."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": gpus}}}
    pod = {
        "metadata": {"annotations": {"testbed/run-for": run_for}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"template": pod},
    }


def behind_an_agent(up: Up, folder: Path, stack: ExitStack) -> None:
    """A member with a job of its own that uses a GPU, and with an exporter that tells so."""
    own = folder / EDGE
    own.mkdir()
    kubeconfig, address = stack.enter_context(simulated(own))
    stack.enter_context(agent(pull(up, kubeconfig, EDGE), own, address))
    until("it answers", lambda: up.hub.client.get(EDGE_PODS).ok, WITHIN_S)
    (node, *_) = up.hub.request("GET", f"{proxy(EDGE)}/api/v1/nodes").body["items"]
    for name, labels, gpus in (("exporter", EXPORTERS, 0), ("own", {}, 1)):
        limits = {"nvidia.com/gpu": str(gpus)}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "nodeName": node["metadata"]["name"],
                "containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}],
            },
        }
        up.hub.request("POST", EDGE_PODS, body)
    metrics = {"spec": {"metrics": {"dcgm": {"namespace": "default", "labels": EXPORTERS}}}}
    up.hub.request("PATCH", f"{CLUSTERS}/{EDGE}", metrics, content_type="application/merge-patch+json")


def new_credentials(up: Up, folder: Path, member: str) -> None:
    """The member joins again, with a client certificate that ends tomorrow."""
    tomorrow(folder)
    document = yaml.safe_load((up.folder / "members" / f"{member}.kubeconfig").read_text())
    for field, file in (("client-certificate-data", "tomorrow.crt"), ("client-key-data", "tomorrow.key")):
        document["users"][0]["user"][field] = base64.b64encode((folder / file).read_bytes()).decode()
    (folder / "kubeconfig.yaml").write_text(yaml.safe_dump(document))
    done = fleet("join", member, "--kubeconfig", str(folder / "kubeconfig.yaml"), "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr


def move(up: Up, name: str) -> None:
    where = ("-n", TEAM, "--data-dir", str(up.folder))
    started = fleet("wait", name, "--for", "started", "--timeout", "120", *where)
    assert started.returncode == 0, started.stderr
    binding = up.hub.request("GET", f"{BINDINGS}/{name}-job").body
    other = "cfa" if binding["spec"]["clusters"][0]["name"] == "cfb" else "cfb"
    moved = fleet("move", name, "--to", other, "--wait-for-room", "--no-wait", *where)
    assert moved.returncode == 0, moved.stderr


def rubbish(up: Up) -> None:
    """A client says what is no HTTP."""
    host, port = api_of(up).rsplit(":", 1)
    context = ssl.create_default_context(cafile=str(up.folder / "pki" / "ca.crt"))
    with (
        socket.create_connection((host, int(port)), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        secured.sendall(b"rubbish\r\n\r\n")
        secured.recv(1000)


def flood(up: Up, folder: Path) -> None:
    """A user who may have one request at a time has eight, until one is refused."""
    flow = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "metadata": {"name": "flood"}}
    limited = {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    rules = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    write(
        up,
        folder,
        {**flow, "kind": "PriorityLevelConfiguration", "spec": {"type": "Limited", "limited": limited}},
        {
            **flow,
            "kind": "FlowSchema",
            "spec": {
                "priorityLevelConfiguration": {"name": "flood"},
                "matchingPrecedence": 1,
                "rules": [{"subjects": [{"kind": "User", "user": {"name": "flood"}}], "resourceRules": [rules]}],
            },
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "flood"},
            "roleRef": {"apiGroup": USER["apiGroup"], "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [USER],
        },
    )
    made = fleet("token", "create", "flood", "-o", "kubeconfig", "--data-dir", str(up.folder))
    (folder / "flood.kubeconfig").write_text(made.stdout)
    client = connect(folder / "flood.kubeconfig").client
    numbers = itertools.count()
    with ThreadPoolExecutor(8) as pool:

        def refused() -> bool:
            bodies = [configmap(f"flood-{number}") for number in itertools.islice(numbers, 8)]
            answers = list(pool.map(lambda body: client.request("POST", CONFIGMAPS, body).status, bodies))
            return 429 in answers

        until("one is refused", refused, WITHIN_S)


def configmap(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
