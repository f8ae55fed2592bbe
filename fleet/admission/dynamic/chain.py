"""The webhooks and policies of one request, in the order of a kube-apiserver.

Webhooks that change the object are called one after the other, each with what those before it made. A change by a later
one has those called once more that ask for it. Then, when the object is checked, the policies are asked, and
all other webhooks at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from fleet.admission.dynamic.calling import CallFailed, Calls
from fleet.admission.dynamic.expressions import ConditionFailed, Values, holding
from fleet.admission.dynamic.matching import GROUP, Resource, as_resource, exempt
from fleet.admission.dynamic.policies import BINDINGS, Policies
from fleet.admission.dynamic.review import Verdict, denial, request_of
from fleet.admission.dynamic.validating import Judging
from fleet.admission.dynamic.webhooks import Registered, Webhook
from fleet.engine.patch import json_patch
from fleet.engine.registry import Registry
from fleet.engine.status import StatusError, bad_request, forbidden, internal
from fleet.objects.hooking import Asked, Hooked, annotate
from fleet.outgoing import Outgoing
from fleet.ports import Body, Ids, Store

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
_MUTATING, _VALIDATING = "mutating", "validating"
log = structlog.get_logger(__name__)


class Dynamic:
    """Answers, for each request, who is to be asked about it. Install it as `Objects.hooks`."""

    def __init__(self, store: Store, registry: Registry, ids: Ids, outgoing: Outgoing) -> None:
        self._store, self._registry, self._ids = store, registry, ids
        self._calls = Calls(outgoing, store)
        self._mutating = Registered(store, MUTATING)
        self._validating = Registered(store, VALIDATING)
        self._policies = Policies(store)

    def __call__(self, asked: Asked) -> Hooked | None:
        scan = self._store.scan
        # Most hubs have none of them, and every write comes by here.
        if not (scan(GROUP, MUTATING) or scan(GROUP, VALIDATING) or scan(GROUP, BINDINGS)) or exempt(asked):
            return None
        mutating, validating = _about(self._mutating.all(), asked), _about(self._validating.all(), asked)
        warnings: list[str] = []
        judging = Judging.of(asked, self._store, self._registry, self._policies, warnings)
        if not mutating and not validating and judging is None:
            return None
        return _Chain(asked, self._store, self._ids, self._calls, mutating, validating, judging, warnings)


_Concerned = Sequence[tuple[Webhook, Resource]]


def _about(hooks: Sequence[Webhook], asked: Asked) -> _Concerned:
    """The webhooks with a rule about the request, and the resource under the name that the rule has for it."""
    if not hooks:
        return ()
    named = ((hook, hook.match.resource(asked)) for hook in hooks)
    return [(hook, resource) for hook, resource in named if resource is not None]


@dataclass
class _Chain:
    """The webhooks and policies of one request; `Hooked`."""

    asked: Asked
    store: Store
    ids: Ids
    calls: Calls
    mutating: _Concerned
    validating: _Concerned
    judging: Judging | None
    warnings: list[str]

    async def mutate(self, new: Body | None, old: Body | None) -> Body | None:
        current, changed_ever = new, False
        invoked: set[str] = set()  # those that ask to be called again
        again: set[str] | None = None  # in the second round: those that are
        for second in (False, True):
            due: set[str] = set()
            for index, (hook, resource) in enumerate(self.mutating):
                if again is not None and hook.id not in again:
                    continue
                if not self._concerns(hook, resource, current, old):
                    continue
                changed = await self._change(hook, resource, current, old, f"round_{int(second)}_index_{index}")
                if changed is not None:
                    current, changed_ever = changed, True
                    due |= invoked
                    invoked = set()
                    if again is not None:
                        again |= due
                if hook.reinvoked:
                    invoked.add(hook.id)
            if second or not due:
                break
            again = due
        return current if changed_ever else None

    async def validate(self, new: Body | None, old: Body | None) -> None:
        if new is not None and not self.asked.name:  # the name was generated after all changes
            self.asked = replace(self.asked, name=new["metadata"]["name"])
        if self.judging is not None:
            self.judging.judge(self.asked, new, old)
        due = [
            (index, hook, resource)
            for index, (hook, resource) in enumerate(self.validating)
            if self._concerns(hook, resource, new, old)
        ]
        outcomes = await asyncio.gather(
            *(self._judge(hook, resource, new, old, f"round_0_index_{index}") for index, hook, resource in due),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _concerns(self, hook: Webhook, resource: Resource, new: Body | None, old: Body | None) -> bool:
        """Whether the selectors and conditions of the webhook hold. StatusError 403 where a condition cannot be
        evaluated."""
        if not hook.match.selects(self.asked, new, old, self.store):
            return False
        if not hook.conditions:
            return True
        values = Values({
            "object": as_resource(resource, new), "oldObject": as_resource(resource, old), "namespaceObject": None,
            "request": request_of(self.asked, resource),
        })  # fmt: skip
        try:
            return holding(hook.conditions, values)
        except ConditionFailed as problem:
            if hook.ignores_failures:
                return False
            kind = self.asked.kind
            raise forbidden(kind.group, kind.resource, self.asked.name, str(problem)) from None

    async def _change(
        self, hook: Webhook, resource: Resource, new: Body | None, old: Body | None, place: str
    ) -> Body | None:
        """The body as the webhook changes it, None where it stays."""
        verdict = await self._ask(hook, resource, new, old, place, _MUTATING)
        if verdict is None or not verdict.patch:
            return None
        if new is None:
            why = "attempted to modify the object, which is not supported for this operation"
            raise internal(f'admission webhook "{hook.name}" {why}')
        changed = _patched(hook, as_resource(resource, new), verdict.patch)
        changed["apiVersion"] = new["apiVersion"]
        return changed if changed != new else None

    async def _judge(self, hook: Webhook, resource: Resource, new: Body | None, old: Body | None, place: str) -> None:
        await self._ask(hook, resource, new, old, place, _VALIDATING)

    async def _ask(
        self, hook: Webhook, resource: Resource, new: Body | None, old: Body | None, place: str, which: str
    ) -> Verdict | None:
        """The webhook's consent; None where it failed and failures are ignored. StatusError for a refusal."""
        if self.asked.options.dry_run and not hook.dry_run:
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        request = request_of(self.asked, resource, self.ids.uid())
        try:
            verdict = await self.calls.ask(
                hook, request, as_resource(resource, new), as_resource(resource, old), mutating=which == _MUTATING
            )
        except CallFailed as problem:
            why = f'failed calling webhook "{hook.name}": {problem}'
            log.warning("a webhook failed", webhook=hook.name, ignored=hook.ignores_failures, why=str(problem))
            if hook.ignores_failures:
                annotate(f"failed-open.{which}.webhook.admission.k8s.io/{place}", hook.name)
                return None
            raise internal(why) from None
        for key, value in verdict.annotations.items():
            annotate(f"{hook.name}/{key}", value)
        self.warnings += verdict.warnings
        if not verdict.allowed:
            raise denial(hook.name, verdict.result)
        return verdict


def _patched(hook: Webhook, body: Body | None, patch: list[Any]) -> Body:
    """StatusError 500 where the patch does not fit: the webhook is at fault, and not the client."""
    assert body is not None
    try:
        return json_patch(body, patch)
    except StatusError:
        raise internal(f'the patch of admission webhook "{hook.name}" does not apply to the object') from None
