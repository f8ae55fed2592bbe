"""The call of an admission webhook: one question, and its answer."""

from __future__ import annotations

from api.admission.dynamic.review import BadAnswer, Verdict, question, verdict, version_for
from api.admission.dynamic.webhooks import Webhook
from api.objects.calling import HookClient, HookFailure
from api.outgoing import OutgoingClient
from fleet.values.ports import Body, Store

ANSWER_BYTES_MAX = 4 << 20


class CallFailure(Exception):
    """The webhook gave no usable answer. The text is for the client."""


class Calls:
    """Calls webhooks through the one client for outgoing requests."""

    def __init__(self, outgoing: OutgoingClient, store: Store) -> None:
        self._client = HookClient(outgoing, store)

    async def ask(self, hook: Webhook, request: Body, new: Body | None, old: Body | None, *, mutating: bool) -> Verdict:
        """One question. Raises CallFailure."""
        version = version_for(hook)
        if not version:
            why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailure(f"could not create admission objects: {why}")
        body = question(version, request, new, old)
        try:
            content = await self._client.post(
                hook.client, body, timeout=hook.timeout_s, limit=ANSWER_BYTES_MAX, query=f"timeout={hook.timeout_s}s"
            )
        except HookFailure as problem:
            raise CallFailure(f"failed to call webhook: {problem}") from None
        try:
            return verdict(version, request["uid"], content, mutating=mutating)
        except BadAnswer as problem:
            raise CallFailure(f"received invalid webhook response: {problem}") from None
