"""Rules in CEL that cost much run beside the event loop: a write of them ends well, and nobody else waits for it."""

from __future__ import annotations

import dataclasses

from fleet.engine.patch import MERGE
from fleet.objects.objects import Objects
from tests.engine.conftest import WIDGET
from tests.objects.conftest import OPTIONS
from tests.security.loopwatch import watched

HELD_S = 0.2  # of processor time; the rules of each write take more than twice that
RULE = {"rule": "self.all(a, self.all(b, a == b))", "message": "all are one"}
NUMBERS = {
    "type": "array", "maxItems": 360, "items": {"type": "integer"}, "x-kubernetes-validations": [RULE] * 6,
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"numbers": NUMBERS, "note": {"type": "string"}}}},
}  # fmt: skip
COSTLY = dataclasses.replace(WIDGET, schema=SCHEMA)


async def test_a_write_whose_rules_cost_much_holds_nobody(objects: Objects) -> None:
    body = {"metadata": {"name": "w"}, "spec": {"numbers": [1] * 360}}
    with watched() as steps:
        made = (await objects.create(COSTLY, "default", body, OPTIONS)).body
        change = {"spec": {"note": "x", "numbers": [2] * 360}}
        changed = (await objects.patch(COSTLY, "default", "w", change, MERGE, OPTIONS)).body
    assert made["spec"]["numbers"][0] == 1 and changed["spec"]["numbers"][0] == 2
    assert changed["metadata"]["generation"] == 2
    assert steps.longest_s < HELD_S
