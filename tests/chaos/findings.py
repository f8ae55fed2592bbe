"""What a run of the harness found, with all that is needed to look into it afterwards."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HISTORY_MAX = 400  # lines of one object
FAULTS_MAX = 40  # lines of the newest faults in a finding


@dataclass
class Findings:
    """`add` writes one violation to `folder`/findings.jsonl; `note` keeps the history that goes with it."""

    folder: Path
    seed: int
    began: float = field(default_factory=time.monotonic)
    found: list[dict[str, Any]] = field(default_factory=list)
    _history: dict[str, deque[str]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=HISTORY_MAX)))
    _known: set[tuple[str, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, about: str, text: str) -> None:
        """One line in the history of an object ("faults" for the faults)."""
        self._history[about].append(f"{self.now:9.3f} {text}")

    def add(self, rule: str, about: str, text: str) -> None:
        """A violation of a rule of docs/invariants.md by an object; the first of its kind counts."""
        with self._lock:
            if (rule, about) in self._known:
                return
            self._known.add((rule, about))
            entry = {
                "rule": rule,
                "about": about,
                "text": text,
                "seed": self.seed,
                "at_s": round(self.now, 3),
                "wall": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "history": list(self._history[about]),
                "faults": list(self._history["faults"])[-FAULTS_MAX:],
            }
            self.found.append(entry)
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "findings.jsonl").open("a") as file:
                file.write(json.dumps(entry) + "\n")

    @property
    def now(self) -> float:
        """Seconds since the beginning of the run."""
        return time.monotonic() - self.began
