"""Media types: the types that a client accepts, and the types that it sends.

Answers are JSON (plain, Table, PartialObjectMetadata), YAML, or protobuf for the kinds that have such a form. Request
bodies come as JSON, YAML or protobuf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
import yaml

from api.engine.bounds import refuse_shape
from api.engine.status import StatusError, bad_request, unsupported_media_type
from api.objects.apart import LARGE_BYTES, apart
from api.wire.http import JSON, PROTOBUF, Request, Response
from api.wire.protobuf import decode, kind_message
from api.wire.protobuf.answers import from_json
from api.wire.servedkind import ServedKind
from api.wire.strict import duplicates
from fleet.values.yamlread import load_yaml, several

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
OPTIONS_BYTES_MAX = LARGE_BYTES  # of the DeleteOptions in a DELETE
ACCEPT_PARTS_MAX = 50  # of an Accept header; the rest is not looked at
YAML_ANSWER_BYTES_MAX = 2 * 1024 * 1024  # as JSON
DOCUMENTS_MAX = 100  # of a YAML stream
_ACCEPT_KEPT_CHARS = 1024  # of a header whose meaning is remembered
BODY_TYPES = ("application/json", "application/yaml", PROTOBUF)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of answer to give: `form` is "", "Table", "PartialObjectMetadata", "PartialObjectMetadataList" or the
    discovery's "APIGroupDiscoveryList", with the version asked for; `yaml` and `protobuf` say how it is written."""

    form: str = ""
    version: str = ""
    group: str = ""
    yaml: bool = False
    protobuf: bool = False


_PLAIN = AnswerForm()
_DISCOVERY = "APIGroupDiscoveryList"
METADATA_FORMS = ("PartialObjectMetadata", "PartialObjectMetadataList")
OBJECT_FORMS = ("Table", *METADATA_FORMS)
DISCOVERY_FORMS = (_DISCOVERY,)
_FORMS = {
    ("Table", "meta.k8s.io"): ("v1", "v1beta1"),
    ("PartialObjectMetadata", "meta.k8s.io"): ("v1", "v1beta1"),
    ("PartialObjectMetadataList", "meta.k8s.io"): ("v1", "v1beta1"),
    (_DISCOVERY, "apidiscovery.k8s.io"): ("v2", "v2beta1"),
}


Reader = Callable[[bytes, str], tuple[Any, list[str]]]


def accept(header: str, typed: bool = False, forms: tuple[str, ...] = OBJECT_FORMS) -> AnswerForm:
    """The best form for an Accept header: the first one offered, in order of q. StatusError 406 when there is none.

    `typed`: the kind has a protobuf form. The metadata of an object has one whatever its kind. `forms`: what the answer
    may be changed into.
    """
    if not header:
        return _PLAIN
    return (_known if len(header) <= _ACCEPT_KEPT_CHARS else _best)(header, typed, forms)


def accepted_form(request: Request, served: ServedKind) -> AnswerForm:
    """The form in which a request wants an object of a kind. Raises StatusError 406."""
    header = request.header(b"accept")
    typed = PROTOBUF in header and kind_message(served.api_version, served.kind.kind) is not None
    return accept(header, typed)


async def in_protobuf(answer: Response, request: Request) -> Response:
    """An answer made as JSON: in protobuf when the client prefers that and the answer's kind has such a form."""
    header = request.header(b"accept")
    if PROTOBUF not in header or not answer.content_type.startswith(JSON) or not answer.body:
        return answer
    if answer.later is not None:  # a long list, which would have come in protobuf if its kind had such a form
        return answer
    failed = answer.status >= 400
    if not failed and not request.path.startswith("/api"):
        return answer
    try:
        plain = failed or answer.content_type == JSON
        header = ",".join(part for part in header.split(",") if "as=" not in part) if plain else header
        form = accept(header, True, OBJECT_FORMS + DISCOVERY_FORMS)
        if form.protobuf:
            raw = answer.whole
            body = await apart(from_json, raw) if len(raw) > LARGE_BYTES else from_json(raw)
            if body is not None:
                form_of = answer.content_type.removeprefix(JSON) if form.form == _DISCOVERY else ""
                answer.body, answer.rest, answer.content_type = body, (), PROTOBUF + form_of
    except StatusError:
        pass  # the answer is not hidden behind another refusal
    return answer


def _best(header: str, typed: bool, forms: tuple[str, ...]) -> AnswerForm:
    offers: list[tuple[float, int, str, dict[str, str]]] = []
    for index, part in enumerate(header.split(",", ACCEPT_PARTS_MAX)[:ACCEPT_PARTS_MAX]):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        options = {}
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            options[key.strip().lower()] = value.strip()
        try:
            quality = float(options.pop("q", "1"))
        except ValueError:
            quality = 0.0
        if quality > 0:
            offers.append((-quality, index, media.lower(), options))
    for _, _, media, options in sorted(offers, key=lambda o: o[:2]):
        if media in ("application/json", "*/*", "application/*"):
            form, group, version = options.get("as", ""), options.get("g", ""), options.get("v", "")
            if not form:
                return _PLAIN
            if form in forms and version in _FORMS.get((form, group), ()):
                return AnswerForm(form, version, group)
        elif media == PROTOBUF and options.get("stream", "") in ("", "watch"):
            form, group, version = options.get("as", ""), options.get("g", ""), options.get("v", "")
            if not form and typed:
                return AnswerForm(protobuf=True)
            if form in forms and form != "Table" and version in _FORMS.get((form, group), ()):
                return AnswerForm(form, version, group, protobuf=True)
        elif media == "application/yaml" and "as" not in options:
            return AnswerForm(yaml=True)
        elif media in ("text/html", "text/*", "text/plain") and "as" not in options:
            continue
    raise StatusError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: {', '.join(BODY_TYPES)}",
    )


_known = lru_cache(maxsize=512)(_best)


def media_type(request: Request) -> str:
    """The request's Content-Type without parameters, in lower case; JSON when there is none."""
    header = request.header(b"content-type")
    return header.split(";", 1)[0].strip().lower() or "application/json"


async def read_object(request: Request, *, field_validation: str) -> tuple[dict[str, Any], list[str]]:
    """The object in the body of a POST or PUT, and the strict errors found while reading it (duplicate fields).

    StatusError 400 for what is not one object, 413 beyond the limit, 415 for another media type.
    """
    body, strict = _object(*await _read(request, _reader(request), field_validation))
    request.record.given(body)
    return body, strict


async def read_objects(request: Request, *, field_validation: str) -> tuple[dict[str, Any], list[str]]:
    """The same, with a YAML stream of several documents as a List."""
    read = _reader(request)
    return _object(*await _read(request, _read_stream if read is read_yaml else read, field_validation))


def _reader(request: Request) -> Reader:
    media = media_type(request)
    if media == PROTOBUF:
        return _read_protobuf
    if media == "application/json":
        return read_json
    if media in ("application/yaml", "text/yaml", "application/x-yaml"):
        return read_yaml
    accepted = ", ".join(BODY_TYPES)
    raise unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    )


async def _read(request: Request, read: Reader, field_validation: str) -> tuple[Any, list[str]]:
    """The body as `read` understands it; a large one is read beside the event loop."""
    data = await request.body()
    if len(data) > LARGE_BYTES:
        return await apart(read, data, field_validation)
    return read(data, field_validation)


async def read_patch(request: Request, *, builtin: bool, field_validation: str) -> tuple[Any, str, list[str]]:
    """The parsed patch, its media type, and strict errors found while reading it. StatusError 415 for media types that
    the kind does not take: custom kinds have no strategic merge patch."""
    media = media_type(request)
    types = [JSON_PATCH, MERGE_PATCH, *([STRATEGIC_PATCH] if builtin else []), APPLY_PATCH]
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH):
        raise unsupported_media_type("415: Unsupported Media Type")
    if media not in types:
        accepted = ", ".join(types)
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        )
    patch, strict = await _read(request, _read_apply if media == APPLY_PATCH else read_json, field_validation)
    request.record.given(patch)
    return patch, media, strict


def _read_apply(data: bytes, field_validation: str) -> tuple[Any, list[str]]:
    # A patch that claims to be YAML is nearly always JSON, and JSON is read ten times faster.
    if data[:1] == b"{":
        try:
            return read_json(data, field_validation)
        except StatusError:
            pass
    return read_yaml(data, field_validation)


async def read_options(request: Request) -> dict[str, Any]:
    """The DeleteOptions in the body of a DELETE: {} when there is none. StatusError 400 for what is not one object, 413
    beyond a small limit: there are few options."""
    data = await request.body(OPTIONS_BYTES_MAX)
    if not data:
        return {}
    media = media_type(request)
    if media == PROTOBUF:
        options = decode(data)
    else:
        options = _object(*(read_yaml if media == "application/yaml" else read_json)(data, "Ignore"))[0]
    request.record.given(options)
    return options


def _read_protobuf(data: bytes, field_validation: str) -> tuple[Any, list[str]]:
    return decode(data), []


def read_json(data: bytes, field_validation: str) -> tuple[Any, list[str]]:
    refuse_shape(data)
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"couldn't parse the body as JSON: {error}") from None
    return parsed, duplicates(data, parsed) if field_validation != "Ignore" else []


def read_yaml(data: bytes, field_validation: str) -> tuple[Any, list[str]]:
    loader_errors: list[str] = []
    try:
        parsed = load_yaml(data, loader_errors)
    except (yaml.YAMLError, ValueError) as error:
        text = " ".join(str(error).split())[:500]
        raise bad_request(f"couldn't parse the body as YAML: {text}") from None
    return parsed, loader_errors if field_validation != "Ignore" else []


def _read_stream(data: bytes, field_validation: str) -> tuple[Any, list[str]]:
    parts = several(data)
    if len(parts) < 2:
        return read_yaml(data, field_validation)
    if len(parts) > DOCUMENTS_MAX:
        raise bad_request(f"the body has {len(parts)} documents; at most {DOCUMENTS_MAX} are taken at once")
    items, strict = [], []
    for number, part in enumerate(parts, 1):
        item, wrong = read_yaml(part, field_validation)
        items.append(item)
        strict += [f"document {number}: {text}" for text in wrong]
    return {"apiVersion": "v1", "kind": "List", "items": items}, strict


def _object(parsed: Any, strict: list[str]) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(parsed, dict):
        raise bad_request("the body of the request must be one object")
    return parsed, strict


async def to_yaml(raw: bytes) -> bytes:
    """JSON bytes as YAML, for a client that accepts nothing else; StatusError 406 for what would take a minute."""
    if len(raw) > YAML_ANSWER_BYTES_MAX:
        text = f"an answer of more than {YAML_ANSWER_BYTES_MAX} bytes is not given as application/yaml, only as JSON"
        raise StatusError(406, "NotAcceptable", text)
    return await apart(_dumped, raw) if len(raw) > LARGE_BYTES // 4 else _dumped(raw)


def _dumped(raw: bytes) -> bytes:
    text: str = yaml.dump(orjson.loads(raw), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text.encode()
