"""Whose fault a failed job is: the table of signs, and the gang of which one pod shows one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.bindings.faults import TABLE, AttemptFault, fault_in, fault_of, to_body
from fleet.core.model.amounts import NOTHING
from fleet.core.model.pod import PodView

FAILED = PodView("cfa", "ns", "one-worker-0", "u0", "n0", "Failed", False, False, "b", "worker", 1, NOTHING)


def pod(**fields: Any) -> PodView:
    return replace(FAILED, **fields)


def of(*pods: PodView, broken: str = "") -> AttemptFault:
    return fault_of(pods, lambda pod: pod.node != broken)


def shown(sign: str, value: str) -> AttemptFault:
    """The fault of a job whose only pod shows this entry of the table."""
    if sign == "condition DisruptionTarget":
        return of(pod(disruption="DeletionByPodGC", exits=((143, "Error"),)))
    if sign == "node":
        return of(pod(), broken="n0")
    if sign == "container reason":
        return of(pod(exits=((137, value),)))
    if sign == "exit code":
        return of(*(pod(name=f"p{code}", exits=((code, "Error"),)) for code in (1, 2, 137, 143)))
    if value == "Evicted, over its own limit":
        used = "Evicted; Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."
        return of(pod(failed_with="Evicted", reason=used))
    reason = value.replace("…", "cpu")
    return of(pod(failed_with=reason, reason=f"{reason}; The node was low on resource: memory."))


@pytest.mark.parametrize(("sign", "value", "theirs"), [pytest.param(*e[:3], id=f"{e[0]}: {e[1]}") for e in TABLE])
def test_each_entry_of_the_table_decides(sign: str, value: str, theirs: bool) -> None:
    fault = shown(sign, value)
    assert (fault.infrastructure, fault.nodes) == (theirs, ("n0",) if theirs else ())


def test_one_pod_of_a_dead_node_speaks_for_the_gang_that_failed_with_it() -> None:
    others = [pod(name=f"one-worker-{n}", node=f"n{n}", exits=((1, "Error"),)) for n in (1, 2)]
    fault = of(*others, pod(phase="Running"), broken="n0")
    assert fault == AttemptFault(True, "one-worker-0: node n0 is not ready or gone", ("n0",))


def test_a_pod_that_succeeded_on_a_node_that_is_gone_since_says_nothing() -> None:
    assert of(pod(phase="Succeeded"), pod(name="p", node="n1", exits=((1, "Error"),)), broken="n0") == AttemptFault()


def test_a_job_without_pods_failed_by_itself() -> None:
    assert of() == AttemptFault()


def test_a_fault_stands_in_the_status_of_its_binding() -> None:
    fault = AttemptFault(True, "p: NodeLost", ("n0",), final=True)
    assert fault_in({"status": {"failure": to_body(fault)}}) == fault
    assert fault_in({"status": {}}) is None
