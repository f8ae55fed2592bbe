"""The webhooks and policies of one request, in the order of a kube-apiserver.

Policies that change the object are evaluated first, then webhooks that change it are called one after the other, each
with what those before it made. A change by a later one has those asked once more that ask for it. Then, when the object
is checked, the other policies are evaluated, and all other webhooks are called at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from api.admission.dynamic import policies
from api.admission.dynamic.again import RoundState
from api.admission.dynamic.calling import CallFailure, Calls
from api.admission.dynamic.expressions import ConditionFailure, holding
from api.admission.dynamic.failing import FailingHooks
from api.admission.dynamic.matching import GROUP, Resource, as_resource, exempt
from api.admission.dynamic.mutating import MutatingPolicies
from api.admission.dynamic.names import Authorize, Surroundings
from api.admission.dynamic.policies import Policies
from api.admission.dynamic.review import Verdict, denial, request_of
from api.admission.dynamic.validating import ValidatingPolicies
from api.admission.dynamic.webhooks import Webhook, WebhookList
from api.engine.patch import json_patch
from api.engine.registry import Registry
from api.engine.status import StatusError, bad_request, forbidden, internal
from api.objects.converting import Conversions
from api.objects.hooking import HookRequest, RequestHooks, annotate
from api.objects.versions import Converter, in_version
from api.outgoing import OutgoingClient
from fleet.values.ports import Body, Ids, Store

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
_MUTATING, _VALIDATING = "mutating", "validating"
_ANY_OF = (MUTATING, VALIDATING, policies.MUTATING_BINDINGS, policies.VALIDATING_BINDINGS)
log = structlog.get_logger(__name__)


class DynamicAdmission:
    """Answers, for each request, who is to be asked about it. Install it as `Objects.hooks`."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        ids: Ids,
        outgoing: OutgoingClient,
        authorize: Authorize | None = None,
        failing: FailingHooks | None = None,
    ) -> None:
        """`authorize`: what `authorizer` in an expression asks; without it there is none. `failing`: is told of each
        call."""
        self._store, self._registry, self._ids, self._authorize = store, registry, ids, authorize
        self._calls = Calls(outgoing, store)
        self._failing = failing
        self._converter = Conversions(outgoing, store, ids)
        self._mutating = WebhookList(store, MUTATING)
        self._validating = WebhookList(store, VALIDATING)
        self._judging = Policies(store, policies.VALIDATING, policies.VALIDATING_BINDINGS)
        self._changing = Policies(store, policies.MUTATING, policies.MUTATING_BINDINGS)

    def __call__(self, request: HookRequest) -> RequestHooks | None:
        scan = self._store.scan
        # Most hubs have none of them, and every write comes by here.
        if not any(scan(GROUP, resource) for resource in _ANY_OF) or exempt(request):
            return None
        mutating, validating = _about(self._mutating.all(), request), _about(self._validating.all(), request)
        judging = self._judging.about(request)
        changing = self._changing.about(request) if request.operation != "DELETE" else ()
        if not mutating and not validating and not judging and not changing:
            return None
        warnings: list[str] = []
        return _Chain(
            request,
            self._store,
            self._ids,
            self._calls,
            mutating,
            validating,
            MutatingPolicies(request, self._store, self._registry, changing, self._authorize),
            ValidatingPolicies(request, self._store, self._registry, judging, self._authorize, warnings),
            self._authorize,
            warnings,
            self._converter,
            self._failing,
        )

    def failing(self) -> list[dict[str, Any]]:
        """The webhooks whose last calls by this process failed."""
        registered = (*self._mutating.all(), *self._validating.all())
        return self._failing.now(registered) if self._failing is not None else []


_Concerned = Sequence[tuple[Webhook, Resource]]


def _about(hooks: Sequence[Webhook], request: HookRequest) -> _Concerned:
    """The webhooks with a rule about the request, and the resource under the name that the rule has for it."""
    if not hooks:
        return ()
    named = ((hook, hook.match.resource(request)) for hook in hooks)
    return [(hook, resource) for hook, resource in named if resource is not None]


@dataclass
class _Chain:
    """The webhooks and policies of one request; `RequestHooks`."""

    request: HookRequest
    store: Store
    ids: Ids
    calls: Calls
    mutating: _Concerned
    validating: _Concerned
    changing: MutatingPolicies
    judging: ValidatingPolicies
    authorize: Authorize | None
    warnings: list[str]
    converter: Converter
    failing: FailingHooks | None
    again: RoundState = field(default_factory=RoundState)  # of the webhooks

    async def mutate(self, new: Body | None, old: Body | None) -> Body | None:
        current, changed_ever = new, False
        for second in (False, True):
            changed = False
            if current is not None and self.changing.policies:
                current, changed = await self.changing.run(current, old, second=second)
            current, called = await self._call_all(current, old, second=second)
            changed_ever |= changed or called
            if not changed and not called:
                break
        return current if changed_ever else None

    async def _call_all(self, current: Body | None, old: Body | None, *, second: bool) -> tuple[Body | None, bool]:
        """The object after the webhooks that are due, and whether any of them has changed it."""
        self.again.begin(current, second=second)
        changed_any = False
        for index, (hook, resource) in enumerate(self.mutating):
            if second and not self.again.is_due(hook.id):
                continue
            if not self._concerns(hook, resource, current, old):
                continue
            changed = await self._change(hook, resource, current, old, f"round_{int(second)}_index_{index}")
            if changed is not None:
                current, changed_any = changed, True
                self.again.changed()
            if hook.reinvoked:
                self.again.invoked(hook.id)
        self.again.end(current)
        return current, changed_any

    async def validate(self, new: Body | None, old: Body | None) -> None:
        if new is not None and not self.request.name:  # the name was generated after all changes
            self.request = replace(self.request, name=new["metadata"]["name"])
        if self.judging.policies:
            await self.judging.judge(self.request, new, old)
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
        if not hook.match.selects(self.request, new, old, self.store):
            return False
        if not hook.conditions:
            return True
        known = Surroundings(self.request, self.authorize).values(resource, new, old)
        try:
            return holding(hook.conditions, known)
        except ConditionFailure as problem:
            if hook.ignores_failures:
                return False
            kind = self.request.kind
            raise forbidden(kind.group, kind.resource, self.request.name, str(problem)) from None

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
        changed = _patched(hook, await self._under(resource, new), verdict.patch)
        kind = self.request.kind
        if kind.family is not None:
            changed = await in_version(kind, changed, self.converter)
        changed["apiVersion"] = new["apiVersion"]
        return changed if changed != new else None

    async def _under(self, resource: Resource, body: Body | None) -> Body | None:
        """The body in the version that a rule names."""
        family = self.request.kind.family
        kind = family.kinds.get(resource.api_version) if family is not None else None
        if kind is None or body is None:
            return as_resource(resource, body)
        return await in_version(kind, body, self.converter)

    async def _judge(self, hook: Webhook, resource: Resource, new: Body | None, old: Body | None, place: str) -> None:
        await self._ask(hook, resource, new, old, place, _VALIDATING)

    async def _ask(
        self, hook: Webhook, resource: Resource, new: Body | None, old: Body | None, place: str, which: str
    ) -> Verdict | None:
        """The webhook's consent; None where it failed and failures are ignored. StatusError for a refusal."""
        if self.request.options.dry_run and not hook.dry_run:
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        document = request_of(self.request, resource, self.ids.uid())
        new, old = await self._under(resource, new), await self._under(resource, old)
        try:
            verdict = await self.calls.ask(hook, document, new, old, mutating=which == _MUTATING)
        except CallFailure as problem:
            self._note(hook, which, str(problem))
            why = f'failed calling webhook "{hook.name}": {problem}'
            log.warning("a webhook failed", webhook=hook.name, ignored=hook.ignores_failures, why=str(problem))
            if hook.ignores_failures:
                annotate(f"failed-open.{which}.webhook.admission.k8s.io/{place}", hook.name)
                return None
            raise internal(why) from None
        self._note(hook, which, "")
        for key, value in verdict.annotations.items():
            annotate(f"{hook.name}/{key}", value)
        self.warnings += verdict.warnings
        if not verdict.allowed:
            raise denial(hook.name, verdict.result)
        return verdict

    def _note(self, hook: Webhook, which: str, error: str) -> None:
        if self.failing is not None:
            self.failing.note(hook, f"{which.capitalize()}WebhookConfiguration", error)


def _patched(hook: Webhook, body: Body | None, patch: list[Any]) -> Body:
    """StatusError 500 where the patch does not fit: the webhook is at fault, and not the client."""
    assert body is not None
    try:
        return json_patch(body, patch)
    except StatusError:
        raise internal(f'the patch of admission webhook "{hook.name}" does not apply to the object') from None
