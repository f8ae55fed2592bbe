"""kill -9 of one process after the other, while jobs are submitted, placed and finished."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.chaos.client import ALL_JOBS, BINDINGS, JOBS, POLICIES, UNITS, Client, Refused
from tests.chaos.conftest import StartHub
from tests.chaos.parts import all_of, hit, process_of, wait_gone
from tests.chaos.witness import Witness
from tests.chaos.work import COPIES, Copies, Submitter, delete_all, expect_all, name_of, set_up, short_jobs, states
from tests.e2e.hub import Hub
from tests.e2e.manifests import gang_policy, leaf, pytorchjob

pytestmark = pytest.mark.xdist_group("chaos")

ROUNDS = ("controllers", "api", "postgres", "controllers")


@pytest.mark.slow  # test_harness.py kills each of them as well
def test_thirty_jobs_run_once_each_while_every_process_of_the_hub_is_killed(start_hub: StartHub) -> None:
    world = start_hub()
    data, kubeconfig = world.hub.folder, world.hub.kubeconfig
    client = Client(kubeconfig)
    set_up(client, leaf("a", "a", **{"kube-queue/max-jobs": 4}), leaf("b", "b", **{"nvidia.com/gpu": 10}))
    witnesses = [Witness(kubeconfig, path) for path in (ALL_JOBS, BINDINGS, UNITS)]
    for witness in witnesses:
        witness.start()
    copies = Copies(world)
    copies.start()
    submitter = Submitter(world, short_jobs(("a", "b"), 30), every_s=0.15)
    submitter.start()
    killed = []
    for part in ROUNDS:
        done = len(submitter.acknowledged)
        world.until("more jobs are submitted", lambda done=done: len(submitter.acknowledged) >= min(30, done + 4))
        killed.append((part, hit(data, part)))
    submitter.wait()
    assert len(submitter.acknowledged) == 30
    expect_all(world, client, submitter.acknowledged, "Succeeded")
    copies.stop()
    assert copies.looks > 5
    assert copies.double == []
    assert {name: len(uids) for name, uids in copies.ever.items() if len(uids) > 1} == {}
    for part, pid in killed:

        def again(part: str = part, pid: int = pid) -> bool:
            process = process_of(data, part)
            return process is not None and process.pid != pid

        world.until(f"{part} was started again", again)
    for witness in witnesses:
        witness.judge()
    assert any(witness.resumed > 1 for witness in witnesses), "the watches were never cut: the test shows nothing"
    delete_all(world, client)
    assert states(client) == {}
    assert world.hub.stop() == 0, world.hub.log()


def forget(objects: Path) -> None:
    """A simulated member can neither read nor write its file: it begins empty."""
    while not objects.is_dir():
        objects.unlink(missing_ok=True)
        with suppress(FileExistsError):  # it was written in between
            objects.mkdir()


def test_a_member_that_comes_back_empty_runs_work_again_by_failover_alone(start_hub: StartHub) -> None:
    """A member that lost everything is a member whose copies are gone: what ran is lost, and starts anew where its
    policy has failover. What is over stays over."""
    world = start_hub("--members", "1", members=("cfa",))
    client = Client(world.hub.kubeconfig)
    set_up(client, leaf("a", "a"), leaf("b", "b"))
    client.delete(f"{POLICIES.format('a')}/gang")
    client.post(POLICIES.format("a"), gang_policy(queue=True, toleration_s=1))
    client.post(JOBS.format("a"), pytorchjob("over", workers=1, run_for="1s"))
    client.post(JOBS.format("a"), pytorchjob("runs", workers=1))
    client.post(JOBS.format("b"), pytorchjob("lost", workers=1))
    expect_all(world, client, ["a/over"], "Succeeded")
    expect_all(world, client, ["a/runs", "b/lost"], "Running")
    old = {name_of(body): body["metadata"]["uid"] for body in client.in_member("cfa", COPIES)}
    assert set(old) == {"a/over", "a/runs", "b/lost"}
    forget(world.hub.folder / "members" / "cfa.objects")
    hit(world.hub.folder, "sim")

    def copies() -> dict[str, str]:
        try:
            return {name_of(body): body["metadata"]["uid"] for body in client.in_member("cfa", COPIES)}
        except Refused:
            return {}

    world.until("the running job is sent again", lambda: copies().get("a/runs") not in (None, old["a/runs"]))
    world.until("it runs", lambda: states(client).get("a/runs") == "Running")
    assert set(copies()) == {"a/runs"}
    assert states(client)["a/over"] == "Succeeded"
    assert states(client)["b/lost"] == "Failed"
    delete_all(world, client)


def test_a_hub_killed_whole_goes_on_where_it_was(start_hub: StartHub) -> None:
    """kill -9 of every process at once, PostgreSQL's included; then `fleet up` again on the same directory. Its
    simulated members come back some seconds older, so what began since is lost there, and starts anew by its policy."""
    world = start_hub("--members", "2", members=("cfa", "cfb"))
    data = world.hub.folder
    client = Client(world.hub.kubeconfig)
    set_up(client, leaf("a", "a", **{"kube-queue/max-jobs": 2}), policy=gang_policy(queue=True, toleration_s=1))
    submitter = Submitter(world, short_jobs(("a",), 8, run_for="2s"), every_s=0.1)
    submitter.start()
    world.until("some are submitted", lambda: len(submitter.acknowledged) >= 5)
    acknowledged = list(submitter.acknowledged)
    processes = all_of(data)
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it went with one that was killed before it
            process.kill()
    wait_gone(processes)
    world.hub.start()
    client = Client(world.hub.kubeconfig)
    found = states(client)
    assert set(acknowledged) <= set(found), "an acknowledged create is lost (I4)"
    submitter.stop()
    expect_all(world, client, acknowledged, "Succeeded")
    again = Hub(data, "--members", "2")
    with pytest.raises(AssertionError, match=r"in use|already|uses"):
        again.start()
    assert states(client), "the second start on one directory must not hurt the first"
    delete_all(world, client)
    assert world.hub.stop() == 0, world.hub.log()
