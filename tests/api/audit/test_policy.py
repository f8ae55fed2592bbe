"""Audit policies: what each field means, each fault by its field, and files of nonsense."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.audit.policy import LEVELS, STAGES, AuditedRequest, Level, parse, read
from fleet.values.sections import BadConfiguration

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.lists(
    st.text(max_size=6) | st.sampled_from(["pods", "*", "*/scale", "pods/*", "/api*", "alice"]), max_size=2
)
RULE = st.fixed_dictionaries(
    {"level": st.sampled_from(list(LEVELS))},
    optional={
        "users": TEXTS,
        "userGroups": TEXTS,
        "verbs": TEXTS,
        "namespaces": TEXTS,
        "nonResourceURLs": TEXTS,
        "omitStages": st.lists(st.sampled_from(STAGES), max_size=2),
        "omitManagedFields": st.booleans(),
        "resources": st.lists(
            st.fixed_dictionaries(
                {}, optional={"group": st.sampled_from(["", "*", "batch"]), "resources": TEXTS, "resourceNames": TEXTS}
            ),
            max_size=2,
        ),
    },
)
ASKED = st.builds(
    AuditedRequest,
    st.sampled_from(["alice", ""]),
    st.none() | st.lists(st.text(max_size=4), max_size=2),
    st.sampled_from(["get", "create", ""]),
    st.sampled_from(["", "batch"]),
    st.just("v1"),
    st.sampled_from(["pods", "jobs", ""]),
    st.sampled_from(["", "scale"]),
    st.sampled_from(["", "default"]),
    st.sampled_from(["", "one"]),
    st.sampled_from(["", "/api", "/healthz"]),
)


def policy(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more}


def asked(**more: Any) -> AuditedRequest:
    plain = AuditedRequest("alice", ("dev",), "create", "batch", "v1", "jobs", "", "team", "train")
    return AuditedRequest(**{name: more.get(name, getattr(plain, name)) for name in AuditedRequest.__slots__})


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({}, True),
        ({"users": ["alice"]}, True),
        ({"users": ["bob"]}, False),
        ({"userGroups": ["x", "dev"]}, True),
        ({"userGroups": ["x"]}, False),
        ({"verbs": ["create"]}, True),
        ({"verbs": ["get"]}, False),
        ({"namespaces": ["team"]}, True),
        ({"namespaces": [""]}, False),
        ({"resources": [{"group": "batch"}]}, True),
        ({"resources": [{"group": ""}]}, False),
        ({"resources": [{"group": "*", "resources": ["jobs"]}]}, True),
        ({"resources": [{"group": "batch", "resources": ["jobs/status"]}]}, False),
        ({"resources": [{"group": "batch", "resources": ["jobs/*"]}]}, True),
        ({"resources": [{"group": "batch", "resources": ["jobs"], "resourceNames": ["train"]}]}, True),
        ({"resources": [{"group": "batch", "resources": ["jobs"], "resourceNames": ["other"]}]}, False),
        ({"resources": [{"group": "", "resources": ["pods"]}, {"group": "batch"}]}, True),
        ({"nonResourceURLs": ["*"]}, False),
    ],
)
def test_a_rule_matches_by_every_field(rule: dict[str, Any], found: bool) -> None:
    chosen = read(policy({"level": "Metadata", **rule})).rule(asked())
    assert (chosen is not None) is found


@pytest.mark.parametrize(
    ("resources", "found"),
    [(["jobs"], False), (["jobs/status"], True), (["*/status"], True), (["*"], True), (["*/scale"], False)],
)
def test_a_subresource_is_named_with_its_resource(resources: list[str], found: bool) -> None:
    rule = {"level": "Metadata", "resources": [{"group": "batch", "resources": resources}]}
    assert (read(policy(rule)).rule(asked(subresource="status")) is not None) is found


@pytest.mark.parametrize(("url", "found"), [("/api*", True), ("/apis/batch", True), ("/apis", False), ("*", True)])
def test_a_path_is_named_whole_or_by_its_beginning(url: str, found: bool) -> None:
    rule = {"level": "Metadata", "nonResourceURLs": [url]}
    assert (read(policy(rule)).rule(asked(path="/apis/batch", resource="")) is not None) is found


def test_the_first_rule_that_matches_decides() -> None:
    rules = read(policy({"level": "None", "users": ["alice"]}, {"level": "Request"}))
    chosen, other = rules.rule(asked()), rules.rule(asked(user="bob"))
    assert chosen is not None and chosen.level is Level.None_
    assert other is not None and other.level is Level.Request
    assert read(policy({"level": "Request", "users": ["bob"]})).rule(asked()) is None


def test_stages_of_the_policy_are_omitted_beside_those_of_the_rule() -> None:
    rules = read(
        policy(
            {"level": "Request", "omitStages": ["Panic"], "omitManagedFields": False},
            {"level": "Request"},
            omitStages=["RequestReceived"],
            omitManagedFields=True,
        )
    ).rules
    assert [rule.omit_stages for rule in rules] == [{"Panic", "RequestReceived"}, {"RequestReceived"}]
    assert [rule.omit_managed_fields for rule in rules] == [False, True]


def test_a_user_that_is_not_known_matches_no_rule_for_users() -> None:
    rules = read(policy({"level": "Request", "users": [""]}, {"level": "Metadata"}))
    chosen = rules.rule(asked(user="", groups=None))
    assert chosen is not None and chosen.level is Level.Metadata


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "(file)"),
        ({**policy({"level": "None"}), "kind": "Rule"}, "kind"),
        ({**policy({"level": "None"}), "apiVersion": "audit.k8s.io/v1beta1"}, "apiVersion"),
        (policy(), "rules"),
        (policy({}), "rules[0].level"),
        (policy({"level": "Metadata"}, {"level": "metadata"}), "rules[1].level"),
        (policy({"level": "Metadata", "user": ["a"]}), "rules[0].user"),
        (policy({"level": "Metadata", "users": "a"}), "rules[0].users"),
        (policy({"level": "Metadata", "nonResourceURLs": ["api"]}), "rules[0].nonResourceURLs[0]"),
        (policy({"level": "Metadata", "nonResourceURLs": ["/a*b"]}), "rules[0].nonResourceURLs[0]"),
        (policy({"level": "Metadata", "nonResourceURLs": ["/a"], "namespaces": ["x"]}), "rules[0].nonResourceURLs"),
        (policy({"level": "Metadata", "resources": [{"group": "batch/v1"}]}), "rules[0].resources[0].group"),
        (policy({"level": "Metadata", "resources": [{"resourceNames": ["x"]}]}), "rules[0].resources[0].resourceNames"),
        (policy({"level": "Metadata", "omitStages": ["Started"]}), "rules[0].omitStages[0]"),
        (policy({"level": "Metadata"}, omitStages=["Started"]), "omitStages[0]"),
        (policy({"level": "Metadata", "omitManagedFields": "yes"}), "rules[0].omitManagedFields"),
    ],
)
def test_a_fault_names_its_field(document: Any, field: str) -> None:
    with pytest.raises(BadConfiguration) as bad:
        read(document)
    assert any(fault.startswith(f"{field}: ") for fault in bad.value.faults), bad.value.faults


@settings(max_examples=80, deadline=None)
@example(b"2001-99-99")
@given(st.binary(max_size=60) | st.builds(lambda body: yaml.safe_dump(body).encode(), ANYTHING))
def test_nonsense_is_a_fault_with_a_field(text: bytes) -> None:
    with pytest.raises(BadConfiguration) as bad:
        parse(text)
    assert all(": " in fault for fault in bad.value.faults)


@settings(max_examples=80, deadline=None)
@given(st.lists(RULE | ANYTHING, max_size=3), ASKED)
def test_every_policy_is_read_or_refused_and_decides(rules: list[Any], request: AuditedRequest) -> None:
    try:
        known = read(policy(*rules))
    except BadConfiguration as bad:
        assert all(": " in fault for fault in bad.faults)
    else:
        chosen = known.rule(request)
        assert chosen is None or chosen in known.rules
