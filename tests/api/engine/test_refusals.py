"""What a bad object is told, in the words of kube-apiserver 1.36.3 (each was seen from a real one)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from api.engine.kind import Kind
from api.engine.status import StatusError
from api.engine.validate import RULES_NOT_CHECKED
from api.engine.write import Author, prepare_create, prepare_update

from .conftest import WIDGET

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "short": {"type": "string", "maxLength": 3, "minLength": 2, "pattern": "^[a-z]+$"},
        "number": {"type": "number", "maximum": 5, "exclusiveMaximum": True},
        "multiple": {"type": "integer", "multipleOf": 3},
        "flag": {"type": "boolean"},
        "when": {"type": "string", "format": "date-time"},
        "few": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "map": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 2,
            "additionalProperties": {"type": "integer"},
        },
        "either": {"x-kubernetes-int-or-string": True},
        "small": {"type": "integer", "format": "int32"},
        "one": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "embedded": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
            },
        },
        "marks": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    },
}
RULED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}],
        },
    },
    "x-kubernetes-validations": [
        {"rule": "self.low <= self.high", "message": "low must not exceed high"},
        {"rule": "self.low >= 0"},
        {"rule": "self.low < 90", "message": "too large", "reason": "FieldValueForbidden", "fieldPath": ".low"},
        {"rule": "self.low != 7", "messageExpression": "'not ' + string(self.low)"},
    ],
}


def kind(spec: dict[str, Any]) -> Kind:
    return dataclasses.replace(WIDGET, schema={"type": "object", "properties": {"spec": spec}})


SPECIFIED = kind(SPEC)
WITH_RULES = kind(RULED)
ME = Author("me")


def create(of: Kind, spec: Any = None, *, validation: str = "Strict", **metadata: Any) -> dict[str, Any]:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "v", **metadata}, "spec": spec}
    return prepare_create(of, "default", body, ME, now=0.0, uid="u", field_validation=validation).body


def refused(of: Kind, spec: Any, **metadata: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        create(of, spec, **metadata)
    return caught.value


def causes(error: StatusError) -> list[tuple[str, str, str]]:
    return [(c.field, c.message, c.reason) for c in error.causes]


@pytest.mark.parametrize(
    ("spec", "field", "message", "reason"),
    [
        pytest.param({}, "spec.size", "Required value", "FieldValueRequired", id="a required field is missing"),
        pytest.param(
            {"size": None}, "spec.size", "Required value", "FieldValueRequired", id="null stands for a missing field"
        ),
        pytest.param(
            {"size": "x"},
            "spec.size",
            'Invalid value: "string": spec.size in body must be of type integer: "string"',
            "FieldValueTypeInvalid",
            id="a text where a number belongs",
        ),
        pytest.param(
            {"size": 0},
            "spec.size",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
            "FieldValueInvalid",
            id="too small",
        ),
        pytest.param(
            {"size": 1, "color": "green"},
            "spec.color",
            'Unsupported value: "green": supported values: "red", "blue"',
            "FieldValueNotSupported",
            id="not in the enum",
        ),
        pytest.param(
            {"size": 1, "short": "ABCD"},
            "spec.short",
            "Too long: may not be more than 3 bytes",
            "FieldValueTooLong",
            id="too long, and of its faults only the first",
        ),
        pytest.param(
            {"size": 1, "short": "a"},
            "spec.short",
            'Invalid value: "a": spec.short in body should be at least 2 chars long',
            "FieldValueInvalid",
            id="too short",
        ),
        pytest.param(
            {"size": 1, "short": "AB"},
            "spec.short",
            "Invalid value: \"AB\": spec.short in body should match '^[a-z]+$'",
            "FieldValueInvalid",
            id="not the pattern",
        ),
        pytest.param(
            {"size": 1, "number": 5},
            "spec.number",
            "Invalid value: 5: spec.number in body should be less than 5",
            "FieldValueInvalid",
            id="an exclusive maximum",
        ),
        pytest.param(
            {"size": 1, "multiple": 4},
            "spec.multiple",
            "Invalid value: 4: spec.multiple in body should be a multiple of 3",
            "FieldValueInvalid",
            id="no multiple",
        ),
        pytest.param(
            {"size": 1, "flag": "yes"},
            "spec.flag",
            'Invalid value: "string": spec.flag in body must be of type boolean: "string"',
            "FieldValueTypeInvalid",
            id="a text where true or false belongs",
        ),
        pytest.param(
            {"size": 1, "when": "now"},
            "spec.when",
            'Invalid value: "now": spec.when in body must be of type date-time: "now"',
            "FieldValueTypeInvalid",
            id="not a time",
        ),
        pytest.param(
            {"size": 1, "few": []},
            "spec.few",
            "Invalid value: 0: spec.few in body should have at least 1 items",
            "FieldValueInvalid",
            id="too few items",
        ),
        pytest.param(
            {"size": 1, "few": ["a", "b", "c"]},
            "spec.few",
            "Too many: 3: must have at most 2 items",
            "FieldValueTooMany",
            id="too many items",
        ),
        pytest.param(
            {"size": 1, "few": ["a", 1]},
            "spec.few[1]",
            'Invalid value: "integer": spec.few[1] in body must be of type string: "integer"',
            "FieldValueTypeInvalid",
            id="an item of another type",
        ),
        pytest.param(
            {"size": 1, "map": {}},
            "spec.map",
            "Invalid value: 0: spec.map in body should have at least 1 properties",
            "FieldValueInvalid",
            id="too few entries",
        ),
        pytest.param(
            {"size": 1, "map": {"a": "x"}},
            "spec.map.a",
            'Invalid value: "string": spec.map.a in body must be of type integer: "string"',
            "FieldValueTypeInvalid",
            id="an entry of another type",
        ),
        pytest.param(
            {"size": 1, "either": True},
            "spec.either",
            'Invalid value: "boolean": spec.either in body must be of type integer,string: "boolean"',
            "FieldValueTypeInvalid",
            id="neither a number nor a text",
        ),
        pytest.param(
            {"size": 1, "small": 3_000_000_000},
            "<nil>",
            'Invalid value: "": Checked value must be of type integer with format int32 in spec.small',
            "FieldValueInvalid",
            id="beyond 32 bits",
        ),
        pytest.param(
            {"size": 1, "one": {"a": "x", "b": "y"}},
            "<nil>",
            'Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives',
            "FieldValueInvalid",
            id="both of two alternatives",
        ),
        pytest.param(
            {"size": 1, "embedded": {"kind": "X"}},
            "spec.embedded.apiVersion",
            "Required value",
            "FieldValueRequired",
            id="an embedded object without a version",
        ),
        pytest.param(
            {"size": 1, "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]},
            "spec.ports[1]",
            'Duplicate value: {"port":1,"protocol":"TCP"}',
            "FieldValueDuplicate",
            id="the same key twice, by default",
        ),
        pytest.param(
            {"size": 1, "marks": ["a", "a"]},
            "spec.marks[1]",
            'Duplicate value: "a"',
            "FieldValueDuplicate",
            id="a set with a value twice",
        ),
    ],
)
def test_the_schema_refuses_and_names_the_field(spec: Any, field: str, message: str, reason: str) -> None:
    error = refused(SPECIFIED, spec)
    assert (error.code, error.reason) == (422, "Invalid")
    assert causes(error) == [(field, message, reason)]
    assert error.message == f'Widget.example.com "v" is invalid: {field}: {message}'


def test_everything_that_is_wrong_is_said_at_once() -> None:
    error = refused(SPECIFIED, {"color": "green", "flag": 1})
    assert {field for field, _, _ in causes(error)} == {"spec.size", "spec.color", "spec.flag"}
    assert error.message.startswith('Widget.example.com "v" is invalid: [spec.size: Required value, ')


@pytest.mark.parametrize(
    ("spec", "field", "message", "reason"),
    [
        ({"low": 2, "high": 1}, "spec", "Invalid value: low must not exceed high", "FieldValueInvalid"),
        ({"low": -1, "high": 1}, "spec", "Invalid value: failed rule: self.low >= 0", "FieldValueInvalid"),
        ({"low": 95, "high": 99}, "spec.low", "Forbidden: too large", "FieldValueForbidden"),
        ({"low": 7, "high": 8}, "spec", "Invalid value: not 7", "FieldValueInvalid"),
    ],
    ids=["its message", "the rule itself", "its own reason and field", "a computed message"],
)
def test_a_rule_refuses_with(spec: Any, field: str, message: str, reason: str) -> None:
    assert causes(refused(WITH_RULES, spec)) == [(field, message, reason)]


def test_a_rule_that_cannot_be_evaluated_refuses() -> None:
    error = refused(WITH_RULES, {"low": 1})
    assert causes(error)[0][1] == 'Invalid value: "object": no such key: high evaluating rule: low must not exceed high'


def test_rules_wait_until_the_types_are_right() -> None:
    error = refused(WITH_RULES, {"low": "x", "high": 1})
    assert [c[0] for c in causes(error)] == ["spec.low", "<nil>"]
    assert causes(error)[1][1] == f"Invalid value: null: {RULES_NOT_CHECKED}"


def test_a_rule_about_change_is_asked_only_of_changes() -> None:
    old = create(WITH_RULES, {"low": 1, "high": 2, "fixed": "a"})
    with pytest.raises(StatusError) as caught:
        prepare_update(
            WITH_RULES, old, {**old, "metadata": {"name": "v"}, "spec": {**old["spec"], "fixed": "b"}}, ME, now=1.0
        )
    assert causes(caught.value) == [("spec.fixed", 'Invalid value: "b": fixed is immutable', "FieldValueInvalid")]


def test_a_stricter_schema_does_not_lock_out_writes_that_leave_the_old_part_alone() -> None:
    old = create(SPECIFIED, {"size": 1, "few": ["a"]})
    stricter = kind({**SPEC, "required": ["size", "flag"]})
    new = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert prepare_update(stricter, old, new, ME, now=1.0).body["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(StatusError):
        prepare_update(stricter, old, {**new, "spec": {"size": 2}}, ME, now=1.0)


def test_unknown_fields_are_an_error_a_warning_or_nothing_as_asked() -> None:
    error = refused(SPECIFIED, {"size": 1, "colour": "x", "ports": [{"port": 1, "prot": "x"}]})
    assert (error.code, error.reason, error.message) == (
        400,
        "BadRequest",
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "spec.ports[0].prot", unknown field "spec.colour"',
    )
    for validation, warnings in (("Warn", ('unknown field "spec.colour"',)), ("Ignore", ())):
        body: dict[str, Any] = {"metadata": {"name": "v"}, "spec": {"size": 1, "colour": "x"}}
        prepared = prepare_create(SPECIFIED, "default", body, ME, now=0.0, uid="u", field_validation=validation)
        assert (prepared.body["spec"], prepared.warnings) == ({"size": 1}, warnings)


_PART = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_REGEX = "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"


@pytest.mark.parametrize(
    ("metadata", "field", "message"),
    [
        pytest.param({"name": ""}, "metadata.name", "Required value: name or generateName is required", id="no name"),
        pytest.param(
            {"name": "a_b"},
            "metadata.name",
            'Invalid value: "a_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            r"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            id="a name with an underscore",
        ),
        pytest.param(
            {"name": "x" * 254},
            "metadata.name",
            f'Invalid value: "{"x" * 254}": must be no more than 253 characters',
            id="a name too long",
        ),
        pytest.param(
            {"labels": {"a b": "c"}},
            "metadata.labels",
            f"Invalid value: \"a b\": name part {_PART} (e.g. 'MyName',  or 'my.name',  or '123-abc', {_REGEX}",
            id="a label key with a space",
        ),
        pytest.param(
            {"labels": {"/b": "c"}},
            "metadata.labels",
            'Invalid value: "/b": prefix part must be non-empty',
            id="a label key without its prefix",
        ),
        pytest.param(
            {"labels": {"a": "x" * 64}},
            "metadata.labels",
            f'Invalid value: "{"x" * 64}": must be no more than 63 bytes',
            id="a label value too long",
        ),
        pytest.param(
            {"annotations": {"x" * 64: ""}},
            "metadata.annotations",
            f'Invalid value: "{"x" * 64}": name part must be no more than 63 bytes',
            id="an annotation key too long",
        ),
        pytest.param(
            {"annotations": {"a": "x" * 262145}},
            "metadata.annotations",
            "Too long: may not be more than 262144 bytes",
            id="annotations too large",
        ),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "", "uid": "x"}]},
            "metadata.ownerReferences.name",
            'Invalid value: "": must not be empty',
            id="an owner without a name",
        ),
    ],
)
def test_metadata_is_refused_with(metadata: dict[str, Any], field: str, message: str) -> None:
    assert [(f, m) for f, m, _ in causes(refused(SPECIFIED, {"size": 1}, **metadata))] == [(field, message)]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": {"a": 1}}, "cannot unmarshal number into Go struct field ObjectMeta.labels of type string"),
        ({"labels": "x"}, "cannot unmarshal string into Go struct field ObjectMeta.labels of type map[string]string"),
        ({"name": 1}, "cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
        ({"finalizers": "x"}, "cannot unmarshal string into Go struct field ObjectMeta.finalizers of type []string"),
    ],
)
def test_metadata_of_the_wrong_type_cannot_be_decoded(metadata: dict[str, Any], text: str) -> None:
    error = refused(SPECIFIED, {"size": 1}, **metadata)
    assert (error.code, error.message) == (400, f'Widget in version "v1" cannot be handled as a Widget: json: {text}')


def test_built_in_types_are_refused_as_go_decodes_them() -> None:
    data = {"type": "object", "additionalProperties": {"type": "string"}}
    secret: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}}
    for schema, value, text in (
        (data, {"a": 1}, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        (secret, {"a": "!!"}, "illegal base64 data at input byte 0"),
    ):
        config = dataclasses.replace(
            WIDGET,
            group="",
            kind="ConfigMap",
            resource="configmaps",
            builtin=True,
            status=False,
            aliases=(),
            schema={"type": "object", "properties": {"data": schema}},
        )
        with pytest.raises(StatusError) as caught:
            prepare_create(config, "default", {"metadata": {"name": "c"}, "data": value}, ME, now=0.0, uid="u")
        assert caught.value.message == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {text}'


def test_a_body_for_somewhere_else_is_refused() -> None:
    with pytest.raises(StatusError) as other:
        prepare_create(SPECIFIED, "default", {"metadata": {"name": "v", "namespace": "x"}}, ME, now=0.0, uid="u")
    assert other.value.message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    with pytest.raises(StatusError) as kinds:
        prepare_create(SPECIFIED, "default", {"kind": "Other", "metadata": {"name": "k"}}, ME, now=0.0, uid="u")
    assert kinds.value.message == 'Other.example.com "k" is invalid: kind: Invalid value: "Other": must be Widget'


def test_warnings_tell_of_what_will_hurt_later() -> None:
    owner = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "x"}
    body: dict[str, Any] = {"metadata": {"name": "v", "finalizers": ["xy"], "ownerReferences": [owner, dict(owner)]}}
    body["spec"] = {"size": 1}
    prepared = prepare_create(SPECIFIED, "default", body, ME, now=0.0, uid="u")
    assert prepared.body["metadata"]["ownerReferences"] == [owner]
    assert [text.split(":")[0].split(" ")[0] for text in prepared.warnings] == [
        ".metadata.ownerReferences",
        "metadata.finalizers",
    ]


@pytest.mark.parametrize(
    "junk", [None, 1, "x", [], [{}], {"name": {}}, {"name": "v", "labels": []}, {"name": "v", "finalizers": [1]}]
)
def test_no_shape_of_metadata_breaks_the_engine(junk: Any) -> None:
    with pytest.raises(StatusError) as caught:
        prepare_create(SPECIFIED, "default", {"metadata": junk, "spec": {"size": 1}}, ME, now=0.0, uid="u")
    assert caught.value.code in (400, 422)
