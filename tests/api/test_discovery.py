"""What there is, in every form that clients ask for."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.kind import Kind
from api.engine.status import StatusError
from api.wire.negotiation import accept
from api.wire.routing import parse, verb
from tests.api.conftest import Hub

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


async def get(hub: Hub, path: str, accepted: str = "application/json") -> Any:
    async with hub.client() as client:
        answer = await client.get(path, headers={"accept": accepted})
    assert answer.status_code == 200, answer.text
    return answer


async def test_the_aggregated_form_repeats_what_was_asked_for(hub: Hub) -> None:
    answer = await get(hub, "/apis", AGGREGATED)
    assert answer.headers["content-type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert answer.headers["vary"] == "Accept"
    groups = {item["metadata"]["name"]: item for item in answer.json()["items"]}
    jobs = groups["batch"]["versions"][0]["resources"][1]
    assert (jobs["resource"], jobs["scope"], jobs["singularResource"]) == ("jobs", "Namespaced", "job")
    assert jobs["responseKind"] == {"group": "batch", "version": "v1", "kind": "Job"}
    assert {sub["subresource"] for sub in jobs["subresources"]} == {"status"}
    older = await get(hub, "/api", AGGREGATED.split(",", 1)[1])
    assert older.headers["content-type"].endswith("v=v2beta1;as=APIGroupDiscoveryList")
    core = {item["resource"]: item for item in older.json()["items"][0]["versions"][0]["resources"]}
    assert core["configmaps"]["shortNames"] == ["cm"]
    assert {sub["subresource"] for sub in core["pods"]["subresources"]} >= {"status", "log", "binding"}


async def test_the_plain_forms_agree_with_the_aggregated_one(hub: Hub) -> None:
    assert (await get(hub, "/api")).json()["versions"] == ["v1"]
    names = {group["name"] for group in (await get(hub, "/apis")).json()["groups"]}
    items = (await get(hub, "/apis", AGGREGATED)).json()["items"]
    assert names == {item["metadata"]["name"] for item in items}
    for item in items:
        for version in item["versions"]:
            path = f"/apis/{item['metadata']['name']}/{version['version']}"
            plain = {entry["name"] for entry in (await get(hub, path)).json()["resources"]}
            assert {entry["resource"] for entry in version["resources"]} == {n for n in plain if "/" not in n}
        group = (await get(hub, f"/apis/{item['metadata']['name']}")).json()
        assert group["preferredVersion"]["version"] == item["versions"][0]["version"]


async def test_a_kind_that_comes_or_goes_shows_at_once(hub: Hub) -> None:
    kind = Kind("example.org", "v1", "Thing", "things", "thing", True, "ThingList")
    hub.registry.put(kind)
    body = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}, "any": {"field": 1}}
    async with hub.client() as client:
        assert (await client.get("/apis/example.org/v1")).json()["resources"][0]["name"] == "things"
        path = "/apis/example.org/v1/namespaces/default/things"
        assert (await client.post(path, json=body)).json()["any"] == {"field": 1}
        hub.registry.drop("example.org", "things")
        assert (await client.get(path)).status_code == 404
        assert (await client.get("/apis/example.org")).status_code == 404


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", ("", "v1", "", "pods", "", "")),
        ("/api/v1/namespaces", ("", "v1", "", "namespaces", "", "")),
        ("/api/v1/namespaces/a", ("", "v1", "a", "namespaces", "a", "")),
        ("/api/v1/namespaces/a/status", ("", "v1", "a", "namespaces", "a", "status")),
        ("/api/v1/namespaces/a/pods", ("", "v1", "a", "pods", "", "")),
        ("/api/v1/namespaces/a/pods/b/log", ("", "v1", "a", "pods", "b", "log")),
        ("/apis/batch/v1/namespaces/a/jobs/b", ("batch", "v1", "a", "jobs", "b", "")),
        ("/apis/batch/v1/jobs/", ("batch", "v1", "", "jobs", "", "")),
        ("/apis/g/v1/clusters/m/proxy/api/v1/pods", ("g", "v1", "", "clusters", "m", "proxy")),
    ],
)
def test_a_path_names_what_kubernetes_says_it_names(path: str, expected: tuple[str, ...]) -> None:
    route = parse(path)
    assert route is not None
    assert (route.group, route.version, route.namespace, route.resource, route.name, route.subresource) == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/batch", "/apis/batch/v1", "/x/v1/a", "//api/v1/pods"]
)
def test_other_paths_name_no_resource(path: str) -> None:
    assert parse(path) is None


def test_verbs_follow_method_and_path() -> None:
    collection, item = parse("/api/v1/pods"), parse("/api/v1/namespaces/a/pods/b")
    assert collection is not None and item is not None
    assert [verb("GET", collection, False), verb("GET", collection, True), verb("DELETE", collection, False)] == [
        "list",
        "watch",
        "deletecollection",
    ]
    assert [verb(m, item, False) for m in ("GET", "PUT", "PATCH", "DELETE", "TRACE")] == [
        "get",
        "update",
        "patch",
        "delete",
        "",
    ]


@pytest.mark.parametrize(
    ("header", "form", "version"),
    [
        ("", "", ""),
        ("*/*", "", ""),
        ("application/vnd.kubernetes.protobuf, application/json", "", ""),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Table", "v1"),
        (
            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            "Table",
            "v1beta1",
        ),
        ("application/json;q=0.5,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9", "Table", "v1"),
    ],
)
def test_the_best_form_that_is_accepted_is_given(header: str, form: str, version: str) -> None:
    accepted = accept(header)
    assert (accepted.form, accepted.version) == (form, version)


@pytest.mark.parametrize("header", ["image/png", "application/vnd.kubernetes.protobuf", "application/json;q=0"])
def test_nothing_acceptable_is_406(header: str) -> None:
    with pytest.raises(StatusError) as refused:
        accept(header)
    assert refused.value.code == 406


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/batch/v1", "/openapi/v2", "/openapi/v3/api/v1"])
async def test_a_client_that_has_a_document_is_not_sent_it_again(hub: Hub, path: str) -> None:
    form = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}
    async with hub.client() as client:
        first = await client.get(path, headers=form)
        etag = first.headers["etag"]
        again = await client.get(path, headers={**form, "if-none-match": f'"other", {etag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert (await client.get(path, headers={**form, "if-none-match": '"other"'})).content == first.content


async def test_the_stable_and_newest_version_of_a_group_comes_first(hub: Hub) -> None:
    for number, version in enumerate(("v1beta1", "v1", "v2alpha1", "v2")):
        name = f"thing{number}"
        hub.registry.put(
            Kind("order.example.com", version, name.title(), f"{name}s", name, True, f"{name.title()}List")
        )
    group = (await get(hub, "/apis/order.example.com")).json()
    assert [entry["version"] for entry in group["versions"]] == ["v2", "v1", "v1beta1", "v2alpha1"]
    assert group["preferredVersion"]["version"] == "v2"
