"""The MPI operator and its MPIJob v2beta1: a launcher, which ends the job, and two workers, which only wait for it."""

from __future__ import annotations

from tests.operators.cases import JobCases
from tests.operators.kinds import MPIJOB


class TestMPIJob(JobCases):
    operators = (MPIJOB.operator,)
    kind = MPIJOB
