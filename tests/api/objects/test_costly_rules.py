"""Rules in CEL that cost much run beside the event loop: a write of them ends well, and nobody else waits for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from api.engine.patch import MERGE
from api.objects import apart
from api.objects.objects import Objects
from tests.api.engine.conftest import WIDGET
from tests.api.objects.conftest import OPTIONS

RULE = {"rule": "self.all(a, self.all(b, a == b))", "message": "all are one"}
NUMBERS = {"type": "array", "maxItems": 300, "items": {"type": "integer"}, "x-kubernetes-validations": [RULE]}
SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"numbers": NUMBERS, "note": {"type": "string"}}}},
}
COSTLY = dataclasses.replace(WIDGET, schema=SCHEMA)


async def test_a_write_whose_rules_cost_much_is_made_apart(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    beside = apart.apart

    async def noted(work: Callable[..., Any], *arguments: object) -> Any:
        done.append("apart")
        return await beside(work, *arguments)

    monkeypatch.setattr(apart, "apart", noted)
    await objects.create(COSTLY, "default", {"metadata": {"name": "cheap"}, "spec": {"numbers": [1] * 9}}, OPTIONS)
    assert done == []
    body = {"metadata": {"name": "w"}, "spec": {"numbers": [1] * 300}}
    made = (await objects.create(COSTLY, "default", body, OPTIONS)).body
    assert done == ["apart"] and made["spec"]["numbers"] == [1] * 300
    change = {"spec": {"note": "x", "numbers": [2] * 300}}
    changed = (await objects.patch(COSTLY, "default", "w", change, MERGE, OPTIONS)).body
    assert done == ["apart", "apart"] and changed["metadata"]["generation"] == 2
    noticed = (await objects.patch(COSTLY, "default", "w", {"spec": {"note": "y"}}, MERGE, OPTIONS)).body
    assert noticed["spec"]["note"] == "y"
