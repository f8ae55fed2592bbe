"""The kinds of a real kube-apiserver are served as it serves them: its discovery documents and its Tables, compared.

Resources that are not served, and differences, stand in EXCEPTIONS with their reasons; an entry that has become untrue
fails too.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.conftest import open_hub, real_client
from tests.api.likeness import TABLE
from tests.testbed.member import RealMember

pytestmark = pytest.mark.xdist_group("real-apiserver")

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NODE = "a kubelet answers it, and the hub runs no pods"

# "group/version/resource" or "group" -> why it is not served
EXCEPTIONS = {
    "/v1/bindings": "pods/binding does the same, and clients use it",
    "/v1/nodes/proxy": NODE,
    "/v1/pods/ephemeralcontainers": NODE,
    "/v1/pods/proxy": NODE,
    "/v1/pods/resize": NODE,
    "/v1/services/proxy": NODE,
}
# "group/version/resource" -> why fewer verbs are served
FEWER_VERBS = {"apiregistration.k8s.io/v1/apiservices": "the hub serves every group itself: they are read alone"}
# Groups that belong to other subjects: what of them is served is compared, what is not is no fault here.
OTHERS = {"apiregistration.k8s.io", "admissionregistration.k8s.io", "certificates.k8s.io", "cluster.karmada.io"}


@dataclass(frozen=True)
class Documents:
    """One server's: the groups in order, resources by "group/version/name", the columns of each that can be listed."""

    groups: list[str]
    resources: dict[str, dict[str, Any]]
    columns: dict[str, list[tuple[str, str, str, int]]]


async def _read(client: httpx.AsyncClient) -> Documents:
    items = (await client.get("/apis", headers={"accept": AGGREGATED})).json()["items"]
    groups = [item["metadata"]["name"] for item in items]
    versions = [("", "v1", "/api/v1")]
    for item in items:
        name = item["metadata"]["name"]
        versions += [(name, entry["version"], f"/apis/{name}/{entry['version']}") for entry in item["versions"]]
    resources: dict[str, dict[str, Any]] = {}
    columns = {}
    for group, version, path in versions:
        for entry in (await client.get(path)).json()["resources"]:
            key = f"{group}/{version}/{entry['name']}"
            entry.pop("storageVersionHash", None)
            resources[key] = {**entry, "verbs": sorted(entry["verbs"])}
            if "list" in entry["verbs"]:
                table = (await client.get(f"{path}/{entry['name']}", headers={"accept": TABLE})).json()
                shown = table["columnDefinitions"]
                columns[key] = [(c["name"], c["type"], c["format"], c["priority"]) for c in shown]
    return Documents(groups, resources, columns)


@pytest.fixture(scope="module")
def documents(real_apiserver: RealMember, tmp_path_factory: pytest.TempPathFactory) -> tuple[Documents, Documents]:
    """The real one's, and ours."""

    async def both(folder: Path) -> tuple[Documents, Documents]:
        async with (
            open_hub(folder, MemoryStore(WallClock())) as hub,
            hub.client() as ours,
            real_client(real_apiserver) as real,
        ):
            return await _read(real), await _read(ours)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, both(tmp_path_factory.mktemp("kinds"))).result()


def _group(key: str) -> str:
    return key.split("/", 1)[0]


def _builtin(real: Documents) -> set[str]:
    """The resources of the real one that are not made by a CRD of another test."""
    return {key for key in real.resources if not _group(key).endswith(".example.com")}


def test_every_resource_is_served_or_has_a_reason(documents: tuple[Documents, Documents]) -> None:
    real, ours = documents
    missing = {key for key in _builtin(real) - ours.resources.keys() if _group(key) not in OTHERS}
    assert missing == set(EXCEPTIONS)


def test_what_is_served_is_described_alike(documents: tuple[Documents, Documents]) -> None:
    real, ours = documents
    same = _builtin(real) & ours.resources.keys()
    assert len(same) > 80
    for key in FEWER_VERBS:
        assert set(ours.resources[key].pop("verbs")) < set(real.resources[key].pop("verbs"))
    assert {key: ours.resources[key] for key in same} == {key: real.resources[key] for key in same}


def test_tables_have_the_columns_of_kubernetes(documents: tuple[Documents, Documents]) -> None:
    real, ours = documents
    same = _builtin(real) & ours.columns.keys()
    assert len(same) > 40
    assert {key: ours.columns[key] for key in same} == {key: real.columns[key] for key in same}


def test_groups_come_in_the_order_of_kubernetes(documents: tuple[Documents, Documents]) -> None:
    real, ours = documents
    known = [group for group in real.groups if group in ours.groups and not group.endswith(".example.com")]
    assert len(known) > 15
    assert ours.groups[: len(known)] == known
