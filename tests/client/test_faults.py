"""Servers that refuse, break off or are not there, through both clients."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet.client import (
    AlreadyExists,
    AsyncFleet,
    BadConfiguration,
    Fleet,
    Forbidden,
    HubWarning,
    Invalid,
    Refused,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from tests.api.conftest import self_signed
from tests.client.conftest import BOTH, Face, faces
from tests.client.faulty import Asked, Faulty, Said, faulty, refusal
from tests.client.scripts import KINDS

BUSY = refusal(429, "TooManyRequests", "too many ask at once")
DOWN = refusal(503, "ServiceUnavailable", "the database cannot be reached now")
QUEUES = Said(200, {"items": [], "partial": False})
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.client.steps.FIRST_WAIT_S", 0.01)


@asynccontextmanager
async def _face(which: str, server: Faulty, **more: Any) -> AsyncIterator[Face]:
    async for face in faces(which, **{"server": server.url, "token": "t", "ca": server.ca, **more}):
        yield face


@BOTH
async def test_a_hub_that_is_busy_or_down_is_asked_again(which: str, tmp_path: Path) -> None:
    answers = (Said(429, BUSY, {"retry-after": "1"}), Said(503, DOWN), Said(cut=0), QUEUES)
    with faulty(tmp_path, *answers) as server:
        async with _face(which, server) as face:
            began = time.monotonic()
            assert await face.call("queues") == []
            assert time.monotonic() - began >= 1.0, "Retry-After counts"
        assert [asked.authorization for asked in server.asked] == ["Bearer t"] * 4


async def test_a_warning_is_shown_at_the_line_of_the_program(tmp_path: Path) -> None:
    with faulty(tmp_path, Said(200, QUEUES.body, {"warning": '299 - "this is \\"old\\""'})) as server:
        async for face in faces("awaiting", server=server.url, token="t", ca=server.ca):
            assert isinstance(face.client, AsyncFleet)
            with pytest.warns(HubWarning, match='this is "old"') as said:
                await face.client.queues()
        with Fleet(server=server.url, token="t", ca=server.ca) as fleet, pytest.warns(HubWarning) as blocking:
            fleet.queues()
    assert [one.filename for one in (said[0], blocking[0])] == [__file__] * 2


@BOTH
async def test_tries_and_retry_after_have_bounds(which: str, tmp_path: Path) -> None:
    with faulty(tmp_path, Said(503, DOWN)) as server:
        async with _face(which, server, tries=3) as face:
            with pytest.raises(Unavailable, match="the database cannot be reached now"):
                await face.call("queues")
        assert len(server.asked) == 3
    with faulty(tmp_path, Said(429, BUSY, {"retry-after": "3600"})) as server:
        async with _face(which, server) as face:
            with pytest.raises(TooManyRequests) as refused:
                await face.call("queues")
        assert refused.value.retry_after_s == 3600 and len(server.asked) == 1


@BOTH
async def test_refusals_are_typed_and_not_repeated(which: str, tmp_path: Path) -> None:
    causes = [{"field": "spec.x", "reason": "FieldValueInvalid", "message": "must be y"}]
    table = (
        (Said(401, refusal(401, "Unauthorized", "the token has expired")), Unauthorized, "the token has expired"),
        (Said(403, refusal(403, "Forbidden", "cannot list")), Forbidden, "cannot list"),
        (Said(422, refusal(422, "Invalid", "bad", causes=causes)), Invalid, "bad"),
        (Said(500, b"<html>a proxy</html>"), Refused, "<html>a proxy</html>"),
    )
    for said, error, text in table:
        with faulty(tmp_path, said) as server:
            async with _face(which, server) as face:
                with pytest.raises(error, match=text) as refused:
                    await face.call("queues")
            assert len(server.asked) == 1
        if isinstance(refused.value, Invalid):
            assert [(cause.field, cause.message) for cause in refused.value.causes] == [("spec.x", "must be y")]


@BOTH
async def test_a_create_whose_answer_was_lost_is_made_once(which: str, tmp_path: Path) -> None:
    made: list[Asked] = []

    def stored(asked: Asked) -> Said:
        if asked.method == "POST" and not made:
            made.append(asked)
            return Said(cut=0)
        if asked.method == "POST":
            return Said(409, refusal(409, "AlreadyExists", 'configmaps "c" already exists'))
        manager = made[0].path.split("fieldManager=")[1].split("&")[0]
        metadata = {"name": "c", "namespace": "default", "uid": "1", "managedFields": [{"manager": manager}]}
        return Said(200, {**CONFIG, "metadata": metadata})

    with faulty(tmp_path, *KINDS, stored) as server:
        async with _face(which, server) as face:
            submitted = await face.call("submit", CONFIG)
        assert [one.uid for one in submitted] == ["1"]
        assert [asked.method for asked in server.asked] == ["GET", "GET", "POST", "POST", "GET"]


@BOTH
async def test_an_object_of_somebody_else_is_not_taken_for_ones_own(which: str, tmp_path: Path) -> None:
    theirs = {**CONFIG, "metadata": {"name": "c", "managedFields": [{"manager": "kubectl"}]}}
    taken = Said(409, refusal(409, "AlreadyExists", 'configmaps "c" already exists'))
    with faulty(tmp_path, *KINDS, taken, Said(200, theirs)) as server:
        async with _face(which, server) as face:
            with pytest.raises(AlreadyExists, match='"c" already exists'):
                await face.call("submit", CONFIG)


@BOTH
async def test_a_delete_by_name_is_not_sent_twice(which: str, tmp_path: Path) -> None:
    with faulty(tmp_path, *KINDS, Said(cut=0)) as server:
        async with _face(which, server) as face:
            with pytest.raises(Unreachable):
                await face.call("delete", CONFIG)
        assert [asked.method for asked in server.asked] == ["GET", "GET", "DELETE"]


@BOTH
async def test_a_log_that_breaks_off_says_so_after_its_lines(which: str, tmp_path: Path) -> None:
    job = {"namespace": "n", "kind": "Job", "name": "j", "object": "/x/j"}
    log = Said(200, b"one\nbar 10%\rbar 20%\nthree\nfour\n", {"fleet-pod": "j-0"}, cut=24)
    with faulty(tmp_path, Said(200, job), log) as server:
        async with _face(which, server) as face:
            seen: list[tuple[str, str]] = []
            with pytest.raises(Unreachable):
                await _collect(face, seen)
    assert seen == [("j-0", "one"), ("j-0", "bar 10%\rbar 20%")]


async def _collect(face: Face, seen: list[tuple[str, str]]) -> None:
    if isinstance(face.client, Fleet):
        for line in face.client.logs("Job/j", pod="j-0"):
            seen.append((line.pod, line.text))
        return
    async for line in face.client.logs("Job/j", pod="j-0"):
        seen.append((line.pod, line.text))


@BOTH
async def test_a_wrong_authority_is_named_at_once(which: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other, _ = self_signed(tmp_path / "other")
    with faulty(tmp_path, QUEUES) as server:
        async with _face(which, server, ca=other) as face:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1.*certificate is not trusted") as error:
                await face.call("queues")
    assert error.value.address == server.url and server.asked == []


@BOTH
async def test_a_server_that_is_not_there_is_named(which: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{taken.getsockname()[1]}"
        async for face in faces(which, server=address, token="t", tries=2):
            with pytest.raises(Unreachable, match="connection refused") as error:
                await face.call("queues")
    assert error.value.address == address


@BOTH
async def test_a_cluster_that_is_no_hub_is_left_alone(which: str, tmp_path: Path) -> None:
    with faulty(tmp_path, Said(200, {"gitVersion": "v1.33.0"})) as server:
        async with _face(which, server) as face:
            face.client.session.sure = False
            with pytest.raises(BadConfiguration, match="is no Fleet hub"):
                await face.call("cancel", "train")
        assert [asked.path for asked in server.asked] == ["/version"]
