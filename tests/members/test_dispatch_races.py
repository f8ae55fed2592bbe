"""What happens to an object in a member between the look at it and the write."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fleet.members.connection import HttpAnswer
from fleet.members.discovery import ServedResource
from fleet.members.dispatch import Dispatcher
from fleet.members.members import ActResult
from fleet.values.ports import Body
from tests.members.builders import ours, pytorch_job

JOBS = ServedResource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", True, frozenset({"list", "watch"}))


class Changing:
    """A connection with a member where the object has changed since it was seen, once."""

    def __init__(self, there: Body) -> None:
        self.there = there
        self.sent: list[Body] = []

    async def request(self, method: str, path: str, **how: Any) -> HttpAnswer:
        if method == "GET":
            return HttpAnswer(200, copy.deepcopy(self.there))
        body = how["body"]
        if body["metadata"]["resourceVersion"] != self.there["metadata"]["resourceVersion"]:
            return HttpAnswer(409, {"message": "the object has been modified"})
        self.sent.append(body)
        return HttpAnswer(200, {**body, "metadata": {**body["metadata"], "uid": "u"}})


def stored(workers: int, revision: str) -> Body:
    body = pytorch_job(ours("default", "train"), workers=workers)
    body["metadata"] |= {"uid": "u", "resourceVersion": revision}
    return body


@pytest.mark.parametrize(("workers", "did"), [(2, ActResult.DONE), (5, ActResult.UNREACHABLE)])
async def test_a_number_of_pods_that_changed_meanwhile_is_not_overwritten(workers: int, did: ActResult) -> None:
    connection = Changing(stored(workers, "8"))
    dispatcher = Dispatcher(connection)  # type: ignore[arg-type]
    wanted = pytorch_job(ours("default", "train"), workers=2)
    outcome = await dispatcher.apply(JOBS, wanted, stored(2, "7"), overwrite=False)
    assert outcome.did is did and len(connection.sent) == (did is ActResult.DONE)
    if did is ActResult.UNREACHABLE:
        assert outcome.message == "the number of pods of PyTorchJob train changed meanwhile"
