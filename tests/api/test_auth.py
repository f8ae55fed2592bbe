"""Who asks and what they may do: 401 for nobody, RBAC for everybody else."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.api.conftest import Hub
from tests.api.rbac import MAPS, RBAC, binding, cluster_role, get, grant, post, role
from tests.api.streams import config_map

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", PODS, "/metrics", "/nothing", "/openapi/v3"])
@pytest.mark.parametrize("token", ["", "wrong"])
async def test_without_valid_credentials_there_is_only_401(hub: Hub, path: str, token: str) -> None:
    answer = await get(hub, path, token)
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_health_and_version_are_open(hub: Hub, path: str) -> None:
    answer = await get(hub, path, "")
    assert answer.status_code == 200
    if path == "/version":
        assert (answer.json()["major"], answer.json()["gitVersion"][:4]) == ("1", "v1.3")
    else:
        assert answer.text == "ok"


async def test_a_user_without_roles_is_told_what_was_wanted(hub: Hub) -> None:
    answer = await get(hub, PODS)
    assert answer.status_code == 403
    assert answer.json()["message"] == (
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    answer = await get(hub, f"{PODS}/a/log")
    assert answer.json()["message"] == (
        'pods "a" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace "default"'
    )
    answer = await get(hub, "/api/v1/nodes")
    assert answer.json()["message"].endswith('cannot list resource "nodes" in API group "" at the cluster scope')
    answer = await get(hub, "/metrics")
    assert answer.json()["message"] == 'forbidden: User "alice" cannot get path "/metrics"'


async def test_discovery_is_for_everybody_who_is_known(hub: Hub) -> None:
    for path in ("/api", "/apis", "/api/v1", "/openapi/v3", "/apis/batch/v1"):
        assert (await get(hub, path)).status_code == 200


async def test_a_role_counts_at_once_and_only_in_its_namespace(hub: Hub) -> None:
    await grant(hub, "alice", ["list"], ["configmaps"])
    assert (await get(hub, MAPS)).status_code == 200
    assert (await get(hub, "/api/v1/namespaces/kube-system/configmaps")).status_code == 403
    assert (await get(hub, "/api/v1/configmaps")).status_code == 403
    assert (await get(hub, MAPS, "bob-token")).status_code == 403
    assert (await get(hub, f"{MAPS}?watch=true&timeoutSeconds=1")).status_code == 403
    async with hub.client() as client:
        await client.delete(f"{RBAC}/namespaces/default/rolebindings/alice-configmaps-list")
    assert (await get(hub, MAPS)).status_code == 403


async def test_resource_names_and_subresources_are_kept_apart(hub: Hub) -> None:
    for name in ("a", "b"):
        await post(hub, MAPS, config_map(name))
    await grant(hub, "alice", ["get"], ["configmaps"], resourceNames=["a"])
    assert (await get(hub, f"{MAPS}/a")).status_code == 200
    assert (await get(hub, f"{MAPS}/b")).status_code == 403
    await grant(hub, "alice", ["get"], ["pods/status"])
    assert (await get(hub, f"{PODS}/x/status")).status_code == 404
    assert (await get(hub, f"{PODS}/x")).status_code == 403


async def test_a_cluster_role_opens_all_namespaces_and_paths(hub: Hub) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["*"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    await post(hub, f"{RBAC}/clusterroles", cluster_role("reader", rules))
    body = binding("reader", "ClusterRoleBinding", "alice", "ClusterRole", "reader")
    await post(hub, f"{RBAC}/clusterrolebindings", body)
    assert (await get(hub, "/api/v1/configmaps")).status_code == 200
    assert (await get(hub, "/metrics")).status_code == 200
    assert (await get(hub, "/apis/batch/v1/jobs")).status_code == 403


async def test_nobody_grants_what_they_do_not_hold(hub: Hub) -> None:
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]
    await post(hub, f"{RBAC}/clusterroles", cluster_role("granter", rules))
    body = binding("granter", "ClusterRoleBinding", "alice", "ClusterRole", "granter")
    await post(hub, f"{RBAC}/clusterrolebindings", body)
    where = f"{RBAC}/namespaces/default"
    # `*` on roles includes escalate and bind, so that much she may do.
    assert (await post(hub, f"{where}/roles", role("all", ["*"], ["*"]), "alice-token")).status_code == 201
    rules[0]["verbs"] = ["create", "update", "patch", "get"]
    async with hub.client() as client:
        answer = await client.put(f"{RBAC}/clusterroles/granter", json=cluster_role("granter", rules))
        assert answer.status_code == 200, answer.text
    refused = await post(hub, f"{where}/roles", role("more", ["delete"], ["pods"]), "alice-token")
    assert refused.status_code == 403 and "attempting to grant RBAC permissions not currently held" in refused.text
    assert (await post(hub, f"{where}/roles", role("same", ["get"], ["pods"]), "alice-token")).status_code == 201
    to_all = binding("mine", "RoleBinding", "alice", "Role", "all")
    assert (await post(hub, f"{where}/rolebindings", to_all, "alice-token")).status_code == 403
    to_same = binding("mine", "RoleBinding", "bob", "Role", "same")
    assert (await post(hub, f"{where}/rolebindings", to_same, "alice-token")).status_code == 201


async def test_the_token_of_a_service_account_ends_with_the_account(hub: Hub) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await post(hub, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = await post(hub, f"{accounts}/robot/token", request)
    assert answer.status_code == 201, answer.text
    token = answer.json()["status"]["token"]
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    review = await post(hub, "/apis/authentication.k8s.io/v1/selfsubjectreviews", who, token)
    assert review.json()["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    checked = await post(hub, "/apis/authentication.k8s.io/v1/tokenreviews", asked)
    assert checked.json()["status"]["authenticated"] is True
    assert (await get(hub, "/api", token[:-6] + "AAAAAA")).status_code == 401
    async with hub.client() as client:
        await client.delete(f"{accounts}/robot")
    assert (await get(hub, "/api", token)).status_code == 401


async def test_a_token_lives_no_shorter_than_ten_minutes(hub: Hub) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await post(hub, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 5}}
    answer = await post(hub, f"{accounts}/robot/token", request)
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == "spec.expirationSeconds"


async def test_tokens_are_read_again_when_the_file_changes(hub: Hub) -> None:
    assert (await get(hub, "/api", "new-token")).status_code == 401
    path = hub.folder / "tokens.csv"
    path.write_text(path.read_text() + 'new-token,carol,4,"a,b"\n')
    os.utime(path, ns=(1, 1))
    hub.app._authenticator._authenticators[0]._checked = float("-inf")  # type: ignore[attr-defined]
    assert (await get(hub, "/api", "new-token")).status_code == 200


async def test_acting_as_another_user_takes_the_right_to(hub: Hub) -> None:
    async with hub.client() as client:
        answer = await client.get(PODS, headers={"impersonate-user": "alice"})
        assert answer.status_code == 403 and 'User "alice"' in answer.json()["message"]
        headers = {"impersonate-user": "x", "impersonate-group": "system:masters"}
        assert (await client.get(PODS, headers=headers)).status_code == 200
    async with hub.client("alice-token") as client:
        answer = await client.get(PODS, headers={"impersonate-user": "admin"})
        assert answer.status_code == 403 and 'cannot impersonate resource "users"' in answer.json()["message"]


async def test_access_reviews_say_what_rbac_says(hub: Hub) -> None:
    await grant(hub, "alice", ["list"], ["configmaps"])
    path = "/apis/authorization.k8s.io/v1"

    async def allowed(user_token: str, verb: str, **spec: Any) -> bool:
        attributes = {"verb": verb, "resource": "configmaps", "namespace": "default"}
        kind = "SubjectAccessReview" if spec else "SelfSubjectAccessReview"
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": kind,
            "spec": {"resourceAttributes": attributes, **spec},
        }
        answer = await post(hub, f"{path}/{kind.lower()}s", body, user_token)
        assert answer.status_code == 201, answer.text
        return bool(answer.json()["status"]["allowed"])

    assert await allowed("alice-token", "list")
    assert not await allowed("alice-token", "delete")
    assert await allowed("admin-token", "list", user="alice")
    assert not await allowed("admin-token", "list", user="bob")
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}
    assert (await post(hub, f"{path}/selfsubjectaccessreviews", body)).status_code == 422
