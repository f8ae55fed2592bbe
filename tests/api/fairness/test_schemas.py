"""The class of a request by its user and its wish."""

from __future__ import annotations

from typing import Any

import pytest

from api.fairness.defaults import LEVELS, SCHEMAS
from api.fairness.schemas import read_levels, read_schemas
from api.objects.writing import User
from api.wire.rights import Attributes

AUTHENTICATED = "system:authenticated"
ACCOUNT = User("system:serviceaccount:team:robot", ("system:serviceaccounts", AUTHENTICATED))
SYSTEM_ACCOUNT = User("system:serviceaccount:kube-system:robot", ("system:serviceaccounts", AUTHENTICATED))
NODE = User("system:node:a", ("system:nodes", AUTHENTICATED))
ANN = User("ann", (AUTHENTICATED,))
PODS = Attributes("get", "", "pods", "", "team", "a")
LEASE = Attributes("update", "coordination.k8s.io", "leases", "", "team", "a")


def stored(specs: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec} for name, spec in specs.items()]


def classified(user: User, wanted: Attributes, **more: Any) -> tuple[str, str, str]:
    """Schema, level and flow, with the objects of a fresh hub and `more` schemas."""
    levels = read_levels(stored(LEVELS))
    schemas = read_schemas(stored({**SCHEMAS, **more}), levels)
    found = next((schema for schema in schemas if schema.matches(user, wanted)), schemas[-1])
    return found.name, found.level, found.flow(user, wanted)


@pytest.mark.parametrize(
    ("user", "wanted", "schema", "level", "flow"),
    [
        (User("root", ("system:masters", AUTHENTICATED)), PODS, "exempt", "exempt", ""),
        (ANN, Attributes("get", path="/livez"), "probes", "exempt", ""),
        (ANN, Attributes("get", path="/livez/ping"), "probes", "exempt", ""),
        (ANN, Attributes("get", path="/livezz"), "global-default", "global-default", "ann"),
        (SYSTEM_ACCOUNT, LEASE, "system-leader-election", "leader-election", SYSTEM_ACCOUNT.name),
        (ACCOUNT, LEASE, "service-accounts", "workload-low", ACCOUNT.name),
        (NODE, LEASE, "system-node-high", "node-high", NODE.name),
        (NODE, Attributes("patch", "", "nodes", "status", "", "a"), "system-node-high", "node-high", NODE.name),
        (NODE, PODS, "system-nodes", "system", NODE.name),
        (User("system:kube-scheduler", (AUTHENTICATED,)), PODS, "kube-scheduler", "workload-high", "team"),
        (SYSTEM_ACCOUNT, PODS, "kube-system-service-accounts", "workload-high", "team"),
        (ACCOUNT, PODS, "service-accounts", "workload-low", ACCOUNT.name),
        (ANN, PODS, "global-default", "global-default", "ann"),
        (User("nobody", ()), PODS, "catch-all", "catch-all", "nobody"),
    ],
)
def test_the_schemas_of_a_fresh_hub(user: User, wanted: Attributes, schema: str, level: str, flow: str) -> None:
    assert classified(user, wanted) == (schema, level, f"{schema}/{flow}")


def _mine(**parts: Any) -> dict[str, Any]:
    rule = {
        "subjects": [{"kind": "User", "user": {"name": "ann"}}],
        "resourceRules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["team"]}],
    }
    return {"priorityLevelConfiguration": {"name": "system"}, "matchingPrecedence": 500, "rules": [rule], **parts}


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (Attributes("list", "", "pods", "", "team"), True),
        (Attributes("watch", "", "pods", "", "team"), False),
        (Attributes("list", "apps", "pods", "", "team"), False),
        (Attributes("list", "", "pods", "status", "team"), False),
        (Attributes("list", "", "pods", "", "other"), False),
        (Attributes("list", "", "pods"), False),
        (Attributes("list", path="/api/v1"), False),
    ],
)
def test_a_schema_of_a_user_matches_what_it_names_and_no_more(wanted: Attributes, matches: bool) -> None:
    assert (classified(ANN, wanted, mine=_mine())[0] == "mine") == matches


def test_equal_precedences_are_ordered_by_name_and_a_missing_level_classifies_nothing() -> None:
    wanted = Attributes("list", "", "pods", "", "team")
    assert classified(ANN, wanted, b=_mine(), a=_mine())[0] == "a"
    assert classified(ANN, wanted, a=_mine(priorityLevelConfiguration={"name": "none"}))[0] == "global-default"


def test_objects_that_cannot_be_read_leave_the_others_in_force() -> None:
    levels = read_levels([{"metadata": {"name": "bad"}, "spec": {"type": "Limited"}}, *stored(LEVELS)])
    schemas = read_schemas([{"metadata": {"name": "bad"}, "spec": None}, *stored(SCHEMAS)], levels)
    assert "bad" not in levels and len(levels) == len(LEVELS)
    assert {schema.name for schema in schemas} == set(SCHEMAS)


def test_without_any_object_the_mandatory_classes_are_there() -> None:
    levels = read_levels([])
    schemas = read_schemas([], levels)
    assert set(levels) == {"exempt", "catch-all"}
    assert [schema.name for schema in schemas] == ["exempt", "catch-all", "catch-all"]
