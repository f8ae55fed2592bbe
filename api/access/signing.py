"""The right to approve or deny a CertificateSigningRequest: the verb `approve` on its signer, beside that to update
`certificatesigningrequests/approval`."""

from __future__ import annotations

from collections.abc import Sequence

from api.admission.signing import GROUP, RESOURCE
from api.engine.status import Cause, forbidden
from api.objects.objects import Objects
from api.objects.writing import Review, Rule
from api.wire.rights import Attributes, Authorizer
from fleet.values.ports import Body
from fleet.values.times import rfc3339
from fleet.values.untyped import at, rows, text


def install(objects: Objects, authorizer: Authorizer) -> None:
    """Put the check before the rule that `objects` has for these requests."""
    at_ = (GROUP, RESOURCE)
    if objects.registry.resource(*at_) is not None:
        objects.rules[at_] = SigningRule(authorizer, objects.rules.get(at_))


class SigningRule:
    """An admission rule before another."""

    def __init__(self, authorizer: Authorizer, then: Rule | None) -> None:
        self._authorizer, self._then = authorizer, then

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]:
        if review.subresource and review.new is not None and review.old is not None:
            if review.subresource == "approval":
                self._need_right(review, text(at(review.old, "spec", "signerName")))
            _date(review.new, review.old, rfc3339(objects.clock.now()))
        return await self._then(review, objects) if self._then is not None else ()

    def _need_right(self, review: Review, signer: str) -> None:
        names = (signer, f"{signer.partition('/')[0]}/*")
        wanted = [Attributes("approve", GROUP, "signers", "", "", name) for name in names]
        if not any(self._authorizer.allowed(review.user, attributes) for attributes in wanted):
            why = f'user not permitted to approve requests with signerName "{signer}"'
            raise forbidden(review.kind.group, review.kind.resource, review.name, why)


def _date(new: Body, old: Body, now: str) -> None:
    """Fill the times of conditions in that their writer has left out."""
    known = {(row.get("type"), row.get("status")): row for row in rows(at(old, "status", "conditions"))}
    for row in rows(at(new, "status", "conditions")):
        before = known.get((row.get("type"), row.get("status")), {})
        if not row.get("lastUpdateTime"):
            row["lastUpdateTime"] = now
        if not row.get("lastTransitionTime"):
            row["lastTransitionTime"] = before.get("lastTransitionTime") or now
