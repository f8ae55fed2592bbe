"""Deep, doubled and expanding bodies, and managedFields at their limits: the hub beside a kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Hub, real_client
from tests.api.requests import APPLY, JSON, MAPS, MERGE, PATCH, Case, ask, config, made, said
from tests.testbed.member import RealMember

pytestmark = pytest.mark.xdist_group("real-apiserver")

YAML = "application/yaml"
DRY = f"{MAPS}?dryRun=All"
DRY_APPLY = f"{MAPS}/kept?fieldManager=f&force=true&dryRun=All"
HEAD = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\n"
DOUBLE = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"a":"x","a":"z"},"data":{"c":"z"}}'
TENFOLD = b"".join(b"x%d: &x%d [%b]\n" % (i, i, b",".join([b"*x%d" % (i - 1)] * 10)) for i in range(1, 9))
BOMB = HEAD + b"x0: &x0 [a,a,a,a,a,a,a,a,a,a]\n" + TENFOLD


def lists(depth: int) -> bytes:
    """A ConfigMap with a field that no schema has, of lists inside each other."""
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"no":' + b"[" * depth + b"]" * depth + b"}"


def deep(depth: int) -> bytes:
    return b'{"data":' * depth + b"1" + b"}" * depth


def fields(count: int = 1, **change: Any) -> dict[str, Any]:
    """A ConfigMap that claims `count` entries of managedFields."""
    owned = {"fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}}
    entry = {"operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", **owned}
    return config(managedFields=[{"manager": f"m{i}", **entry, **change} for i in range(count)])


# Status, reason and message are the same.
ALIKE: list[Case] = [
    ("double_keys_warned_of", "POST", f"{DRY}&fieldValidation=Warn", JSON, DOUBLE),
    ("double_keys_ignored", "POST", f"{DRY}&fieldValidation=Ignore", JSON, DOUBLE),
    ("double_keys_of_a_patch", "PATCH", f"{MAPS}/kept?dryRun=All", MERGE, b'{"data":{"a":"x","a":"z"}}'),
    ("alias", "PATCH", DRY_APPLY, APPLY, HEAD.replace(b"kept", b"kept, labels: &b {a: z}") + b"data: *b\n"),
    ("y_is_true", "POST", DRY, YAML, HEAD.replace(b"kept", b"one") + b"immutable: y\ndata: {a: b}\n"),
    ("n_as_a_key", "POST", DRY, YAML, HEAD.replace(b"kept", b"one") + b"n: 1\ndata: {n: b, false: c}\n"),
    ("patch_path_of_20000", "PATCH", f"{MAPS}/kept", PATCH, [{"op": "add", "path": "/data" * 20_000, "value": "1"}]),
    ("fields_500", "POST", DRY, JSON, fields(500)),
    ("fields_of_no_operation", "POST", DRY, JSON, fields(operation="Wish")),
    ("fields_of_no_type", "POST", DRY, JSON, fields(fieldsType="FieldsV2")),
    ("fields_that_are_none", "POST", DRY, JSON, fields(fieldsV1={"q:data": {}})),
    ("fields_of_a_long_manager", "POST", DRY, JSON, fields(manager="m" * 200)),
    ("manager_of_129", "POST", f"{MAPS}?fieldManager={'m' * 129}", JSON, config()),
]
# The status is the same; the message names the hub's own, lower bound.
REFUSED: list[Case] = [
    ("lists_too_deep", "POST", MAPS, JSON, lists(10_001)),
    ("lists_without_an_end", "POST", MAPS, JSON, b"[" * 50_000),
    ("merge_patch_too_deep", "PATCH", f"{MAPS}/kept", MERGE, deep(10_001)),
    ("yaml_too_deep", "PATCH", f"{MAPS}/kept?fieldManager=f", APPLY, b"a: " + b"[" * 10_001 + b"]" * 10_001),
    ("yaml_that_expands", "POST", MAPS, YAML, BOMB),
    ("yaml_that_expands_applied", "PATCH", f"{MAPS}/kept?fieldManager=f", APPLY, BOMB),
    ("yaml_alias_in_itself", "PATCH", f"{MAPS}/kept?fieldManager=f", APPLY, b"a: &a [*a]"),
    ("number_of_5000_digits", "POST", MAPS, JSON, b'{"metadata":{"name":"one","generation":' + b"9" * 5000 + b"}}"),
    ("number_beyond_floats", "POST", MAPS, JSON, b'{"metadata":{"name":"one","generation":1e400}}'),
    ("name_with_a_null", "POST", MAPS, JSON, config("a\0b")),
    ("double_keys_refused", "POST", f"{DRY}&fieldValidation=Strict", JSON, DOUBLE),
]


async def test_bodies_at_the_limits_are_taken_or_refused_alike(hub: Hub, real_apiserver: RealMember) -> None:
    async with hub.client() as ours, real_client(real_apiserver) as theirs:
        await made(ours)
        await made(theirs)
        for case in ALIKE:
            mine, real = await ask(ours, case), await ask(theirs, case)
            assert said(mine) == said(real), case[0]
            assert mine.headers.get_list("warning") == real.headers.get_list("warning"), case[0]
        for case in REFUSED:
            mine, real = await ask(ours, case), await ask(theirs, case)
            assert (case[0], mine.status_code) == (case[0], real.status_code), (mine.text[:300], real.text[:300])


async def test_a_refused_body_leaves_the_objects_as_they_were(hub: Hub) -> None:
    async with hub.client() as ours:
        await made(ours)
        kept = (await ours.get(f"{MAPS}/kept")).json()
        for case in REFUSED:
            answer = await ask(ours, case)
            assert 400 <= answer.status_code < 500, case[0]
            assert len(answer.content) < 10_000, f"{case[0]}: the answer repeats the body"
        assert (await ours.get(f"{MAPS}/kept")).json() == kept
        assert (await ours.get(f"{MAPS}/one")).status_code == 404
