"""GET of one object and of collections: consistent pages, versions and selectors.

A page names the revision it shows and every further page shows the same one, however much is written in between. When
that state is no longer kept the client gets 410. It starts again, or takes the rest as it is now by the token that the
refusal gives. Items are sent as the bytes that are stored.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import orjson

from api.engine.bounds import int64
from api.engine.status import Cause, StatusError, bad_request, expired, invalid, not_found
from api.objects.versions import ObjectSource
from api.server.tables import metadata_only, table, table_of, table_rows
from api.wire.http import JSON, PROTOBUF, Answer, Request, Response, as_read, in_pieces
from api.wire.joining import END, MANY, joined, list_pieces, raws, read
from api.wire.negotiation import YAML_ANSWER_BYTES_MAX, AnswerForm, to_yaml
from api.wire.protobuf.answers import around, list_of, stored_field
from api.wire.routing import Route
from api.wire.selection import Selection
from api.wire.servedkind import ServedKind
from fleet.values.ports import ExpiredRevision, FutureRevision, Key, Page, StoredObject

MAX_LIMIT = 1_000_000
LATEST = -1  # as the revision in a continue token: whatever the newest state is, page by page
Elsewhere = Callable[[Route, Request], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Version:
    """The versions that a request asks for: `exact` the state at `revision`, else at least as new as it."""

    revision: int | None
    exact: bool


def options_invalid(field: str, message: str, reason: str = "FieldValueForbidden") -> StatusError:
    return invalid("meta.k8s.io", "ListOptions", "", [Cause(field, message, reason)])


def parse_revision(text: str) -> int | None:
    """A resourceVersion parameter: None when unset. StatusError 400 for what is not a decimal number."""
    if not text:
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 18:
        why = f'strconv.ParseUint: parsing "{text[:50]}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text[:50]}": {why}')
    return int(text)


def _version(request: Request, limit: int | None) -> Version:
    query = request.query
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match and query.get("continue"):
        raise options_invalid(
            "resourceVersionMatch", "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        )
    if match and not text:
        raise options_invalid(
            "resourceVersionMatch", "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match not in ("", "Exact", "NotOlderThan"):
        raise options_invalid(
            "resourceVersionMatch",
            f'Unsupported value: "{match[:50]}": supported values: "Exact", "NotOlderThan", ""',
            "FieldValueNotSupported",
        )
    if match == "Exact" and text == "0":
        raise options_invalid(
            "resourceVersionMatch", 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
    if query.get("sendInitialEvents"):
        raise options_invalid("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list")
    revision = parse_revision(text)
    # Before resourceVersionMatch existed a limited list at a version meant exactly that version.
    exact = match == "Exact" or (not match and limit is not None and bool(revision))
    return Version(revision, exact)


def encode_continue(revision: int, start: tuple[str, str]) -> str:
    token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": list(start)})
    return urlsafe_b64encode(token).decode().rstrip("=")


def decode_continue(text: str) -> tuple[int, tuple[str, str]]:
    """(revision, start) of a token we gave out; StatusError 400 for anything else."""
    try:
        token = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, name = token["start"]
        revision = token["rv"]
        known = revision.__class__ is int and (revision > 0 or revision == LATEST)
        if known and isinstance(namespace, str) and isinstance(name, str):
            return revision, (namespace, name)
    except (ValueError, Base64Error, KeyError, TypeError):
        pass
    raise bad_request("invalid continue token: continue key is not valid")


def parse_integer(text: str) -> int:
    """A parameter that is a number; StatusError 400 for what is none, or has more than 64 bits."""
    number = int64(text)
    if number is None:
        why = "value out of range" if text.lstrip("+-").isdecimal() else "invalid syntax"
        raise bad_request(f'strconv.ParseInt: parsing "{text[:50]}": {why}')
    return number


def parse_limit(request: Request) -> int | None:
    text = request.query.get("limit", "")
    if not text:
        return None
    limit = parse_integer(text)
    return min(limit, MAX_LIMIT) if limit > 0 else None


def key_of(served: ServedKind, namespace: str, name: str) -> Key:
    kind = served.kind
    return Key(kind.group, kind.resource, namespace if kind.namespaced else "", name)


async def get_object(
    source: ObjectSource, served: ServedKind, namespace: str, name: str, request: Request, form: AnswerForm, now: float
) -> Answer:
    """GET …/NAME in the form asked for."""
    fresh = request.query.get("resourceVersion") != "0"
    stored = await source.get(key_of(served, namespace, name), fresh=fresh, alone=request.alone)
    if stored is None:
        group = served.api_version.rsplit("/", 1)[0] if "/" in served.api_version else ""
        raise not_found(group, served.kind.resource, name)
    return await show(served, stored, request, form, now)


async def or_elsewhere(
    stored: Awaitable[Answer], elsewhere: Elsewhere | None, route: Route, request: Request
) -> Answer:
    """The stored object, or the answer of who knows objects that are not stored."""
    try:
        return await stored
    except StatusError as error:
        if error.code != 404 or elsewhere is None:
            raise
        return await elsewhere(route, request)


async def show(served: ServedKind, stored: StoredObject, request: Request, form: AnswerForm, now: float) -> Answer:
    """One stored object in the form asked for."""
    if form.form == "Table":
        body = table(served, [stored], form.version, request.query.get("includeObject", ""), stored.revision, now)
        return Response(body, content_type=table_type(form))
    if form.form == "PartialObjectMetadataList":
        raise _other_form(form, "not a list")
    if form.protobuf and not form.form:
        body = around(served.api_version, served.kind.kind, stored_field(stored, served))
        return Response(body, content_type=PROTOBUF)
    raw = served.outward(stored.raw)
    if form.form == "PartialObjectMetadata":
        return Response(
            orjson.dumps(metadata_only(served.in_version(stored.body), form.version)), content_type=table_type(form)
        )
    if form.yaml:
        return Response(await to_yaml(raw), content_type="application/yaml")
    return Response(raw)


def _other_form(form: AnswerForm, what: str) -> StatusError:
    return StatusError(406, "NotAcceptable", f"you requested {form.form}, but the requested object is {what}")


def table_type(form: AnswerForm) -> str:
    return f"{JSON};as={form.form};g={form.group};v={form.version}"


def _list_expired(start: tuple[str, str] | None) -> StatusError:
    """410 for a list of a state that is gone; `start` where a page was asked for that begins after it."""
    if start is None:
        return expired("The resourceVersion for the provided list is too old.")
    return StatusError(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can start a new list"
        " without the continue parameter, or use the continue token in this response to retrieve the remainder of the"
        " results. Continuing with the provided token results in an inconsistent list - objects that were created,"
        " modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        go_on=encode_continue(LATEST, start),
    )


async def read_page(
    source: ObjectSource, served: ServedKind, namespace: str | None, request: Request, selection: Selection
) -> Page:
    """The page that the request's limit, continue and version parameters name. Raises StatusError 410 and 504."""
    limit = parse_limit(request)
    version = _version(request, limit)
    at, start, fresh = None, None, version.revision != 0
    token = request.query.get("continue", "")
    if token:
        if version.revision:
            raise bad_request("specifying resource version is not allowed when using continue")
        at, start = decode_continue(token)
        at = at if at > 0 else None
    elif version.exact:
        at = version.revision
    kind = served.kind
    name = selection.name
    try:
        if name is not None and not token and at is None and (namespace is not None or not kind.namespaced):
            # A list of one name is how clients wait for one object: a look-up, not a scan.
            page = await _one(source, served, namespace or "", name, selection, request.alone)
        else:
            page = await source.list(
                kind.group,
                kind.resource,
                namespace=namespace,
                selector=selection.selector,
                limit=limit,
                start=start,
                at=at,
                fresh=fresh,
                alone=request.alone,
            )
    except ExpiredRevision:
        raise _list_expired(start) from None
    except FutureRevision as error:
        raise too_large_version(error.revision, error.current) from None
    if version.revision and not version.exact and page.revision < version.revision:
        raise too_large_version(version.revision, page.revision)
    return page


async def _one(
    source: ObjectSource, served: ServedKind, namespace: str, name: str, selection: Selection, alone: bool
) -> Page:
    # The revision is read first: the object may then be newer than the list says, which a watch from there repairs.
    # Nothing has to be asked a second time, since this process has seen that revision.
    revision = await source.revision(alone=alone)
    stored = await source.get(key_of(served, namespace, name), fresh=False)
    found = stored is not None and (selection.selector is None or selection.selector(stored.body))
    items = (stored,) if stored is not None and found else ()
    return Page(items, max([revision, *(item.revision for item in items)]), None, 0)


def too_large_version(asked: int, current: int) -> StatusError:
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=[Cause("", "Too large resource version", "ResourceVersionTooLarge")],
        retry_after_s=1,
    )


async def list_objects(
    source: ObjectSource,
    served: ServedKind,
    namespace: str | None,
    request: Request,
    selection: Selection,
    form: AnswerForm,
    now: float,
) -> Answer:
    """GET of a collection in the form asked for."""
    page = await read_page(source, served, namespace, request, selection)
    if form.form == "PartialObjectMetadata":
        raise _other_form(form, "a list")
    meta: dict[str, object] = {"resourceVersion": str(page.revision)}
    if page.next_start is not None:
        meta["continue"] = encode_continue(page.revision, page.next_start)
        if page.remaining is not None and selection.selector is None:
            meta["remainingItemCount"] = page.remaining
    items = page.items
    if form.form == "Table":
        included = request.query.get("includeObject", "")
        rows = (table_rows(served, part, form.version, included, now) async for part in read(items))
        begin = table_of(served, (), form.version, meta).removesuffix(END)
        return await as_read(joined(begin, rows), table_type(form))
    if form.form == "PartialObjectMetadataList":
        shown = (
            [orjson.dumps(metadata_only(served.in_version(stored.body), form.version)) for stored in part]
            async for part in read(items)
        )
        whole = {"kind": form.form, "apiVersion": f"meta.k8s.io/{form.version}", "metadata": meta, "items": []}
        pieces = joined(orjson.dumps(whole).removesuffix(END), shown)
        if form.protobuf:  # it is put into protobuf as a whole
            return in_pieces([piece async for piece in pieces], table_type(form))
        return await as_read(pieces, table_type(form))
    if form.protobuf:
        reuse = len(items) <= MANY
        fields = ([stored_field(stored, served, reuse=reuse) for stored in part] async for part in read(items))
        joint = [piece async for piece in joined(b"", fields, comma=b"", end=b"")]  # its length stands at its beginning
        return in_pieces(list_of(served.api_version, served.kind.list_kind, meta, joint), PROTOBUF)
    pieces = list_pieces(served, meta, raws(served, items))
    if form.yaml:
        raw = bytearray()
        async for piece in pieces:
            raw += piece
            if len(raw) > YAML_ANSWER_BYTES_MAX:
                break  # it is refused
        return Response(await to_yaml(bytes(raw)), content_type="application/yaml")
    return await as_read(pieces, JSON)
