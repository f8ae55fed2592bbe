"""CertificateSigningRequests: asked for, approved with kubectl, signed, used, and gone when their time is over."""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from api.admission.signing import CLIENT_SIGNER, GROUP, RESOURCE
from api.lifecycle.authority import Authority
from api.lifecycle.signing import DONE_S, FORGOTTEN_S, LIFE_MAX_S, SigningLoop
from fleet.values.ports import Key
from tests.api.conftest import KUBECTL, Hub
from tests.api.rbac import RBAC, binding, cluster_role, get, post
from tests.api.signing import PATH, request
from tests.security.certificate import key_pem


def body(name: str = "ann", **spec: Any) -> dict[str, Any]:
    whole = {"request": request(), "signerName": CLIENT_SIGNER, "usages": ["client auth"], **spec}
    kept = {field: value for field, value in whole.items() if value is not None}
    return {"apiVersion": f"{GROUP}/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": kept}


def signing(hub: Hub) -> SigningLoop:
    return SigningLoop(hub.objects, hub.options(), Authority(hub.cert, hub.folder / "tls.key"))


async def answered(hub: Hub, name: str = "ann") -> float | None:
    return await signing(hub)._reconcile(Key(GROUP, RESOURCE, "", name))


async def read(hub: Hub, name: str = "ann") -> dict[str, Any]:
    found: dict[str, Any] = (await get(hub, f"{PATH}/{name}", "admin-token")).json()
    return found


async def approve(hub: Hub, name: str = "ann", token: str = "admin-token", type_: str = "Approved") -> httpx.Response:
    found = await read(hub, name)
    said = {"type": type_, "status": "True", "reason": "Test", "message": "by a test"}
    found["status"] = {"conditions": [*found.get("status", {}).get("conditions", []), said], "certificate": "eA=="}
    async with hub.client(token) as client:
        return await client.put(f"{PATH}/{name}/approval", json=found)


@pytest.mark.parametrize("usages", [["client auth"], ["digital signature", "key encipherment", "client auth"]])
async def test_a_request_becomes_a_certificate_that_the_hub_takes(hub: Hub, tmp_path: Path, usages: list[str]) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    made = body(request=request(key, "ann", ("dev",)), expirationSeconds=3600, usages=usages)
    assert (await post(hub, PATH, made)).status_code == 201
    assert await answered(hub) and "certificate" not in (await read(hub)).get("status", {})
    _, out, _ = await hub.kubectl(KUBECTL, "certificate", "approve", "ann")
    assert "certificatesigningrequest.certificates.k8s.io/ann approved" in out
    left = await answered(hub)
    assert left is not None and DONE_S - 600 < left <= DONE_S
    _, out, _ = await hub.kubectl(KUBECTL, "get", "csr", "--no-headers")
    assert out.split()[2:] == [CLIENT_SIGNER, "admin", "60m", "Approved,Issued"]
    pem = b64decode((await read(hub))["status"]["certificate"])
    certificate = x509.load_pem_x509_certificate(pem)
    assert abs(certificate.not_valid_after_utc.timestamp() - time.time() - 3600) < 600
    pair = tmp_path / "client.crt", tmp_path / "client.key"
    pair[0].write_bytes(pem)
    pair[1].write_bytes(key_pem(key))
    context = ssl.create_default_context(cafile=str(hub.cert))
    context.load_cert_chain(*pair)
    async with httpx.AsyncClient(base_url=hub.server.url, verify=context, timeout=30) as client:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review)
    assert answer.json()["status"]["userInfo"]["username"] == "ann"
    assert "dev" in answer.json()["status"]["userInfo"]["groups"]


async def test_the_requester_is_as_the_hub_knows_her_and_nothing_changes_it(hub: Hub) -> None:
    made = body(username="mallory", groups=["system:masters"], uid="7", extra={"a": ["b"]})
    made["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
    assert (await post(hub, PATH, made)).status_code == 201
    found = await read(hub)
    assert found["spec"]["username"] == "admin" and "extra" not in found["spec"]
    assert not found.get("status", {}).get("conditions")
    found["spec"]["username"] = "mallory"
    found["metadata"]["labels"] = {"a": "b"}
    async with hub.client() as client:
        assert (await client.put(f"{PATH}/ann", json=found)).status_code == 200
    found = await read(hub)
    assert found["spec"]["username"] == "admin" and found["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"request": b64encode(b"nothing").decode()}, "spec.request"),
        ({"usages": []}, "spec.usages"),
        ({"usages": ["client auth", "swimming"]}, "spec.usages[1]"),
        ({"usages": ["client auth", "client auth"]}, "spec.usages[1]"),
        ({"signerName": "nobody"}, "spec.signerName"),
        ({"signerName": "a/b"}, "spec.signerName"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "spec.signerName"),
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
    ],
)
async def test_a_request_that_cannot_be_signed_is_refused(hub: Hub, spec: dict[str, Any], field: str) -> None:
    answer = await post(hub, PATH, body(**spec))
    assert answer.status_code == 422, answer.text
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == [field]


async def test_a_request_for_masters_is_refused_to_everybody(hub: Hub) -> None:
    answer = await post(hub, PATH, body(request=request(groups=("system:masters",))))
    assert answer.status_code == 403 and "system:masters group is not allowed" in answer.text


async def test_approval_takes_the_right_on_the_signer_and_changes_conditions_alone(hub: Hub) -> None:
    assert (await post(hub, PATH, body())).status_code == 201
    rules: list[dict[str, Any]] = [
        {"apiGroups": [GROUP], "resources": [RESOURCE, f"{RESOURCE}/approval"], "verbs": ["get", "update"]}
    ]
    await post(hub, f"{RBAC}/clusterroles", cluster_role("approver", rules))
    await post(
        hub, f"{RBAC}/clusterrolebindings", binding("a", "ClusterRoleBinding", "alice", "ClusterRole", "approver")
    )
    refused = await approve(hub, token="alice-token")
    assert refused.status_code == 403 and "not permitted to approve requests with signerName" in refused.text
    rules.append(
        {"apiGroups": [GROUP], "resources": ["signers"], "resourceNames": ["kubernetes.io/*"], "verbs": ["approve"]}
    )
    async with hub.client() as client:
        await client.put(f"{RBAC}/clusterroles/approver", json=cluster_role("approver", rules))
    answer = await approve(hub, token="alice-token")
    assert answer.status_code == 200, answer.text
    status = answer.json()["status"]
    assert "certificate" not in status and status["conditions"][0]["lastUpdateTime"]
    assert (await approve(hub, type_="Denied")).status_code == 422


async def test_nobody_takes_an_answer_back_or_approves_by_the_status(hub: Hub) -> None:
    await post(hub, PATH, body())
    async with hub.client() as client:
        patch = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
        headers = {"content-type": "application/merge-patch+json"}
        answer = await client.patch(f"{PATH}/ann/status", content=json.dumps(patch), headers=headers)
        assert answer.status_code == 422 and "may not add a condition" in answer.text
        assert (await approve(hub)).status_code == 200
        for where in ("status", "approval"):
            gone = json.dumps({"status": {"conditions": []}})
            answer = await client.patch(f"{PATH}/ann/{where}", content=gone, headers=headers)
            assert answer.status_code == 422 and "may not remove a condition" in answer.text, where
        bad = json.dumps({"status": {"certificate": b64encode(b"none").decode()}})
        answer = await client.patch(f"{PATH}/ann/status", content=bad, headers=headers)
        assert answer.status_code == 422 and "status.certificate" in answer.text


@pytest.mark.parametrize(
    ("spec", "type_", "shown"),
    [
        ({"usages": ["client auth", "server auth"]}, "Approved", "Approved,Failed"),
        ({"usages": ["digital signature"]}, "Approved", "Approved,Failed"),
        ({"signerName": "example.com/mine"}, "Approved", "Approved"),
        ({}, "Denied", "Denied"),
    ],
)
async def test_what_the_hub_does_not_sign(hub: Hub, spec: dict[str, Any], type_: str, shown: str) -> None:
    await post(hub, PATH, body(**spec))
    assert (await approve(hub, type_=type_)).status_code == 200
    await answered(hub)
    _, out, _ = await hub.kubectl(KUBECTL, "get", "csr", "--no-headers")
    assert out.split()[-1] == shown
    assert "certificate" not in (await read(hub))["status"]


@pytest.mark.parametrize(("approved", "after"), [(False, FORGOTTEN_S), (True, DONE_S)])
async def test_a_request_goes_when_its_time_is_over(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, approved: bool, after: float
) -> None:
    await post(hub, PATH, body(signerName="example.com/mine"))
    if approved:
        await approve(hub)
    left = await answered(hub)
    assert left is not None and after - 600 < left <= after
    monkeypatch.setattr(hub.objects.clock, "now", lambda: time.time() + after + 1)
    assert await answered(hub) is None
    assert (await get(hub, f"{PATH}/ann", "admin-token")).status_code == 404


async def test_a_certificate_lives_a_year_at_most(hub: Hub) -> None:
    await post(hub, PATH, body(expirationSeconds=10 * LIFE_MAX_S))
    await approve(hub)
    await answered(hub)
    certificate = x509.load_pem_x509_certificate(b64decode((await read(hub))["status"]["certificate"]))
    assert abs(certificate.not_valid_after_utc.timestamp() - time.time() - LIFE_MAX_S) < 600
