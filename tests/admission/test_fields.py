"""Every field of every kind that Fleet brings, and of the jobs that it serves: read, passed on, warned or refused.

The table is fleet/admission/fields.yaml. It is complete for the schemas in both directions, and does what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.objects.definitions import definitions
from fleet.admission.kindfiles import load_kinds
from fleet.admission.unread import OF, PASSED_ON, POD_TEMPLATE, READ, REFUSED, WARNED, Field, fields_of, tables
from fleet.kinds import interpreter_for
from fleet.kinds.lookup import shipped
from fleet.kinds.paths import Steps, put
from fleet.values.untyped import at
from fleet.wellknown import CLUSTER, CONFIG, POLICY, QUEUE, QUOTA, WORK
from tests.admission.conftest import USER, Body, Hub
from tests.admission.schemas import Schema, children, found_at, uncovered
from tests.kinds.bodies import CASES, Case

ROOT = Path(__file__).parents[2]
OURS = (CLUSTER, CONFIG, POLICY, QUEUE, QUOTA, WORK)
KINDS = {
    f"{kind.group} {kind.kind}": kind
    for kind in load_kinds()
    if kind.group in OURS or interpreter_for(kind) is not None
}
PLAIN: dict[str, Body] = {
    "PropagationPolicy": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
    "ClusterPropagationPolicy": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
}


def schema_of(name: str) -> Schema:
    schema = KINDS[name].schema
    assert schema is not None
    return schema


def example(schema: Schema, but: tuple[Any, ...] = ()) -> Any:
    """A value that the schema takes, and that says something."""
    if schema.get("enum"):
        return next(value for value in reversed(schema["enum"]) if value not in but)
    match schema.get("type"):
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "x"
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case "array":
            return [example(schema["items"])]
        case "object" if schema.get("properties"):
            names = schema.get("required") or list(schema["properties"])[:1]
            return {name: example(schema["properties"][name]) for name in names}
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return {"a": example(schema["additionalProperties"])}
        case "object":
            return {"a": "b"}
    return 1


def body_of(name: str) -> Body:
    kind = KINDS[name]
    known = next((case for case in CASES if (case.kind, case.api_version) == (kind.kind, kind.api_version)), None)
    if known is not None:
        body = deepcopy(known.body)
        del body["status"], body["metadata"]["uid"], body["metadata"]["namespace"]
        return body
    spec = deepcopy(PLAIN.get(kind.kind, {}))
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "j"}, "spec": spec}


def steps_of(path: str) -> Steps:
    """Of a path, into its first item."""
    steps: list[str | int] = []
    for step in path.split("."):
        steps.append(step.removesuffix("[]"))
        if step.endswith("[]"):
            steps.append(0)
    return tuple(steps)


@pytest.mark.parametrize("name", KINDS)
def test_every_field_of_a_kind_is_in_the_table(name: str) -> None:
    assert name in tables(), f"fields.yaml lacks {name}"
    schema = schema_of(name)["properties"]["spec"]
    assert list(uncovered(schema, "spec", fields_of(name), covered=False)) == []


@pytest.mark.parametrize("name", KINDS)
def test_every_entry_of_the_table_is_a_field(name: str) -> None:
    strange = [path for path in fields_of(name) if found_at(schema_of(name), path) is None]
    assert strange == []


DECLARED = {f"{group} {kind}": one for (group, kind), one in shipped().items()}


def test_the_table_has_the_kinds_that_the_hub_serves_or_declares_and_no_others() -> None:
    named = {field.about for name in tables() for field in tables()[name] if field.word == OF}
    assert set(tables()) - named == set(KINDS) | set(DECLARED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.api_version} {case.kind}")
def test_every_pod_template_of_a_kind_is_in_its_table(case: Case) -> None:
    name = f"{case.api_version.partition('/')[0]} {case.kind}"
    parts = {path for path, field in fields_of(name).items() if field.word == OF and field.about == POD_TEMPLATE}
    for template in DECLARED[name].templates(case.body):
        if template.own:
            assert any(re.fullmatch(_as_pattern(part), template.path) for part in parts), template.path


def _as_pattern(path: str) -> str:
    """Of a path, for the places in bodies: `a[]` is `a[0]`, `a{}` is `a.key`."""
    return re.escape(path).replace(r"\[\]", r"\[\d+\]").replace(r"\{\}", r"\.\w+")


def test_a_module_that_reads_or_refuses_a_field_names_it() -> None:
    for name in tables():
        for field in tables()[name]:
            if field.word == READ or (field.word == REFUSED and not field.reports):
                last = field.path.split(".")[-1].removesuffix("[]")
                text = (ROOT / field.about).read_text()
                assert field.path == "spec" or last in text, f"{name} {field.path}: {field.about} does not name it"


TOLD = [
    pytest.param(name, field, id=f"{name.split()[1]} {field.path}")
    for name in KINDS
    for field in tables()[name]
    if field.reports
]


@pytest.mark.parametrize(("name", "field"), TOLD)
async def test_a_field_without_effect_is_warned_of_when_it_comes(hub: Hub, name: str, field: Field) -> None:
    kind, body = KINDS[name], body_of(name)
    schema = found_at(schema_of(name), field.path)
    assert schema is not None
    put(body, steps_of(field.path), example(schema, field.unless), set())
    written = await hub.objects.create(kind, "default" if kind.namespaced else "", body, USER)
    assert field.word == WARNED and f"{field.path}: {field.about}" in written.warnings
    stored = deepcopy(written.body)
    stored["metadata"]["labels"] = {"a": "b"}
    again = await hub.objects.update(kind, "default" if kind.namespaced else "", "j", stored, USER)
    assert again.warnings == (), "a field that was stored before is not told again"


POD = definitions().resolve("io.k8s.api.core.v1.PodTemplateSpec")
JOBS = [name for name, kind in KINDS.items() if interpreter_for(kind) is not None]
OF_PODS = [replace(field, path=path) for path, field in fields_of(POD_TEMPLATE).items() if field.reports]


@pytest.mark.parametrize("name", ["kubeflow.org PyTorchJob", "batch Job"])
@pytest.mark.parametrize("field", OF_PODS, ids=lambda field: field.path)
async def test_a_field_that_no_pod_may_have_is_refused_with_the_way_out(hub: Hub, name: str, field: Field) -> None:
    kind, body = KINDS[name], body_of(name)
    interpreter = interpreter_for(kind)
    assert interpreter is not None
    for template in interpreter.templates(body):
        template.template["spec"]["containers"][0]["name"] = "pytorch"
        template.template["spec"]["restartPolicy"] = "Never"
    template, schema = interpreter.templates(body)[0], found_at(POD, field.path)
    assert schema is not None
    put(body, (*template.steps, *steps_of(field.path)), example(schema), set())
    place = f"{template.path}.{field.path}"
    if field.word == REFUSED:
        refusal = await hub.refused(body)
        assert refusal.code == 422 and f"Forbidden: {field.about}" in [
            cause.message for cause in refusal.causes if cause.field == place
        ]
    else:
        written = await hub.objects.create(kind, "default", body, USER)
        assert f"{place}: {field.about}" in written.warnings


def leaves(schema: Schema, path: str, fields: dict[str, Field], word: str) -> Iterator[tuple[str, Schema]]:
    """The fields that are passed on, down to where the entries of the table end and one step below."""
    own = fields.get(path) or fields.get(path.removesuffix("[]").removesuffix("{}"))
    word = own.word if own is not None else word
    below = any(other.startswith(f"{path}.") for other in fields)
    if not below:
        if word == PASSED_ON:
            yield path, schema
        return
    for written, child in children(schema).values():
        yield from leaves(child, f"{path}.{written}", fields, word)


@pytest.mark.parametrize("name", JOBS)
def test_what_is_passed_on_arrives_in_the_member(name: str) -> None:
    kind = KINDS[name]
    interpreter = interpreter_for(kind)
    assert interpreter is not None
    fields = fields_of(name)
    for path, schema in leaves(schema_of(name)["properties"]["spec"], "spec", fields, ""):
        if "{}" in path or ".template." in path:
            continue  # pods, of which the next test is
        body = body_of(name)
        steps = steps_of(path.removesuffix("[]"))
        value = [example(schema)] if path.endswith("[]") else example(schema)
        put(body, steps, value, set())
        assert at(interpreter.stamp(body, {}, {}), *map(str, steps)) == value, path


@pytest.mark.parametrize("name", JOBS)
def test_what_is_passed_on_of_a_pod_arrives_in_the_member(name: str) -> None:
    kind = KINDS[name]
    interpreter = interpreter_for(kind)
    assert interpreter is not None
    first = interpreter.templates(body_of(name))[0]
    fields = fields_of(POD_TEMPLATE)
    for written, child in children(POD["properties"]["spec"]).values():
        if fields.get(field := f"spec.{written.removesuffix('[]')}", fields["spec"]).word != PASSED_ON:
            continue
        body = body_of(name)
        value = [example(child)] if written.endswith("[]") else example(child)
        put(body, (*first.steps, *field.split(".")), value, set())
        sent = interpreter.templates(interpreter.stamp(body, {}, {}))[0].template
        assert sent["spec"][written.removesuffix("[]")] == value, written
