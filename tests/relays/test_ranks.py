"""The ranks of a job's pods: those that they have when all pods are there."""

from __future__ import annotations

from typing import Any

from fleet.relays.joblog import _ranked
from fleet.relays.jobpods import pod_records
from fleet.relays.pods import MemberPod
from fleet.values.ports import Key

INDEX = "training.kubeflow.org/replica-index"
BINDING = {"spec": {"components": [{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 3}]}}


def found(name: str, index: int | None = None, created: str = "2026-01-01T00:00:00Z") -> MemberPod:
    labels = {} if index is None else {INDEX: str(index)}
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "labels": labels, "creationTimestamp": created}
    return MemberPod("cfa", "default", name, {"metadata": metadata}, Key("", "", "", ""), "binding")


def ranks(*workers: MemberPod, masters: tuple[MemberPod, ...] = ()) -> list[tuple[str, int]]:
    return [(one.hub_pod.name, one.rank) for one in _ranked({"master": [*masters], "worker": [*workers]}, BINDING)]


def test_a_worker_keeps_its_rank_while_others_are_missing() -> None:
    assert ranks(found("w-2", 2), found("w-0", 0)) == [("w-0", 1), ("w-2", 3)]
    assert ranks(found("w-1", 1), masters=(found("m-0", 0),)) == [("m-0", 0), ("w-1", 2)]


def test_of_two_pods_with_one_index_the_newest_comes_first() -> None:
    pods = found("old", 1), found("new", 1, "2026-01-02T00:00:00Z"), found("w-0", 0)
    assert ranks(*pods) == [("w-0", 1), ("new", 2), ("old", 2)]


def test_pods_without_indexes_are_ranked_by_name() -> None:
    assert ranks(found("w-10"), found("w-9")) == [("w-9", 1), ("w-10", 2)]


def test_the_list_tells_a_pod_from_one_of_before_with_the_same_name() -> None:
    [item] = pod_records(_ranked({"worker": [found("w-0", 0)]}, BINDING), {})
    assert (item["name"], item["uid"], item["rank"]) == ("w-0", "uid-w-0", 0)
