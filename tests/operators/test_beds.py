"""Members with different parts in one bed, and what a bed refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.bed import started_bed
from tests.testbed.operators.controllers import OPERATORS


def test_one_member_runs_all_controllers_beside_one_with_another_scheduler_and_none(tmp_path: Path) -> None:
    parts = {"cfa": tuple(OPERATORS)}
    with started_bed(tmp_path / "bed", ["cfa", "cfb"], operators=parts, scheduler={"cfb": "koordinator"}) as bed:
        groups = [{group["name"] for group in bed.members[name].get("/apis")["groups"]} for name in ("cfa", "cfb")]
        assert bed.processes.ended() == []
    added = {"jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "ray.io", "trainer.kubeflow.org"}
    assert groups[0] >= added and not groups[1] & added
    assert "scheduling.koordinator.sh" in groups[1] - groups[0]


@pytest.mark.parametrize(
    ("parts", "refusal"),
    [
        ({"cfa": ("mpi",), "cfb": ("mpi",)}, "only one member can run the MPI operator"),
        (("argo",), "no operator argo"),
    ],
)
def test_a_bed_that_cannot_run_is_refused_before_it_starts(
    tmp_path: Path, parts: dict[str, tuple[str, ...]] | tuple[str, ...], refusal: str
) -> None:
    with pytest.raises(ValueError, match=refusal), started_bed(tmp_path / "bed", ["cfa", "cfb"], operators=parts):
        pass
    assert not (tmp_path / "bed").exists()
