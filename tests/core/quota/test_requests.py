"""The charge of units, with a memory."""

from __future__ import annotations

from fleet.core.quota.requests import Requests
from fleet.core.quota.usage import request_of
from tests.builders import unit


def test_gangs_alike_are_charged_the_same_and_computed_once() -> None:
    requests = Requests()
    first, second = unit("a").gang(2, gpu=4, cpu=1).value, unit("b").gang(2, gpu=4, cpu=1).value
    assert requests.of(first) == request_of(first)
    assert requests.of(second) is requests.of(first)


def test_work_that_may_not_be_preempted_is_charged_more() -> None:
    requests = Requests()
    first, firm = unit("a").gpus(8).value, unit("b").gpus(8).having(preemptible=False).value
    assert requests.of(firm) == request_of(firm)
    assert requests.of(firm) != requests.of(first)


def test_another_gang_is_charged_its_own() -> None:
    requests = Requests()
    assert requests.of(unit("a").gpus(8).value) != requests.of(unit("b").gpus(4).value)
