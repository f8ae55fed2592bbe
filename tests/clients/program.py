"""One run of our Go program: a story, its steps, and the word that it waits for."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.build import client

LIMIT_S = 240.0


class Story:
    """A running story. `steps` are those that were read so far."""

    def __init__(self, kubeconfig: Path, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.steps: list[tuple[str, Any]] = []
        self._process = subprocess.Popen(
            [str(client("go")), *words],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment, "KUBECONFIG": str(kubeconfig)},
        )
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def until(self, step: str) -> Any:
        """What the story saw at the step of this name, which may still have to come."""
        for name, saw in self._lines():
            if name == step:
                return saw
        raise AssertionError(f"the story ended before {step!r}:\n{self.errors()}")

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> list[tuple[str, Any]]:
        """All steps of a story that ended well."""
        for _ in self._lines():
            pass
        assert self._process.wait(LIMIT_S) == 0, self.errors()
        return self.steps

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def errors(self) -> str:
        return "".join(self._errors[-40:])

    def _lines(self) -> Iterator[tuple[str, Any]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            self.steps.append((found["step"], found["saw"]))
            yield self.steps[-1]

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)


@contextmanager
def telling(kubeconfig: Path, *words: str, **environment: str) -> Iterator[Story]:
    """A story that runs; one that does not end is killed."""
    story = Story(kubeconfig, words, environment)
    limit = threading.Timer(LIMIT_S, story.kill)
    limit.start()
    try:
        yield story
    finally:
        limit.cancel()
        story.kill()


def told(kubeconfig: Path, *words: str) -> list[tuple[str, Any]]:
    """The steps of a story that waits for nobody."""
    with telling(kubeconfig, *words) as story:
        return story.finish()
