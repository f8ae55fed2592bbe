"""Claims and service accounts travel; a claim, whose volume may hold checkpoints, is never deleted lightly."""

from __future__ import annotations

from typing import Any

from fleet.controllers.dispatch.manifests import users_of
from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body, Key
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

CLAIM = Key("", "persistentvolumeclaims", "default", "scratch")


def claim(size: str = "10Gi") -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "scratch",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "team": "a"},
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "fast",
            "volumeName": "pv-of-the-hub",
            "resources": {"requests": {"storage": size}},
        },
    }


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
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "10Gi"}},
            "volumeMode": "Filesystem",
        }
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
        world.members.put_foreign("cfa", claim())
        await world.apply(policy(), with_claim("one", serviceAccountName="trainer"))
        await world.running("one")
        assert world.condition(world.binding("one"), "FullyApplied")["reason"] == "FullyAppliedSuccess"
        assert (there(world) or {})["metadata"]["uid"] == "foreign"


async def test_a_job_whose_claim_is_nowhere_is_not_sent_and_waits_with_the_name_until_it_is() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), with_claim("one"))
        await eventually(lambda: "member cfa has no PersistentVolumeClaim default/scratch" in world.message("one"))
        assert world.condition(world.unit("one"), "Evicted")["reason"] == "DataMissing"
        scheduled = world.condition(world.binding("one"), "Scheduled")
        assert "default/scratch" in scheduled["message"]
        assert "default/scratch" in world.events("one", "SyncFailed")[0]["message"]
        await settle(120)
        assert world.members.by_name["cfa"].applies == []
        world.members.put_foreign("cfa", claim())
        await eventually(lambda: world.state("one") == "Running", within_s=900)


async def test_a_job_goes_to_the_member_that_has_its_claim() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        world.members.put_foreign("cfb", claim())
        await world.apply(policy(), with_claim("one"))
        await eventually(lambda: world.members.where("one") == ["cfb"], within_s=300)
        assert not any(body["kind"] == "PyTorchJob" for body in world.members.by_name["cfa"].applies)


async def test_a_claim_of_the_hub_does_not_count_where_dependencies_stay() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(claim(), policy(propagateDeps=False, failover=None), with_claim("one"))
        await eventually(lambda: world.events("one", "SyncFailed"))
        assert "has no PersistentVolumeClaim default/scratch" in world.events("one", "SyncFailed")[0]["message"]
        assert world.members.where("one") == []


async def test_a_claim_that_is_being_deleted_in_the_member_is_no_data() -> None:
    async with hub(member("cfa")) as world:
        leaving = claim()
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.members.put_foreign("cfa", leaving)
        await world.apply(policy(), with_claim("one"))
        await eventually(lambda: world.events("one", "SyncFailed"))
        assert world.members.where("one") == []


async def test_what_runs_goes_on_when_its_claim_can_no_longer_be_found() -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", claim())
        await world.apply(policy(), with_claim("one"))
        await world.running("one")
        del world.members.by_name["cfa"].objects[CLAIM]
        await world.apply(with_claim("one", terminationGracePeriodSeconds=5))
        await settle(30)
        assert (world.state("one"), world.attempt("one")) == ("Running", 1)


async def test_a_member_that_does_not_say_which_claims_it_has_is_tried() -> None:
    async with hub(member("cfa")) as world:

        async def forbidden(name: str, body: Body) -> ActOutcome:
            return ActOutcome(ActResult.REFUSED, "forbidden")

        world.members.look = forbidden  # type: ignore[method-assign]
        await world.apply(policy(), with_claim("one"))
        assert await world.running("one") == "cfa"


async def test_only_so_many_missing_claims_are_named() -> None:
    async with hub(member("cfa")) as world:
        volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(7)]
        await world.apply(policy(), pytorchjob("one", volumes=volumes))
        await eventually(lambda: world.events("one", "SyncFailed"))
        assert "c4 and 2 more, which" in world.events("one", "SyncFailed")[0]["message"]


async def test_a_service_account_travels_with_its_pull_secrets_and_leaves_with_its_last_job() -> None:
    async with hub(member("cfa")) as world:
        meta = {"name": "trainer", "namespace": "default"}
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": meta,
            "secrets": [{"name": "trainer-token"}],
            "imagePullSecrets": [{"name": "registry"}],
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry", "namespace": "default"}}
        await world.apply(account, secret, policy(), pytorchjob("one", serviceAccountName="trainer"))
        await world.running("one")
        objects = world.members.by_name["cfa"].objects
        copy = objects[Key("", "serviceaccounts", "default", "trainer")]
        assert "secrets" not in copy and copy["imagePullSecrets"] == [{"name": "registry"}]
        assert Key("", "secrets", "default", "registry") in objects
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)


async def test_a_service_account_brings_the_secrets_that_it_names_but_no_tokens() -> None:
    async with hub(member("cfa")) as world:
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "trainer", "namespace": "default"},
            "secrets": [{"name": "bucket"}, {"name": "old-token"}, {"name": "gone"}],
        }
        await world.apply(account, policy(), secret("bucket"))
        await world.apply(secret("old-token", type="kubernetes.io/service-account-token"))
        await world.apply(pytorchjob("one", serviceAccountName="trainer"))
        await world.running("one")
        sent = [key.name for key in world.members.by_name["cfa"].objects if key.resource == "secrets"]
        assert sent == ["bucket"]
        assert world.condition(world.binding("one"), "FullyApplied")["reason"] == "FullyAppliedSuccess"


def secret(name: str, **fields: Any) -> Body:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, **fields}


SERVICE = Key("", "services", "default", "ring")


def service(**spec: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "ring", "namespace": "default"},
        "spec": {"selector": {"app": "ring"}, "ports": [{"name": "rdzv", "port": 29500}], **spec},
    }


async def test_the_headless_service_of_a_subdomain_travels_narrowed_and_leaves_with_its_last_job() -> None:
    async with hub(member("cfa")) as world:
        given = service(clusterIP="None", externalIPs=["10.0.0.1"], publishNotReadyAddresses=True)
        await world.apply(given, policy(), pytorchjob("one", subdomain="ring"), pytorchjob("two", subdomain="ring"))
        await world.running("one")
        await world.running("two")
        objects = world.members.by_name["cfa"].objects
        assert objects[SERVICE]["spec"] == {
            "clusterIP": "None",
            "selector": {"app": "ring"},
            "ports": [{"name": "rdzv", "port": 29500, "protocol": "TCP", "targetPort": 29500}],
            "publishNotReadyAddresses": True,
        }
        assert len(users_of(objects[SERVICE])) == 2
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: len(users_of(objects[SERVICE])) == 1)
        await world.delete("PyTorchJob", "two")
        await eventually(world.nothing_left)
        assert SERVICE not in objects


async def test_a_service_that_draws_traffic_does_not_travel_with_a_job_and_is_named() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(service(), policy(), pytorchjob("one", subdomain="ring"))
        await world.running("one")
        told = world.condition(world.binding("one"), "FullyApplied")
        assert told["reason"] == "DependencyMissing" and "Service default/ring (not headless" in told["message"]
        assert SERVICE not in world.members.by_name["cfa"].objects


async def test_a_service_that_only_the_member_has_is_not_missed() -> None:
    async with hub(member("cfa")) as world:
        world.members.put_foreign("cfa", service(clusterIP="None"))
        await world.apply(policy(), pytorchjob("one", subdomain="ring"))
        await world.running("one")
        assert world.condition(world.binding("one"), "FullyApplied")["reason"] == "FullyAppliedSuccess"
