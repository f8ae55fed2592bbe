"""A hub before one member with a gang scheduler, and the story that every gang scheduler passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.conftest import join
from tests.e2e.hub import Hub, Kubectl, World
from tests.e2e.jobs import Jobs
from tests.e2e.manifests import Manifest, gang_policy, leaf, pytorchjob, quota_tree
from tests.operators.jobs import PODS, Body, refused, stays
from tests.operators.kinds import Kind, prepare
from tests.testbed.bed import started_bed
from tests.testbed.member import RealMember
from tests.testbed.operators.build import objects


@contextmanager
def hub_before(
    folder: Path,
    scheduler: str,
    *annotations: str,
    operators: Sequence[str] = (),
    leaves: Sequence[Manifest] = (),
    options: Sequence[str] = (),
) -> Iterator[World]:
    """A hub with the member cfa, one node of 8 GPUs, under this scheduler of the bed. `annotations`: of its Cluster.
    The CRDs of `operators` are on the hub, too. `leaves` stand beside that of the namespace default.
    `options`: of the hub."""
    with started_bed(folder / "bed", ["cfa"], nodes=1, gpus=8, scheduler=scheduler, operators=operators) as bed:
        hub = Hub(folder / "hub", *options)
        hub.start()
        try:
            join(hub, "cfa", bed.members["cfa"].kubeconfig)
            kubectl = Kubectl(hub.kubeconfig)
            for annotation in annotations:
                kubectl.run("annotate", "cluster", "cfa", annotation)
            add_kinds(kubectl, crds(operators))
            kubectl.apply(quota_tree(leaf("team", "default"), *leaves))
            kubectl.apply(gang_policy(queue=True))
            yield World("real", hub, kubectl, ("cfa",), bed)
        finally:
            assert hub.stop() == 0, hub.log()


def add_kinds(kubectl: Kubectl, definitions: Sequence[Manifest]) -> None:
    """On the hub, where MPIJob's is already."""
    for definition in definitions:
        kubectl.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(definition))


def crds(operators: Sequence[str]) -> list[Manifest]:
    found = [body for name in operators for body in objects(name)]
    return [body for body in found if body["kind"] == "CustomResourceDefinition"]


def member_of(world: World) -> RealMember:
    assert world.bed is not None
    return world.bed.members["cfa"]


def pods(world: World, job: str) -> list[Body]:
    found = member_of(world).get(PODS)["items"]
    return [pod for pod in found if (pod["metadata"].get("labels") or {}).get("training.kubeflow.org/job-name") == job]


def bound(world: World, job: str) -> int:
    return sum(1 for pod in pods(world, job) if pod["spec"].get("nodeName"))


def starts_whole_when_there_is_room(world: World, meanwhile: Callable[[list[Body]], None] = lambda _: None) -> None:
    """The hub knows nothing of host ports: it sends three pods of one port to a member with one node. `meanwhile` looks
    at the pods while the gang waits."""
    port = {"container": {"ports": [{"name": "rendezvous", "containerPort": 2222, "hostPort": 2222}]}}
    world.kubectl.apply(pytorchjob("ports", pod=port))
    world.until("its pods are in the member", lambda: len(pods(world, "ports")) == 3)
    world.until("the scheduler has tried", lambda: all(map(refused, pods(world, "ports"))))
    meanwhile(pods(world, "ports"))
    stays("no part of the gang starts", lambda: bound(world, "ports") == 0)
    member_of(world).add_nodes(2, gpus=8, prefix="late")
    world.until("the whole gang has nodes", lambda: bound(world, "ports") == 3)
    world.until("the job runs", lambda: world.state("ports", "default") == "Running")
    world.kubectl.run("delete", "pytorchjob", "ports")
    world.until("nothing of it is left", lambda: not pods(world, "ports"))


class RealJobs(Jobs):
    """The jobs of a kind, and its controller's word on them."""

    def __init__(self, world: World, kind: Kind) -> None:
        super().__init__(world, kind, kind.kind.lower())
        self.kind = kind

    def submit(self, name: str, *, run_for: str = "", exit_code: int = 0) -> None:
        prepare(self.kind, member_of(self.world), name, run_for, exit_code)
        super().submit(name, run_for=run_for, exit_code=exit_code)

    def until(self, name: str, phase: str) -> None:
        self.world.until(f"the unit of {name} is {phase}", lambda: self.phase(name) == phase)

    def status(self, name: str) -> Body:
        status: Body = self.world.kubectl.get(self.resource, name, "-n", self.namespace).get("status", {})
        return status

    def copy(self, name: str) -> Body:
        path = self.kind.path.replace("/default/", f"/{self.namespace}/")
        return member_of(self.world).get(f"{path}/{name}")

    def pods(self) -> dict[str, str]:
        """The phases of all pods in the member, by name."""
        found = member_of(self.world).get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in found}

    def mirrored(self, name: str) -> bool:
        """Whether the hub shows all that the controller says."""
        shown, said = self.status(name), dict(self.copy(name).get("status", {}))
        conditions = said.pop("conditions", [])
        same = {key: shown.get(key) for key in said} == said
        return same and all(one in shown.get("conditions", []) for one in conditions)

    def leave_nothing(self) -> None:
        self.world.until("nothing is left in the member", lambda: not self.in_members())
        assert self.on_hub() == []
