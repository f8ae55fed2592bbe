"""Readers of bodies: nulls and wrong types where they are stored already are no reader's undoing."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from api.engine.columns import cells, columns_of
from api.engine.kind import Body
from api.engine.selectors import from_object
from fleet.admission.kindfiles import load_kinds
from fleet.kinds import INTERPRETERS
from fleet.values.quantity import BadQuantity
from fleet.values.untyped import at, mapping, rows, text, texts, whole

KINDS = {kind.resource: kind for kind in load_kinds() if kind.group != "events.k8s.io"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POD_FIELDS = (
    "containers",
    "initContainers",
    "volumes",
    "tolerations",
    "affinity",
    "nodeSelector",
    "imagePullSecrets",
    "resources",
    "overhead",
)
STATUS_FIELDS = ("conditions", "containerStatuses", "addresses", "capacity", "hard", "startTime")
JUNK: list[Any] = [None, 1, 1.5, True, "x", [], [None], [1], {}, {"a": None}, [{"a": 1}], [[]]]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_interpreters_read_anything(junk: Any) -> None:
    for (_, kind), interpreter in INTERPRETERS.items():
        field = kind.removesuffix("Job").lower().replace("xgboost", "xgb") + "ReplicaSpecs"
        inner: Body = {"spec": dict.fromkeys(POD_FIELDS, junk)}
        deep: Body = {
            "spec": {
                "containers": [dict.fromkeys(("env", "envFrom", "resources"), junk)],
                "volumes": [dict.fromkeys(("secret", "projected", "csi", "persistentVolumeClaim"), junk)],
                "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": junk}}},
            }
        }
        for spec in (
            junk,
            {field: junk, "template": junk, "runPolicy": junk, "parallelism": junk, "completions": junk},
            {field: {"Master": junk}},
            {field: {"Master": {"template": junk, "replicas": junk}}},
            {field: {"Master": {"template": inner}}, "template": inner},
            {field: {"Master": {"template": deep}}, "template": deep},
        ):
            body: Body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec, "status": junk}
            with suppress(BadQuantity):
                interpreter.components(body)
            interpreter.priority_class(body)
            interpreter.dependencies(body)
            interpreter.health(body)
            interpreter.suspended(interpreter.suspend(body, True))
            interpreter.stamp(body, {"a": "b"}, {"c": "d"}, {"master": {"e": "f"}})
            interpreter.merge_status(body["status"], {"conditions": junk})


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_printers_read_anything(junk: Any) -> None:
    for kind in KINDS.values():
        for body in (
            {"spec": junk, "status": junk},
            {
                "spec": {"containers": junk, "ports": junk, "selector": junk, "template": junk},
                "status": dict.fromkeys(STATUS_FIELDS, junk),
                "subjects": junk,
                "roleRef": junk,
                "data": junk,
                "source": junk,
                "series": junk,
                "rules": junk,
            },
        ):
            found = cells(kind, {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, **body}, 0.0)
            assert len(found) == len(columns_of(kind))


def test_selectors_select_nothing_that_they_do_not_understand() -> None:
    for wrong in (
        {"matchExpressions": [None]},
        {"matchExpressions": ["x"]},
        {"matchExpressions": [{"operator": "Is"}]},
    ):
        with pytest.raises(ValueError, match="is not a"):
            from_object(wrong)
    assert from_object({"matchLabels": []}) == ()


def test_reading_what_nothing_vouches_for() -> None:
    assert (mapping(None), mapping([1]), mapping({"a": 1})) == ({}, {}, {"a": 1})
    assert (rows("ab"), rows([1, {"a": 1}, None])) == ([], [{"a": 1}])
    assert (text(1), text("a"), texts("ab"), texts([1, "a"])) == ("", "a", (), ("a",))
    assert (whole(3.0, 1), whole(3.5, 1), whole(True, 1), whole("3", 1), whole(4, 1)) == (3, 1, 1, 1, 4)
    assert (at({"a": {"b": 1}}, "a", "b"), at({"a": [1]}, "a", "b"), at(None, "a")) == (1, None, None)
