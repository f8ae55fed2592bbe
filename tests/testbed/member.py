"""One real member cluster: its processes, its set-up, and a small client for the tests to look inside."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.testbed.build import JOBS, Parts
from tests.testbed.pki import ADMIN, CONTROLLER_MANAGER, SCHEDULER, Pki
from tests.testbed.processes import Processes, free_port, wait_for

CONTROLLERS = (
    "namespace-controller",
    "serviceaccount-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "disruption-controller",
    "job-controller",
    "root-ca-certificate-publisher-controller",
)
WEBHOOK = "validator.training-operator.kubeflow.org"
WEBHOOK_CERTIFICATES = "k8s-webhook-server/serving-certs"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = "application/json"
GANG_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"


class RealMember:
    """`kubeconfig` is the administrator's, as `fleet join` takes it. `get`, `post`, `patch` and `delete` speak JSON and
    raise on any refusal."""

    def __init__(self, name: str, folder: Path, built: Parts, pki: Pki, processes: Processes, etcd: str) -> None:
        folder.mkdir(parents=True)
        self.name = name
        self.stages: list[Path] = []  # files of more Stages of its pods; set before its controllers start
        self.gangs = False  # whether it schedules gangs by Kubernetes' own means; set before it starts
        self.folder, self.pki = folder, pki
        self._built, self._processes, self._etcd = built, processes, etcd
        self._answers: dict[str, str] = {}  # what must be ready, and the address that tells
        self._port, self._webhook_port = free_port(), free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = self._kubeconfig("admin", ADMIN)
        self._client = self.new_client(timeout=30)

    # -- starting -----------------------------------------------------------------------------------------------------

    def start_apiserver(self, more: Sequence[str] = ()) -> None:
        pki = self.pki
        self.run(
            "apiserver",
            [
                self._built.binary("kube-apiserver"),
                f"--etcd-servers={self._etcd}",
                f"--etcd-prefix=/{self.name}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={self._port}",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.0.0.0/24",
                f"--tls-cert-file={pki.certificate}",
                f"--tls-private-key-file={pki.key}",
                f"--client-ca-file={pki.ca}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={pki.accounts_public}",
                f"--service-account-signing-key-file={pki.accounts_private}",
                f"--token-auth-file={pki.tokens}",
                "--authorization-mode=RBAC",
                *((GANG_GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true") if self.gangs else ()),
                *more,
            ],
        )

    def wait_apiserver(self) -> None:
        wait_for(f"{self.name} /readyz", lambda: self._client.get("/readyz").status_code == 200, 120)

    def run(
        self, name: str, command: Sequence[object], environment: Mapping[str, str] | None = None, *, ready: str = ""
    ) -> None:
        """Start a process of this member; `wait_ready` also waits until the address `ready` answers 200."""
        self._processes.start(f"{self.name}.{name}", command, environment)
        if ready:
            self._answers[name] = ready

    def start_scheduler(self) -> None:
        kubeconfig = self._kubeconfig("scheduler", SCHEDULER)
        port = free_port()
        self.run(
            "scheduler",
            [
                self._built.binary("kube-scheduler"),
                f"--kubeconfig={kubeconfig}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
                *((GANG_GATES,) if self.gangs else ()),
            ],
            ready=f"https://127.0.0.1:{port}/readyz",
        )

    def start_controllers(self, more: Sequence[str] = ()) -> None:
        """kube-controller-manager and kwok; after the job kinds' CRDs, else its garbage collector learns them late."""
        kubeconfig = self._kubeconfig("controller-manager", CONTROLLER_MANAGER)
        own = ("podgroup-protection-controller",) if self.gangs else ()
        self.run(
            "controller-manager",
            [
                self._built.binary("kube-controller-manager"),
                f"--kubeconfig={kubeconfig}",
                f"--controllers={','.join((*CONTROLLERS, *more, *own))}",
                "--leader-elect=false",
                "--use-service-account-credentials=true",
                "--secure-port=0",
                f"--root-ca-file={self.pki.ca}",
                f"--service-account-private-key-file={self.pki.accounts_private}",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                *((GANG_GATES,) if self.gangs else ()),
            ],
        )
        self.start_nodes()

    def start_nodes(self, *streams: Path) -> None:
        """kwok. `streams`: files of its objects Logs, Exec, Attach and PortForward, with which it answers in the place
        of kubelets. Such a member has no controllers, so its nodes need no leases. With leases, kwok never looks again
        at pods that it reads before it has seen its own lease: make pods after `wait_ready` there."""
        port, lease = free_port(), 0 if streams else 40
        self.run(
            "kwok",
            [
                self._built.binary("kwok"),
                f"--kubeconfig={self.kubeconfig}",
                "--config",
                self._built.manifest("stages.yaml"),
                *(f"--config={path}" for path in self.stages),
                "--manage-all-nodes=true",
                f"--node-lease-duration-seconds={lease}",
                "--cidr=10.244.0.0/16",
                "--node-ip=127.0.0.1",
                "--disregard-status-with-annotation-selector=kwok.x-k8s.io/status=custom",
                *(f"--config={file}" for file in streams),
                *((f"--server-address=127.0.0.1:{port}", f"--node-port={port}") if streams else ()),
            ],
            {"HOME": str(self.folder)},
        )

    def install_training_operator(self, kinds: Sequence[str] = JOBS) -> None:
        """Install what the operator's own manifests have, with its webhook on loopback; then the operator itself."""
        port = free_port()
        self.add_namespace("kubeflow")
        # The operator looks for the files under the system's temporary folder, and serves those under its own TMPDIR.
        self.add_certificates("kubeflow", "training-operator-webhook-cert", Path(tempfile.gettempdir()), self.folder)
        authority = base64.b64encode(self.pki.ca.read_bytes()).decode()
        hooks = json.loads(self._built.manifest("webhooks.json").read_text())
        hooks["metadata"]["name"] = WEBHOOK
        for hook in hooks["webhooks"]:
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{self._webhook_port}{path}", "caBundle": authority}
        self.post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", hooks)
        self.add_kinds([json.loads(self._built.manifest(f"{name}.json").read_text()) for name in kinds])
        self.run(
            "operator",
            [
                self._built.binary("training-operator"),
                f"--kubeconfig={self.kubeconfig}",
                "--metrics-bind-address=0",
                f"--health-probe-bind-address=127.0.0.1:{port}",
                f"--webhook-server-port={self._webhook_port}",
                *(f"--enable-scheme={name.removesuffix('s')}" for name in kinds),
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                "--controller-threads=4",
            ],
            {"TMPDIR": str(self.folder)},
            ready=f"http://127.0.0.1:{port}/readyz",
        )

    def add_namespace(self, name: str) -> None:
        self.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def add_certificates(self, namespace: str, name: str, *places: Path) -> None:
        """The authority and the certificate of webhooks: as a Secret, and as files below temporary folders."""
        files = {
            "ca.crt": self.pki.ca,
            "ca.key": self.pki.ca_key,
            "tls.crt": self.pki.certificate,
            "tls.key": self.pki.key,
        }
        data = {file: base64.b64encode(path.read_bytes()).decode() for file, path in files.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        self.post(f"/api/v1/namespaces/{namespace}/secrets", secret)
        for place in places:
            certificates = place / WEBHOOK_CERTIFICATES
            certificates.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.pki.certificate, certificates / "tls.crt")
            shutil.copy(self.pki.key, certificates / "tls.key")

    def add_kinds(self, definitions: Sequence[dict[str, Any]]) -> None:
        """Post the definitions, and wait until all their versions are served."""
        for definition in definitions:
            self.post(DEFINITIONS, definition)
        for definition in definitions:
            wait_for(f"{self.name} {definition['metadata']['name']}", partial(self._serves, definition), 30)

    def _serves(self, definition: dict[str, Any]) -> bool:
        spec = definition["spec"]
        places = [f"/apis/{spec['group']}/{version['name']}" for version in spec["versions"] if version["served"]]
        served = [{entry["name"] for entry in self.get(place)["resources"]} for place in places]
        return all(spec["names"]["plural"] in names for names in served)

    def add_nodes(self, count: int, *, gpus: int, prefix: str = "node", cpu: str = "64", memory: str = "256Gi") -> None:
        room = {"cpu": cpu, "memory": memory, "pods": "110", "nvidia.com/gpu": str(gpus)}
        room["ephemeral-storage"] = "200Gi"  # which the MPI operator's launchers ask for
        for number in range(count):
            name = f"{prefix}-{number}"
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
            metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": metadata,
                "status": {"allocatable": room, "capacity": room},
            }
            self.post("/api/v1/nodes", node)

    def wait_ready(self, nodes: int) -> None:
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_for(f"{self.name} default account", lambda: self._client.get(account).status_code == 200)
        wait_for(f"{self.name} nodes", lambda: sum(map(_usable, self.get("/api/v1/nodes")["items"])) >= nodes)
        for what, address in self._answers.items():
            wait_for(f"{self.name} {what}", partial(_is_ready, address))

    # -- faults -------------------------------------------------------------------------------------------------------

    def cut_off(self) -> None:
        """Freeze the API server: connections stay open and nothing answers, as behind a broken network."""
        self._processes.signal(f"{self.name}.apiserver", signal.SIGSTOP)

    def reconnect(self) -> None:
        self._processes.signal(f"{self.name}.apiserver", signal.SIGCONT)

    def new_client(self, timeout: float | httpx.Timeout) -> httpx.Client:
        """A client of its own, with the administrator's token; the caller closes it."""
        trust = ssl.create_default_context(cafile=str(self.pki.ca))
        headers = {"Authorization": f"Bearer {ADMIN}"}
        return httpx.Client(base_url=self.url, timeout=timeout, headers=headers, verify=trust)

    # -- looking inside -----------------------------------------------------------------------------------------------

    def get(self, path: str) -> dict[str, Any]:
        return self._request("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._request("POST", path, body)

    def patch(self, path: str, body: object, media_type: str = "application/merge-patch+json") -> dict[str, Any]:
        return self._request("PATCH", path, body, media_type)

    def delete(self, path: str) -> dict[str, Any]:
        return self._request("DELETE", path)

    def names(self, path: str) -> list[str]:
        """Names of the objects of a list."""
        return sorted(item["metadata"]["name"] for item in self.get(path)["items"])

    def _request(self, method: str, path: str, body: object = None, media_type: str = JSON) -> dict[str, Any]:
        content = None if body is None else json.dumps(body)
        answer = self._client.request(method, path, content=content, headers={"Content-Type": media_type})
        if answer.status_code >= 300:
            raise RuntimeError(f"{self.name}: {method} {path}: {answer.status_code} {answer.text[:500]}")
        parsed: dict[str, Any] = answer.json()
        return parsed

    def _kubeconfig(self, user: str, token: str) -> Path:
        path = self.folder / f"{user}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.pki.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.name,
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
        }
        path.write_text(json.dumps(config))
        return path


def _is_ready(address: str) -> bool:
    return httpx.get(address, verify=False).status_code == 200


def _usable(node: dict[str, Any]) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
    return ready and not node["spec"].get("taints")
