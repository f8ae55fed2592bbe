"""The fate of a job before its submission, under /fleet/v1/check: nothing is stored.

The manifest goes through all checks of the hub, as its user. The rest is asked of the decider's newest snapshot, as
what-if asks it (whatif.py): the members that have room, and the start.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.engine.status import StatusError
from api.fairness.questions import Questions
from api.objects.writing import Options
from api.wire.negotiation import read_object
from api.wire.rights import Attributes
from fleet.admission.latest import LatestSnapshots, StoredSnapshot
from fleet.admission.selecting import best_policy, policies_for, policy_reference
from fleet.core.decide import BadSnapshot
from fleet.core.foresee.edits import BadEdit, Submit
from fleet.core.foresee.estimate import never
from fleet.core.foresee.fits import fits
from fleet.core.foresee.whatif import Comparison
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Unit
from fleet.kinds import kind_word
from fleet.rest.checkmodels import Checked
from fleet.rest.context import RestHub, answer, hub_request, need, user_of, wrong
from fleet.rest.manifest import manifest_of
from fleet.rest.questions import UnitOf
from fleet.rest.whatif import SEED, compared
from fleet.values.ports import Body, Key
from fleet.values.times import instant

MEMBERS_S = 5.0  # that looking at all members may take
_MANIFEST = {
    "requestBody": {
        "required": True,
        "description": "The manifest of one job.",
        "content": {"application/json": {"schema": {"type": "object"}}, "application/yaml": {"schema": {}}},
    }
}


def router(hub: RestHub, snapshots: LatestSnapshots, unit_of: UnitOf, turns: Questions) -> APIRouter:
    routes = APIRouter(tags=["jobs"])
    checks = Checks(hub, snapshots, unit_of, turns)

    @routes.post("/check", response_model=Checked, summary="What would become of a job", openapi_extra=_MANIFEST)
    async def check_job(request: Request, namespace: str | None = None) -> Response:
        """The policy that takes the manifest, its queue, the members that have room for it now, and its start. Nothing
        is stored. A manifest that would be refused is refused here, with the same status. Needs `create` on its kind in
        its namespace."""
        return await checks.of(request, namespace)

    return routes


class Checks:
    """The route, apart from its declaration."""

    def __init__(self, hub: RestHub, snapshots: LatestSnapshots, unit_of: UnitOf, turns: Questions) -> None:
        self._hub = hub
        self._snapshots = snapshots
        self._unit_of = unit_of
        self._turns = turns

    async def of(self, request: Request, namespace: str | None) -> Response:
        body, _ = await read_object(hub_request(request), field_validation="Ignore")
        read = manifest_of(body, self._hub.registry, namespace)
        need(request, Attributes("create", read.kind.group, read.kind.resource, namespace=read.namespace))
        options = Options(user_of(request), hub_request(request).agent, True, "Strict")
        written = await self._hub.objects.create(read.kind, read.namespace, read.body, options)
        key = Key(read.kind.group, read.kind.resource, read.namespace, written.body["metadata"]["name"])
        policy = best_policy(written.body, policies_for(self._hub.store, read.kind, key, written.body))
        report: dict[str, Any] = {
            "namespace": read.namespace,
            "kind": kind_word(read.kind.group, read.kind.kind),
            "name": key.name,
            "policy": policy_reference(policy) if policy is not None else None,
            "queue": None,
            "verdict": "unknown",
            "start": None,
            "reason": None,
            "member": None,
            "members": [],
            "why": None,
        }
        async with self._turns.turn(options.user.name):
            foreseen = await self._foreseen(written.body, read.namespace)
        return answer({**report, **foreseen}, warnings=tuple(written.warnings))

    async def _foreseen(self, body: Body, namespace: str) -> dict[str, Any]:
        """The decider's answer about the job; `why`: the cause where there is none."""
        try:
            latest = await self._snapshots.latest()
            unit = self._unit_of(body, namespace, latest.now, latest.snapshot)
        except StatusError as error:
            return {"why": error.message}
        except ValueError as error:
            return {"verdict": "never", "why": str(error)}
        try:
            found = await compared(self._hub, latest, [Submit(unit)])
        except (BadSnapshot, BadEdit) as error:
            raise wrong("metadata.name", str(error)[:2000]) from error
        members = await asyncio.to_thread(_members, latest, unit, namespace)
        return {"queue": unit.leaf, "members": members, **_start(found, unit, namespace)}


def _members(latest: StoredSnapshot, unit: Unit, namespace: str) -> list[dict[str, Any]]:
    began = time.monotonic()
    found = fits(latest.snapshot, unit, now=latest.now, seed=SEED, enough=lambda: time.monotonic() > began + MEMBERS_S)
    return [
        {"name": name, "fits": reason is None, "reason": _told(reason, namespace)} for name, reason in found.items()
    ]


def _start(found: Comparison, unit: Unit, namespace: str) -> dict[str, Any]:
    row = next((row for row in found.rows if row.unit.id == unit.id), None)
    reason = row.after.reason if row is not None else found.after.reasons.get(unit.id)
    if row is not None and reason is None:
        return {"verdict": "starts", "member": row.after.member or None}
    when = row.after.when if row is not None else None
    start = None
    if when is not None and when.known:
        late = None if when.p90 == float("inf") else instant(when.p90)
        start = {"p10": instant(when.p10), "p50": instant(when.p50), "p90": late}
    ends = reason is not None and never(reason)
    return {"verdict": "never" if ends else "waits", "start": start, "reason": _told(reason, namespace)}


def _told(reason: Reason | None, namespace: str) -> dict[str, Any] | None:
    if reason is None:
        return None
    told = reason.told_to(namespace)
    return {"code": told.code.value, "text": told.text, "numbers": told.figures}
