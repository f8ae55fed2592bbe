"""POST, PUT, PATCH and DELETE: from a request to `Objects`, and from its outcome to an answer.

The meaning of an object is the engine's; here are only the parameters that all writes share and the form of the body.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson

from api.audit.requests import tell, tell_written
from api.engine.bounds import int64
from api.engine.deletion import check_options
from api.engine.prune import prune
from api.engine.schema import compiled
from api.engine.status import Cause, StatusError, bad_request, invalid
from api.engine.validate import value_text
from api.objects.objects import Objects
from api.objects.writing import Options, WriteOutcome
from api.server.lists import parse_integer, show, table_type
from api.server.tables import metadata_only
from api.wire.http import JSON, PROTOBUF, Answer, Request, Response, as_read, warning_headers
from api.wire.joining import list_pieces, raws
from api.wire.negotiation import APPLY_PATCH, JSON_PATCH, AnswerForm, read_object, read_options, read_patch, to_yaml
from api.wire.protobuf.answers import whole
from api.wire.routing import Route
from api.wire.selection import Selection
from api.wire.servedkind import ServedKind
from fleet.values.ports import Body, Clock, Key, Store, StoredObject

MAX_MANAGER_CHARS = 128
_VALIDATIONS = ("Ignore", "Strict", "Warn")


def _options_invalid(verb: str, cause: Cause) -> StatusError:
    return invalid("meta.k8s.io", f"{verb}Options", "", [cause])


def parse_options(request: Request, verb: str, *, apply: bool = False) -> Options:
    """The query parameters of a write; `verb` is Create, Update, Patch or Delete. StatusError 422 names a wrong one."""
    query = request.query
    dry_run = query.get("dryRun")
    if dry_run not in (None, "All"):
        text = f'Unsupported value: ["{dry_run[:50]}"]: supported values: "All"'
        raise _options_invalid(verb, Cause("dryRun", text, "FieldValueNotSupported"))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in _VALIDATIONS:
        text = f'Unsupported value: "{validation[:50]}": supported values: "Ignore", "Strict", "Warn"'
        raise _options_invalid(verb, Cause("fieldValidation", text, "FieldValueNotSupported"))
    manager = query.get("fieldManager", "")
    if len(manager) > MAX_MANAGER_CHARS:
        text = f"Too long: may not be more than {MAX_MANAGER_CHARS} bytes"
        raise _options_invalid(verb, Cause("fieldManager", text, "FieldValueTooLong"))
    if manager and not manager.isprintable():
        raise _options_invalid(verb, Cause("fieldManager", "Invalid value: should only contain printable characters"))
    if apply and not manager:
        raise _options_invalid(
            verb, Cause("fieldManager", "Required value: is required for apply patch", "FieldValueRequired")
        )
    if "force" in query and verb == "Patch" and not apply:
        raise _options_invalid(
            verb, Cause("force", "Forbidden: may not be specified for non-apply patch", "FieldValueForbidden")
        )
    return Options(
        user=request.user,
        manager=manager or request.agent,
        dry_run=dry_run == "All",
        field_validation=validation,
        force=request.flag("force"),
        alone=request.alone,
    )


def refuse_strict(strict: list[str], options: Options) -> tuple[str, ...]:
    """Strict errors found while reading: 400 under Strict, warnings under Warn, nothing under Ignore."""
    if strict and options.field_validation == "Strict":
        raise bad_request("strict decoding error: " + ", ".join(strict[:20]))
    return tuple(strict) if options.field_validation == "Warn" else ()


def _check(served: ServedKind, route: Route, body: Body) -> None:
    """The object must be of the version and have the name that the path gives; StatusError 400. (The engine checks the
    kind and the namespace.)"""
    version, metadata = body.get("apiVersion"), body.get("metadata")
    if version and version != served.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({served.api_version})"
        )
    kind = served.kind
    if body.get("kind", kind.kind) != kind.kind:
        raise bad_request(f'{body["kind"]!s:.60} in version "{version!s:.60}" cannot be handled as a {kind.kind}')
    if metadata is not None and not isinstance(metadata, dict):
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: metadata is not an object'
        )
    name = (metadata or {}).get("name")
    if route.name and name and name != route.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")


async def _read(served: ServedKind, route: Route, request: Request, options: Options) -> tuple[Body, tuple[str, ...]]:
    """Return the object of a request as it is stored, and warnings. Raises StatusError."""
    body, strict = await read_object(request, field_validation=options.field_validation)
    if strict and options.field_validation == "Strict":
        strict = _with_unknown(served, body, strict)
    warnings = refuse_strict(strict, options)
    _check(served, route, body)
    tell(request.scope, served.kind.group, served.kind.kind, route.namespace, body, stored=False)
    return served.inward(body), warnings


def _with_unknown(served: ServedKind, body: Body, strict: list[str]) -> list[str]:
    """The fields that stand twice, and those that the kind does not have: one refusal names both."""
    unknown: list[str] = []
    prune(compiled(served.kind), served.inward(body), "", unknown)
    named = [f'unknown field "{path}"' for path in unknown]
    return [*named, *strict] if served.kind.builtin else [*strict, *named]


async def written_response(
    served: ServedKind,
    written: WriteOutcome,
    request: Request,
    form: AnswerForm,
    status: int,
    now: float,
    extra: tuple[str, ...] = (),
) -> Answer:
    """The object after a write, in the form asked for."""
    warnings, what = warning_headers((*extra, *written.warnings)), written.what
    if form.form == "Table":
        stored = what if isinstance(what, StoredObject) else _as_stored(served, what)
        answer = await show(served, stored, request, form, now)
        if isinstance(answer, Response):
            answer.status, answer.headers = status, warnings
        return answer
    if form.form == "PartialObjectMetadata":
        body = orjson.dumps(metadata_only(served.in_version(written.body), form.version))
        return Response(body, status, table_type(form), headers=warnings)
    if form.protobuf:
        return Response(whole(served.in_version(written.body)), status, PROTOBUF, warnings)
    raw = served.outward(what.raw) if isinstance(what, StoredObject) else orjson.dumps(served.in_version(what))
    if form.yaml:
        return Response(await to_yaml(raw), status, "application/yaml", warnings)
    return Response(raw, status, headers=warnings)


def _as_stored(served: ServedKind, body: Body) -> StoredObject:
    metadata = body.get("metadata", {})
    kind = served.kind
    key = Key(kind.group, kind.resource, metadata.get("namespace", ""), metadata.get("name", ""))
    revision = metadata.get("resourceVersion", "")
    return StoredObject(key, metadata.get("uid", ""), int64(revision) or 0, orjson.dumps(body), body)


class Writes:
    """The writing verbs on objects and their status."""

    def __init__(self, objects: Objects, store: Store, clock: Clock) -> None:
        self._objects = objects
        self._store = store
        self._clock = clock

    async def _answer(
        self,
        served: ServedKind,
        written: WriteOutcome,
        request: Request,
        form: AnswerForm,
        status: int,
        extra: tuple[str, ...],
    ) -> Answer:
        tell_written(request.scope, served.kind, written)
        return await written_response(served, written, request, form, status, self._clock.now(), extra)

    async def create(self, served: ServedKind, route: Route, request: Request, form: AnswerForm) -> Answer:
        options = parse_options(request, "Create")
        body, warnings = await _read(served, route, request, options)
        if served.kind.namespaced and not route.namespace:
            raise bad_request("an empty namespace may not be set during creation")
        written = await self._objects.create(
            served.kind, route.namespace if served.kind.namespaced else "", body, options
        )
        return await self._answer(served, written, request, form, 201, warnings)

    async def update(self, served: ServedKind, route: Route, request: Request, form: AnswerForm) -> Answer:
        options = parse_options(request, "Update")
        body, warnings = await _read(served, route, request, options)
        written = await self._objects.update(
            served.kind, _namespace(served, route), route.name, body, options, route.subresource
        )
        return await self._answer(served, written, request, form, 201 if written.created else 200, warnings)

    async def patch(
        self,
        served: ServedKind,
        route: Route,
        request: Request,
        form: AnswerForm,
        may_create: Callable[[], None] | None = None,
    ) -> Answer:
        """`may_create`: see Options."""
        media = request.header(b"content-type").split(";", 1)[0].strip().lower()
        options = parse_options(request, "Patch", apply=media == APPLY_PATCH)
        if media == APPLY_PATCH:
            options = replace(options, may_create=may_create)
        patch, media, strict = await read_patch(
            request, builtin=served.kind.builtin, field_validation=options.field_validation
        )
        warnings = refuse_strict(strict, options)
        if media != JSON_PATCH and isinstance(patch, dict):
            if media == APPLY_PATCH:
                _check(served, route, patch)
            patch = served.inward(patch)
        elif media == JSON_PATCH:
            patch = served.inward_patch(patch)
        written = await self._objects.patch(
            served.kind, _namespace(served, route), route.name, patch, media, options, route.subresource
        )
        return await self._answer(served, written, request, form, 201 if written.created else 200, warnings)

    async def delete(self, served: ServedKind, route: Route, request: Request, form: AnswerForm) -> Answer:
        given = await self._delete_options(request)
        options = delete_write_options(parse_options(request, "Delete"), given)
        written = await self._objects.delete(served.kind, _namespace(served, route), route.name, options, given)
        tell_written(request.scope, served.kind, written)
        if written.deleted:
            return Response(orjson.dumps(_deleted(served, written.body)), headers=warning_headers(written.warnings))
        return await self._answer(served, written, request, form, 200, ())

    async def delete_collection(
        self, served: ServedKind, route: Route, request: Request, selection: Selection
    ) -> Answer:
        """Every selected object; answers with what there was."""
        given = await self._delete_options(request)
        options = delete_write_options(parse_options(request, "Delete"), given)
        gone = await self._objects.delete_collection(
            served.kind, route.namespace or None, options, selector=selection.selector, delete_options=given
        )
        revision = await self._store.revision(alone=request.alone)
        return await as_read(list_pieces(served, {"resourceVersion": str(revision)}, raws(served, gone)), JSON)

    async def _delete_options(self, request: Request) -> Body:
        options = await read_options(request)
        if options.get("kind") not in (None, "DeleteOptions"):
            raise bad_request(f"the body of a DELETE must be DeleteOptions, not {options['kind']!s:.50}")
        query = request.query
        for name in ("propagationPolicy",):
            if name in query:
                options.setdefault(name, query[name])
        if "gracePeriodSeconds" in query:
            options.setdefault("gracePeriodSeconds", parse_integer(query["gracePeriodSeconds"]))
        if "orphanDependents" in query:
            options.setdefault("orphanDependents", request.flag("orphanDependents"))
        return options


def delete_write_options(options: Options, given: Body) -> Options:
    """`options` of the request with what its DeleteOptions say. StatusError 400 or 422 names what is wrong in them."""
    check_options(given)
    dry_run = given.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        raise _options_invalid(
            "Delete",
            Cause(
                "dryRun", f'Unsupported value: {value_text(dry_run)}: supported values: "All"', "FieldValueNotSupported"
            ),
        )
    if dry_run == ["All"] and not options.dry_run:
        return replace(options, dry_run=True)
    return options


def _namespace(served: ServedKind, route: Route) -> str:
    return route.namespace if served.kind.namespaced else ""


def _deleted(served: ServedKind, body: Body) -> Body:
    """The answer to a DELETE when the object is gone. `kind` is the plural here, as clients know it."""
    metadata = body.get("metadata", {})
    details = {"name": metadata.get("name", ""), "kind": served.kind.resource, "uid": metadata.get("uid", "")}
    if served.kind.group:
        details["group"] = served.kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
