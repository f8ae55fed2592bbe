"""The decoding of built-in kinds, on every way in."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.kind import Kind
from api.engine.patch import APPLY, JSON, MERGE, STRATEGIC
from api.engine.status import StatusError
from api.objects.objects import Objects
from tests.api.engine.conftest import NAMESPACE

from .conftest import OPTIONS

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SECRET = Kind(
    "",
    "v1",
    "Secret",
    "secrets",
    "secret",
    True,
    "SecretList",
    builtin=True,
    schema={"type": "object", "properties": {"data": TEXTS, "stringData": TEXTS, "type": {"type": "string"}}},
)


def secret(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **fields}


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        (JSON, [{"op": "add", "path": "/stringData", "value": {"b": "y"}}]),
        (MERGE, {"stringData": {"b": "y"}}),
        (STRATEGIC, {"stringData": {"b": "y"}}),
        (APPLY, secret(stringData={"b": "y"})),
    ],
)
async def test_text_given_to_a_secret_becomes_data_whatever_the_patch(objects: Objects, media: str, patch: Any) -> None:
    await objects.create(SECRET, "default", secret(stringData={"a": "x"}), OPTIONS)
    written = await objects.patch(SECRET, "default", "s", patch, media, OPTIONS)
    assert (written.body["data"], written.body["type"]) == ({"a": "eA==", "b": "eQ=="}, "Opaque")
    assert "stringData" not in written.body


async def test_a_secret_that_is_applied_first_has_a_type(objects: Objects) -> None:
    written = await objects.patch(SECRET, "default", "s", secret(stringData={"a": "x"}), APPLY, OPTIONS)
    assert (written.body["data"], written.body["type"]) == ({"a": "eA=="}, "Opaque")


async def test_text_of_a_wrong_type_is_refused_and_not_dropped(objects: Objects) -> None:
    with pytest.raises(StatusError) as caught:
        await objects.create(SECRET, "default", secret(stringData={"a": 1}), OPTIONS)
    assert caught.value.code == 400 and "stringData" in caught.value.message


@pytest.mark.parametrize(
    ("media", "patch", "said"),
    [
        (MERGE, {"data": {"a": 1}}, "json: cannot unmarshal number into Go struct field Secret.data of type string"),
        (STRATEGIC, {"data": {"a": 1}}, "cannot convert int64 to string"),
        (STRATEGIC, {"data": "a"}, "cannot restore map from string"),
        (STRATEGIC, {"metadata": {"finalizers": "a"}}, "cannot restore slice from string"),
    ],
)
async def test_a_patch_that_leaves_a_wrong_type_is_invalid(objects: Objects, media: str, patch: Any, said: str) -> None:
    await objects.create(SECRET, "default", secret(), OPTIONS)
    with pytest.raises(StatusError) as caught:
        await objects.patch(SECRET, "default", "s", patch, media, OPTIONS)
    assert (caught.value.code, [cause.field for cause in caught.value.causes]) == (422, ["patch"])
    assert caught.value.message.endswith(said)


async def test_replacing_a_key_that_is_not_there_adds_it_but_not_below_nothing(objects: Objects) -> None:
    await objects.create(SECRET, "default", secret(data={}), OPTIONS)
    replace = {"op": "replace", "path": "/data/a", "value": "eA=="}
    written = await objects.patch(SECRET, "default", "s", [replace], JSON, OPTIONS)
    assert written.body["data"] == {"a": "eA=="}
    for wrong in (
        {**replace, "path": "/no/a"},
        {"op": "remove", "path": "/data/b"},
        {"op": "replace", "path": "/type"},
    ):
        with pytest.raises(StatusError) as caught:
            await objects.patch(SECRET, "default", "s", [wrong], JSON, OPTIONS)
        assert caught.value.code == 422


async def test_a_namespace_keeps_its_name_as_a_label(objects: Objects) -> None:
    body = {"metadata": {"name": "default", "labels": {"a": "b"}}}
    written = await objects.update(NAMESPACE, "", "default", body, OPTIONS)
    assert written.body["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "default"}
