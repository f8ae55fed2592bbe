"""Koordinator's scheduler as a member's only one: gangs of pods, and room that Reservations hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operators.jobs import PODS, Body, bound, pod_template, pods_of, post_pod, refused, soon, stays
from tests.testbed.bed import started_bed
from tests.testbed.member import RealMember

GANG = "gang.scheduling.koordinator.sh"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
TAKEN = "scheduling.koordinator.sh/reservation-allocated"
PYTORCHJOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMember]:
    with started_bed(tmp_path_factory.mktemp("bed"), ["cfa"], nodes=0, scheduler="koordinator") as bed:
        yield bed.members["cfa"]


def test_a_gang_without_room_stays_out_whole_and_starts_whole_when_room_comes(member: RealMember) -> None:
    node = _node(member, "gang")
    post_pod(member, "filler", pod_template(1, node=node))
    soon("the filler runs", lambda: _phase(member, "filler") == "Running")
    for number in range(4):
        post_pod(
            member,
            f"gang-{number}",
            pod_template(
                1,
                node=node,
                labels={"gang": "a"},
                annotations=_gang("gang-a", 4),
            ),
        )
    soon("the scheduler has tried", lambda: all(map(refused, pods_of(member, "gang=a"))))
    stays("no pod of a gang of 4 has room for 3", lambda: bound(member, "gang=a") == 0)
    member.delete(f"{PODS}/filler")
    soon("the whole gang has nodes", lambda: bound(member, "gang=a") == 4)


def test_pods_without_the_annotations_start_one_by_one(member: RealMember) -> None:
    node = _node(member, "single")
    for number in range(5):
        post_pod(member, f"single-{number}", pod_template(1, node=node, labels={"single": "a"}))
    soon("as many as there is room for", lambda: bound(member, "single=a") == 4)


def test_a_reservation_keeps_its_room_from_a_rival_and_gives_it_to_its_owner(member: RealMember) -> None:
    node = _node(member, "kept")
    member.post(RESERVATIONS, _reservation("kept", pod_template(3, node=node), {"owner": "kept"}))
    soon("the reservation has a node", lambda: _available(member, "kept"))
    post_pod(member, "rival", pod_template(2, node=node, labels={"rival": "a"}))
    soon("the scheduler has tried the rival", lambda: all(map(refused, pods_of(member, "rival=a"))))
    post_pod(member, "owner", pod_template(3, node=node, labels={"owner": "kept"}))
    owner = soon("the owner runs", lambda: _phase(member, "owner") == "Running" and member.get(f"{PODS}/owner"))
    assert '"name":"kept"' in owner["metadata"]["annotations"][TAKEN]
    used = soon("the reservation ends", lambda: _with_phase(member, "kept", "Succeeded"))
    assert [owner["name"] for owner in used["status"]["currentOwners"]] == ["owner"]
    stays("the rival waits on", lambda: bound(member, "rival=a") == 0)


def test_a_gang_of_reservations_is_available_whole_and_a_training_job_runs_on_it(member: RealMember) -> None:
    node = _node(member, "held")
    post_pod(member, "tenant", pod_template(2, node=node))
    soon("the tenant runs", lambda: _phase(member, "tenant") == "Running")
    names = [f"held-{number}" for number in range(3)]
    for name in names:
        template = pod_template(1, node=node, annotations=_gang("held", 3))
        member.post(RESERVATIONS, _reservation(name, template, {"owner": "held"}))
    stays("no reservation of a gang of 3 has room for 2", lambda: not any(_available(member, name) for name in names))
    member.delete(f"{PODS}/tenant")
    soon("all have nodes", lambda: all(_available(member, name) for name in names))
    post_pod(member, "stranger", pod_template(2, node=node, labels={"stranger": "a"}))
    soon("the scheduler has tried the stranger", lambda: all(map(refused, pods_of(member, "stranger=a"))))
    member.post(PYTORCHJOBS, _training("held", pod_template(1, name="pytorch", node=node, labels={"owner": "held"})))
    soon("the job has its three pods", lambda: bound(member, "owner=held") == 3)
    taken = [pod["metadata"]["annotations"].get(TAKEN, "") for pod in pods_of(member, "owner=held")]
    assert sorted(name for name in names if any(f'"name":"{name}"' in entry for entry in taken)) == names
    stays("the stranger waits on", lambda: bound(member, "stranger=a") == 0)


def _node(member: RealMember, prefix: str) -> str:
    """A node of 4 GPUs that only one test uses."""
    member.add_nodes(1, gpus=4, prefix=prefix)
    member.wait_ready(1)
    return f"{prefix}-0"


def _gang(name: str, count: int) -> dict[str, str]:
    return {f"{GANG}/name": name, f"{GANG}/min-available": str(count)}


def _reservation(name: str, template: Body, owner: dict[str, str]) -> Body:
    owners = [{"labelSelector": {"matchLabels": owner}}]
    spec = {"template": template, "owners": owners, "ttl": "1h", "allocateOnce": True}
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def _training(name: str, template: Body) -> Body:
    replicas = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
    kind = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    return {**kind, "metadata": {"name": name}, "spec": {"pytorchReplicaSpecs": replicas}}


def _phase(member: RealMember, pod: str) -> str:
    phase: str = member.get(f"{PODS}/{pod}")["status"].get("phase", "")
    return phase


def _with_phase(member: RealMember, name: str, phase: str) -> Body | None:
    body = member.get(f"{RESERVATIONS}/{name}")
    return body if body.get("status", {}).get("phase") == phase else None


def _available(member: RealMember, name: str) -> bool:
    return _with_phase(member, name, "Available") is not None
