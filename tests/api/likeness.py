"""The same requests to a real kube-apiserver and to ours, and what differs between the answers.

What no two servers can share is taken out first: uids, times, revisions. Placeholders in paths and bodies stand for
what an earlier answer of the same server said: `{kept.rv}` and `{kept.uid}` of the request that has `keep="kept"`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

JSON, JSON_PATCH = "application/json", "application/json-patch+json"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"(\d+[smhd]){1,2}")
_QUOTED = re.compile(r'"\{(?:[^"\\]|\\.)*\}"')
_REVISION = re.compile(r"(resource ?version\D{0,12}|\(|record \(|: )\d+", re.IGNORECASE)


CACHE_BEGINS = "storage is (re)initializing"  # of a kube-apiserver, about a kind that it serves anew; clients ask again
TRIES = 100


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `what` names it in the table; `body` is sent as JSON unless it is bytes."""

    what: str
    method: str
    path: str
    body: Any = None
    media: str = JSON
    accept: str = ""
    keep: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: the status code, the parsed body (a list of events for a watch), and the warnings."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()


class Asker:
    """Asks one server, and remembers what it said for the placeholders. It asks again while a kind's cache begins."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._kept: dict[str, str] = {}

    async def ask(self, ask: Ask) -> Said:
        path = self._filled(ask.path)
        content = ask.body if isinstance(ask.body, bytes) or ask.body is None else self._filled(json.dumps(ask.body))
        headers = {"content-type": ask.media, "user-agent": "likeness/1", **ask.headers}
        if ask.accept:
            headers["accept"] = ask.accept
        for _ in range(TRIES):
            answer = await self._client.request(ask.method, path, content=content, headers=headers)
            if answer.status_code != 429 or CACHE_BEGINS not in answer.text:
                break
            await asyncio.sleep(0.1)
        warnings = tuple(value.split('"', 1)[1].rstrip('"') for value in answer.headers.get_list("warning"))
        if "watch=" in path and answer.status_code == 200:
            return Said(answer.status_code, [json.loads(line) for line in answer.text.splitlines()], warnings)
        body: Any = answer.text
        if answer.headers.get("content-type", "").startswith("application/json"):
            body = answer.json()
        if ask.keep and answer.status_code < 300:
            self._kept[f"{{{ask.keep}.rv}}"] = body["metadata"]["resourceVersion"]
            self._kept[f"{{{ask.keep}.uid}}"] = body["metadata"].get("uid", "")
        return Said(answer.status_code, body, warnings)

    def _filled(self, text: str) -> str:
        for name, value in self._kept.items():
            text = text.replace(name, value)
        return text


def _sorted(quoted: re.Match[str]) -> str:
    """An object that a message quotes, in one order of keys: that of Go's structs is not ours."""
    try:
        body = json.loads(json.loads(quoted[0]))
    except ValueError:
        return quoted[0]
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        metadata["managedFields"] = _in_one_order(metadata["managedFields"])
    return json.dumps(json.dumps(body, sort_keys=True, separators=(",", ":")))


def _in_one_order(managed: list[Any]) -> list[Any]:
    """managedFields follow the seconds of their writes, which a busy machine counts otherwise for each server."""
    return sorted(managed, key=lambda entry: json.dumps(entry, sort_keys=True))


def settled(value: Any, key: str = "") -> Any:
    """The value without what differs between any two servers."""
    if isinstance(value, dict):
        return {
            k: settled(v, k)
            for k, v in value.items()
            if k not in ("resourceVersion", "creationTimestamp", "time", "selfLink", "remainingItemCount")
            and not (k == "continue" and v)
            and not (k == "description" and key == "columnDefinitions")
        }
    if isinstance(value, list):
        items = [settled(item, key) for item in value]
        return _in_one_order(items) if key == "managedFields" else items
    if isinstance(value, str):
        if key == "cells" and _AGE.fullmatch(value):
            return "AGE"  # one may answer a second later than the other
        text = _TIME.sub("TIME", _UID.sub("UID", value))
        return _REVISION.sub(r"\1N", _QUOTED.sub(_sorted, text)) if key == "message" else text
    return value


def differences(real: Said, ours: Said) -> dict[str, tuple[Any, Any]]:
    """What differs, by aspect: code, reason, message, details, warnings for refusals; code, body, warnings else."""
    aspects: dict[str, tuple[Any, Any]] = {"code": (real.code, ours.code), "warnings": (real.warnings, ours.warnings)}
    theirs, mine = settled(real.body), settled(ours.body)
    for body in (theirs, mine):
        if isinstance(body, dict) and body.get("kind") == "Status":
            _tidy(body)
    if isinstance(theirs, dict) and theirs.get("kind") == "Status" and isinstance(mine, dict):
        for name in ("status", "reason", "message", "details"):
            aspects[name] = (theirs.get(name), mine.get(name))
    else:
        aspects["body"] = (theirs, mine)
    return {name: pair for name, pair in aspects.items() if pair[0] != pair[1]}


def _tidy(status: dict[str, Any]) -> None:
    """Empty details say as much as none, a cause that stands twice as much as one that stands once. The real one
    gives several causes in any order, in its message too."""
    details = status.get("details") or {}
    causes = details.get("causes") or []
    if causes:
        once = [cause for index, cause in enumerate(causes) if cause not in causes[:index]]
        details["causes"] = sorted(once, key=lambda cause: str(cause.get("field")))
        if len(once) > 1:
            status["message"] = status["message"].split("[", 1)[0]
    if not details:
        status.pop("details", None)


def described(found: dict[str, tuple[Any, Any]]) -> str:
    """For a failing test: what the real one says, what ours says, shortened to where they part."""
    lines = []
    for name, (real, ours) in found.items():
        for path, left, right in parts(real, ours, name):
            lines.append(f"{path}:\n    real: {json.dumps(left)[:1500]}\n    ours: {json.dumps(right)[:1500]}")
    return "\n".join(lines)


def parts(real: Any, ours: Any, path: str) -> Sequence[tuple[str, Any, Any]]:
    """The innermost places where two values differ."""
    if real == ours:
        return []
    if isinstance(real, dict) and isinstance(ours, dict):
        keys = sorted(real.keys() | ours.keys())
        return [part for key in keys for part in parts(real.get(key), ours.get(key), f"{path}.{key}")]
    if isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        return [
            part
            for index, (left, right) in enumerate(zip(real, ours, strict=True))
            for part in parts(left, right, f"{path}[{index}]")
        ]
    return [(path, real, ours)]
