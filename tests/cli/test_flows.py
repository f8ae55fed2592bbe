"""Operations of fleet.client that a command carries out: streams beside each other, pauses, refusals as one line."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.amc.client import Client
from fleet.cli.failure import Failure
from fleet.cli.flows import EXACT
from fleet.cli.hub import HubClient, HubRefusal
from fleet.client.jobwatch import changes
from fleet.client.logs import logs
from fleet.client.verbs import cancel
from fleet.values.kubeconfig.files import Access
from tests.client.faulty import Faulty, Said, faulty, refusal
from tests.client.scripts import LOST, at, bookmark, line, pod, scripted, stream

WORKERS = ["a-worker-0", "a-worker-1"]


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.client.following.MISSING_S", 0.1)
    monkeypatch.setattr("fleet.client.jobwatch.AGAIN_S", 0.05)


def hub_of(server: Faulty) -> HubClient:
    return HubClient(Client(Access(server.url, ca=server.ca.read_bytes(), token="t")), "a kubeconfig")


def followed(tmp_path: Path, refused: dict[str, int], **how: Any) -> Iterator[str]:
    """The lines of a job of three pods; the log of each pod that is not refused is one line."""
    pods = [pod(name, rank, "Succeeded") for rank, name in enumerate(["a-master-0", *WORKERS])]

    def log(query: dict[str, str]) -> Said:
        code = refused.get(query["pod"])
        if code is not None:
            return Said(code, refusal(code, "NotFound" if code == 404 else "Forbidden", f"{query['pod']}: no"))
        return Said(200, (at(1, "epoch") if "timestamps" in query else "epoch\n").encode() + b"\xff\r\n")

    with faulty(tmp_path, scripted(pods, log, ["Succeeded"])) as server:
        hub = hub_of(server)
        for one in hub.items(logs(hub.session, "Job/j", **how)):
            yield f"{one.pod} {one.text}"


def test_workers_that_are_deleted_while_they_are_followed_are_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = list(followed(tmp_path, dict.fromkeys(WORKERS, 404), follow=True))
    assert [text.encode(errors=EXACT) for text in found] == [b"a-master-0 epoch", b"a-master-0 \xff\r"]
    said = capsys.readouterr().err.splitlines()
    assert sorted(said) == [f"fleet: {name} is deleted, and its log with it" for name in WORKERS]


@pytest.mark.parametrize(
    ("refused", "follow", "lines"),
    [
        ({"a-worker-0": 403}, True, 4),
        (dict.fromkeys(("a-master-0", *WORKERS), 404), True, 0),
        (dict.fromkeys(("a-master-0", *WORKERS), 404), False, 0),
        ({"a-master-0": 403}, False, 0),
    ],
    ids=["forbidden", "no pod is left", "none has a log", "not followed"],
)
def test_other_logs_that_cannot_be_had_are_a_failure(
    tmp_path: Path, refused: dict[str, int], follow: bool, lines: int
) -> None:
    found: list[str] = []
    with pytest.raises(HubRefusal):
        for text in followed(tmp_path, refused, follow=follow):
            found.append(text)  # what came before the refusal
    assert len(found) == lines


def test_a_command_watches_through_a_break_and_ends_in_time(tmp_path: Path) -> None:
    answers = (
        stream(line("JOB", "a", state="Queued"), bookmark(1)),
        Said(cut=0),
        Said(410, LOST),
        stream(line("JOB", "a", state="Running"), bookmark(5)),
    )
    with faulty(tmp_path, *answers) as server:
        hub = hub_of(server)
        found = [(one.type, one.job.state) for one in hub.items(changes(hub.session, {}, timeout=2.0))]
    assert found == [("ADDED", "Queued"), ("MODIFIED", "Running")]


def test_a_hub_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"
        hub = HubClient(Client(Access(url, token="t")), "a kubeconfig")
        with pytest.raises(Failure, match=r"the hub does not answer .*: connection refused; is it running"):
            list(hub.items(logs(hub.session, "Job/j", follow=True)))
    deleted = [Said(200, {"namespace": "n", "kind": "Job", "name": "j", "uid": "1", "object": "/x/j"}), Said(cut=0)]
    with faulty(tmp_path, *deleted) as server:
        hub = hub_of(server)
        with pytest.raises(Failure, match="Whether the change was made is not known"):
            hub.run(cancel(hub.session, "Job/j"))
