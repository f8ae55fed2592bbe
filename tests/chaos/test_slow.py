"""A database that hangs for some seconds: everybody waits, nobody is lost, and nothing happens twice."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.chaos.client import ALL_JOBS, BINDINGS, JOBS, POLICIES, TREES, Client
from tests.chaos.parts import process_of
from tests.chaos.witness import Witness
from tests.chaos.work import Copies, delete_all, expect_all, namespace_of, states
from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree

pytestmark = pytest.mark.xdist_group("chaos")

HANGS_S = 5.0


def test_a_database_that_hangs_delays_work_and_loses_none(shared: World) -> None:
    client = Client(shared.hub.kubeconfig, timeout_s=60)
    client.post("/api/v1/namespaces", namespace_of("slow"))
    client.post(POLICIES.format("slow"), gang_policy(queue=True))
    client.post(TREES, quota_tree(leaf("slow", "slow")))
    witnesses = [Witness(shared.hub.kubeconfig, path) for path in (ALL_JOBS, BINDINGS)]
    for witness in witnesses:
        witness.start()
    copies = Copies(shared)
    copies.start()
    controllers = process_of(shared.hub.folder, "controllers")
    assert controllers is not None
    names = [f"slow/job-{number}" for number in range(12)]

    def submit(number: int) -> None:
        own = Client(shared.hub.kubeconfig, timeout_s=60)
        own.post(JOBS.format("slow"), pytorchjob(f"job-{number}", workers=1, run_for="1s"))
        own.close()

    postmaster = process_of(shared.hub.folder, "postgres")
    assert postmaster is not None
    with ThreadPoolExecutor(4) as threads:
        begun = [threads.submit(submit, number) for number in range(4)]
        stopped = [postmaster, *postmaster.children()]
        for process in stopped:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGSTOP)
        try:
            begun += [threads.submit(submit, number) for number in range(4, 12)]
            time.sleep(HANGS_S)  # the fault itself: how long it hangs
        finally:
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGCONT)
        for one in begun:
            one.result(60)  # each create was answered, and with 201
    expect_all(shared, client, names, "Succeeded")
    copies.stop()
    assert copies.double == []
    assert {name: len(uids) for name, uids in copies.ever.items() if len(uids) > 1} == {}
    for witness in witnesses:
        witness.judge()
    still = process_of(shared.hub.folder, "controllers")
    assert still is not None and still.pid == controllers.pid, "the leader gave up for a hang that it should outlast"
    delete_all(shared, client)
    assert states(client) == {}
    client.delete(f"{TREES}/elasticquotatree")
    client.delete("/api/v1/namespaces/slow")
