"""Changes by MutatingAdmissionPolicies that leave no object: each is a refusal, and never a bug of the hub."""

from __future__ import annotations

from pathlib import Path

from api.admission.dynamic import DynamicAdmission
from api.outgoing import AllowList, OutgoingClient
from api.store.memory import MemoryStore
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.conftest import open_hub

ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingadmission"
MAPS = "/api/v1/namespaces/default/configmaps"
RULES = [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
PATCHES = [
    'op: "remove", path: "/metadata"',
    'op: "remove", path: "/metadata/name"',
    'op: "replace", path: "", value: []',
    'op: "replace", path: "", value: {}',
    'op: "add", path: "/metadata", value: 3',
    'op: "add", path: "/metadata", value: []',
    'op: "add", path: "/metadata/labels", value: 3',
    'op: "add", path: "/metadata/managedFields", value: 3',
    'op: "add", path: "/kind", value: "Secret"',
    'op: "add", path: "/apiVersion", value: 3',
    'op: "add", path: "/metadata/namespace", value: "other"',
    'op: "add", path: "/metadata/finalizers", value: {"a": 1}',
    'op: "add", path: "/data", value: null',
    'op: "add", path: "/binaryData", value: {"a": b"x"}',
    'op: "add", path: "/binaryData", value: 3',
    'op: "add", path: "no slash", value: 3',
    'op: "copy", from: "", path: "/data/a"',
    'op: "move", path: "/data"',
    "",
    'op: "add", path: "/metadata/ownerReferences", value: [3]',
    'op: "add", path: "/immutable", value: "x"',
    'op: "add", path: "/metadata/labels", value: {"a": timestamp("2020-01-01T00:00:00Z")}',
    'op: "add", path: "/metadata/creationTimestamp", value: "x"',
    'op: "add", path: "/data", value: optional.none()',
    'op: "add", path: "/data", value: {1: 2}',
    'op: "add", path: "/data", value: [quantity("1")]',
    'op: "add", path: "/data", value: Object{a: Object.b{}}',
    'op: "add", path: "/metadata/uid", value: [[]]',
]
CONFIGURATIONS = [
    "Object{metadata: 3}",
    "Object{metadata: null}",
    "Object{metadata: Object.metadata{name: 'other'}}",
    "Object{metadata: Object.metadata{managedFields: []}}",
    "Object{data: null}",
    "Object{data: [1]}",
    "Object{kind: 'Secret'}",
    "Object{apiVersion: 3}",
    "Object{data: optional.none()}",
    "Object{data: {1: 2}}",
    "Object{metadata: Object.metadata{finalizers: ['a', 'a']}}",
    "Object{binaryData: {'a': b'x'}}",
    "Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{}]}}",
    "Object{data: {'a': null}}",
    "Object{immutable: 'x'}",
    "Object{metadata: {'labels': {'a': 'b'}}}",
    "Object{data: quantity('1')}",
]


async def test_whatever_a_policy_makes_the_client_gets_an_object_or_a_refusal(tmp_path: Path) -> None:
    jsons = [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[JSONPatch{{{one}}}]"}} for one in PATCHES]
    applied = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": one}} for one in CONFIGURATIONS]
    async with (
        open_hub(tmp_path, MemoryStore(WallClock())) as hub,
        OutgoingClient(AllowList.parse([])) as outgoing,
        hub.client() as api,
    ):
        hub.objects.hooks = DynamicAdmission(hub.store, hub.registry, RandomIds(), outgoing)
        codes, bad = set(), []
        for number, mutation in enumerate([*jsons, *applied]):
            match = {"resourceRules": RULES, "objectSelector": {"matchLabels": {"case": f"c{number}"}}}
            spec = {"matchConstraints": match, "reinvocationPolicy": "Never", "mutations": [mutation]}
            body = {"metadata": {"name": f"p{number}"}, "spec": spec}
            made = await api.post(f"{ADMISSION}policies", json=body)
            assert made.status_code == 201, made.text
            bound = {"metadata": {"name": f"p{number}"}, "spec": {"policyName": f"p{number}"}}
            assert (await api.post(f"{ADMISSION}policybindings", json=bound)).status_code == 201
            labelled = {"metadata": {"name": f"m{number}", "labels": {"case": f"c{number}"}}, "data": {"a": "0"}}
            answer = await api.post(MAPS, json=labelled)
            codes.add(answer.status_code)
            if "could not be answered" in answer.text or answer.status_code not in (201, 400, 403, 422, 500):
                bad.append((mutation, answer.text))
        assert not bad
        assert {201, 403, 500} <= codes, codes
