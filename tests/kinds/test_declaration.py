"""Declarations of users: what is read of them, what is wrong with them, and how they are looked up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fleet.kinds import INTERPRETERS, JobState, interpreter_of
from fleet.kinds.declaration import BadDeclaration, flaws_of, read_declaration
from fleet.kinds.declared import DeclaredKind
from fleet.kinds.expressions import KindExpression, jvm_bytes
from fleet.values.cel.tree import BadExpression

Body = dict[str, Any]


@pytest.fixture(autouse=True)
def nothing_declared() -> Iterator[None]:
    yield
    INTERPRETERS.declare(())


def spec(**more: Any) -> Body:
    component = {"name": "main", "replicas": "object.spec.count", "template": "object.spec.pod"}
    return {"target": {"group": "example.com", "kind": "Widget"}, "components": [component], **more}


def flaws(**more: Any) -> list[str]:
    return [f"{flaw.field}: {flaw.why}" for flaw in flaws_of(spec(**more))]


@pytest.mark.parametrize(
    ("expression", "job", "value"),
    [
        ("object.spec.n", {"n": 3}, 3),
        ("object.spec.missing.n", {}, None),
        ('object.spec["a.b"]', {"a.b": 1}, 1),
        ("object.spec.n > 2", {"n": 3}, True),
        ("object.spec.n > 2", {}, False),
        ('object.spec.s == "x"', {"s": "x"}, True),
        ('object.spec.s in ["x", "y"]', {"s": "y"}, True),
        ("has(object.spec.s)", {"s": ""}, True),
        ("has(object.spec.s)", {}, False),
        ("4", {}, 4),
        ("object.spec.a * object.spec.b", {"a": 2, "b": 3}, 6),
        ("object.spec.a * object.spec.b", {"a": 2}, None),  # what it reads is not there
        ("object.spec.l.map(x, x.n)", {"l": [{"n": 1}, {"n": 2}]}, [1, 2]),
        ("object.spec.l.exists(x, x.n > object.spec.n)", {"l": [{"n": 1}, {"n": 2}], "n": 1}, True),
        ("greatest(1, object.spec.n)", {"n": 4}, 4),
        ("jvmBytes(object.spec.m)", {"m": "2g"}, 2 << 30),
        ("jvmBytes(object.spec.m)", {"m": "lots"}, None),
        ("object.spec.l.map(x, x)", {"l": list(range(100_000))}, None),  # it would take too long
        ('object.spec.?m[?"a.b"].orValue(1)', {"m": {"a.b": 2}}, 2),
        ('object.spec.?m[?"a.b"].orValue(1)', {}, 1),
        ('object.spec.?m[?"a.b"].or(object.spec.?n)', {"n": 3}, 3),
        ("object.spec.?n", {}, None),
    ],
)
def test_expressions(expression: str, job: Body, value: Any) -> None:
    assert KindExpression(expression).read({"object": {"spec": job}}) == value


def test_usual_shapes_mean_what_the_library_means() -> None:
    import cel

    for text in (
        "status.a == 1",
        "status.a > 0",
        'status.s in ["x"]',
        "has(status.a)",
        "status.s",
        "true",
        '"x"',
        'status.conditions.exists(c, c.type == "T" && c.status == "True")',
    ):
        values = {"status": {"a": 1, "s": "x", "conditions": [{"type": "T", "status": "True"}]}}
        assert (
            KindExpression(text).read(values) == cel.compile(text).execute(cel.Context(values))
            or KindExpression(text).condition
        )


def test_an_expression_that_few_items_make_expensive_is_refused() -> None:
    with pytest.raises(BadExpression, match="may take too long"):
        KindExpression("object.a.map(x, object.b.map(y, object.c.map(z, z + y + x)))")


def test_memory_as_a_java_virtual_machine_writes_it() -> None:
    assert [jvm_bytes(text) for text in ("1k", "512m", "4G", "2gb", "100")] == [
        1 << 10,
        512 << 20,
        4 << 30,
        2 << 30,
        100 << 20,
    ]


def test_flaws_name_their_field() -> None:
    assert flaws() == []
    assert flaws(components=[]) == ["spec.components: a job has at least one component"]
    [flaw] = flaws(components=[{"name": "a", "template": "status.pod"}])
    assert flaw.startswith("spec.components[0].template: must be a path that begins with object.")
    assert "needs either template or pods" in flaws(components=[{"name": "a"}])[0]
    assert "says no size" in flaws(components=[{"name": "a", "pods": {}}])[0]
    twice = [{"name": "a", "template": "object.a"}, {"name": "A", "template": "object.b"}]
    assert flaws(components=twice) == ["spec.components[1].name: another component has this name"]
    [flaw] = flaws(components=[{"name": "a", "template": "object.a", "replicas": "item.n"}])
    assert flaw == "spec.components[0].replicas: knows object here, and not item"
    [flaw] = flaws(state=[{"state": "Running", "when": "object.status.ready > 0"}])
    assert flaw == "spec.state[0].when: knows status here, and not object"
    [flaw] = flaws(state=[{"state": "Running", "when": "status.ready >"}])
    assert flaw.startswith("spec.state[0].when: ")
    [flaw] = flaws(retryable="object.nonsense(")
    assert flaw.startswith("spec.retryable: ")
    [flaw] = flaws(inTurn='status.phase == "Up"')
    assert flaw.startswith("spec.inTurn: ") and "knows object here" in flaw
    [flaw] = flaws(dependencies=[{"kind": "Node", "name": "object.spec.node"}])
    assert flaw.startswith("spec.dependencies[0].kind: must be one of ConfigMap")
    [flaw] = flaws(rules=[{"field": "spec.n", "rule": "item.n > 1", "message": "m"}])
    assert flaw == "spec.rules[0].rule: knows object here, and not item"
    [flaw] = flaws(defaults=[{"forEach": "object.spec.l", "path": "object.spec.n", "value": "1"}])
    assert flaw == "spec.defaults[0].path: must be a path that begins with item."
    with pytest.raises(BadDeclaration, match="components"):
        read_declaration({})


def test_a_declaration_of_a_user_replaces_a_shipped_one_and_leaves_again() -> None:
    assert interpreter_of("example.com/v1", "Widget") is None
    shipped = interpreter_of("ray.io/v1", "RayJob")
    mine = DeclaredKind(read_declaration(spec(target={"group": "ray.io", "kind": "RayJob"})))
    INTERPRETERS.declare([DeclaredKind(read_declaration(spec())), mine])
    assert interpreter_of("example.com/v2", "Widget") is not None  # at any version
    assert interpreter_of("ray.io/v1", "RayJob") is mine
    INTERPRETERS.declare(())
    assert interpreter_of("ray.io/v1", "RayJob") is shipped and interpreter_of("example.com/v1", "Widget") is None


def test_rules_name_the_field_and_are_kept_by_a_job_that_has_no_such_field() -> None:
    widget = DeclaredKind(
        read_declaration(
            spec(
                rules=[
                    {"field": "spec.n", "rule": "object.spec.n > 1", "message": "too few"},
                    {"forEach": "object.spec.parts", "field": "a.b", "rule": 'item.a.b == "x"', "message": "no x"},
                    {
                        "forEach": "object.spec.groups",
                        "field": "n",
                        "rule": "item.n > 1",
                        "message": "few",
                        "warns": True,
                    },
                ],
            )
        )
    )
    assert list(widget.faults({"spec": {}})) == []
    body: Body = {"spec": {"n": 1, "parts": [{"a": {"b": "x"}}, {"a": {"b": "y"}}, {}], "groups": {"g": {"n": 1}}}}
    found = [(fault.path, fault.message, fault.warns) for fault in widget.faults(body)]
    assert found == [
        ("spec.n", "too few", False),
        ("spec.parts[1].a.b", "no x", False),
        ("spec.groups.g.n", "few", True),
    ]


def test_defaults_fill_what_a_job_leaves_out_and_change_nothing_else() -> None:
    widget = DeclaredKind(
        read_declaration(
            spec(
                defaults=[
                    {"path": "object.spec.mode", "value": '"cluster"'},
                    {"forEach": "object.spec.parts", "path": "item.name", "value": '"part" + string(index)'},
                ],
            )
        )
    )
    body: Body = {"spec": {"mode": "", "parts": [{"name": "a"}, {"n": 1}]}}
    filled = widget.filled(body)
    assert filled == {"spec": {"mode": "cluster", "parts": [{"name": "a"}, {"n": 1, "name": "part1"}]}}
    assert body == {"spec": {"mode": "", "parts": [{"name": "a"}, {"n": 1}]}}
    assert widget.filled(filled) is filled


def test_a_widget_is_read_as_its_declaration_says() -> None:
    state = [
        {"state": "Failed", "when": "status.failed > 0", "message": "status.why"},
        {"state": "Running", "when": 'status.conditions.exists(c, c.type == "Up" && c.status == "True")'},
    ]
    widget = DeclaredKind(
        read_declaration(
            spec(
                state=state,
                suspend="object.spec.paused",
                walltime="object.spec.seconds",
                retryable='status.why != "BadInput"',
                status={"fields": ["failed"], "conditionFields": ["type", "status"]},
                drop=[{"path": "object.spec.pod.metadata.labels.owner", "unless": "object.spec.own"}],
            )
        )
    )
    pod = {"metadata": {"labels": {"owner": "x", "a": "1"}}, "spec": {"containers": [{"name": "c"}]}}
    body: Body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"count": 2, "pod": pod},
    }
    assert [(c.name, c.replicas) for c in widget.components(body)] == [("main", 2)]
    said = {**body, "spec": {**body["spec"], "seconds": 60}}
    assert (widget.walltime_s(said), widget.walltime_s(body)) == (60, 0)
    assert widget.walltime_s({**body, "spec": {"seconds": "soon"}}) == 0
    assert widget.state({"failed": 1, "why": "disk"}) == (JobState.FAILED, "disk")
    up = {"type": "Up", "status": "True", "message": "all up"}
    assert widget.state({"conditions": [up]}) == (JobState.RUNNING, "all up")
    assert widget.retryable({**body, "status": {"why": "disk"}}) and widget.retryable(body)
    assert not widget.retryable({**body, "status": {"why": "BadInput"}})
    assert widget.merge_status({}, {"failed": 1, "why": "disk"}) == {"failed": 1}
    assert widget.condition("Queuing", "True", "r", "m", "t") == {"type": "Queuing", "status": "True"}
    labels = widget.stamp(body, {"fleet.io/hub": "h"}, {})["spec"]["pod"]["metadata"]["labels"]
    assert labels == {"a": "1", "fleet.io/hub": "h", "fleet.io/component": "main"}
    body["spec"]["own"] = True
    assert widget.stamp(body, {}, {})["spec"]["pod"]["metadata"]["labels"]["owner"] == "x"
