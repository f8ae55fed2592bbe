"""Answers of a hub that follows a script: kinds, events of a watch, states of a job, its pods and their logs."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlparse

from tests.client.faulty import Asked, Said, refusal

KINDS = [
    Said(
        200,
        {
            "items": [
                {
                    "metadata": {},
                    "versions": [
                        {
                            "version": "v1",
                            "resources": [
                                {
                                    "resource": "configmaps",
                                    "responseKind": {"kind": "ConfigMap"},
                                    "scope": "Namespaced",
                                },
                            ],
                        }
                    ],
                }
            ],
        },
    ),
    Said(200, {"items": []}),
]
LOST = refusal(410, "Expired", "too old resource version")


def line(type_: str, name: str, uid: str = "", **more: Any) -> bytes:
    named = {"namespace": "n" if name == "j" else "default", "kind": "PyTorchJob", "name": name, **more}
    return json.dumps({"type": type_, "uid": uid or name, "job": named}).encode() + b"\n"


def bookmark(revision: int) -> bytes:
    return json.dumps({"type": "BOOKMARK", "resourceVersion": str(revision)}).encode() + b"\n"


def stream(*lines: bytes, cut: int | None = None) -> Said:
    return Said(200, b"".join(lines), cut=cut)


def scripted(pods: list[dict[str, Any]], log: Any, states: list[str]) -> Any:
    """A hub with a job `j`: its pods, what `log` answers for a pod, and its states, of which the last one stays."""
    job = {"namespace": "n", "kind": "Job", "name": "j", "uid": "1", "object": "/x/j", "pods": len(pods)}

    def answer(asked: Asked) -> Said:
        parsed = urlparse(asked.path)
        query = {name: values[-1] for name, values in parse_qs(parsed.query).items()}
        if parsed.path == "/x/j/pods":
            return Said(200, {"items": pods, "silent": {}})
        if parsed.path == "/x/j/log":
            found: Said = log(query)
            return found
        return Said(200, {**job, "state": states.pop(0) if len(states) > 1 else states[0]})

    return answer


def pod(name: str, rank: int, phase: str = "Running") -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "member": "m", "role": "worker", "rank": rank, "phase": phase}


def at(second: int, text: str) -> str:
    return f"2026-01-01T00:00:{second:02}.500000000Z {text}\n"
