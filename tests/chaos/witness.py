"""A watch client that outlives the hub: it lists once, and from then on only resumes.

Whatever is killed meanwhile, it goes on from the last revision that it saw. What it has written down in the end must be
what a second client reads that watches from the same beginning in one go, and must fold to what a list shows (I5).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.client import Client, Refused

Body = dict[str, Any]
SILENCE_S = 5.0  # a stream that says nothing for so long is given up and resumed: the other end may be dead


@dataclass(frozen=True, slots=True)
class Line:
    """One event, as far as order and completeness go."""

    revision: int
    type: str
    name: str
    uid: str


class Witness:
    """Watches one collection in a thread of its own from `start` to `stop`. `seen` may look at every object."""

    def __init__(self, kubeconfig: Path, path: str, seen: Callable[[str, Body], None] | None = None) -> None:
        self._client = Client(kubeconfig, timeout_s=SILENCE_S)
        self.path, self._seen = path, seen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"witness {path}", daemon=True)
        self.checked = 0  # the revision up to which `check` has looked
        self._lines_checked = 0
        self.revision = 0
        self.lines: list[Line] = []
        self.state: dict[str, Body] = {}
        self.resumed = 0
        self.problem = ""

    def start(self) -> None:
        page = self._client.get(self.path)
        self.checked = self.revision = int(page["metadata"]["resourceVersion"])
        self.state = {_name(item): item for item in page["items"]}
        if self._seen is not None:
            for item in page["items"]:
                self._seen("ADDED", item)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(3 * SILENCE_S)
        self._client.close()

    def wait_for(self, revision: int, within_s: float = 90.0) -> None:
        """Until it has got to the revision (by an event or a bookmark) that some list showed."""
        end = time.monotonic() + within_s
        while self.revision < revision:
            assert not self.problem, self.problem
            assert time.monotonic() < end, f"the watch of {self.path} is at {self.revision}, the hub at {revision}"
            time.sleep(0.05)

    def check(self, client: Client) -> Body:
        """Every change since the last check once, in order, none missed. Returns the list that it was checked with. The
        hub may be busy, but must answer; check before its log of that time is compacted (15 minutes)."""
        page = client.get(self.path)
        revision = int(page["metadata"]["resourceVersion"])
        again = [line for line in replay(client, self.path, self.checked, revision) if line.revision <= revision]
        self.wait_for(max((line.revision for line in again), default=0))
        assert not self.problem, self.problem
        mine = [line for line in self.lines[self._lines_checked :] if line.revision <= revision]
        revisions = [line.revision for line in mine]
        assert revisions == sorted(set(revisions)), f"{self.path}: events out of order or twice"
        assert mine == again, first_difference(mine, again)
        self._lines_checked += len(mine)
        self.checked = revision
        return page

    def judge(self) -> None:
        """A check, and the fold is what is stored. Call when the hub is quiet; the watch ends with it."""
        client = Client(self._client.kubeconfig, timeout_s=SILENCE_S)
        try:
            page = self.check(client)
            self.stop()
            stored = {_name(item): item["metadata"]["resourceVersion"] for item in page["items"]}
            folded = {name: item["metadata"]["resourceVersion"] for name, item in self.state.items()}
            assert folded == stored
        finally:
            client.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                for type_, body in events(self._client.http, self.path, self.revision, self._stop):
                    self._take(type_, body)
            except Refused as refused:
                if refused.code in (410, 401, 403, 404):
                    self.problem = f"the watch of {self.path} could not resume from {self.revision}: {refused}"
                    return
            except (httpx.HTTPError, json.JSONDecodeError):
                pass
            except Exception as error:  # a bug of the test: it must not look like a quiet watch
                self.problem = repr(error)
                return
            self.resumed += 1
            self._stop.wait(0.1)

    def _take(self, type_: str, body: Body) -> None:
        revision = int(body["metadata"]["resourceVersion"])
        if type_ != "BOOKMARK":
            self.lines.append(Line(revision, type_, _name(body), body["metadata"]["uid"]))
            if type_ == "DELETED":
                self.state.pop(_name(body), None)
            else:
                self.state[_name(body)] = body
            if self._seen is not None:
                self._seen(type_, body)
        self.revision = max(self.revision, revision)


def events(http: httpx.Client, path: str, since: int, stop: threading.Event) -> Iterator[tuple[str, Body]]:
    """One watch request. Ends with the stream, or when `stop` is set. Raises Refused."""
    params = {"watch": "true", "resourceVersion": str(since), "allowWatchBookmarks": "true", "timeoutSeconds": "120"}
    with http.stream("GET", path, params=params) as answer:
        if answer.status_code >= 400:
            answer.read()
            raise Refused(answer.status_code, answer.json())
        for line in answer.iter_lines():
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise Refused(int(event["object"].get("code", 500)), event["object"])
            yield event["type"], event["object"]
            if stop.is_set():
                return


def replay(client: Client, path: str, since: int, until: int) -> list[Line]:
    """All events of (since, until] in one go: the stream is read until it has been silent for a while after them."""
    lines: list[Line] = []
    try:
        for type_, body in events(client.http, path, since, threading.Event()):
            revision = int(body["metadata"]["resourceVersion"])
            if type_ != "BOOKMARK":
                lines.append(Line(revision, type_, _name(body), body["metadata"]["uid"]))
            if revision >= until:
                break
    except httpx.ReadTimeout:
        pass  # the last event of this collection is older than `until`
    return lines


def first_difference(mine: list[Line], whole: list[Line]) -> str:
    for index, (one, other) in enumerate(zip(mine, whole, strict=False)):
        if one != other:
            return f"event {index}: the resuming watch saw {one}, the whole one {other}"
    return f"the resuming watch saw {len(mine)} events, the whole one {len(whole)}: {mine[-2:]} {whole[-2:]}"


def _name(body: Body) -> str:
    meta = body["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"
