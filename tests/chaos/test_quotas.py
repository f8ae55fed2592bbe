"""Two hundred jobs at once under a tree of limits: at no moment is a node of it above its max (I3), and all finish."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.books import GPU, JOBS_MAX, Bookkeeper
from tests.chaos.client import BINDINGS, JOBS, POLICIES, TREES, Body, Client
from tests.chaos.witness import Witness
from tests.chaos.work import delete_all, expect_all, namespace_of
from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree

pytestmark = pytest.mark.xdist_group("chaos")

LIMITS: dict[str, dict[str, int]] = {  # by the last name of a node's path
    "research": {GPU: 24},
    "q0": {JOBS_MAX: 6},
    "q1": {GPU: 14},
    "q2": {GPU: 9, JOBS_MAX: 8},
    "q3": {JOBS_MAX: 7},
}
ABOVE = {"q0": ["q0", "research"], "q1": ["q1", "research"], "q2": ["q2"], "q3": ["q3"]}
COUNT = 200


def limited(name: str, *namespaces: str, **children: Any) -> Body:
    return {**leaf(name, *namespaces, **LIMITS[name]), **children}


@pytest.mark.slow  # test_harness.py judges I3 as well, with fewer jobs
def test_two_hundred_jobs_never_exceed_a_quota_and_all_finish(shared: World) -> None:
    client = Client(shared.hub.kubeconfig, timeout_s=30)
    for namespace in ABOVE:
        client.post("/api/v1/namespaces", namespace_of(namespace))
        client.post(POLICIES.format(namespace), gang_policy(queue=True))
    research = limited("research", children=[limited("q0", "q0"), limited("q1", "q1")])
    del research["namespaces"]
    client.post(TREES, quota_tree(research, limited("q2", "q2"), limited("q3", "q3")))
    books = Bookkeeper(LIMITS, ABOVE)
    witness = Witness(shared.hub.kubeconfig, BINDINGS, books.see)
    witness.start()
    names = []
    for number in range(COUNT):
        namespace, name = f"q{number % 4}", f"job-{number:03}"
        job = pytorchjob(name, workers=number % 3, gpus=1 + number % 2, run_for=f"{200 + number % 5 * 100}ms")
        client.post(JOBS.format(namespace), job)
        names.append(f"{namespace}/{name}")
    expect_all(shared, client, names, "Succeeded", 120)
    witness.judge()
    assert books.above == []
    for node, limits in LIMITS.items():  # each limit was the one that held somebody back, so it was really tried
        assert any(books.most[node, resource] >= limit - 4 for resource, limit in limits.items()), (node, books.most)
    delete_all(shared, client)
    client.delete(f"{TREES}/elasticquotatree")
    for namespace in ABOVE:
        client.delete(f"/api/v1/namespaces/{namespace}")
