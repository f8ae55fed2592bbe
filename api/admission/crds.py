"""CustomResourceDefinitions: valid ones are taken."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from api.admission.causes import forbidden as forbidden_here
from api.admission.causes import invalid, required
from api.admission.dynamic.registration import client_faults, version_faults
from api.admission.rule import Checks, immutable, of_new
from api.engine import crd
from api.engine.status import Cause, forbidden
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.values.untyped import at, mapping, rows, text, texts


def _defaults(review: Review) -> Sequence[Cause]:
    if review.new is not None and not review.subresource:
        crd.default(review.new)
        if review.operation == "CREATE":
            finalizers = review.new["metadata"]["finalizers"] = list(review.new["metadata"].get("finalizers") or ())
            if crd.FINALIZER not in finalizers:
                finalizers.append(crd.FINALIZER)
    return ()


def _conversion(review: Review) -> Sequence[Cause]:
    """A webhook that conversions can never reach, or one that no strategy asks for."""
    if review.new is None or review.subresource:
        return ()
    conversion = mapping(at(review.new, "spec", "conversion"))
    webhook, where = conversion.get("webhook"), "spec.conversion"
    client, versions = at(webhook, "clientConfig"), texts(at(webhook, "conversionReviewVersions"))
    if conversion.get("strategy") != "Webhook":
        why = "should not be set when strategy is not set to Webhook"
        given = (("webhookClientConfig", client), ("conversionReviewVersions", versions))
        return [forbidden_here(f"{where}.{name}", why) for name, value in given if value]
    if not client:
        causes = [required(f"{where}.webhookClientConfig", "required when strategy is set to Webhook")]
    else:
        causes = client_faults(f"{where}.webhookClientConfig", client)
    where = f"{where}.conversionReviewVersions"
    return [*causes, *(version_faults(where, [*versions]) if versions else [required(where)])]


def _stored_versions(review: Review, seeded: str) -> Sequence[Cause]:
    """A version in which objects may still be stored stays in the list. A definition that the server brought gives way
    to that of its project while nobody has an object of it."""
    if review.new is None or review.old is None or review.subresource:
        return ()
    if seeded in mapping(review.old["metadata"].get("annotations")) and not _has_objects(review):
        return ()
    names = {version.get("name") for version in rows(at(review.new, "spec", "versions"))}
    stored = texts(at(review.old, "status", "storedVersions"))
    return [
        invalid(
            f"status.storedVersions[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
            f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
            " status.storedVersions",
        )
        for index, name in enumerate(stored)
        if name not in names
    ]


def _has_objects(review: Review) -> bool:
    spec = mapping(at(review.old, "spec"))
    group, plural = text(spec.get("group")), text(at(spec, "names", "plural"))
    return review.store is None or len(review.store.scan(group, plural)) > 0


async def _free_names(review: Review, objects: Objects) -> Sequence[Cause]:
    """A CRD must not take the place of a built-in kind."""
    if review.new is None or review.subresource:
        return ()
    spec = review.new["spec"]
    known = objects.registry.resource(spec["group"], spec["names"]["plural"])
    if known is not None and known.builtin and known.group == spec["group"]:
        raise forbidden(review.kind.group, review.kind.resource, review.name, "it is the name of a built-in kind")
    return ()


def rule(seeded: str) -> Checks:
    """`seeded`: the annotation of the definitions that the server brought by itself."""
    return Checks(
        _defaults,
        of_new(crd.validate),
        _conversion,
        partial(_stored_versions, seeded=seeded),
        immutable("spec.group", "spec.names.plural", "spec.names.kind", "spec.scope"),
        ask=_free_names,
    )
