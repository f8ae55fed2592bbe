"""A copy that was changed in its member: the number of pods stays, all else of the hub's is put back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.controllers.dispatch.drift import as_there, asks_above, differences, with_sizes
from fleet.kinds import interpreter_of
from fleet.kinds.lookup import sizes_of
from fleet.values.ports import Body, Key
from fleet.wellknown import ANNOTATION_HASH, ANNOTATION_SIZES
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree
from tests.security.loops.malformed import mutants

TEMPLATE = {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "m", "image": "x"}]}}


def deployment(replicas: int) -> Body:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"containers": [{"name": "m", "image": "x", "resources": limits}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "scaled", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "s"}},
            "template": {"metadata": {"labels": {"app": "s"}}, "spec": spec},
        },
    }


def raycluster(replicas: int, *, hosts: int = 1, least: int = 1, most: int = 6) -> Body:
    group = {
        "groupName": "gpu",
        "replicas": replicas,
        "minReplicas": least,
        "maxReplicas": most,
        "numOfHosts": hosts,
        "template": TEMPLATE,
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "scaled"},
        "spec": {"enableInTreeAutoscaling": True, "headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [group]},
    }


def elastic(workers: int, *, least: int = 1, most: int = 6) -> Body:
    body = pytorchjob("scaled", workers=workers)
    body["spec"]["elasticPolicy"] = {"minReplicas": least, "maxReplicas": most}
    return body


def size_of(body: Body) -> int:
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    assert interpreter is not None
    sizes = dict(interpreter.sizes(body))
    return next(sizes[name] for name in ("gpu", "worker", "pods", *sizes) if name in sizes)


def sent(body: Body, asked: Body | None = None) -> Body:
    """The copy of a manifest, of which the hub asked for the numbers of `asked`."""
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    copied = copy.deepcopy(with_sizes(body, asked or body, interpreter))
    copied["metadata"]["annotations"][ANNOTATION_HASH] = "before"
    return copied


def standing(body: Body, there: Body, **spec: Any) -> Body:
    return as_there(body, there, interpreter_of(body["apiVersion"], body["kind"]), {"metadata": {}, "spec": spec})


@pytest.mark.parametrize("make", [deployment, raycluster, elastic])
def test_a_number_that_the_hub_did_not_change_stays_as_the_member_has_it(make: Callable[[int], Body]) -> None:
    for there in (1, 4, 5):
        assert size_of(standing(make(2), sent(make(there), asked=make(2)))) == there
    assert size_of(standing(make(3), sent(make(5), asked=make(2)))) == 3  # a user changed it


@pytest.mark.parametrize("make", [raycluster, elastic])
def test_it_stays_within_the_least_and_the_most_of_the_job(make: Callable[..., Body]) -> None:
    for there, kept in ((20, 6), (1, 2)):
        asked = make(3, least=2)
        assert size_of(standing(asked, sent(make(there, most=40, least=0), asked=asked))) == kept


def test_hosts_of_a_group_come_together() -> None:
    kept = standing(raycluster(2, hosts=2), sent(raycluster(4, hosts=2), asked=raycluster(2, hosts=2)))
    assert kept["spec"]["workerGroupSpecs"][0]["replicas"] == 4


def test_a_job_that_the_hub_holds_smaller_has_the_hubs_number() -> None:
    there = sent(elastic(4), asked=elastic(2))
    wanted = [{"name": "worker", "replicas": 6, "minReplicas": 1}]
    assert size_of(standing(elastic(2), there, wantedComponents=wanted)) == 2
    assert size_of(standing(elastic(2), there, wantedComponents=[{"name": "worker", "replicas": 6}])) == 4


def test_of_a_copy_of_an_older_release_the_number_stays_while_the_hub_sends_nothing_else() -> None:
    there, wanted = deployment(4), deployment(2)
    for body in (there, wanted):
        body["metadata"]["annotations"] = {ANNOTATION_HASH: "same"}
    assert size_of(standing(wanted, there)) == 4
    there["metadata"]["annotations"] = {ANNOTATION_HASH: "other"}
    assert size_of(standing(wanted, there)) == 2
    there["metadata"]["annotations"] |= {ANNOTATION_SIZES: "rubbish"}
    assert size_of(standing(wanted, there)) == 2


# -- differences

Leaves = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "1", "500m", "0.5"]))
Names = st.sampled_from(["name", "a", "b", "c"])
Bodies = st.dictionaries(
    Names,
    st.recursive(Leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(Names, inner, max_size=3)),
    max_size=4,
)


def filled_in(body: Any) -> Any:
    """As a member fills in what the hub did not say, and leaves out what is empty."""
    if isinstance(body, dict):
        return {**{key: filled_in(value) for key, value in body.items() if value or value == 0}, "z": [1]}
    return [filled_in(value) for value in body] if isinstance(body, list) else body


@given(Bodies)
def test_what_a_member_fills_in_or_leaves_out_is_no_difference(body: Body) -> None:
    wanted = {"spec": orjson.loads(orjson.dumps(body))}
    assert differences(wanted, {**filled_in(wanted), "status": {"x": 1}}) == {}


def test_differences_are_named_by_their_paths() -> None:
    wanted = deployment(2)
    there = filled_in(copy.deepcopy(wanted))
    pod = there["spec"]["template"]["spec"]
    pod["containers"].insert(0, {"name": "sidecar", "image": "y"})
    pod["containers"][1]["resources"]["limits"]["nvidia.com/gpu"] = "1000m"
    assert differences(wanted, there) == {}
    pod["containers"][1]["image"] = "evil"
    there["metadata"]["labels"] = {}
    there["spec"]["replicas"] = 3
    image = {"spec.template.spec.containers[0].image": "evil"}
    assert differences(wanted, there) == {"spec.replicas": 3, **image}
    assert differences(wanted, there, "spec.replicas") == image


# -- the loop

DEPLOYMENT = Key("apps", "deployments", "default", "scaled")
SELECTED: dict[str, Any] = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}


async def running(world: World) -> Body:
    """The copy in cfa of the Deployment `scaled`, with 2 pods."""
    await world.apply(tree(max_jobs=5), policy(queue=True, **SELECTED), deployment(2))
    await eventually(lambda: len(world.members.by_name["cfa"].pods) == 2)
    await settle(5)
    return world.members.by_name["cfa"].objects[DEPLOYMENT]


# `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
def changed_there(world: World, change: Callable[..., Any]) -> None:
    cfa = world.members.by_name["cfa"]
    body = copy.deepcopy(cfa.objects[DEPLOYMENT])
    change(body)
    cfa.objects[DEPLOYMENT] = body
    world.members._tell("cfa", "job", body)


def charged(world: World) -> float:
    return sum(
        component.replicas * component.requests["nvidia.com/gpu"]
        for unit in world.hub.metrics.snapshot.units.values()
        for component in unit.components
    )


async def test_a_label_on_the_hub_leaves_the_pods_of_the_members_autoscaler_and_their_charge() -> None:
    async with hub(member("cfa")) as world:
        await running(world)
        changed_there(world, lambda body: body["spec"].update(replicas=4))
        await world.members._more(world.members.by_name["cfa"], world.members.by_name["cfa"].objects[DEPLOYMENT])
        await eventually(lambda: charged(world) == 4, what="the charge of four pods")
        applies = len(world.members.by_name["cfa"].applies)
        await world.edit("Deployment", "scaled", lambda body: body["metadata"].update(labels={"team": "x"}))
        await eventually(lambda: len(world.members.by_name["cfa"].applies) > applies)
        await settle(10)
        there = world.members.by_name["cfa"].objects[DEPLOYMENT]
        assert there["spec"]["replicas"] == 4 and there["metadata"]["labels"]["team"] == "x"
        assert (
            world.hub.metrics.registry.get_sample_value("fleet_member_requests_above_charge_total", {"member": "cfa"})
            == 1
        )
        assert (
            world.hub.metrics.registry.get_sample_value("fleet_member_copies_put_back_total", {"member": "cfa"}) is None
        )
        await world.edit("Deployment", "scaled", lambda body: body["spec"].update(replicas=3))
        await eventually(lambda: world.members.by_name["cfa"].objects[DEPLOYMENT]["spec"]["replicas"] == 3)


async def test_all_else_is_put_back_and_counted_and_told() -> None:
    async with hub(member("cfa")) as world:
        await running(world)
        changed_there(world, lambda body: body["spec"]["template"]["spec"]["containers"][0].update(image="evil"))

        def image() -> str:
            there = world.members.by_name["cfa"].objects[DEPLOYMENT]
            return str(there["spec"]["template"]["spec"]["containers"][0]["image"])

        await eventually(lambda: image() == "x")
        await eventually(lambda: world.events("scaled", "PutBack"))
        (told,) = world.events("scaled", "PutBack")
        assert told["message"] == (
            "Deployment scaled was changed in member cfa, and is put back: spec.template.spec.containers[0].image"
        )
        found = world.hub.metrics.registry.get_sample_value("fleet_member_copies_put_back_total", {"member": "cfa"})
        assert found == 1


async def test_the_data_of_a_dependency_is_put_back() -> None:
    async with hub(member("cfa")) as world:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
        job = pytorchjob("one", volumes=[{"name": "c", "configMap": {"name": "c"}}])
        await world.apply(tree(), policy(queue=True), {**config, "data": {"depth": "3"}}, job)
        await world.running("one")
        cfa, key = world.members.by_name["cfa"], Key("", "configmaps", "default", "c")
        body = copy.deepcopy(cfa.objects[key])
        body["data"] = {"depth": "9", "more": "1"}
        cfa.objects[key] = body
        world.members._tell("cfa", "job", body)
        await eventually(lambda: cfa.objects[key]["data"]["depth"] == "3")
        await eventually(lambda: world.events("one", "PutBack"))
        (told,) = world.events("one", "PutBack")
        assert told["message"] == "ConfigMap c was changed in member cfa, and is put back: data.depth"


async def test_a_member_that_writes_a_field_its_own_way_is_not_fought_with(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub(member("cfa")) as world:
        apply = world.members.apply

        async def rewritten(name: str, body: Body, **how: Any) -> Any:
            changed = copy.deepcopy(body)
            if body["kind"] == "Deployment":
                changed["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror/x"
            return await apply(name, changed, **how)

        monkeypatch.setattr(world.members, "apply", rewritten)
        await running(world)
        for number in range(5):
            changed_there(world, lambda body, n=number: body["metadata"].setdefault("annotations", {}).update(n=str(n)))
            await settle(20)
        assert len(world.members.by_name["cfa"].applies) <= 2
        assert not world.events("scaled", "PutBack")


async def test_a_fight_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody changes the copy again each time that it is put back."""
    async with hub(member("cfa")) as world:
        await running(world)
        begun = len(world.members.by_name["cfa"].applies)
        for number in range(600):
            changed_there(
                world, lambda body, n=number: body["spec"]["template"]["spec"]["containers"][0].update(image=f"e{n}")
            )
            await settle(1)
        assert 3 <= len(world.members.by_name["cfa"].applies) - begun <= 12


@pytest.mark.parametrize("make", [deployment, raycluster, elastic])
def test_a_copy_that_cannot_be_read_has_no_numbers_and_is_put_back(make: Callable[[int], Body]) -> None:
    wanted = make(2)
    for what, there in mutants(sent(make(4), asked=make(2))):
        kept = standing(wanted, there)
        assert 0 <= size_of(kept) < 2**31, what
        assert isinstance(differences(kept, there), dict)
        assert isinstance(sizes_of(there), dict)
        assert isinstance(asks_above(there, interpreter_of(there["apiVersion"], there["kind"]), ()), bool)
