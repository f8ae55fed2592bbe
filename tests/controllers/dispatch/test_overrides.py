"""Manifests after overrides."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from fleet.bindings.matching import ClusterFields
from fleet.controllers.dispatch.documents import JSON_MAX, YAML_MAX
from fleet.controllers.dispatch.overrides import BadOverride, image_changed, in_order, overridden
from fleet.values.ports import Body

MEMBER = ClusterFields("cfa", {}, {})


@pytest.mark.parametrize(
    ("image", "entry", "changed"),
    [
        ("train:1", {"component": "Registry", "operator": "add", "value": "r.example"}, "r.example/train:1"),
        ("r.example/a/train:1", {"component": "Registry", "operator": "remove"}, "a/train:1"),
        ("localhost:5000/train", {"component": "Tag", "operator": "add", "value": "2"}, "localhost:5000/train:2"),
        ("a/train:1", {"component": "Repository", "operator": "replace", "value": "b/run"}, "b/run:1"),
        ("train@sha256:ab", {"component": "Tag", "operator": "replace", "value": "sha256:cd"}, "train@sha256:cd"),
    ],
)
def test_images_change_by_their_parts(image: str, entry: dict[str, str], changed: str) -> None:
    assert image_changed(image, entry) == changed


# -- documents in text fields


def configmap(**data: str) -> Body:
    meta = {"name": "settings", "namespace": "default", "labels": {"app": "train"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def policy(overriders: Body, name: str = "o", *, namespace: str = "", selector: Body | None = None) -> Body:
    spec: Body = {"overrideRules": [{"overriders": overriders}]}
    if selector is not None:
        spec["resourceSelectors"] = [{"apiVersion": "v1", "kind": "ConfigMap", **selector}]
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, "spec": spec}


def inside(form: str, *patches: tuple[Any, ...], path: str = "/data/conf") -> Body:
    listed = [
        {"operator": operator, "subPath": sub_path, **({"value": value[0]} if value else {})}
        for operator, sub_path, *value in patches
    ]
    return {"fieldOverrider": [{"fieldPath": path, form: listed}]}


def sent(source: Body, *policies: Body) -> Body:
    return overridden(source, source, MEMBER, policies)


CHANGES = (("replace", "/db/host", "near"), ("add", "/db/ports/-", 2), ("add", "/new", {"a": [1]}), ("remove", "/old"))


@pytest.mark.parametrize(
    ("form", "write", "read"), [("json", json.dumps, json.loads), ("yaml", yaml.safe_dump, yaml.safe_load)]
)
def test_a_document_in_a_text_field_changes_by_its_patches(form: str, write: Any, read: Any) -> None:
    source = configmap(conf=write({"db": {"host": "far", "ports": [1]}, "old": True, "kept": 1.5}), other="x")
    found = sent(source, policy(inside(form, *CHANGES)))
    assert read(found["data"]["conf"]) == {"db": {"host": "near", "ports": [1, 2]}, "kept": 1.5, "new": {"a": [1]}}
    assert found["data"]["other"] == "x"
    assert read(source["data"]["conf"])["db"]["host"] == "far"


def test_dates_and_numbered_keys_of_yaml_keep_their_sense() -> None:
    source = configmap(conf="day: 2024-01-02\nports:\n  8080: far\nname: ünder\n")
    found = sent(source, policy(inside("yaml", ("replace", "/ports/8080", "near"))))["data"]["conf"]
    assert "ünder" in found
    assert yaml.load(found, Loader=yaml.BaseLoader) == {"day": "2024-01-02", "ports": {"8080": "near"}, "name": "ünder"}


BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("form", "text", "patch", "said"),
    [
        ("json", "no json: secret", ("remove", "/a"), "/data/conf: is no JSON document"),
        ("yaml", "{secret", ("remove", "/a"), "/data/conf: is no YAML document"),
        ("yaml", BOMB, ("remove", "/a"), "has YAML aliases"),
        ("yaml", "a: secret #" + "x" * YAML_MAX, ("remove", "/a"), f"is longer than {YAML_MAX} characters"),
        ("json", '"' + "x" * JSON_MAX + '"', ("remove", "/a"), f"is longer than {JSON_MAX} characters"),
        ("json", "[" * 100_000, ("remove", "/a"), "is no JSON document"),
        ("yaml", "[" * 60_000, ("remove", "/a"), "is nested more than 100 deep"),
        ("json", '{"b": "secret"}', ("remove", "/a"), "remove /a does not fit the document there"),
        ("json", '{"a": "secret"}', ("replace", "/a/b", 1), "replace /a/b does not fit the document there"),
        ("json", "3", ("add", "/a", 1), "add /a does not fit the document there"),
        ("json", '{"a": NaN}', ("add", "/b", 1), "cannot be written again"),
    ],
)
def test_a_text_that_the_patches_do_not_fit_is_told_without_being_quoted(
    form: str, text: str, patch: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(BadOverride) as refused:
        sent(configmap(conf=text), policy(inside(form, patch)))
    assert "override policy o: " in str(refused.value) and said in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("path", "said"), [("/data/none", "is not in the manifest"), ("/data", "is no text")])
def test_a_field_that_is_no_text_is_named(path: str, said: str) -> None:
    with pytest.raises(BadOverride, match=f"override policy o: {path}:? {said}"):
        sent(configmap(conf="{}"), policy(inside("json", ("add", "/a", 1), path=path)))


# -- the order


def test_fields_change_after_annotations_and_before_plain_patches() -> None:
    overriders = {
        "plaintext": [{"path": "/metadata/annotations/conf", "operator": "replace", "value": "last"}],
        "annotationsOverrider": [{"operator": "add", "value": {"conf": '{"a": 1}', "kept": '{"a": 1}'}}],
        "fieldOverrider": [
            {
                "fieldPath": f"/metadata/annotations/{key}",
                "json": [{"subPath": "/a", "operator": "replace", "value": 2}],
            }
            for key in ("conf", "kept")
        ],
    }
    assert sent(configmap(), policy(overriders))["metadata"]["annotations"] == {"conf": "last", "kept": '{"a":2}'}


def test_the_closer_selector_has_the_last_word_among_policies_of_one_kind() -> None:
    names: list[tuple[str, str, Body | None]] = [
        ("a-name", "", {"name": "settings"}),
        ("b-labels", "", {"labelSelector": {"matchLabels": {"app": "train"}}}),
        ("d-kind", "", {}),
        ("c-all", "", None),
        ("a-of-namespace", "default", {}),
    ]
    policies = [policy({}, name, namespace=namespace, selector=how) for name, namespace, how in names]
    ordered = [found["metadata"]["name"] for found in in_order(policies, configmap())]
    assert ordered == ["c-all", "d-kind", "b-labels", "a-name", "a-of-namespace"]


# -- the older form


NEAR = {"labelsOverrider": [{"operator": "add", "value": {"site": "near"}}]}
OLDER = {"targetCluster": {"clusterNames": ["cfa"]}, "overriders": NEAR}


def test_the_older_form_of_karmada_is_one_rule() -> None:
    older = {"metadata": {"name": "o"}, "spec": OLDER}
    assert sent(configmap(), older)["metadata"]["labels"]["site"] == "near"
    elsewhere = ClusterFields("cfb", {}, {})
    assert "site" not in overridden(configmap(), configmap(), elsewhere, [older])["metadata"]["labels"]


def test_a_stored_policy_of_both_forms_has_its_rules_only() -> None:
    both = policy({"labelsOverrider": [{"operator": "add", "value": {"new": "1"}}]})
    both["spec"] |= OLDER
    assert sent(configmap(), both)["metadata"]["labels"] == {"app": "train", "new": "1"}


def test_the_older_form_of_a_tenant_is_held_to_the_fields_of_tenants() -> None:
    wide = {"plaintext": [{"path": "/spec/x", "operator": "add", "value": 1}]}
    older = {"metadata": {"name": "o", "namespace": "default"}, "spec": {"overriders": wide}}
    with pytest.raises(BadOverride, match=r"an OverridePolicy may change"):
        sent(configmap(), older)
