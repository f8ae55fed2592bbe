"""OpenAPI documents as a real kube-apiserver makes them: the schemas of custom kinds, and the form in protobuf."""

from __future__ import annotations

import json
import ssl
import struct
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from api.engine.crd import kind_of
from api.objects.definitions import definitions
from api.server.openapi_schema import Components
from api.wire.protobuf.openapi import EXTENSIONS, encode, messages
from api.wire.protobuf.reading import walk
from tests.testbed.member import RealMember
from tests.testbed.openapi_tables import TARGET, tables

pytestmark = pytest.mark.xdist_group("real-apiserver")
WAIT_S = 60
GROUP = "openapi.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON, PROTOBUF = "application/json", "application/com.github.proto-openapi.spec.v{}@v1.0+protobuf"
SPEC = yaml.safe_load("""
type: object
description: The wish.
required: [size, nothing]
properties:
  size: {type: integer, format: int32, minimum: 0, default: 1}
  parts:
    type: array
    description: The parts.
    items:
      type: object
      required: [name]
      properties: {name: {type: string}, mood: {type: string, enum: [Great, Down]}}
  nothing: {type: string, nullable: true, description: May be null.}
  anything: {x-kubernetes-preserve-unknown-fields: true}
  more: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
  either: {x-kubernetes-int-or-string: true}
  object: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
  typed: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
  words: {type: object, additionalProperties: {type: string}}
  one: {type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}
  ruled: {type: string, pattern: "^a+$", x-kubernetes-validations: [{rule: "self != ''"}]}
  keyed:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [k]
    items: {type: object, required: [k], properties: {k: {type: string}}}
""")
SCHEMAS: dict[str, dict[str, Any]] = {
    "v2": {"type": "object", "description": "A wish.", "required": ["spec"], "properties": {"spec": SPEC}},
    "v1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}},
}


def crd(storage: str) -> dict[str, Any]:
    names = {"plural": "wishes", "singular": "wish", "kind": "Wish", "listKind": "WishList"}
    versions = [
        {"name": name, "served": True, "storage": name == storage, "schema": {"openAPIV3Schema": schema}}
        for name, schema in SCHEMAS.items()
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"wishes.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
    }


Documents = dict[tuple[str, str], bytes]


@pytest.fixture(scope="module")
def documents(real_apiserver: RealMember) -> Iterator[Documents]:
    """What the real one answers, by path and media type, while it serves the custom kind."""
    trust = ssl.create_default_context(cafile=str(real_apiserver.pki.ca))
    headers = {"authorization": "Bearer admin-token"}
    with httpx.Client(base_url=real_apiserver.url, headers=headers, verify=trust, timeout=60) as client:
        assert client.post(CRDS, json=crd("v2")).status_code == 201
        found: Documents = {}
        published = {
            "/openapi/v3": [f"{GROUP}/{version}" for version in SCHEMAS],
            "/openapi/v2": [f"com.example.openapi.{version}.WishList" for version in SCHEMAS],
        }
        deadline = time.monotonic() + WAIT_S
        for path, names in published.items():
            while not all(name in client.get(path).text for name in names) and time.monotonic() < deadline:
                time.sleep(0.1)
        for path in ("/openapi/v2", f"/openapi/v3/apis/{GROUP}/v1", f"/openapi/v3/apis/{GROUP}/v2"):
            for form in (JSON, PROTOBUF.format(path[10])):
                found[path, form] = client.get(path, headers={"accept": form}).content
        client.delete(f"{CRDS}/wishes.{GROUP}")
        yield found


def in_one_order(schema: Any) -> Any:
    if isinstance(schema, dict):
        sets = ("required", "anyOf")
        return {k: sorted(v, key=json.dumps) if k in sets else in_one_order(v) for k, v in schema.items()}
    return [in_one_order(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize("form", [2, 3])
def test_a_custom_kind_is_described_as_by_a_kube_apiserver(documents: Documents, version: str, form: int) -> None:
    path = "/openapi/v2" if form == 2 else f"/openapi/v3/apis/{GROUP}/{version}"
    document = json.loads(documents[path, JSON])
    real = document["definitions"] if form == 2 else document["components"]["schemas"]
    kind = kind_of({**crd(version)}, definitions())
    assert kind is not None
    components = Components(form)
    name, list_name = components.add_kind(kind, kind.api_version)
    assert name == f"com.example.openapi.{version}.Wish"
    for one in (name, list_name):
        assert in_one_order(json.loads(json.dumps(components.schemas[one]))) == in_one_order(real[one])


def read(version: str, name: str, data: bytes) -> Any:
    """A message as JSON."""
    one_of, fields = messages()[version, name]
    by_number = {field.number: field for field in fields}
    out: dict[str, Any] = {}
    values: list[Any] = []
    for number, _, raw in walk(data):
        field = by_number[number]
        value: Any = raw
        if field.type == "string":
            assert isinstance(raw, bytes)
            value = raw.decode()
        elif field.type == "bool":
            value = bool(raw)
        elif field.type == "double" and isinstance(raw, bytes):
            (value,) = struct.unpack("<d", raw)
        elif isinstance(raw, bytes):
            value = read(version, field.type, raw)
        if field.type.startswith("Named") and name != field.type:
            out[value["name"]] = value.get("value", {})
        elif field.repeated:
            out.setdefault(field.name, []).append(value)
        else:
            out[field.name] = value
        values.append(value)
    if name == "Any":
        return yaml.load(out["yaml"], yaml.CSafeLoader)
    if one_of:
        return values[0] if values else {}
    return values[0] if name in ("ItemsItem", "TypeItem") else out


def settled(value: Any) -> Any:
    """JSON without what the messages cannot say, or say by leaving it out."""
    if isinstance(value, dict):
        kept = {k: settled(v) for k, v in value.items() if v not in (False, 0, "")}
        if isinstance(kept.get("default"), dict | list):
            del kept["default"]
        return {k: v for k, v in kept.items() if v != {} and v != []}
    return [settled(item) for item in value] if isinstance(value, list) else value


def parts(document: Any) -> Any:
    """What is compared of a document: the security of the real one is nothing that the hub describes."""
    return settled({key: document[key] for key in ("paths", "definitions", "components", "info") if key in document})


@pytest.mark.parametrize("path", [f"/openapi/v3/apis/{GROUP}/v1", f"/openapi/v3/apis/{GROUP}/v2", "/openapi/v2"])
def test_a_document_in_protobuf_says_what_it_says_in_json(documents: Documents, path: str) -> None:
    version = path[9:11]
    plain = json.loads(documents[path, JSON])
    if version == "v2":  # the whole is megabytes
        plain["paths"] = {key: value for key, value in plain["paths"].items() if "/batch/" in key}
        plain["definitions"] = {k: v for k, v in plain["definitions"].items() if ".batch." in k or "Wish" in k}
    else:
        assert parts(read("v3", "Document", documents[path, PROTOBUF.format(3)])) == parts(plain)
    assert parts(read(version, "Document", encode(plain))) == parts(plain)


def test_the_messages_of_documents_are_what_the_script_writes() -> None:
    assert tables() == TARGET.read_text()
    known = {name for _, name in messages()}
    types = {field.type for _, fields in messages().values() for field in fields}
    assert types - known <= {"string", "bool", "int64", "double", "google.protobuf.Any"}
    assert any(field.name in EXTENSIONS for field in messages()["v3", "Schema"][1])
