"""The JobSet controller: a leader and two groups of two workers."""

from __future__ import annotations

from tests.operators.cases import JobCases
from tests.operators.kinds import JOBSET


class TestJobSet(JobCases):
    operators = (JOBSET.operator,)
    kind = JOBSET
