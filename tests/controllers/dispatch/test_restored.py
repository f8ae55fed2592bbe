"""A hub whose database went back to an older backup: nothing that runs is removed, and people decide."""

from __future__ import annotations

import orjson
import pytest

from fleet.controllers.runtime.terms import Stamp, end_term, entries_of, undone, with_end
from fleet.values.ports import ExpiredRevision
from fleet.wellknown import ANNOTATION_SENT, LABEL_BINDING, LABEL_HUB
from tests.controllers.dispatch.backup import CONFIG, RECORD, backup, names, record, restore, went_back
from tests.controllers.fakemember import FakeMember, key_of
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob


async def order(world: World, *uids: str) -> None:
    text = orjson.dumps(uids).decode()
    await world.edit("ConfigMap", RECORD, lambda body: body["data"].update(remove=text), namespace="fleet-system")


def orphan(one: FakeMember, name: str, **annotations: str) -> None:
    """A copy that no binding of the hub wants, without a stamp unless one is given."""
    labels = {LABEL_HUB: "hub", LABEL_BINDING: f"of-{name}"}
    meta = {"name": name, "namespace": "default", "uid": name, "labels": labels, "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}
    one.objects[key_of(body)] = body


def test_a_restore_ends_the_newest_term_exactly_at_the_backup() -> None:
    meta = {"name": "terms", "namespace": "fleet-system", "resourceVersion": "9"}
    raw = orjson.dumps({"metadata": meta, "data": {"terms": orjson.dumps([("old", 2), ("t", 0)]).decode()}})
    body = orjson.loads(with_end(raw, 21))  # the backup is of revision 20
    assert body["metadata"]["resourceVersion"] == "21"
    entries, much_later = entries_of(body), 10**12
    judged = [undone(Stamp(*stamp), entries, much_later) for stamp in (("t", 20), ("t", 21), ("old", 9), ("old", 10))]
    assert judged == [False, True, False, True]
    assert undone(Stamp("later", 3), entries, much_later)


async def test_after_an_older_backup_nothing_that_runs_is_deleted() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        copy = await went_back(world)
        orphan(cfa, "leftover")
        await eventually(lambda: record(world))
        await settle(60)
        assert {"a", "b", "leftover"} <= names(cfa), "an unknown copy stops the sweep of its member"
        (entry,) = record(world)
        assert (entry["kind"], entry["namespace"], entry["name"]) == ("PyTorchJob", "default", "b")
        assert entry["uid"] == copy["metadata"]["uid"] and entry["job"] == "default/b"
        since = entry["since"]
        await world.kill()
        world.start()
        await settle(60)
        assert "b" in names(cfa) and record(world)[0]["since"] == since, "another start changes nothing"

        await order(world, entry["uid"])
        await eventually(lambda: "b" not in names(cfa))
        await eventually(lambda: "leftover" not in names(cfa), what="orphans are swept again")
        await eventually(lambda: world.see("ConfigMap", RECORD, "fleet-system") is None)
        assert world.state("a") == "Running"


async def test_a_copy_of_a_leader_that_the_backup_does_not_know_stays_whatever_its_revision() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        await world.apply(policy(), pytorchjob("a"))
        await world.running("a")
        old = backup(world)
        await world.kill()
        world.start()  # another leader, after the backup
        await world.apply(pytorchjob("b"))
        await world.running("b")
        await world.kill()
        restore(world, old)
        for number in range(500):
            meta = {"name": f"c{number}", "namespace": "default"}
            await world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        copy = next(body for key, body in cfa.objects.items() if key.name == "b")
        assert await world.store.revision() > int(copy["metadata"]["annotations"][ANNOTATION_SENT].split("/")[1])
        world.start()
        await settle(60)
        assert "b" in names(cfa) and [entry["name"] for entry in record(world)] == ["b"]


async def test_an_api_that_serves_before_the_controllers_ends_the_term_of_the_backup() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        await world.apply(policy(), pytorchjob("a"))
        await world.running("a")
        old = backup(world)
        await world.apply(pytorchjob("b"))  # by the leader that the backup knows
        await world.running("b")
        await world.kill()
        restore(world, old)
        await end_term(world.objects)  # as every process does at its start
        for number in range(500):
            meta = {"name": f"c{number}", "namespace": "default"}
            await world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        world.start()
        await settle(60)
        assert "b" in names(cfa) and [entry["name"] for entry in record(world)] == ["b"]


async def test_a_process_that_starts_beside_the_leader_costs_no_copy() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        await world.apply(policy(), pytorchjob("a"))
        await world.running("a")
        await end_term(world.objects)
        await world.apply(pytorchjob("b"))
        await world.running("b")
        stamps = {key.name: body["metadata"]["annotations"][ANNOTATION_SENT] for key, body in cfa.objects.items()}
        assert stamps["a"].split("/")[0] != stamps["b"].split("/")[0], "the leader began another term"
        orphan(cfa, "late-a", **{ANNOTATION_SENT: stamps["a"]})
        orphan(cfa, "late-b", **{ANNOTATION_SENT: stamps["b"]})
        await eventually(lambda: not {"late-a", "late-b"} & names(cfa))


async def test_orphans_of_the_hubs_own_past_are_swept_under_every_later_leader() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        await world.apply(policy(), pytorchjob("a"))
        await world.running("a")
        stamp = next(iter(cfa.applies))["metadata"]["annotations"][ANNOTATION_SENT]
        for _ in range(3):
            await world.kill()
            world.start()
            await settle(1)
        orphan(cfa, "late", **{ANNOTATION_SENT: stamp})
        orphan(cfa, "older-release")
        await eventually(lambda: not {"late", "older-release"} & names(cfa))
        assert not record(world)


async def test_a_copy_is_not_sent_again_for_a_new_revision_or_leader() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        await world.apply(policy(), pytorchjob("a"))
        await world.running("a")
        sent = len(cfa.applies)
        await world.edit("ResourceBinding", "a-pytorchjob", lambda b: b["metadata"].update(labels={"x": "y"}))
        await world.kill()
        world.start()
        await settle(60)
        assert len(cfa.applies) == sent


async def test_a_newer_attempt_than_the_hub_knows_is_unknown() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        await world.apply(policy(), pytorchjob("a"))
        await world.running("a")
        copy = next(body for key, body in cfa.objects.items() if key.name == "a")
        copy["metadata"]["labels"]["fleet.io/attempt"] = "7"
        await eventually(lambda: [entry["name"] for entry in record(world)] == ["a"])
        await settle(30)
        assert "a" in names(cfa)


async def test_what_an_unknown_job_uses_stays_with_it_and_goes_with_it() -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        for name in ("own", "both"):
            meta = {"name": name, "namespace": "default"}
            await world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "v"}})
        both = [{"name": "both", "configMap": {"name": "both"}}]
        own = [*both, {"name": "own", "configMap": {"name": "own"}}]
        await world.apply(policy(), pytorchjob("a", volumes=both))
        await world.running("a")
        old = backup(world)
        await world.apply(pytorchjob("b", volumes=own))
        await world.running("b")
        await world.kill()
        restore(world, old)
        world.start()
        await settle(60)
        assert {"a", "b", "own", "both"} <= names(cfa)
        await world.delete("PyTorchJob", "a")
        await eventually(lambda: "a" not in names(cfa))
        await settle(60)
        assert {"b", "own", "both"} <= names(cfa), "b still uses what a shared with it"
        (job,) = [entry["uid"] for entry in record(world) if entry["kind"] == "PyTorchJob"]
        await order(world, job)
        await eventually(lambda: not {"b", "own", "both"} & names(cfa))


async def test_undone_revisions_are_not_used_twice() -> None:
    async with hub(member("cfa"), config=CONFIG) as world:
        copy = await went_back(world)
        undone = int(copy["metadata"]["annotations"][ANNOTATION_SENT].split("/")[1])
        await eventually(lambda: record(world))
        await eventually(lambda: world.store._view.revision > undone + 1_000_000)
        with pytest.raises(ExpiredRevision):
            await world.store.watch("", "configmaps", since=undone)
        await world.apply(pytorchjob("c"))
        await world.running("c")


async def test_the_record_of_a_member_that_left_goes() -> None:
    async with hub(member("cfa"), config=CONFIG) as world:
        await went_back(world)
        await eventually(lambda: record(world))
        del world.members.by_name["cfa"]
        await world.edit("Cluster", "cfa", lambda body: body["metadata"].pop("finalizers", None))
        await world.delete("Cluster", "cfa")
        await eventually(lambda: world.see("ConfigMap", RECORD, "fleet-system") is None)


@pytest.mark.parametrize("stamp", ["nothing", "term/-1", "term/x", f"term/{10**30}", "/5", "forged/99999999999999999"])
async def test_a_stamp_that_another_hand_wrote_costs_nothing_but_the_sweep(stamp: str) -> None:
    cfa = member("cfa")
    async with hub(cfa, config=CONFIG) as world:
        orphan(cfa, "odd", **{ANNOTATION_SENT: stamp})
        await eventually(lambda: [entry["name"] for entry in record(world)] == ["odd"])
        before = world.store._view.revision
        await settle(30)
        assert "odd" in names(cfa)
        assert world.store._view.revision < before + 1000, "the revision does not follow a stamp without bound"
