"""`fleet move` on a real hub with simulated members."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.amc.client import ServerAnswer
from fleet.cli.hub import HubClient
from fleet.cli.move import _why_not_now
from fleet.core.notation.codec import encode_snapshot
from tests.builders import NOW, Taint, member, snapshot, unit
from tests.cli.hub import Up, fleet, place, refusal, until
from tests.cli.manifests import FIXED, QUOTA, job, policy, written


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`one` and `fixed` fill cfa, with nodes of 8 GPUs. cfb is cordoned, and their policy excludes cfc."""
    folder = tmp_path_factory.mktemp("move")
    running = Up(folder / "hub", "--members", "3", "--nodes", "2")
    try:
        assert run(running, "cordon", "cfb").returncode == 0
        excluding = policy(clusterAffinity={"exclude": ["cfc"]})
        file = written(folder / "jobs.yaml", QUOTA, excluding, job("one"), job("fixed", **FIXED))
        assert run(running, "submit", file).returncode == 0
        for name in ("one", "fixed"):
            until(f"{name} runs", lambda name=name: place(running, name) == ("Running", "cfa"))
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def run(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    return fleet(*words, "--data-dir", str(up.folder))


def test_a_job_moves_where_it_may_and_where_there_is_room(up: Up, tmp_path: Path) -> None:
    for words, why in (
        (("one", "--to", "cfx"), 'no member "cfx"; did you mean cf'),
        (("one", "--to", "cfc"), "default/one may not go to cfc: its policy excludes that member"),
        (("one", "--to", "cfb"), "default/one may not go to cfb: the member is cordoned, and its policy does not"),
        (("none", "--to", "cfb"), 'no job "none" in namespace default'),
        (("one", "--to", "cfb", "--kind", "tfjob"), 'no job "tfjob/one"'),
    ):
        assert why in refusal(run(up, "move", *words))
    assert run(up, "move", "one", "--to", "cfa").stdout == "default/one is in cfa\n"
    assert run(up, "uncordon", "cfb").returncode == 0

    dry = run(up, "move", "one", "--to", "cfb", "--dry-run")
    assert (dry.returncode, dry.stdout) == (0, "default/one leaves cfa for cfb\n"), dry.stderr
    assert place(up, "one") == ("Running", "cfa")
    done = run(up, "move", "pytorchjob/one", "--to", "cfb")
    assert (done.returncode, done.stdout) == (0, "default/one is in cfb\n"), done.stderr
    assert done.stderr.startswith("default/one leaves cfa for cfb\n")
    until("it runs there", lambda: place(up, "one") == ("Running", "cfb"))

    stays = refusal(run(up, "move", "fixed", "--to", "cfb"))
    assert stays == "fleet: default/fixed stays in cfa: it is not preemptible (--force moves it)"
    forced = run(up, "move", "fixed", "--to", "cfb", "--force", "--no-wait")
    assert (forced.returncode, forced.stdout) == (0, ""), forced.stderr
    until("it runs there", lambda: place(up, "fixed") == ("Running", "cfb"))

    # cfb is full now: nothing is stopped for a place that it does not get, unless a person wants that.
    assert run(up, "submit", written(tmp_path / "more.yaml", job("third"))).returncode == 0
    until("the third runs", lambda: place(up, "third") == ("Running", "cfa"))
    until("it is known", lambda: "would not start in cfb now" in run(up, "move", "third", "--to", "cfb").stderr)
    assert place(up, "third") == ("Running", "cfa")
    waits = run(up, "move", "third", "--to", "cfb", "--wait-for-room", "--timeout", "5")
    assert waits.returncode == 124 and "is not in cfb after 5 s: waits: " in waits.stderr, waits.stderr
    assert place(up, "third")[0] == "Queued"
    assert run(up, "delete", "pytorchjob/one").returncode == 0
    until("it starts there", lambda: place(up, "third") == ("Running", "cfb"))

    body = written(tmp_path / "large.yaml", job("large", 16))
    assert run(up, "submit", body).returncode == 0
    until("it waits", lambda: bool(json.loads(run(up, "jobs", "-o", "json").stdout)))
    until("it is known", lambda: "cannot run in cfb" in run(up, "move", "large", "--to", "cfb").stderr)
    assert "cannot run in cfb" in refusal(run(up, "move", "large", "--to", "cfb", "--wait-for-room"))


def test_a_move_right_after_an_uncordon_reads_no_taint_from_an_older_snapshot() -> None:
    cordon = Taint("cluster.karmada.io/unschedulable", "", "NoSchedule")
    older = snapshot(
        unit("one").gpus(8).runs_in("a"),
        member("a").nodes(1, free_gpu=0),
        member("b").nodes(1).having(taints=(cordon,)),
    )

    class Behind:
        def request(self, *_: object, **__: object) -> ServerAnswer:
            return ServerAnswer(200, {**encode_snapshot(older), "now": NOW})

    assert _why_not_now(HubClient(Behind(), "test"), {"metadata": {"uid": "one"}}, "b") == ""  # type: ignore[arg-type]


def test_a_move_of_a_job_that_the_decider_has_just_heard_of_looks_again() -> None:
    empty = snapshot(member("a").nodes(1), member("b").nodes(1))
    later = snapshot(unit("one").gpus(8), member("a").nodes(1), member("b").nodes(1))
    seen = iter((empty, empty, later))

    class CatchingUp:
        def request(self, *_: object, **__: object) -> ServerAnswer:
            return ServerAnswer(200, {**encode_snapshot(next(seen)), "now": NOW})

    hub = HubClient(CatchingUp(), "test")  # type: ignore[arg-type]
    assert _why_not_now(hub, {"metadata": {"uid": "one"}}, "b") == ""
