"""A path below a namespace reaches that namespace's objects alone, whoever has every right in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from api.store.memory import MemoryStore
from api.wire.routing import parse, question_of, reaches
from fleet.simulate.wall import WallClock
from tests.api.conftest import Hub, open_hub
from tests.api.rbac import RBAC, binding, grant, post, role

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TAILS = (
    "",
    "/kube-system",
    "/kube-system/status",
    "/kube-system/finalize",
    "/kube-system/scale",
    "/kube-system/proxy/x",
)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Hub]:
    """Alice has every right in the namespace `default`, and none elsewhere."""
    async with open_hub(tmp_path, MemoryStore(WallClock())) as opened:
        everything = role("root", ["*"], ["*"])
        everything["rules"][0]["apiGroups"] = ["*"]
        await post(opened, f"{RBAC}/namespaces/default/roles", everything)
        body = binding("root", "RoleBinding", "alice", "Role", "root")
        assert (await post(opened, f"{RBAC}/namespaces/default/rolebindings", body)).status_code == 201
        yield opened


async def test_no_kind_of_cluster_scope_is_below_a_namespace(served: Hub) -> None:
    kinds = [kind for kind in served.registry if not kind.namespaced]
    assert {"namespaces", "nodes", "clusterroles", "clusters", "customresourcedefinitions"} <= {
        k.resource for k in kinds
    }
    before = await served.store.revision()
    async with served.client("alice-token") as client:
        for kind in kinds:
            root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
            for tail in TAILS:
                for method in METHODS if tail in ("", "/kube-system") else ("GET", "PUT"):
                    for query in ("", "?watch=1&timeoutSeconds=1") if method == "GET" else ("",):
                        path = f"{root}/namespaces/default/{kind.resource}{tail}{query}"
                        answer = await client.request(method, path, json={} if method in ("POST", "PUT") else None)
                        known = (404, 405) if method == "OPTIONS" else (404,)
                        assert answer.status_code in known, (method, path, answer.text)
    assert await served.store.revision() == before


async def test_an_object_of_a_namespace_is_nowhere_else(served: Hub) -> None:
    async with served.client() as client:
        for path in (
            "/api/v1/configmaps/x",
            "/api/v1/pods/x/log",
            "/apis/batch/v1/jobs/x",
            "/apis/batch/v1/namespaces/default",
        ):
            assert (await client.get(path)).status_code == 404, path
        for method in ("DELETE", "POST", "PUT", "PATCH"):
            body: dict[str, Any] | None = {} if method != "DELETE" else None
            answer = await client.request(method, "/api/v1/configmaps", json=body)
            assert answer.status_code == 405, (method, answer.text)


async def test_rights_in_a_namespace_are_no_rights_to_another_by_its_path(served: Hub) -> None:
    async with served.client("alice-token") as client:
        for path in (
            "/api/v1/namespaces/kube-system",
            "/api/v1/namespaces/kube-system/configmaps",
            "/api/v1/configmaps",
            "/api/v1/namespaces//configmaps",
            "/api/v1/namespaces/default%2F..%2Fkube-system/configmaps",
        ):
            request = client.build_request("GET", "/", extensions={"target": path.encode()})
            assert (await client.send(request)).status_code in (403, 404), path
        assert (await client.get("/api/v1/namespaces/default/configmaps")).status_code == 200
        assert (await client.get("/api/v1/namespaces/default")).status_code == 200


async def test_an_apply_that_creates_takes_the_right_to_create(served: Hub) -> None:
    await grant(served, "bob", ["patch", "get"], ["configmaps"])
    path = "/api/v1/namespaces/default/configmaps/new?fieldManager=bob"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": "b"}}
    apply = {"content-type": "application/apply-patch+yaml"}
    async with served.client("bob-token") as bob, served.client() as admin:
        for query in ("", "&dryRun=All", "&force=true"):
            refused = await bob.patch(path + query, json=body, headers=apply)
            assert refused.status_code == 403 and 'cannot create resource "configmaps"' in refused.json()["message"]
        assert (await bob.get(path)).status_code == 404
        assert (await admin.patch(path.replace("bob", "admin"), json=body, headers=apply)).status_code == 201
        assert (await bob.patch(path, json=body, headers=apply)).status_code == 200


async def test_a_watch_of_one_name_shows_only_what_its_rule_names(served: Hub) -> None:
    async with served.client() as admin, served.client("bob-token") as bob:
        for name in ("one", "two"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            assert (await admin.post("/api/v1/namespaces/default/configmaps", json=body)).status_code == 201
        await grant(served, "bob", ["list", "watch"], ["configmaps"], resourceNames=["one"])
        maps = "/api/v1/namespaces/default/configmaps"
        for query in ("fieldSelector=metadata.name=one", "fieldSelector=metadata.name=one,metadata.namespace=default"):
            items = (await bob.get(f"{maps}?{query}")).json()["items"]
            assert [item["metadata"]["name"] for item in items] == ["one"]
            seen = await bob.get(f"{maps}?{query}&watch=1&timeoutSeconds=1")
            assert seen.status_code == 200 and '"one"' in seen.text and '"two"' not in seen.text
        for query in ("", "fieldSelector=metadata.name=two", "fieldSelector=metadata.name!=two", "labelSelector=a=b"):
            assert (await bob.get(f"{maps}?{query}")).status_code == 403, query
            assert (await bob.get(f"{maps}?{query}&watch=1&timeoutSeconds=1")).status_code == 403, query


@pytest.mark.parametrize(
    ("path", "namespaced", "expected"),
    [
        ("/api/v1/namespaces/a/pods", True, True),
        ("/api/v1/namespaces/a/pods/b/log", True, True),
        ("/api/v1/namespaces/a/pods/b/log/more", True, False),
        ("/api/v1/pods", True, True),
        ("/api/v1/pods/b", True, False),
        ("/api/v1/namespaces//pods", True, False),
        ("/api/v1/namespaces/a/pods//log", True, False),
        ("/api/v1/nodes/n/proxy/a/b", False, True),
        ("/api/v1/namespaces/a/nodes/n", False, False),
        ("/api/v1/namespaces/a", False, True),
        ("/api/v1/namespaces/a/finalize", False, True),
        ("/api/v1/namespaces/a/namespaces", False, False),
        ("/api/v1/namespaces/a/namespaces/a", False, False),
        ("/api/v1/namespaces/a/namespaces/b/status", False, False),
    ],
)
def test_a_path_reaches_what_it_names(path: str, namespaced: bool, expected: bool) -> None:
    route = parse(path)
    assert route is not None
    assert reaches(route, "", route.resource, namespaced) is expected


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("", ""),
        ("metadata.name=a", "a"),
        ("metadata.name==a,spec.x=y", "a"),
        ("metadata.name!=a", ""),
        ("metadata.namespace=a", ""),
        ("metadata.name=..", ""),
        ("metadata.name=a/b", ""),
        ("=", ""),
        (" metadata.name=a ", "a"),
        ("metadata.name=" + "a" * 70_000, ""),
    ],
)
def test_a_selection_of_one_name_is_authorised_as_that_object(selector: str, name: str) -> None:
    route = parse("/api/v1/namespaces/a/pods")
    assert route is not None
    assert [question_of(route, verb, selector).name for verb in ("list", "watch", "deletecollection", "create")] == [
        name,
        name,
        "",
        "",
    ]
