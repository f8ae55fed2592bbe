"""Files of nonsense, and good files with one part changed: read or refused with a field, and never an exception."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.access.oidc.config import parse
from fleet.values.sections import BadConfiguration
from tests.api.oidc.issuer import URL, configuration, entry

TEXT = st.text(max_size=8) | st.sampled_from(
    [
        URL,
        "claims.email",
        "claims.sub + '",
        "sub",
        "email",
        "",
        "system:",
        "https://[::1",
        "https://a:99999",
        "example.org/x",
        "k8s.io/x",
        "claims.groups.map(g, g + claims",
        "{}",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FULL = configuration(
    entry(
        issuer={
            "url": URL,
            "discoveryURL": "https://d.example/x",
            "audiences": ["a", "b"],
            "audienceMatchPolicy": "MatchAny",
            "certificateAuthority": "",
        },
        claimValidationRules=[
            {"claim": "hd", "requiredValue": "x"},
            {"expression": "claims.a == 'b'", "message": "no"},
        ],
        claimMappings={
            "username": {"claim": "sub", "prefix": "o:"},
            "groups": {"expression": "claims.groups"},
            "uid": {"claim": "u"},
            "extra": [{"key": "example.org/x", "valueExpression": "claims.x"}],
        },
        userValidationRules=[{"expression": "user.username != 'root'", "message": "not root"}],
    )
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each part of a document."""
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in children for place in places(item, (*path, key)))]


def read_or_refused(text: bytes) -> None:
    try:
        issuers = parse(text)
    except BadConfiguration as bad:
        assert bad.faults and all(": " in fault and len(fault) < 2000 for fault in bad.faults), bad.faults
    else:
        assert all(issuer.source.url.startswith("https://") for issuer in issuers)


def test_a_deep_file_is_refused() -> None:
    with pytest.raises(BadConfiguration, match="no YAML"):
        parse(b"[" * 2000)


def test_the_whole_file_is_good() -> None:
    assert len(parse(yaml.safe_dump(FULL).encode())) == 1


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(places(FULL)[1:]), ANYTHING)
@example(("jwt", 0, "claimMappings", "extra", 0, "key"), "K8S.IO/x")
@example(("jwt", 0, "issuer", "url"), "https://a\x00b")
def test_a_file_with_one_part_changed_is_read_or_refused(place: tuple[Any, ...], part: Any) -> None:
    document = copy.deepcopy(FULL)
    holder: Any = document
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = part
    read_or_refused(yaml.safe_dump(document).encode("utf-8", "surrogatepass"))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80) | st.builds(lambda body: yaml.safe_dump(body).encode("utf-8", "surrogatepass"), ANYTHING))
@example(b"a: &a [x]\nb: *c")
@example(b"? {a: b}\n: c")
@example(b"2001-99-99")
@example(b"!!python/object:os.system {}")
@example(b"\xff\xfe")
@example(b"apiVersion: 2026-13-45")
def test_nonsense_is_refused(text: bytes) -> None:
    read_or_refused(text)
