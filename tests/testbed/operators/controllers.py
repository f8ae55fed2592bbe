"""Job controllers of other projects for a member: their kinds, their webhooks on loopback, and the process."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.member import WEBHOOK_CERTIFICATES, RealMember
from tests.testbed.operators.build import Body, built, objects
from tests.testbed.processes import claim_port, free_port

HOOKS = "/apis/admissionregistration.k8s.io/v1"
HOOK_KINDS = {
    "MutatingWebhookConfiguration": f"{HOOKS}/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": f"{HOOKS}/validatingwebhookconfigurations",
}
REPOSITORY = Path(__file__).parents[3]
MPI_HEALTH = 8080  # written into the operator


@dataclass(frozen=True)
class Place:
    """One controller in one member, with two ports for it."""

    member: RealMember
    name: str
    health: int
    webhook: int

    @property
    def certificates(self) -> Path:
        return self.member.folder / WEBHOOK_CERTIFICATES

    def hook(self, path: str) -> str:
        """The address of a webhook, which answers 200 from when it is served."""
        return f"https://127.0.0.1:{self.webhook}{path}"

    def file(self, body: Body) -> Path:
        path = self.member.folder / f"{self.name}.json"
        path.write_text(json.dumps(body))
        return path

    def run(
        self, binary: str, flags: Sequence[str], *, ready: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.member.run(self.name, [built(self.name).binary(binary), *flags], environment, ready=ready)


def install(member: RealMember, name: str) -> None:
    """The kinds and webhooks of a controller, and what it needs; then its process. After the training operator, whose
    certificates serve here as well, and before the member's own controllers."""
    place = Place(member, name, free_port(), free_port())
    bodies = objects(name)
    member.add_kinds([body for body in bodies if body["kind"] == "CustomResourceDefinition"])
    OPERATORS[name](place)
    for body in bodies:
        if body["kind"] in HOOK_KINDS:
            add_hooks(place, body)


def with_needed(names: Sequence[str]) -> list[str]:
    """The named ones in order, each after those that it needs."""
    return list(dict.fromkeys(one for name in names for one in (*NEEDS.get(name, ()), name)))


def check_places(operators: Mapping[str, Sequence[str]]) -> None:
    """Refuse what cannot run: an operator that does not exist, and the MPI operator in two members of one machine."""
    unknown = {name for names in operators.values() for name in names} - set(OPERATORS)
    if unknown:
        raise ValueError(f"no operator {', '.join(sorted(unknown))}; there are {', '.join(OPERATORS)}")
    if sum("mpi" in names for names in operators.values()) > 1:
        raise ValueError(f"only one member can run the MPI operator: its port {MPI_HEALTH} is fixed")


def add_hooks(place: Place, body: Body) -> None:
    if body["metadata"]["name"].endswith("ing-webhook-configuration"):  # its kustomization puts a prefix before it
        body["metadata"]["name"] = f"{place.name}-{body['metadata']['name']}"
    authority = base64.b64encode(place.member.pki.ca.read_bytes()).decode()
    for hook in body["webhooks"]:
        path = hook["clientConfig"].pop("service")["path"]
        hook["clientConfig"] = {"url": place.hook(path), "caBundle": authority}
    place.member.post(HOOK_KINDS[body["kind"]], body)


def _jobset(place: Place) -> None:
    config = place.file(_own_certificates(place, "config.jobset.x-k8s.io/v1alpha1"))
    place.run(
        "jobset",
        [
            f"--kubeconfig={place.member.kubeconfig}",
            f"--config={config}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{place.health}",
            "--leader-elect=false",
        ],
        ready=place.hook("/validate--v1-pod"),
    )


def _lws(place: Place) -> None:
    config = place.file(_own_certificates(place, "config.lws.x-k8s.io/v1alpha1"))
    place.run(
        "cmd",
        [
            f"--kubeconfig={place.member.kubeconfig}",
            f"--config={config}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{place.health}",
            "--leader-elect=false",
        ],
        ready=place.hook("/validate--v1-pod"),
    )


def _own_certificates(place: Place, group: str) -> Body:
    """The settings that jobset and lws have in common."""
    webhook = {"host": "127.0.0.1", "port": place.webhook, "certDir": str(place.certificates)}
    settings: Body = {"apiVersion": group, "kind": "Configuration", "webhook": webhook}
    settings["internalCertManagement"] = {"enable": False}
    settings["leaderElection"] = {"leaderElect": False}
    return settings


def _mpi(place: Place) -> None:
    """Leader election cannot be turned off, and the port of its health check is fixed: one of them runs on a machine at
    a time, and a second test run waits here for the first."""
    place.member.add_namespace("mpi-operator")
    claim_port(MPI_HEALTH)
    place.run(
        "mpi-operator",
        [
            f"--kubeConfig={place.member.kubeconfig}",
            "--lock-namespace=mpi-operator",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ],
        ready=f"http://127.0.0.1:{MPI_HEALTH}/healthz",
    )


def _kuberay(place: Place) -> None:
    """Beside the operator, what its Ray clusters would answer: no Ray runs in kwok's pods."""
    member = place.member
    dashboards = f"http://127.0.0.1:{place.webhook}"
    command = [sys.executable, "-m", "tests.testbed.operators.ray_dashboard", member.kubeconfig, place.webhook]
    member.run("ray-dashboards", command, {"PYTHONPATH": str(REPOSITORY)}, ready=dashboards)
    place.run(
        "ray-operator",
        [
            f"--kubeconfig={member.kubeconfig}",
            "--metrics-addr=0",
            "--enable-leader-election=false",
            f"--health-probe-bind-address=127.0.0.1:{place.health}",
            "--qps=500",
            "--burst=1000",
        ],
        environment={"HTTP_PROXY": dashboards},
        ready=f"http://127.0.0.1:{place.health}/readyz",
    )


def _trainer(place: Place) -> None:
    """Its certificates come from a Secret, and the place where it looks for them is fixed; what it serves lies under
    its own TMPDIR, as with the training operator."""
    member = place.member
    member.add_namespace("kubeflow-system")
    member.add_certificates("kubeflow-system", "kubeflow-trainer-webhook-cert", Path("/tmp"))
    place.run(
        "trainer-controller-manager",
        [
            f"--kubeconfig={member.kubeconfig}",
            f"--health-probe-bind-address=127.0.0.1:{place.health}",
            f"--webhook-server-port={place.webhook}",
        ],
        environment={"TMPDIR": str(member.folder)},
        ready=place.hook("/validate-trainer-kubeflow-org-v1alpha1-trainjob"),
    )


OPERATORS: dict[str, Callable[[Place], None]] = {
    "jobset": _jobset,
    "lws": _lws,
    "mpi": _mpi,
    "kuberay": _kuberay,
    "trainer": _trainer,
}
NEEDS = {"trainer": ("jobset",)}
RUNNERS = {"lws": ("statefulset-controller",)}  # of kube-controller-manager
REPLACED = {"mpi": ("mpijobs",)}  # kinds of the training operator with the same name
