"""Whether an attempt has run, and which bindings nothing owns."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.bindings.attemptwork import lost_in, ran
from fleet.bindings.faults import AttemptFault, fault_in, to_body
from fleet.bindings.ownerless import in_the_way, is_ownerless, let_go
from fleet.core.model.amounts import NOTHING
from fleet.core.model.pod import PodView
from fleet.values.ports import Body

WHOLE = {"type": "PodsReady", "status": "True"}


def binding(kind: str = "Job", api: str = "batch/v1", status: Body | None = None, *conditions: Body) -> Body:
    resource = {"apiVersion": api, "kind": kind, "name": "j", "namespace": "team", "uid": "u"}
    copies = [{"clusterName": "cfa", "status": status}] if status is not None else []
    return {
        "metadata": {
            "name": "j-job",
            "namespace": "team",
            "uid": "b",
            "annotations": {"fleet.io/attempt": "2"},
            "labels": {"fleet.io/job-uid": "u"},
            "ownerReferences": [{"uid": "u"}],
        },
        "spec": {"gang": True, "resource": resource, "clusters": [{"name": "cfa"}]},
        "status": {"aggregatedStatus": copies, "conditions": list(conditions)},
    }


def pod(**how: Any) -> PodView:
    said = {"member": "cfa", "attempt": 2, "node": "n1", "placeholder": False, **how}
    return PodView(
        namespace="team",
        name="p",
        uid="p",
        phase="Running",
        ready=True,
        terminating=False,
        binding="b",
        component="main",
        requests=NOTHING,
        **said,
    )


@pytest.mark.parametrize(
    ("found", "pods", "has_run"),
    [
        (binding(), [], False),
        (binding(status={"active": 1}), [], False),
        (binding(status={"active": 1, "ready": 1}), [], True),
        (binding("Job", "batch/v1", None, WHOLE), [], True),
        (binding(), [pod()], True),
        (binding(), [pod(node="")], False),
        (binding(), [pod(placeholder=True)], False),
        (binding(), [pod(attempt=1)], False),  # of the attempt before
        (binding(), [pod(member="cfb")], False),
        (binding("Deployment", "apps/v1", None, WHOLE), [pod()], False),  # has no end
        (binding("Unheard", "example.com/v1", None, WHOLE), [pod()], False),
        ({**binding("Job", "batch/v1", None, WHOLE), "spec": {}}, [pod()], False),
    ],
)
def test_an_attempt_has_run_when_its_status_its_whole_gang_or_a_pod_shows_it(
    found: Body, pods: list[PodView], has_run: bool
) -> None:
    assert ran(found, pods) is has_run


def test_a_loss_is_a_fault_of_the_infrastructure_and_is_kept_as_such() -> None:
    lost = AttemptFault(infrastructure=True, why="its copy is gone", lost=True)
    failed = binding("Job", "batch/v1", None, {"type": "Finished", "status": "True", "reason": "Failed"})
    failed["status"]["failure"] = to_body(lost)
    assert fault_in(failed) == lost == lost_in(failed)
    failed["status"]["failure"] = to_body(AttemptFault(infrastructure=True, why="its node is gone"))
    assert lost_in(failed) is None


def test_a_binding_without_an_owner_is_let_go_and_ownerless_once_it_is_marked() -> None:
    owned, orphan, other = binding(), binding(), binding()
    del orphan["metadata"]["ownerReferences"]
    other["metadata"] = {"name": "by-hand", "namespace": "team"}  # which the hub did not make
    assert [let_go(one) for one in (owned, orphan, other)] == [False, True, False]
    assert not is_ownerless(orphan)
    orphan["metadata"]["labels"]["fleet.io/ownerless"] = "true"
    assert is_ownerless(orphan)
    orphan["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not let_go(orphan) and not is_ownerless(orphan)


def test_the_commands_for_a_name_that_is_taken_can_be_pasted() -> None:
    orphan = binding()
    told = in_the_way(orphan)
    assert "is in cfa, without its job" in told
    assert "`kubectl annotate job.batch j -n team fleet.io/takes-over=true`" in told
    assert "`kubectl delete rb j-job -n team`" in told
