"""The OpenAPI documents as real kubectl uses them: explain, and validation before anything is stored."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.engine.kind import Kind
from api.objects.crds import follow_crds
from api.server.openapi import OpenApi
from fleet.admission import rules
from fleet.admission.seed import seed
from tests.api.conftest import KUBECTLS, Hub
from tests.testbed.kubectls import OWN

WALK_THROUGH = Path(__file__).parents[2] / "examples" / "walkthrough"
# 1.27 and 1.28 validate by version 2 of the documents in protobuf, the others by version 3.
VERSIONS = [version for version in KUBECTLS if version in ("1.27", "1.28", "1.30", "1.33", OWN)]
JOB = yaml.safe_load((WALK_THROUGH / "pytorchjob.yaml").read_text())


@pytest.fixture
async def seeded(hub: Hub) -> AsyncIterator[Hub]:
    """The hub as `fleet up` composes it: admission rules, seeded objects, kinds that follow CRDs."""
    hub.objects.rules = rules()
    await seed(hub.objects)
    crds = asyncio.create_task(follow_crds(hub.store, hub.registry))
    yield hub
    crds.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await crds


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_kubectl_explains_jobs_down_to_the_pod(seeded: Hub, version: str) -> None:
    kubectl = KUBECTLS[version]
    _, out, _ = await seeded.kubectl(kubectl, "explain", "pytorchjob.spec", "--recursive")
    assert "pytorchReplicaSpecs" in out and "runPolicy" in out and "containers" in out and "nodeSelector" in out
    _, out, _ = await seeded.kubectl(kubectl, "explain", "pp.spec.placement.replicaScheduling.customSchedulingType")
    assert "All pods of the job" in out or "all pods of the job" in out.lower()
    _, out, _ = await seeded.kubectl(kubectl, "explain", "pod.spec.containers.resources")
    assert "limits" in out


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_kubectl_applies_the_walk_through_with_validation(seeded: Hub, version: str) -> None:
    kubectl = KUBECTLS[version]
    names = ("quota-tree", "policy-gang", "policy-gang-queue", "pytorchjob", "pytorchjob-second", "too-large")
    for name in names:
        _, out, err = await seeded.kubectl(
            kubectl, "apply", "--validate=strict", "-f", str(WALK_THROUGH / f"{name}.yaml")
        )
        assert ("created" in out or "configured" in out) and err == "", (out, err)
    for name in names:
        arguments = ("apply", "--server-side", "--force-conflicts", "-f", str(WALK_THROUGH / f"{name}.yaml"))
        _, out, _ = await seeded.kubectl(kubectl, *arguments)
        assert "serverside-applied" in out
    _, out, _ = await seeded.kubectl(kubectl, "get", "pytorchjob", "-o", "name")
    assert len(out.splitlines()) == 3


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_kubectl_names_an_unknown_field(seeded: Hub, version: str) -> None:
    wrong = {**JOB, "spec": {**JOB["spec"], "pytorchReplicaSpec": {}}}
    code, out, err = await seeded.kubectl(KUBECTLS[version], "apply", "-f", "-", stdin=yaml.safe_dump(wrong), ok=False)
    assert code == 1 and 'unknown field "spec.pytorchReplicaSpec"' in err, (out, err)
    code, _, err = await seeded.kubectl(
        KUBECTLS[version], "apply", "--validate=ignore", "-f", "-", stdin=yaml.safe_dump(wrong), ok=False
    )
    assert code == 0, err


@pytest.mark.parametrize("version", VERSIONS)
async def test_kubectl_explains_from_the_protobuf_of_version_2(seeded: Hub, version: str) -> None:
    arguments = ("explain", "--output=plaintext-openapiv2", "--recursive")
    _, out, _ = await seeded.kubectl(KUBECTLS[version], *arguments, "pytorchjob.spec")
    assert "pytorchReplicaSpecs" in out and "runPolicy\t<Object>" in out and "suspend\t<boolean>" in out, out
    _, out, _ = await seeded.kubectl(KUBECTLS[version], *arguments, "pod.spec.containers.resources")
    assert "limits\t<map[string]" in out, out


@pytest.mark.parametrize("version", VERSIONS)
async def test_strategic_merge_of_a_built_in_kind_needs_no_warning(seeded: Hub, version: str) -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]},
    }
    kubectl = KUBECTLS[version]
    await seeded.kubectl(kubectl, "apply", "-f", "-", stdin=yaml.safe_dump(pod))
    pod["metadata"]["labels"] = {"shade": "blue"}
    _, out, err = await seeded.kubectl(kubectl, "apply", "-f", "-", stdin=yaml.safe_dump(pod))
    assert "configured" in out and err == ""


async def test_a_document_keeps_its_hash_until_its_own_group_changes(seeded: Hub) -> None:
    documents = OpenApi(seeded.registry)
    before = await documents.v3_index()
    jobs, core = documents.v3("apis/kubeflow.org/v1"), documents.v3("api/v1")
    kind = Kind("example.com", "v1", "Thing", "things", "thing", True, "ThingList", schema={"type": "object"})
    seeded.registry.put(kind)
    assert await documents.v3_index() != before
    assert documents.v3("apis/kubeflow.org/v1") == jobs and documents.v3("api/v1") == core
    thing = documents.v3("apis/example.com/v1")
    assert thing is not None and b"com.example.v1.Thing" in thing[0]
    assert b"com.example.v1.Thing" in await documents.v2(False) and b"com.example.v1.Thing" in await documents.v2(True)


async def test_documents_are_kept_by_clients_only_under_their_hash(seeded: Hub) -> None:
    async with seeded.client() as client:
        index = (await client.get("/openapi/v3")).json()
        url = index["paths"]["apis/kubeflow.org/v1"]["serverRelativeURL"]
        kept = await client.get(url)
        assert "immutable" in kept.headers["cache-control"] and kept.json()["openapi"].startswith("3.")
        assert "immutable" not in (await client.get("/openapi/v3/apis/kubeflow.org/v1")).headers["cache-control"]
        assert (await client.get("/openapi/v3/apis/none/v1")).status_code == 404
        assert (await client.get("/openapi/v2")).json()["swagger"] == "2.0"


async def test_every_reference_leads_somewhere(seeded: Hub) -> None:
    documents = OpenApi(seeded.registry)
    async with seeded.client() as client:
        second = (await client.get("/openapi/v2")).json()
        index = (await client.get("/openapi/v3")).json()
        third = [(await client.get(f"/openapi/v3/{path}")).json() for path in index["paths"]]
    assert _dangling(second, "#/definitions/", second["definitions"]) == set()
    for document in third:
        assert _dangling(document, "#/components/schemas/", document["components"]["schemas"]) == set()
    assert documents.v3("apis/policy.karmada.io/v1alpha1") is not None


async def test_every_kind_has_its_schema_in_the_document_of_its_group(seeded: Hub) -> None:
    documents = OpenApi(seeded.registry)
    for kind in seeded.registry:
        found = documents.v3(f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}")
        assert found is not None
        schemas = json.loads(found[0])["components"]["schemas"].values()
        said = [name for schema in schemas for name in schema.get("x-kubernetes-group-version-kind", ())]
        assert {"group": kind.group, "version": kind.version, "kind": kind.kind} in said


def _dangling(document: object, prefix: str, known: dict[str, object]) -> set[str]:
    found: set[str] = set()
    pending = [document]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.removeprefix(prefix) not in known:
                found.add(reference)
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return found
