"""Failing nodes and idle kinds, as `fleet doctor` and `fleet clusters` name them."""

from __future__ import annotations

from typing import Any

from fleet.bindings.finding import Finding
from fleet.bindings.idle import AVOIDED_S, avoid, settle
from fleet.cli.clusters import record
from fleet.cli.doctor_members import failing_nodes, idle_kinds
from fleet.values.ports import Body

ENTRY = {"name": "n7", "failures": 3, "jobs": 2, "until": "2026-11-23T04:00:00Z"}


def cluster(*avoided: dict[str, Any]) -> Body:
    ready = {"type": "Ready", "status": "True", "reason": "ClusterReady"}
    status: Body = {"conditions": [ready], **({"avoidedNodes": list(avoided)} if avoided else {})}
    return {"metadata": {"name": "cfa"}, "spec": {}, "status": status}


class Told:
    """A hub that has these Clusters."""

    def __init__(self, *clusters: Body) -> None:
        self.clusters = list(clusters)


def findings(*clusters: Body) -> list[Finding]:
    return list(failing_nodes(Told(*clusters)))  # type: ignore[arg-type]


def test_the_doctor_names_the_node_its_member_and_the_remedy() -> None:
    (found,) = findings(cluster(ENTRY), cluster())
    assert (found.check, found.kind, found.name) == ("failing-node", "Cluster", "cfa")
    assert found.why == "node n7: 3 failures of 2 jobs, avoided until 2026-11-23T04:00:00Z"
    assert "kubectl cordon n7" in found.what_to_do


def test_the_list_of_members_says_which_nodes_are_avoided() -> None:
    assert record(cluster())["message"] == ""
    assert record(cluster(ENTRY))["message"] == "avoids n7"
    many = [{**ENTRY, "name": f"n{number}"} for number in range(5)]
    assert record(cluster(*many))["message"] == "avoids n0, n1, n2, …"


def test_a_kind_that_nobody_acts_on_is_named_with_its_remedy_until_its_time_is_over() -> None:
    idle = cluster()
    assert avoid(idle, "example.com/Widget", 1000.0)
    (found,) = idle_kinds(Told(idle))  # type: ignore[arg-type]
    assert (found.check, found.name) == ("idle-kind", "cfa")
    assert "kept from it until 1970-01-01T00:26:40Z" in found.why
    assert found.what_to_do == "start the controller of example.com/Widget in cfa"
    assert record(idle)["message"] == "avoids example.com/Widget"
    assert not settle(idle, 1000.0 + AVOIDED_S - 1)
    assert settle(idle, 1000.0 + AVOIDED_S + 1)
    assert idle["status"]["conditions"] == cluster()["status"]["conditions"]
    assert record(idle)["message"] == ""
