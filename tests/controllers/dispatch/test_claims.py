"""Claims and service accounts travel; a claim, whose volume may hold checkpoints, is never deleted lightly."""

from __future__ import annotations

from typing import Any

from fleet.controllers.dispatch.manifests import users_of
from fleet.ports import Body, Key
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob

CLAIM = Key("", "persistentvolumeclaims", "default", "scratch")


def claim(size: str = "10Gi") -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "scratch", "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "team": "a"},
        },
        "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "fast", "volumeName": "pv-of-the-hub",
            "resources": {"requests": {"storage": size}},
        },
    }  # fmt: skip


def with_claim(name: str, **pod: Any) -> Body:
    return pytorchjob(name, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "scratch"}}], **pod)


def there(world: World, where: str = "cfa") -> Body | None:
    return world.members.by_name[where].objects.get(CLAIM)


async def test_a_claim_travels_without_its_volume() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(claim(), policy(), with_claim("one"))
        await world.running("one")
        copy = there(world)
        assert copy is not None and "status" not in copy
        assert copy["spec"] == {
            "accessModes": ["ReadWriteMany"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "10Gi"}},
        }  # fmt: skip
        assert "pv.kubernetes.io/bind-completed" not in copy["metadata"]["annotations"]
        assert copy["metadata"]["annotations"]["team"] == "a"


async def test_a_claim_stays_in_the_member_as_nobodys_when_its_last_job_goes_and_serves_the_next() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(claim(), policy(), with_claim("one"), with_claim("two"))
        await world.running("one")
        await world.running("two")
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: len(users_of(there(world) or {"metadata": {}})) == 1)
        await world.delete("PyTorchJob", "two")
        await eventually(world.nothing_left)
        await settle(60)
        assert "deletionTimestamp" not in (there(world) or {})["metadata"]
        await world.apply(with_claim("three"))
        assert await world.running("three") == "cfa"


async def test_a_claim_that_was_deleted_on_the_hub_goes_with_its_last_job() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(claim(), policy(), with_claim("one"))
        await world.running("one")
        await world.delete("PersistentVolumeClaim", "scratch")
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)
        assert there(world) is None


async def test_a_claim_that_only_the_member_has_is_not_missed() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), with_claim("one", serviceAccountName="trainer"))
        await world.running("one")
        assert world.condition(world.binding("one"), "FullyApplied")["reason"] == "FullyAppliedSuccess"


async def test_a_service_account_travels_with_its_pull_secrets_and_leaves_with_its_last_job() -> None:
    async with hub(member("cfa")) as world:
        meta = {"name": "trainer", "namespace": "default"}
        account = {
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta,
            "secrets": [{"name": "trainer-token"}], "imagePullSecrets": [{"name": "registry"}],
        }  # fmt: skip
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry", "namespace": "default"}}
        await world.apply(account, secret, policy(), pytorchjob("one", serviceAccountName="trainer"))
        await world.running("one")
        objects = world.members.by_name["cfa"].objects
        copy = objects[Key("", "serviceaccounts", "default", "trainer")]
        assert "secrets" not in copy and copy["imagePullSecrets"] == [{"name": "registry"}]
        assert Key("", "secrets", "default", "registry") in objects
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)
