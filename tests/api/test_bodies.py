"""Request bodies: YAML as Kubernetes reads it, protobuf as typed clients write it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from api.engine.status import StatusError
from api.wire.protobuf import decode, kinds
from api.wire.strict import duplicates
from fleet.values.yamlread import load_yaml
from tests.api.protobodies import block, envelope, varint


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def test_a_zero_is_kept_only_where_json_would_have_it() -> None:
    metadata = block(1, "p") + block(2, "") + block(5, "") + number(7, 0) + block(8, b"")
    body = decode(envelope("scheduling.k8s.io/v1", "PriorityClass", block(1, metadata) + number(2, 0) + number(3, 0)))
    assert body == {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": "p"},
        "value": 0,
    }


def test_negative_numbers_and_pointers_to_zero_survive() -> None:
    body = decode(envelope("scheduling.k8s.io/v1", "PriorityClass", number(2, -5)))
    assert body["value"] == -5
    options = decode(envelope("v1", "DeleteOptions", number(1, 0) + block(4, "Background")))
    assert (options["gracePeriodSeconds"], options["propagationPolicy"]) == (0, "Background")


def test_maps_bytes_quantities_and_times() -> None:
    secret = decode(envelope("v1", "Secret", block(2, block(1, "k") + block(2, b"\x00\x01")) + block(3, "Opaque")))
    assert (secret["data"], secret["type"]) == ({"k": "AAE="}, "Opaque")
    hard = block(1, block(1, "cpu") + block(2, block(1, "500m")))
    quota = decode(envelope("v1", "ResourceQuota", block(2, hard)))
    assert quota["spec"] == {"hard": {"cpu": "500m"}}
    lease = decode(envelope("coordination.k8s.io/v1", "Lease", block(2, block(4, number(1, 1) + number(2, 5000)))))
    assert lease["spec"] == {"renewTime": "1970-01-01T00:00:01.000005Z"}


def test_inlined_messages_and_ports_by_name_or_number() -> None:
    source = block(1, block(1, "cfg"))  # LocalObjectReference, inlined into a ConfigMap volume
    volume = block(1, "v") + block(2, block(19, source))
    probe = block(1, block(2, block(1, "/") + block(2, number(1, 1) + block(3, "http"))))
    container = block(1, "c") + block(2, "image") + block(10, probe)
    pod = decode(envelope("v1", "Pod", block(2, block(1, volume) + block(2, container))))
    assert pod["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "cfg"}}]
    assert pod["spec"]["containers"][0]["livenessProbe"]["httpGet"] == {"path": "/", "port": "http"}


def test_unknown_fields_are_passed_over() -> None:
    body = decode(envelope("v1", "Namespace", block(99, b"what") + number(98, 3) + block(1, block(1, "n"))))
    assert body["metadata"] == {"name": "n"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"k8s",
        b"k8s\x00",
        b"json",
        envelope("v1", "Unheard", b""),
        envelope("v1", "Namespace", b"\x0a\xff"),
        envelope("v1", "Namespace", b"\x0b"),
        envelope("v1", "Namespace", block(1, block(1, b"\xff\xfe"))),
        envelope("v1", "Namespace", number(1, 3)),
        envelope("v1", "Namespace", b"\xff" * 20),
    ],
)
def test_what_is_no_message_is_400(data: bytes) -> None:
    with pytest.raises(StatusError) as refused:
        decode(data)
    assert refused.value.code == 400


def test_every_known_kind_decodes_an_empty_message() -> None:
    for name in kinds():
        api_version, _, kind = name.rpartition("/")
        assert decode(envelope(api_version, kind, b"")) == {"kind": kind, "apiVersion": api_version}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-05-01", "2024-05-01"),
        ("12:30:45", "12:30:45"),
        ("0o17", 15),
        ("017", 15),
        ("0x1f", 31),
        ("1_000", 1000),
        ("1e3", 1000.0),
        ("-7", -7),
        ("yes", True),
        ("Y", True),
        ("n", False),
        ("ny", "ny"),
        ("~", None),
        ("1.5Gi", "1.5Gi"),
    ],
)
def test_yaml_scalars_are_what_kubernetes_makes_of_them(text: str, value: Any) -> None:
    assert load_yaml(f"a: {text}".encode(), []) == {"a": value}


def test_yaml_keys_become_text_and_double_ones_are_reported() -> None:
    errors: list[str] = []
    assert load_yaml(b"1: a\ntrue: b\nx: 1\nx: 2", errors) == {"1": "a", "true": "b", "x": 2}
    assert errors == ['line 4: key "x" already set in map']


def test_yaml_merge_keys_and_anchors_are_resolved() -> None:
    assert load_yaml(b"base: &b {x: 1}\nmore: {<<: *b, z: 2}", []) == {"base": {"x": 1}, "more": {"x": 1, "z": 2}}


def _found_twice(data: bytes) -> list[str]:
    return duplicates(data, orjson.loads(data))


def test_duplicates_are_found_at_any_depth() -> None:
    assert _found_twice(b'{"a":{"b":[{"c":1,"c":2}]},"a":1}') == ['duplicate field "a.b[0].c"', 'duplicate field "a"']
    assert _found_twice(b'{"a":1,"b":{"a":1}}') == []


@pytest.mark.parametrize(
    ("data", "twice"),
    [
        (rb'{"a" : 1, "b": 2}', []),
        (rb'{"a" : 1, "a": 2}', ["a"]),
        (rb'{"a": "\":", "b": "\\"}', []),
        (rb'{"a": 1, "a": "\":"}', ["a"]),
        (rb'{"a": "\u0022:", "b": 1}', []),
        (rb'{"a": 1, "a": "\u0022:"}', ["a"]),
        (rb'{"a": "\":", "a": "\u0022\u003a", "b": "\":"}', ["a"]),
        (rb'{"\u0061": 1, "a": 2}', ["a"]),
    ],
)
def test_duplicates_are_found_however_they_are_written(data: bytes, twice: list[str]) -> None:
    assert _found_twice(data) == [f'duplicate field "{key}"' for key in twice]
