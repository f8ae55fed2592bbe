"""`fleet decide --explain`, of a file, and `fleet explain` on a hub that runs."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.amc.client import ServerAnswer
from fleet.cli import explain
from fleet.cli.explain import checks, described, evictions, failures
from fleet.cli.explanation import lines, would_start
from fleet.cli.failure import Failure
from fleet.cli.hub import HubClient
from fleet.cli.main import app
from fleet.core.decide import BadSnapshot, decide
from fleet.core.notation.codec import decode_snapshot, encode_record
from tests.cli.hub import Up, fleet, until
from tests.cli.manifests import job, policy
from tests.cli.manifests import written as manifests

GPU = "nvidia.com/gpu"
CASE: dict[str, Any] = {
    "version": 1,
    "now": 10_000,
    "tree": {"root/vision": {"max": {GPU: 32}}},
    "units": [
        {
            "id": "1",
            "name": "team/first",
            "leaf": "root/vision",
            "gang": "3x8",
            "member": "east",
            "placed_at": 2800,
            "walltime_s": 14400,
        },
        {"id": "2", "name": "team/second", "leaf": "root/vision", "gang": "2x8", "enqueued_at": 6000},
        {"id": "3", "name": "team/third", "leaf": "root/vision", "gang": "2x8", "enqueued_at": 9000},
        {"id": "4", "name": "other/third", "gang": "9x8", "enqueued_at": 9000},
    ],
    "members": [{"name": "east", "nodes": [{"count": 5, GPU: 8}]}],
}


def written(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def case(tmp_path: Path) -> str:
    return written(tmp_path / "case.json", CASE)


def explained(*words: str) -> str:
    done = CliRunner().invoke(app, ["decide", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_a_job_that_waits_shows_its_reason_its_place_its_start_and_what_would_start_it(case: str) -> None:
    shown = explained(case, "--explain", "team/second").splitlines()
    assert shown[0] == "team/second: waits"
    assert shown[1].startswith("Reason:     insufficient unused quota for nvidia.com/gpu in root/vision")
    assert shown[1].endswith("(QuotaExhausted)")
    assert shown.pop(2) == "Waits for:  team/first (24 nvidia.com/gpu, root/vision, in east)"
    assert shown[2] == "Position:   1 of 2 in root/vision; no job of the fleet is ahead of it"
    assert shown[3].startswith("Starts:     probably in ") and " in 4 of 5 cases in " in shown[3]
    assert "  raise max of root/vision by 8 nvidia.com/gpu, to 40" in shown
    assert "  1 instead of 2 replicas of worker" in shown
    assert "Would not start it: a higher priority" in shown


def contended(tmp_path: Path, **more: Any) -> str:
    """The first job of two queues has room, but the two others use more GPUs together, so the solver prefers them."""
    units = [
        {"id": "u", "name": "team/first", "gang": "1x5", "enqueued_at": 100, **more},
        {"id": "b1", "name": "team/b1", "gang": "1x4", "enqueued_at": 200},
        {"id": "b2", "name": "team/b2", "gang": "1x4", "enqueued_at": 300},
    ]
    members = [{"name": "east", "nodes": [{"count": 1, GPU: 8}]}]
    return written(tmp_path / "contended.json", {"version": 1, "now": 400, "units": units, "members": members})


def test_a_start_that_the_solver_does_not_find_is_only_likely(tmp_path: Path) -> None:
    held = contended(tmp_path, held=True)
    for options in ([], ["--no-solver"]):
        shown = explained(held, "--explain", "first", *options).splitlines()
        assert shown[-2:] == ["Would likely start it now, each by itself:", "  release it"]
    [change] = json.loads(explained(held, "--explain", "first", "-o", "json"))["changes"]
    assert (change["kind"], change["certain"]) == ("Release", False)
    shown = explained(contended(tmp_path), "--explain", "first").splitlines()
    assert shown == ["team/first: likely starts", "It likely starts with the next decision."]


def test_the_certain_starts_stand_before_the_likely_ones() -> None:
    changes = [{"text": "a", "certain": False}, {"text": "b", "certain": True}, {"text": "c", "certain": False}]
    assert would_start(changes) == [
        "Would start it now, each by itself:",
        "  b",
        "Would likely start it now, each by itself:",
        "  a",
        "  c",
    ]


def test_a_wait_for_the_end_of_a_back_off_is_not_said_to_start_a_job_now() -> None:
    change = {"kind": "Wait", "text": "wait until 2026-11-29T11:12:44Z", "certain": True}
    assert would_start([change]) == ["Would start it:", "  wait until 2026-11-29T11:12:44Z"]


def test_programs_get_the_same_as_json(case: str) -> None:
    said = json.loads(explained(case, "--explain", "2", "-o", "json"))
    assert (said["job"], said["position"], said["estimate"]["outcome"]) == (
        "team/second",
        {"place": 1, "of": 2, "ahead": 0, "tier": "Share"},
        "Estimate",
    )
    assert {change["kind"] for change in said["changes"]} == {"FewerReplicas", "MoreQuota"}


def test_a_job_that_others_leave_for_waits_for_its_room(tmp_path: Path) -> None:
    tree = {"root/vision": {"min": {GPU: 8}, "max": {GPU: 32}}, "root/speech": {"min": {GPU: 16}}}
    runs, waits = CASE["units"][0], {"id": "5", "name": "team/owner", "leaf": "root/speech", "gang": "2x8"}
    members = [{"name": "east", "nodes": [{"count": 4, GPU: 8}]}]
    case = {**CASE, "tree": tree, "units": [runs, waits], "members": members, "config": {"reclaim": True}}
    shown = explained(written(tmp_path / "case.json", case), "--explain", "owner").splitlines()
    assert shown[0] == "team/owner: waits" and "(RoomIsBeingFreed)" in shown[1] and "probably in" in shown[3]


def test_a_job_that_never_starts_as_things_are_has_no_time(case: str) -> None:
    shown = explained(case, "--explain", "other/third")
    assert "Starts:     it does not start as things are" in shown
    assert "2 instead of 9 replicas" in shown and "7 more nodes of 8 nvidia.com/gpu in member east" in shown


def test_a_record_is_explained_as_things_were(tmp_path: Path) -> None:
    snapshot = decode_snapshot(CASE)
    record = encode_record(snapshot, decide(snapshot, now=10_000, seed=0, solver=None), now=10_000, seed=0)
    shown = explained(written(tmp_path / "record.json", record), "--explain", "second")
    assert shown.startswith("team/second: waits")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody", 'the snapshot has no job "nobody"'),
        ("third", '"third" names several jobs: other/third, team/third'),
        ("first", "team/first does not wait: it runs in east"),
    ],
)
def test_what_cannot_be_explained_is_said_in_one_line(case: str, name: str, said: str) -> None:
    with pytest.raises(Failure, match="^" + said.replace("(", r"\(") + "$"):
        explained(case, "--explain", name)


def test_a_hub_explains_a_job_that_waits(tmp_path: Path) -> None:
    up = Up(tmp_path / "hub", "--members", "1", "--nodes", "1", "--gpus", "8")
    where = ("--data-dir", str(up.folder))
    try:
        unqueued = policy()
        del unqueued["spec"]["suspension"]
        done = fleet("submit", manifests(tmp_path / "jobs.yaml", unqueued, job("one")), *where)
        assert done.returncode == 0, done.stderr
        path = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/one-pytorchjob"
        until("the job is placed", lambda: bool((up.hub.find(path) or {"spec": {}})["spec"].get("clusters")))
        assert fleet("submit", manifests(tmp_path / "two.yaml", job("two")), *where).returncode == 0
        until("the decider has seen it", lambda: "default/two" in str(up.hub.find("/fleet/v1/snapshot")))
        shown = fleet("explain", "two", *where)
        assert shown.returncode == 0, shown.stderr
        assert "Position:   1 of 1 in those outside quota" in shown.stdout and "Starts:     " in shown.stdout
        running = json.loads(fleet("explain", "one", *where, "-o", "json").stdout)
        assert running["explanation"] is None
    finally:
        assert up.stop() == 0, up.errors.read_text()


def test_a_job_that_was_evicted_says_since_when_and_for_whom_until_it_starts_again() -> None:
    evicted = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "makes room for b/two",
        "lastTransitionTime": "2026-11-21T20:00:00Z",
    }
    now = datetime.fromisoformat("2026-11-21T20:01:30Z").timestamp()
    assert evictions([evicted], now) == ["90s ago: makes room for b/two"]
    assert evictions([{**evicted, "status": "False"}], now) == []


def test_a_job_that_is_reserved_says_which_checks_it_waits_for_and_for_how_long() -> None:
    budget = {"name": "budget", "state": "Pending", "message": "", "since": "2026-11-21T20:00:00Z"}
    room = {"name": "fleet.io/room", "state": "Ready", "message": "held by 3 placeholders", "since": None}
    now = datetime.fromisoformat("2026-11-21T20:01:30Z").timestamp()
    assert checks([budget, room], now) == [
        "Checks:",
        "  budget: Pending for 90s",
        "  fleet.io/room: Ready: held by 3 placeholders",
    ]
    assert checks([], now) == []


def test_a_job_says_which_of_its_attempts_came_to_nothing_and_why_the_newest_first() -> None:
    now = datetime.fromisoformat("2026-11-21T20:01:30Z").timestamp()
    refused = {"member": "", "at": "2026-11-21T20:00:00Z", "reason": "AdmissionCheckRejected", "message": "no budget"}
    older = {"member": "cfa", "at": None, "reason": "GangIncomplete", "message": ""}
    assert failures([older, refused], now) == [
        "Failed attempts: 2",
        "  90s ago: AdmissionCheckRejected: no budget",
        "  once in cfa: GangIncomplete",
    ]
    assert len(failures([older] * 20, now)) == 1 + explain.FAILURES_MOST
    assert failures([], now) == []


class _Behind:
    """Answers for a hub whose newest snapshot shows the job from the `seen_at`-th time on that somebody asks."""

    def __init__(self, seen_at: int, state: str = "Queued", code: str = "") -> None:
        self.asked, self.seen_at, self.state, self.code = 0, seen_at, state, code

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "") -> ServerAnswer:
        if not path.endswith("/explanation"):
            detail = dict.fromkeys(
                ("created", "position", "tier", "reason", "queue", "member", "gpus", "pods", "user", *explain.DETAILS)
            )
            detail |= {"namespace": "team", "name": "one", "kind": "Job", "state": self.state}
            if self.code:
                detail["reason"] = {"code": self.code, "text": "", "numbers": {}}
            return ServerAnswer(200, detail)
        self.asked += 1
        seen = self.asked >= self.seen_at
        return (
            ServerAnswer(200, {"position": 1})
            if seen
            else ServerAnswer(404, {"message": "the decider has not seen it wait yet"})
        )


def asked(hub: _Behind) -> tuple[dict[str, Any], float]:
    """The explanation of the job, and the seconds that it took."""
    slept: list[float] = []
    return described(HubClient(hub, ""), "/job", lambda: sum(slept), slept.append), sum(slept)  # type: ignore[arg-type]


def test_a_job_that_the_newest_snapshot_does_not_show_yet_is_asked_for_again() -> None:
    told, waited = asked(_Behind(seen_at=4))
    assert (told["explanation"], waited) == ({"position": 1}, 3 * explain.UNSEEN_EVERY_S)


def test_a_job_that_no_snapshot_ever_shows_is_told_without_its_explanation() -> None:
    told, waited = asked(_Behind(seen_at=10**6))
    assert (told["state"], told["explanation"], waited) == ("Queued", None, explain.UNSEEN_MOST_S)


def test_a_job_that_does_not_wait_is_told_at_once() -> None:
    hub = _Behind(seen_at=1, state="Running")
    assert (asked(hub)[1], hub.asked) == (0.0, 0)


def test_a_job_that_the_decider_leaves_out_is_told_at_once() -> None:
    hub = _Behind(seen_at=10**6, code="DeciderFailed")
    told, waited = asked(hub)
    assert (waited, hub.asked) == (0.0, 1)
    empty: dict[str, Any] = {"components": [], "checks": [], "failures": [], "conditions": []}
    assert "Starts:     not worked out: the decider leaves it out" in explain._lines(told | empty)


def test_the_numbers_have_the_names_of_the_sentence_and_are_no_pieces_of_it() -> None:
    numbers = {"head": "a job of another namespace", "what": "room in member cfb is", "tier": "Share"}
    assert explain._numbers("BehindHead", numbers) == [
        "  behind: a job of another namespace",
        "  reserved: room in member cfb",
        "  counts as: within its fair share",
    ]
    assert explain._numbers("GuaranteeExhausted", {"used": 0, "max": 8}) == ["  used: 0", "  min: 8"]
    assert explain._numbers("NoMemberFits", {"what": "8 nvidia.com/gpu free"}) == ["  what: 8 nvidia.com/gpu free"]


def test_a_bad_file_names_the_field(tmp_path: Path) -> None:
    with pytest.raises((Failure, BadSnapshot), match="units"):
        explained(written(tmp_path / "bad.json", {"version": 1, "units": [{"gang": "1x1"}]}), "--explain", "x")


def test_a_job_that_starts_says_so_and_no_more() -> None:
    said = {"starts": True, "certain": True, "reason": None}
    assert lines(said) == ["It starts with the next decision."]
    assert lines({**said, "certain": False}) == ["It likely starts with the next decision."]


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (
            {
                "outcome": "Estimate",
                "p10": "2026-01-01T00:00:30Z",
                "p50": "2026-01-01T00:00:30Z",
                "p90": "2026-01-01T00:00:30Z",
            },
            "probably in 30s (2026-01-01T00:00:30Z)",
        ),
        (
            {"outcome": "NotEstimated", "p50": None, "why": "it would take too long"},
            "not estimated: it would take too long",
        ),
        ({"outcome": "NeverStarts", "p50": None, "why": "it does not start"}, "it does not start"),
    ],
)
def test_a_start_without_a_range_or_without_a_time(estimate: dict[str, Any], text: str) -> None:
    said = {
        "starts": False,
        "reason": {},
        "then": None,
        "position": None,
        "changes": [],
        "queue": None,
        "without": [],
        "at": "2026-01-01T00:00:00Z",
        "estimate": estimate,
    }
    assert lines(said) == [f"Starts:     {text}"]


def test_what_was_not_found_in_time_is_told_apart_from_what_does_not_help() -> None:
    said = {
        "starts": False,
        "reason": {},
        "then": {"text": "no member fits"},
        "position": None,
        "changes": [],
        "queue": None,
        "at": "2026-01-01T00:00:00Z",
        "estimate": {"p10": "2026-01-01T00:01:00Z", "p50": "2026-01-01T01:00:00Z", "p90": None},
        "without": [
            {"kind": "MoreNodes", "cause": "NotFoundInTime"},
            {"kind": "Release", "cause": "NoneStartsIt"},
        ],
    }
    assert lines(said) == [
        "Starts:     probably in 60m (2026-01-01T01:00:00Z); in 4 of 5 cases in 60s to later than can be told",
        "Let go, it waits: no member fits",
        "Would not start it: letting it go",
        "Not found in time: more nodes",
    ]
