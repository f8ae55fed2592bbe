"""The meaning of a write of an object: the pure half of create and update.

Every function gets its own copy of what it may change, and returns the body to store. Refusals are StatusError. The
order is a kube-apiserver's: decode (prune, default), keep what the writer may not touch, validate, then managedFields.
A write that changes nothing returns the old body itself, so that the caller can see that there is nothing to store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from api.engine import fields, meta
from api.engine.builtin import complete
from api.engine.builtin import namespace as complete_namespace
from api.engine.default import default
from api.engine.firststatus import first_status
from api.engine.gowords import unconvertible, undecodable
from api.engine.kind import Body, Kind
from api.engine.prune import Removed, prune
from api.engine.schema import ANYTHING, META, compiled
from api.engine.status import Cause, StatusError, bad_request, conflict, cut, invalid
from api.engine.validate import exact, unchanged_fields, validate, value_text, wrong_types
from fleet.values import untyped
from fleet.values.times import rfc3339
from fleet.values.untyped import at

_CONDITIONAL = frozenset({("coordination.k8s.io", "leases"), ("apiextensions.k8s.io", "customresourcedefinitions")})
PATCH_CHARACTERS_MAX = 4_000  # of an outcome that a refusal quotes
UNKNOWN_MAX = 100  # fields that a refusal or a client's warnings name
_ADMISSION = "admissionregistration.k8s.io"  # its kinds have generations, though most have no status
# Built-in kinds count their generations when they have a status, but for these.
_NO_GENERATION = frozenset(
    {
        ("", "namespaces"),
        ("", "nodes"),
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "resourcequotas"),
        ("", "services"),
        ("autoscaling", "horizontalpodautoscalers"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "resourceclaims"),
        ("storage.k8s.io", "volumeattachments"),
    }
)
_GENERATION = frozenset(
    {
        ("", "podtemplates"),
        ("discovery.k8s.io", "endpointslices"),
        ("networking.k8s.io", "ingressclasses"),
        ("networking.k8s.io", "networkpolicies"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceslices"),
    }
)


@dataclass(frozen=True, slots=True)
class Author:
    """The writer, for managedFields: the field manager, and the subresource that was written."""

    manager: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """`body` is what to store; `warnings` are for the client. `finished`: the write removed the last finalizer of an
    object that is being deleted, so the object is to be removed instead of stored."""

    body: Body
    warnings: tuple[str, ...] = ()
    finished: bool = False


def identify(kind: Kind, namespace: str, body: Any) -> None:
    """Check (and fill in) apiVersion, kind and namespace of a body sent for `kind` in `namespace`."""
    if body.__class__ is not dict:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): not a JSON object")
    version = body.setdefault("apiVersion", kind.api_version)
    if version != kind.api_version and version not in kind.aliases:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    body["apiVersion"] = kind.api_version
    if body.setdefault("kind", kind.kind) != kind.kind:
        kind_name = body["kind"]
        raise invalid(
            kind.group,
            cut(str(kind_name)),
            untyped.text(at(body, "metadata", "name")),
            [Cause("kind", f"Invalid value: {value_text(kind_name)}: must be {kind.kind}")],
        )
    metadata = body.get("metadata")
    if metadata is None:
        metadata = body["metadata"] = {}
    if metadata.__class__ is not dict:
        raise bad_request(
            f"{kind.kind} in version {kind.version!r} cannot be handled as a {kind.kind}: metadata is not an object"
        )
    given = metadata.get("namespace") or ""
    if kind.namespaced:
        if given and given != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace
    elif given:
        metadata.pop("namespace")


def decode(
    kind: Kind,
    body: Body,
    field_validation: str,
    old: Body | None = None,
    *,
    patched: bool = False,
    quote: str = "",
    changes: bool = False,
) -> tuple[str, ...]:
    """Prune and default `body` in place, but for top-level fields that are as in `old` (`changes`: for anything that is
    as there). Returns warnings; Strict raises 400 for unknown fields (422 for those that a patch brought, as a
    kube-apiserver does)."""
    root = compiled(kind)
    complete(kind, body)
    same = unchanged_fields(root, body, old)
    part = {k: v for k, v in body.items() if k not in same} if same else body
    unknown: list[str] = []
    removed: list[Removed] = []
    before = old if changes else None
    if default(root, part, old=before):
        prune(root, part, "", unknown, removed)
    if "metadata" not in same:  # everything below takes its types for granted
        metadata_node = root.child("metadata") or META
        for cause in wrong_types(metadata_node, body["metadata"], "metadata", before and before["metadata"]):
            raise _wrong_type(kind, cause, {**body, **part}, patched, quote)
    if same:
        for key in body.keys() - same - part.keys():
            del body[key]
    if patched and kind.builtin:
        for key, value in part.items():
            for cause in wrong_types(root.child(key) or ANYTHING, value, key):
                raise _wrong_type(kind, cause, {**body, **part}, patched, quote)
    if not unknown or field_validation == "Ignore":
        return ()
    texts = tuple(f'unknown field "{cut(path)}"' for path in unknown[:UNKNOWN_MAX])
    if field_validation == "Warn":
        return texts
    text = f"strict decoding error: {', '.join(texts)}"
    if patched:
        for holder, key, value in removed:
            holder[key] = value
        raise _bad_patch({**body, **part}, quote, text)
    raise bad_request(f"{_cannot(kind)}: {text}")


def _bad_patch(body: Body, quote: str, text: str) -> StatusError:
    """A patch whose outcome cannot be read: 422, quoting what was sent or else the outcome."""
    quote = quote or json.dumps(body, separators=(",", ":"), sort_keys=True)
    return invalid("", "", "", [Cause("patch", f"Invalid value: {cut(exact(quote), PATCH_CHARACTERS_MAX)}: {text}")])


def _wrong_type(kind: Kind, cause: Cause, body: Body, patched: bool, quote: str) -> StatusError:
    if not patched:
        return bad_request(f"{_cannot(kind)}: {undecodable(kind, cause)}")
    return _bad_patch(body, quote, unconvertible(cause) if quote else undecodable(kind, cause))


def _cannot(kind: Kind) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'


def _refuse(kind: Kind, body: Body, causes: list[Cause], *, draft: bool = False) -> None:
    if draft:
        causes = [cause for cause in causes if cause.reason == "FieldValueTypeInvalid"]
    if not causes:
        return
    for cause in causes:
        # The parts that a kube-apiserver decodes into Go types fail there, before validation: metadata, and built-in
        # kinds.
        if cause.reason == "FieldValueTypeInvalid" and (kind.builtin or cause.field.startswith("metadata.")):
            raise bad_request(f"{_cannot(kind)}: {undecodable(kind, cause)}")
    raise invalid(kind.group, kind.kind, (body.get("metadata") or {}).get("name") or "", causes)


def counts_generations(kind: Kind) -> bool:
    """Does the kind keep metadata.generation?"""
    if not kind.builtin or kind.group == _ADMISSION:
        return True
    name = (kind.group, kind.resource)
    return name not in _NO_GENERATION if kind.status else name in _GENERATION


def prepare_create(
    kind: Kind,
    namespace: str,
    body: Body,
    author: Author,
    *,
    now: float,
    uid: str,
    suffix: str = "",
    field_validation: str = "Strict",
    with_status: bool = False,
    managed: list[Any] | None = None,
    draft: bool = False,
) -> PreparedWrite:
    """A new object. `body` is the caller's to give away. `suffix` completes generateName. Unless `with_status`, a
    status is dropped where the kind has the subresource. `managed` is the managedFields of an apply. A `draft` may have
    faults that others correct before the object is prepared for good; only its types are checked."""
    identify(kind, namespace, body)
    begun = None
    if kind.status and not with_status:
        begun = first_status(kind, body)
        body.pop("status", None)
        if begun is not None:
            body["status"] = begun
    warnings = decode(kind, body, field_validation)
    metadata = body["metadata"]
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for key in ("selfLink", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(key, None)
    claimed = metadata.pop("managedFields", None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = rfc3339(now)
    if not metadata.get("name") and metadata.get("generateName"):
        prefix = metadata["generateName"]
        if prefix.__class__ is str:
            metadata["name"] = prefix[: meta.GENERATED_PREFIX_MAX] + suffix
    if counts_generations(kind) or kind.resource == "priorityclasses":  # whose generation is 1 for ever
        metadata["generation"] = 1
    content = body
    if kind.group == "" and kind.resource == "namespaces":
        content = {k: v for k, v in body.items() if k != "status"}
        _new_namespace(body)
    elif begun is not None:  # values of the server belong to no manager
        content = {k: v for k, v in body.items() if k != "status"}
    warnings += meta.tidy(metadata)
    _refuse(kind, body, validate(compiled(kind), body, None, meta.check(kind, metadata)), draft=draft)
    if not kind.builtin:
        warnings += meta.finalizer_warnings(metadata)
    if managed is None:
        root = compiled(kind)
        given = claimed if claimed and fields.sound(claimed) else []
        managed = fields.record_update(root, kind, None, content, given, author.manager, author.subresource, now)
    if managed:
        metadata["managedFields"] = managed
    return PreparedWrite(body, warnings)


def _new_namespace(body: Body) -> None:
    spec = body.get("spec") or {}
    if spec.__class__ is dict:
        body["spec"] = {**spec, "finalizers": spec.get("finalizers") or ["kubernetes"]}
    body["status"] = {"phase": "Active"}
    complete_namespace(body)  # again: a generated name was not known when it was decoded


def need_version(kind: Kind, name: str, body: Any) -> None:
    """A PUT of these kinds must say which state it replaces; StatusError 422."""
    if kind.builtin and kind.group != _ADMISSION and (kind.group, kind.resource) not in _CONDITIONAL:
        return
    metadata = body.get("metadata") if body.__class__ is dict else None
    if metadata.__class__ is dict and metadata.get("resourceVersion") in (None, "", "0"):
        cause = Cause("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
        raise invalid(kind.group, kind.resource, name, [cause])


def prepare_update(
    kind: Kind,
    old: Body,
    new: Body,
    author: Author,
    *,
    now: float,
    field_validation: str = "Strict",
    whole: bool = False,
    patched: bool = False,
    quote: str = "",
    managed: list[Any] | None = None,
    draft: bool = False,
) -> PreparedWrite:
    """`new` in place of `old`, through `author.subresource`. `old` is not changed; `new` is the caller's to give away.

    The main resource leaves the status alone and /status leaves all else alone; `whole` (for controllers) writes both
    at once, and is checked in what differs from `old` alone. `patched`: `new` is the outcome of a patch, of which
    refusals show `quote`. `managed` is the finished managedFields of an apply; otherwise they are kept here.
    `draft`: as in `prepare_create`.
    """
    before = old["metadata"]
    namespace = before.get("namespace") or ""
    identify(kind, namespace, new)
    metadata = new["metadata"]
    _must_mean(kind, before, metadata, patched=patched)
    # What was stored in another version has not been through this schema, so all of it is looked at.
    settled_by = old if kind.family is None else None
    warnings = decode(kind, new, field_validation, settled_by, patched=patched, quote=quote, changes=whole)
    warnings += meta.tidy(metadata)
    claimed = metadata.pop("managedFields", None)
    new = _only_what_is_written(kind, old, new, author.subresource, whole)
    metadata = new["metadata"]
    set_or_drop(metadata, "resourceVersion", before.get("resourceVersion"))
    causes = meta.carry_over(before, metadata)
    metadata.pop("managedFields", None)
    old_managed = before.get("managedFields") or []
    if managed is None and claimed is not None and claimed != old_managed and fields.sound(claimed):
        old_managed = [item for item in claimed if item.get("manager")]  # a client may rewrite or clear them
    same = _equal_but_managed(old, new)
    if same and managed is None and old_managed == (before.get("managedFields") or []):
        _refuse(kind, new, causes, draft=draft)
        return PreparedWrite(old, warnings)
    causes += meta.check(kind, metadata)
    _refuse(kind, new, validate(compiled(kind), new, old, causes, changes=whole), draft=draft)
    if counts_generations(kind) and not same and _content_changed(kind, old, new):
        metadata["generation"] = (before.get("generation") or 0) + 1
    if managed is None:
        managed = fields.record_update(
            compiled(kind), kind, old, new, old_managed, author.manager, author.subresource, now
        )
    if managed:
        metadata["managedFields"] = managed
    if same and managed == (before.get("managedFields") or []):
        return PreparedWrite(old, warnings)
    return PreparedWrite(new, warnings, finished=is_finished(kind, new))


def _must_mean(kind: Kind, before: Body, metadata: Body, *, patched: bool) -> None:
    """Raise StatusError 400 or 409 for metadata that names another object than the stored one, or an older state."""
    if metadata.setdefault("name", before["name"]) != before["name"]:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({before['name']})"
        )
    wanted_uid = metadata.get("uid")
    if wanted_uid and wanted_uid != before["uid"] and not patched:
        why = f"Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {before['uid']}"
        raise conflict(kind.group, kind.resource, before["name"], why)
    wanted = metadata.get("resourceVersion")
    if wanted and wanted != "0" and wanted != before.get("resourceVersion"):
        raise conflict(kind.group, kind.resource, before["name"])


def _only_what_is_written(kind: Kind, old: Body, new: Body, subresource: str, whole: bool) -> Body:
    if whole or (not kind.status and subresource != "status"):
        return new
    if subresource in ("status", "approval"):
        result = dict(old)
        metadata = dict(old["metadata"])
        if kind.builtin:  # built-in strategies let /status change labels and the like; owners stay
            metadata = dict(new["metadata"])
            set_or_drop(metadata, "ownerReferences", old["metadata"].get("ownerReferences"))
        result["metadata"] = metadata
        status = new.get("status")
        if subresource == "approval":  # of a CertificateSigningRequest: the conditions alone
            status = {**untyped.mapping(old.get("status")), "conditions": at(new, "status", "conditions") or []}
        set_or_drop(result, "status", status)
        return result
    set_or_drop(new, "status", old.get("status"))
    if kind.group == "" and kind.resource == "namespaces" and subresource != "finalize":
        set_or_drop(new, "spec", old.get("spec"))
    return new


def set_or_drop(target: Body, key: str, value: Any) -> None:
    if value is None:
        target.pop(key, None)
    else:
        target[key] = value


def _equal_but_managed(old: Body, new: Body) -> bool:
    if len(old) != len(new):
        return False
    for key, value in new.items():
        if key != "metadata" and (key not in old or old[key] != value):
            return False
    before = dict(old["metadata"])
    before.pop("managedFields", None)
    return bool(before == new["metadata"])


def _content_changed(kind: Kind, old: Body, new: Body) -> bool:
    """Did anything change that the generation counts: all but metadata, and but the status where it is apart?"""
    aside = {"metadata", "status"} if kind.status else {"metadata"}
    return any(old.get(k) != new.get(k) for k in (old.keys() | new.keys()) - aside)


def is_finished(kind: Kind, body: Body) -> bool:
    """Is the object to be removed now: being deleted, and nothing holds it?"""
    metadata = body["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (kind.group == "" and kind.resource == "namespaces" and at(body, "spec", "finalizers"))
