"""Nothing is quadratic in what a user sends: four times as much takes about four times as long.

CPU time of this thread, best of three, on sizes at which a square would be sixteen times as long (and minutes in a
real attack). A factor of ten tells them apart on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from api.admission.core import _data
from api.engine import fields, meta
from api.engine.apply import apply_to, check_configuration
from api.engine.columns import cells
from api.engine.crd import validate as validate_crd
from api.engine.kind import Column, Kind
from api.engine.order import interleave, merge_sorted
from api.engine.patch import merge_patch
from api.engine.schema import Node, compiled
from api.engine.selectors import from_object
from api.engine.status import CAUSES_MAX, MESSAGE_CHARACTERS_MAX, StatusError
from api.engine.strategic import strategic_patch
from api.engine.validate import validate
from api.engine.write import Author, prepare_create, prepare_update
from fleet.admission import policies
from fleet.admission.kindfiles import load_kinds
from fleet.core.quota.parse import validate_tree
from fleet.kinds import interpreter_of
from fleet.values.jsonpath import BadPath, compile_path
from fleet.values.names import label_value_problems, qualified_name_problems, subdomain_problems

KINDS = {kind.resource: kind for kind in load_kinds() if kind.group != "events.k8s.io"}
SMALL, FACTOR, RATIO_MAX = 2_000, 4, 10.0
NOISE_S = 0.02  # what both may take without telling anything
WHO = Author("tests")


def best(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(3):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)


# `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
def linear(make: Callable[..., Callable[[], Any]], small: int = SMALL) -> None:
    few, many = best(make(small)), best(make(small * FACTOR))
    assert many <= RATIO_MAX * few + NOISE_S, (few, many)


def refused(work: Callable[[], Any]) -> StatusError:
    """The refusal, which is bounded whatever was sent."""
    with pytest.raises(StatusError) as caught:
        work()
    status = caught.value.status()
    assert len(status["message"]) <= MESSAGE_CHARACTERS_MAX + 50
    assert len(status.get("details", {}).get("causes", [])) <= CAUSES_MAX
    return caught.value


def owner(index: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": f"p{index}", "uid": f"u{index}"}


def config_map(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **more}}


# -- metadata


def test_owner_references_are_made_unique_in_linear_time() -> None:
    """30,000 of them took 26 seconds."""
    linear(lambda n: lambda: meta.tidy({"ownerReferences": [owner(i) for i in range(n)] * 2}))
    metadata = {"ownerReferences": [owner(1), owner(2), owner(1)]}
    (warning,) = meta.tidy(metadata)
    assert metadata["ownerReferences"] == [owner(1), owner(2)]
    assert warning.endswith("observed: u1")


@pytest.mark.parametrize(
    ("field", "items"),
    [
        ("ownerReferences", [owner(i) for i in range(30_000)]),
        ("finalizers", [f"example.com/f{i}" for i in range(30_000)]),
        ("labels", {f"k{i}": "v" for i in range(30_000)}),
    ],
)
def test_metadata_has_so_many_entries_and_no_more(field: str, items: Any) -> None:
    body = config_map(**{field: items})
    error = refused(lambda: prepare_create(KINDS["configmaps"], "default", body, WHO, now=0.0, uid="u"))
    assert error.code == 422
    assert [cause.field for cause in error.causes] == [f"metadata.{field}"]
    assert f"must have at most {meta.LENGTHS_MAX[field]} items" in error.message


@pytest.mark.parametrize("check", [qualified_name_problems, label_value_problems, subdomain_problems])
@pytest.mark.parametrize("text", ["a", "a.", "a-", "-", "a/"])
def test_names_are_judged_in_linear_time(check: Callable[[str], Any], text: str) -> None:
    linear(lambda n: lambda: check(text * n + "!"), 20_000)


def test_keys_of_megabytes_are_not_remembered() -> None:
    body = config_map(labels={"k" * 1_000_000: "v" * 1_000_000}, annotations={"a" * 300_000: "b"})
    error = refused(lambda: prepare_create(KINDS["configmaps"], "default", body, WHO, now=0.0, uid="u"))
    assert "name part must be no more than 63 bytes" in error.message


# -- lists that are merged


def test_lists_are_ordered_in_linear_time() -> None:
    for merge in (interleave, merge_sorted):
        linear(lambda n, merge=merge: lambda: merge([str(i) for i in range(n)], [str(i) for i in reversed(range(n))]))
        linear(lambda n, merge=merge: lambda: merge([f"a{i}" for i in range(n)], [f"b{i}" for i in range(n)]))


def test_strategic_patches_merge_long_lists_in_linear_time() -> None:
    pod = compiled(KINDS["pods"])

    def objects(n: int) -> Callable[[], Any]:
        live = {"spec": {"containers": [{"name": f"c{i}", "image": "a"} for i in range(n)]}}
        patch = {"spec": {"containers": [{"name": f"c{i}", "image": "b"} for i in range(n // 2, n + n // 2)]}}
        return lambda: strategic_patch(pod, live, patch)

    def scalars(n: int) -> Callable[[], Any]:
        live = {"metadata": {"finalizers": [f"f{i}" for i in range(n)]}}
        patch = {
            "metadata": {
                "finalizers": [f"f{i}" for i in range(n // 2, n + n // 2)],
                "$deleteFromPrimitiveList/finalizers": [f"f{i}" for i in range(n // 2)],
            }
        }
        return lambda: strategic_patch(pod, live, patch)

    def removed(n: int) -> Callable[[], Any]:
        live = {"spec": {"containers": [{"name": f"c{i}"} for i in range(n)]}}
        patch = {"spec": {"containers": [{"name": f"c{i}", "$patch": "delete"} for i in range(n)]}}
        return lambda: strategic_patch(pod, live, patch)

    def retained(n: int) -> Callable[[], Any]:
        live = {"spec": {f"k{i}": 1 for i in range(n)}}
        return lambda: strategic_patch(pod, live, {"spec": {"$retainKeys": [f"k{i}" for i in range(n)]}})

    for make in (objects, scalars, removed, retained):
        linear(make, 1_000)


def test_applies_of_long_lists_take_linear_time() -> None:
    kind = KINDS["pods"]

    def make(n: int) -> Callable[[], Any]:
        def config(image: str) -> dict[str, Any]:
            containers = [{"name": f"c{i}", "image": image} for i in range(n)]
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
            check_configuration(kind, "default", "p", body)
            return body

        old = prepare_create(kind, "default", config("a"), WHO, now=0.0, uid="u").body
        return lambda: apply_to(kind, old, config("b"), Author("other"), now=1.0, force=True)

    linear(make, 500)


def test_conflicts_over_long_lists_are_told_in_bounded_words() -> None:
    kind, data = KINDS["configmaps"], {f"k{i}": "a" for i in range(20_000)}
    old = prepare_create(kind, "default", {**config_map(), "data": data}, WHO, now=0.0, uid="u").body
    config = {**config_map(), "data": dict.fromkeys(data, "b")}
    check_configuration(kind, "default", "c", config)
    error = refused(lambda: apply_to(kind, old, config, Author("other"), now=1.0, force=False))
    assert error.message.startswith("Apply failed with 20000 conflicts: conflicts with")


def test_managed_fields_are_recorded_in_linear_time() -> None:
    kind = KINDS["configmaps"]

    def make(n: int) -> Callable[[], Any]:
        old = {**config_map(), "data": {f"k{i}": "a" for i in range(n)}}
        old = prepare_create(kind, "default", old, WHO, now=0.0, uid="u").body
        new = {**config_map(), "data": {f"k{i}": "b" for i in range(n // 2, n * 2)}}
        return lambda: prepare_update(kind, old, {**new, "metadata": {"name": "c"}}, Author("other"), now=1.0)

    linear(make)


# -- schemas


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        {"type": "array", "items": {"type": "integer", "enum": list(range(5_000))}},
        {"type": "array", "items": {"type": "integer", "minimum": 10**9}},
        {"type": "array", "items": {"type": "string"}},
    ],
    ids=["unique", "set", "enum", "all wrong", "other type"],
)
def test_long_lists_are_validated_in_linear_time(schema: dict[str, Any]) -> None:
    root = Node({"type": "object", "properties": {"a": schema}}, False)
    linear(lambda n: lambda: validate(root, {"a": list(range(n))}), 5_000)
    assert len(validate(root, {"a": list(range(100_000))})) <= CAUSES_MAX + 2


def test_map_lists_are_validated_in_linear_time() -> None:
    pod = compiled(KINDS["pods"])
    linear(lambda n: lambda: validate(pod, {"spec": {"containers": [{"name": f"c{i}"} for i in range(n)]}}))


def test_a_default_in_the_items_of_a_long_list_is_no_bomb() -> None:
    item = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 10_000}}}
    schema = {"type": "object", "properties": {"spec": {"type": "array", "items": item}}}
    kind = Kind("example.com", "v1", "Gadget", "gadgets", "gadget", True, "GadgetList", schema=schema)
    body = {"metadata": {"name": "a"}, "spec": [{} for _ in range(100_000)]}
    error = refused(lambda: prepare_create(kind, "default", body, WHO, now=0.0, uid="u"))
    assert error.code == 413


def test_the_schema_of_a_crd_is_checked_in_linear_time() -> None:
    def make(n: int) -> Callable[[], Any]:
        properties = {f"f{i}": {"type": "string", "pattern": "^a$"} for i in range(n)}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "gadgets", "kind": "Gadget"}
        spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
        return lambda: validate_crd({"metadata": {"name": "gadgets.example.com"}, "spec": spec})

    linear(make)


# -- paths, selectors, cells, rules


def test_json_paths_are_bounded() -> None:
    with pytest.raises(BadPath):
        compile_path(".a" * 1_000)
    for text in (".a" * 400, ".*" * 400, "[*]" * 300, "[0:]" * 200, ".a\\." * 200 + "a"):
        linear(lambda n, text=text: lambda: compile_path.__wrapped__(text), 10)


def test_a_cell_is_bounded_however_much_its_path_finds() -> None:
    column = Column("All", "string", ".spec.items[*].name")
    kind = Kind("example.com", "v1", "Gadget", "gadgets", "gadget", True, "GadgetList", columns=(column,))
    body = {"metadata": {"name": "a"}, "spec": {"items": [{"name": "x" * 100}] * 50_000}}
    assert len(cells(kind, body, 0.0)[1]) <= 10_000


def test_selectors_are_read_in_linear_time() -> None:
    expressions = [{"key": "a", "operator": "In", "values": ["b"]}]
    linear(lambda n: lambda: from_object({"matchExpressions": expressions * n}))


def test_rules_over_long_lists_take_linear_time() -> None:
    def policy(n: int) -> Callable[[], Any]:
        selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"c{i}"} for i in range(n)]
        groups = [{"affinityName": f"a{i}"} for i in range(n)]
        spec = {"resourceSelectors": selectors, "placement": {"clusterAffinities": groups}}
        return lambda: policies.propagation({"metadata": {"name": "p"}, "spec": spec})

    def override(n: int) -> Callable[[], Any]:
        plain = [{"path": "/a", "operator": "add", "value": 1}] * 5
        rules = [{"overriders": {"plaintext": plain}}] * n
        return lambda: policies.override({"metadata": {"name": "p"}, "spec": {"overrideRules": rules}})

    def data(n: int) -> Callable[[], Any]:
        return lambda: _data({"data": {f"k{i}": "v" for i in range(n)}, "binaryData": {f"b{i}": "" for i in range(n)}})

    def tree(n: int) -> Callable[[], Any]:
        children = [{"name": f"q{i}", "min": {"cpu": 1}, "max": {"cpu": 2}, "namespaces": [f"n{i}"]} for i in range(n)]
        root = {"name": "r", "min": {"cpu": n}, "max": {"cpu": n}, "children": children}
        return lambda: validate_tree({"root": root})

    for make in (policy, override, data, tree):
        linear(make)


def test_jobs_with_many_parts_are_interpreted_in_linear_time() -> None:
    job = interpreter_of("batch/v1", "Job")
    assert job is not None

    def make(n: int) -> Callable[[], Any]:
        env = [{"name": f"e{i}", "valueFrom": {"secretKeyRef": {"name": f"s{i}"}}} for i in range(n)]
        pod = {"containers": [{"name": "a", "env": env}], "tolerations": [{"key": f"t{i}"} for i in range(n)]}
        body = {"metadata": {"namespace": "a"}, "spec": {"template": {"spec": pod}}}
        return lambda: (job.dependencies(body), job.components(body))

    linear(make)


def test_refusals_quote_no_more_than_the_beginning_of_what_was_sent() -> None:
    huge = "x" * 2_000_000
    for body in (
        {**config_map(), "apiVersion": huge},
        {**config_map(), "kind": huge},
        {**config_map(), "data": {"a": [huge]}},
        {**config_map(), "data": {huge: huge}},
        config_map(labels={"a": huge}),
        config_map(name=huge),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, huge: 1},
    ):
        try:
            prepare_create(KINDS["configmaps"], "default", body, WHO, now=0.0, uid="u")
        except StatusError as error:
            assert len(error.message) <= MESSAGE_CHARACTERS_MAX + 50


def test_what_cannot_be_merged_is_refused_in_linear_time() -> None:
    body = {"a": {f"k{i}": i for i in range(20_000)}}
    linear(lambda n: lambda: merge_patch(body, {"a": {f"k{i}": None for i in range(n)}}))
    linear(lambda n: lambda: fields.sound([{"manager": "a", "fieldsV1": {f"f:k{i}": {} for i in range(n)}}]))
