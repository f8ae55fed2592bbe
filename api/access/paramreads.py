"""The right to parameters of a policy: the policy reads them for its author, whose messages may quote them.

Without this check, an administrator of policies who may not read Secrets could bind a policy to one, and have its
message expression say what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from api.admission.causes import forbidden
from api.admission.dynamic import policies
from api.admission.dynamic.matching import GROUP
from api.engine.status import Cause
from api.objects.objects import Objects
from api.objects.writing import Review, Rule
from api.wire.rights import Attributes, Authorizer
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import mapping, text

# The kind of the policies that each kind of bindings names.
_BOUND = {policies.VALIDATING_BINDINGS: policies.VALIDATING, policies.MUTATING_BINDINGS: policies.MUTATING}


def install(objects: Objects, authorizer: Authorizer) -> None:
    """Put the check behind the rules that `objects` has for policies and bindings."""
    for resource in (*_BOUND, *_BOUND.values()):
        at = (GROUP, resource)
        if objects.registry.resource(*at) is not None:
            objects.rules[at] = ParamReads(authorizer, objects, objects.rules.get(at))


class ParamReads:
    """An admission rule for one kind of policies or bindings, behind another. It waits for nothing itself."""

    def __init__(self, authorizer: Authorizer, objects: Objects, first: Rule | None) -> None:
        self._authorizer, self._objects, self._first = authorizer, objects, first

    async def __call__(self, review: Review, objects: Objects) -> Sequence[Cause]:
        causes = await self._first(review, objects) if self._first is not None else ()
        if causes or review.new is None or review.operation == "DELETE" or review.subresource or review.user.hub:
            return causes
        policy_of = _BOUND.get(review.kind.resource)
        field, keys = ("paramKind", ["paramKind"]) if policy_of is None else ("paramRef", ["paramRef", "policyName"])
        spec, before = mapping(review.new.get("spec")), mapping((review.old or {}).get("spec"))
        if spec.get(field) is None or (review.old is not None and all(spec.get(k) == before.get(k) for k in keys)):
            return ()
        wanted = self._of_policy(spec) if policy_of is None else self._of_binding(spec, policy_of, objects.store)
        if self._authorizer.allowed(review.user, wanted):
            return ()
        what = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
        why = f'user "{review.user.name}" may not {wanted.verb} the parameters ({what}) that it names'
        return [forbidden(f"spec.{field}", why)]

    def _of_policy(self, spec: Body) -> Attributes:
        """The right to list objects of the parameters' kind: any kind, while it is not known."""
        kind = mapping(spec.get("paramKind"))
        found = self._objects.registry.kind_of(text(kind.get("apiVersion")), text(kind.get("kind"))) if kind else None
        return Attributes("list", found.group, found.resource) if found is not None else Attributes("list", "*", "*")

    def _of_binding(self, spec: Body, policy_of: str, store: Store) -> Attributes:
        """The right to read the parameters that the binding names. `policy_of`: the kind that it binds."""
        stored = store.peek(Key(GROUP, policy_of, "", text(spec.get("policyName"))))
        kind = self._of_policy(mapping(stored.body.get("spec")) if stored is not None else {})
        ref = mapping(spec.get("paramRef"))
        name = text(ref.get("name"))
        verb = "get" if name else "list"
        return replace(kind, verb=verb, namespace=text(ref.get("namespace")), name=name)
