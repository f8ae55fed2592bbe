"""The load program of `make bench api` (load/main.go): built once into build/, driven through its standard input."""

from __future__ import annotations

import base64
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.bench.family import cpu_seconds
from tests.bench.servers import Server
from tests.testbed.build import find_go, run_go

SOURCE = Path(__file__).parent / "load"
BINARY = Path("build/bench-load").absolute()
ANSWER_S = 600.0

# What the program overwrites in a request, as it spells it.
CLIENT, NUMBER, STAMP = "CLIENT____", "NUMBER____", "stamp-STAMP______________"
JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


@dataclass(frozen=True)
class Request:
    """One request, with marks that the program overwrites. `accept`: the form of the answer."""

    method: str
    path: str
    body: bytes = b""
    media: str = JSON
    accept: str = JSON

    def as_json(self) -> dict[str, str]:
        return {
            "method": self.method,
            "path": self.path,
            "body": base64.b64encode(self.body).decode(),
            "media": self.media,
            "accept": self.accept,
        }


@dataclass(frozen=True)
class Task:
    """As the program's Task: it ends after `seconds`, or after `count` requests."""

    request: Request
    clients: int
    seconds: float = 0.0
    count: int = 0
    first: int = 0
    rate: float = 0.0
    watchers: int = 0
    watch: Request | None = None


@dataclass(frozen=True)
class Result:
    """As the program's Result, and the cores that each part used meanwhile."""

    figures: dict[str, float]
    cores: dict[str, float] = field(default_factory=dict)

    @property
    def per_s(self) -> float:
        return self.figures["Requests"] / self.figures["Seconds"]

    @property
    def events_per_s(self) -> float:
        return self.figures["Events"] / self.figures["EventSeconds"]


class Loader:
    """The running program."""

    def __init__(self) -> None:
        go = find_go()
        BINARY.parent.mkdir(parents=True, exist_ok=True)
        run_go([go, "build", "-o", str(BINARY), "."], SOURCE, go, {})
        self._process = subprocess.Popen([BINARY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        self._process.communicate(timeout=ANSWER_S)

    def run(self, server: Server, task: Task) -> Result:
        """The result of the task. Raises RuntimeError for a request that failed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        given: dict[str, Any] = {
            "server": {"address": server.address, "authority": str(server.authority), "token": server.token},
            "request": task.request.as_json(),
            "clients": task.clients,
            "seconds": task.seconds,
            "count": task.count,
            "first": task.first,
            "rate": task.rate,
            "watchers": task.watchers,
            "watch": task.watch.as_json() if task.watch is not None else Request("GET", "/").as_json(),
        }
        before = self._cpu(server)
        self._process.stdin.write(json.dumps(given).encode() + b"\n")
        self._process.stdin.flush()
        figures: dict[str, Any] = json.loads(self._process.stdout.readline())
        after = self._cpu(server)
        error = figures.pop("Error")
        if error:
            raise RuntimeError(f"{server.name}: {task.request.method} {task.request.path}: {error}")
        seconds = max(figures["Seconds"], figures["EventSeconds"])
        return Result(figures, {part: (after[part] - before[part]) / seconds for part in after})

    def _cpu(self, server: Server) -> dict[str, float]:
        return {"load": cpu_seconds([psutil.Process(self._process.pid)]), **server.cpu()}
