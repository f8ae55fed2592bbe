"""Names of jobs that nobody named."""

from __future__ import annotations

import pytest

from fleet.submission.names import stem


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 0.1", "train"),
        ("torchrun --nproc-per-node 8 src/Fine_Tune.py", "fine-tune"),
        ("python -m pkg.train.main", "main"),
        ("bash", "bash"),
        ("./run.sh", "run"),
        ("/usr/bin/env", "env"),
        ("9to5.py", "to5"),
        ("...", "job"),
        ("", "job"),
        (f"{'a' * 40}.py", "a" * 30),
    ],
)
def test_a_job_is_named_after_what_it_runs(command: str, name: str) -> None:
    assert stem(command.split()) == name
