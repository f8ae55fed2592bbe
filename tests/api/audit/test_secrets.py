"""What no audit log says, and the small parts of an event."""

from __future__ import annotations

from typing import Any

import pytest

from api.audit.event import addresses, agent, complete_ref, without_managed_fields
from api.audit.policy import AuditedRequest
from api.audit.secrets import holds_secret, is_secret, masked, quiet


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("/api/v1/pods", "/api/v1/pods"),
        ("/api/v1/pods?limit=5&continue=abc", "/api/v1/pods?limit=5&continue=abc"),
        ("/x?access_token=abc&limit=1", "/x?access_token=***&limit=1"),
        ("/x?limit=1&token=a=b&token", "/x?limit=1&token=***&token"),
        ("/x?%74oken=abc;TOKEN=d", "/x?%74oken=***;TOKEN=***"),
        ("/x?api-key=1&API_KEY=2&password=3", "/x?api-key=***&API_KEY=***&password=***"),
        ("/x?a=1?token=2", "/x?a=1?token=2"),
        ("/x?", "/x?"),
    ],
)
def test_values_of_credentials_are_taken_out_of_urls(uri: str, shown: str) -> None:
    assert masked(uri) == shown


@pytest.mark.parametrize(
    ("group", "resource", "subresource", "secret"),
    [
        ("", "secrets", "", True),
        ("", "secrets", "status", True),
        ("", "serviceaccounts", "token", True),
        ("", "serviceaccounts", "", False),
        ("authentication.k8s.io", "tokenreviews", "", True),
        ("", "configmaps", "", False),
        ("example.org", "secrets", "", False),
    ],
)
def test_some_resources_are_secrets(group: str, resource: str, subresource: str, secret: bool) -> None:
    assert is_secret(AuditedRequest("u", (), "get", group, "v1", resource, subresource)) is secret


@pytest.mark.parametrize(
    ("body", "secret"),
    [
        ({"kind": "Secret"}, True),
        ({"kind": "List", "items": [1, {"kind": "Secret"}]}, True),
        ({"kind": "TokenRequest"}, True),
        ({"kind": "ConfigMap"}, False),
        ([], False),
        (None, False),
        ({"kind": ["Secret"]}, False),
        ({"items": [{"kind": {}}]}, False),
    ],
)
def test_a_body_is_a_secret_by_its_kind_too(body: Any, secret: bool) -> None:
    assert holds_secret(body) is secret


def test_refusals_that_quote_lose_their_words() -> None:
    assert quiet({"code": 422, "message": "hush", "details": {}, "reason": "Invalid"}) == {
        "code": 422,
        "reason": "Invalid",
    }
    assert quiet({"code": 404, "message": "not found"}) == {"code": 404, "message": "not found"}


@pytest.mark.parametrize(
    ("forwarded", "real", "peer", "shown"),
    [
        ("", "", "10.0.0.9", ["10.0.0.9"]),
        ("10.0.0.1, 10.0.0.2", "10.0.0.1", "10.0.0.9", ["10.0.0.1", "10.0.0.2", "10.0.0.9"]),
        ("10.0.0.1", "10.0.0.2", "10.0.0.2", ["10.0.0.1", "10.0.0.2"]),
        ("<script>, ::1", "rubbish", "10.0.0.9", ["::1", "10.0.0.9"]),
        ("1.1.1.1," * 500, "", "", ["1.1.1.1"] * 32),
    ],
)
def test_addresses_are_those_of_proxies_and_of_the_connection(
    forwarded: str, real: str, peer: str, shown: list[str]
) -> None:
    assert addresses(forwarded, real, peer) == shown


def test_a_long_user_agent_is_cut() -> None:
    assert agent("a" * 1024) == "a" * 1024
    assert agent("a" * 1025) == "a" * 1024 + "...TRUNCATED"


def test_a_body_completes_what_the_path_leaves_open() -> None:
    ref = {"resource": "jobs", "namespace": "team"}
    complete_ref(ref, {"metadata": {"namespace": "other", "name": "train", "uid": 7, "resourceVersion": "5"}})
    assert ref == {"resource": "jobs", "namespace": "team", "name": "train", "resourceVersion": "5"}
    complete_ref(ref, {"metadata": []})
    complete_ref(ref, None)
    assert len(ref) == 4


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"managedFields": [1]}},
        {"items": [{"metadata": {"managedFields": [1]}}, 1, {"metadata": []}], "metadata": {}},
        {"kind": "Table", "rows": [{"object": {"metadata": {"managedFields": [1]}}}, {}, 1]},
    ],
)
def test_managed_fields_are_left_out_of_objects_lists_and_tables(body: Any) -> None:
    assert "managedFields" not in str(without_managed_fields(body))
