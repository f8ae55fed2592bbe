"""What a tenant's policy sends to members, and what stays on the hub whatever anybody wrote."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.values.ports import Body, Key
from tests.admission.conftest import Hub
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import cluster_policy, member, policy, pytorchjob
from tests.controllers.world import hub as running_hub

RBAC = "rbac.authorization.k8s.io/v1"


def thing(api_version: str, kind: str, name: str, namespace: str = "default", **rest: Any) -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def selecting(*objects: Body, cluster_wide: bool = False, **spec: Any) -> Body:
    selectors = [{"apiVersion": o["apiVersion"], "kind": o["kind"], "name": o["metadata"]["name"]} for o in objects]
    make = cluster_policy if cluster_wide else policy
    return make("p", placement=None, failover=None, resourceSelectors=selectors, **spec)


def role(name: str = "r") -> Body:
    return thing(RBAC, "Role", name, rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])


def token_secret(name: str = "t") -> Body:
    return thing("v1", "Secret", name, type="kubernetes.io/service-account-token")


async def test_rights_travel_by_cluster_wide_policies_only() -> None:
    async with running_hub(member("cfa")) as world:
        data = thing("v1", "ConfigMap", "c", data={"a": "b"})
        await world.apply(selecting(role(), data), role(), data)
        await eventually(lambda: _there(world, "configmaps", "c"))
        await settle(5)
        assert not _there(world, "roles", "r")
        await world.apply({**selecting(role(), cluster_wide=True), "metadata": {"name": "everywhere"}})
        await eventually(lambda: _there(world, "roles", "r"))


async def test_a_policy_of_a_namespace_that_selects_rights_is_refused(hub: Hub) -> None:
    refusal = await hub.refused(selecting(role()))
    assert refusal.code == 422 and [c.field for c in refusal.causes] == ["spec.resourceSelectors[0]"]
    await hub.create(selecting(role(), cluster_wide=True))


async def test_overwriting_is_for_cluster_wide_policies(hub: Hub) -> None:
    refusal = await hub.refused(policy(conflictResolution="Overwrite"))
    assert refusal.code == 422 and [c.field for c in refusal.causes] == ["spec.conflictResolution"]
    await hub.create(cluster_policy(conflictResolution="Overwrite"))


async def test_a_stored_policy_of_a_namespace_overwrites_nothing() -> None:
    async with running_hub(member("cfa")) as world:
        world.members.put_foreign("cfa", pytorchjob("one", workers=1))
        await world.apply(policy(conflictResolution="Overwrite"), pytorchjob("one"))
        await eventually(lambda: world.events("one", "SyncFailed"))
        assert "exists and was not created by Fleet" in world.events("one", "SyncFailed")[0]["message"]


@pytest.mark.parametrize("cluster_wide", [True, False], ids=["cluster", "tenant"])
async def test_service_account_tokens_never_travel(cluster_wide: bool) -> None:
    async with running_hub(member("cfa")) as world:
        plain = thing("v1", "Secret", "s", type="Opaque")
        await world.apply(selecting(token_secret(), plain, cluster_wide=cluster_wide), token_secret(), plain)
        await eventually(lambda: _there(world, "secrets", "s"))
        await settle(5)
        assert not _there(world, "secrets", "t")


async def test_a_job_that_mounts_one_goes_without_it_and_says_so() -> None:
    async with running_hub(member("cfa")) as world:
        volumes = [{"name": "v", "secret": {"secretName": "t"}}]
        await world.apply(policy(), token_secret(), pytorchjob("one", volumes=volumes))
        await world.running("one")
        said = world.condition(world.binding("one"), "FullyApplied")
        assert (
            said["reason"] == "DependencyMissing" and "Secret default/t (its type stays on the hub)" in said["message"]
        )
        assert not _there(world, "secrets", "t")


async def test_a_binding_that_somebody_forged_copies_no_credentials() -> None:
    """It stands in the store already: written around admission, or by an older version."""
    async with running_hub(member("cfa"), member("cfb")) as world:
        await world.apply(thing("v1", "Secret", "member-cfa", "fleet-system", data={"kubeconfig": "c2VjcmV0"}))
        secret = world.see("Secret", "member-cfa", "fleet-system")
        assert secret is not None
        for namespace in ("default", "fleet-system"):
            forged = thing(
                "work.karmada.io/v1alpha2",
                "ResourceBinding",
                "member-cfa-secret",
                namespace,
                spec={
                    "clusters": [{"name": "cfb"}],
                    "resource": {
                        "apiVersion": "v1",
                        "kind": "Secret",
                        "name": "member-cfa",
                        "namespace": "fleet-system",
                        "uid": secret["metadata"]["uid"],
                    },
                },
            )
            forged["metadata"]["annotations"] = {
                "fleet.io/policy": "ClusterPropagationPolicy x",
                "fleet.io/attempt": "1",
            }
            await world.apply(forged)
        await settle(10)
        assert not world.members.by_name["cfb"].objects
        said = world.condition(world.see("ResourceBinding", "member-cfa-secret", "fleet-system"), "FullyApplied")
        assert said["status"] == "False" and "stay on the hub" in said["message"]


async def test_what_a_copy_says_of_its_users_is_believed_of_bindings_only() -> None:
    """`fleet.io/users: "5"` on a copy stopped the hub; `["x"]` claimed another's Secret."""
    for said in ("5", '["x"]', "[null, 7]", "rubbish", '{"a": 1}'):
        async with running_hub(member("cfa")) as world:
            await world.apply(policy(), thing("v1", "Secret", "s"))
            await world.apply(pytorchjob("one", volumes=[{"name": "v", "secret": {"secretName": "s"}}]))
            await world.running("one")
            copy = world.members.by_name["cfa"].objects[Key("", "secrets", "default", "s")]
            copy["metadata"]["annotations"]["fleet.io/users"] = said
            await world.apply(pytorchjob("two", volumes=[{"name": "v", "secret": {"secretName": "s"}}]))
            await world.running("two")
            uids = {(world.binding(name) or {})["metadata"]["uid"] for name in ("one", "two")}
            there = _there(world, "secrets", "s")
            assert there is not None and set(_users(there)) <= uids
            await world.delete("PyTorchJob", "one")
            await world.delete("PyTorchJob", "two")
            await eventually(lambda world=world: not _there(world, "secrets", "s"))


def _users(copy: Body) -> list[str]:
    import json

    return list(json.loads(copy["metadata"]["annotations"]["fleet.io/users"]))


def _there(world: Any, resource: str, name: str) -> Body | None:
    objects = world.members.by_name["cfa"].objects
    return next((body for key, body in objects.items() if (key.resource, key.name) == (resource, name)), None)
