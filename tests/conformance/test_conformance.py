"""Kubernetes' own end-to-end tests on the hub, the quick ones; all of them are `make conformance`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.lists import exceptions, passing, quick
from tests.conformance.servers import started_hub
from tests.conformance.suite import PASSED, run_specs_twice
from tests.conformance.table import PAGE, written

pytestmark = pytest.mark.xdist_group("conformance")
LIMIT_S = 120.0  # for one spec of at most five seconds: a busy machine takes long


@pytest.mark.timeout(900)
def test_the_quick_specs_pass_on_the_hub(tmp_path: Path) -> None:
    names = quick()
    with started_hub(tmp_path) as kubeconfig:
        outcomes = run_specs_twice(kubeconfig, names, tmp_path / "suite", limit_s=lambda _: LIMIT_S)
    failed = [f"{one.state}: {name}: {one.reason}" for name, one in outcomes.items() if one.state != PASSED]
    assert outcomes.keys() == set(names) and not failed, "\n".join(failed)


def test_every_exception_passes_on_a_kube_apiserver() -> None:
    left_out = exceptions()
    assert {*left_out.apart, *left_out.others} <= passing().keys()
    assert not left_out.apart.keys() & left_out.others.keys()


def test_the_page_says_how_many_pass_and_what_is_excepted() -> None:
    page = PAGE.read_text()
    assert page == written(page), "run: python -m tests.conformance.table"
