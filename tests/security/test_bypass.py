"""A policy passes the queue of a leaf only when its writer has the verb `bypass` there, whatever way it is written."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from api.engine import patch as patches
from api.engine.status import StatusError
from api.objects.writing import Options, User
from api.wire.rights import Attributes
from fleet.admission import bypass
from fleet.admission.seed import _ROLES
from fleet.bindings.passing import bypass_of
from tests.admission.conftest import THE_HUB, Body, Hub
from tests.controllers.world import cluster_policy, policy
from tests.security.hub import open_hub

MARK = "fleet.io/bypasses-queue"
BATCH = {"apiVersion": "batch/v1", "kind": "Job"}
MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
TRAIN = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
LEAVES = ("a", "b", "deep")


class Rights:
    """An Authorizer: ann may pass every queue, bob that of leaf a, eve none."""

    def allowed(self, user: User, wanted: Attributes) -> bool:
        assert (wanted.verb, wanted.group, wanted.resource, wanted.namespace) == (
            "bypass",
            "scheduling.x-k8s.io",
            "queues",
            "kube-queue",
        )
        return user.name == "ann" or (user.name == "bob" and wanted.name == "root-a-x")


def by(user: str, **more: Any) -> Options:
    return Options(user=User(user), manager="tests", **more)


def tree(*, open_leaf: bool = False, required: str = "") -> Body:
    """Leaves a (namespace default), b (team-b) and deep (team-c) below an inner node; `required`: the node that says
    requireQueue."""
    room = {"nvidia.com/gpu": 8}

    def node(name: str, **more: Any) -> Body:
        return {"name": name, "max": room, **more, **({"requireQueue": True} if name == required else {})}

    inner = node("inner", children=[node("deep", namespaces=["team-c"])])
    children = [node("a", namespaces=["default"]), node("b", namespaces=["team-b"]), inner]
    children += [node("open")] if open_leaf else []
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "t", "namespace": "kube-system"},
        "spec": {"root": {**node("root"), "min": room, "children": children}},
    }


async def world(hub: Hub, with_tree: Body | None = None, **how: Any) -> None:
    for name in ("team-b", "team-c", "free"):
        await hub.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await hub.create(with_tree or tree(**how))
    for leaf, path in (("a", "a"), ("b", "b"), ("deep", "inner/deep"), ("open", "open")):
        await hub.made(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "Queue",
                "metadata": {
                    "name": f"root-{leaf}-x",
                    "namespace": "kube-queue",
                    "annotations": {"kube-queue/quota-fullname": f"root/{path}"},
                },
                "spec": {"queuePolicy": "Priority"},
            }
        )
    bypass.install(hub.objects, Rights())  # type: ignore[arg-type]


def kind_of(hub: Hub, body: Body) -> Any:
    return next(k for k in hub.registry if k.kind == body["kind"])


async def create(hub: Hub, body: Body, options: Options) -> Body:
    body = copy.deepcopy(body)
    written = await hub.objects.create(kind_of(hub, body), body["metadata"].get("namespace", ""), body, options)
    return written.body


def over(namespace: str) -> Body:
    """A ClusterPropagationPolicy for the PyTorchJobs of one namespace."""
    return cluster_policy(resourceSelectors=[{**TRAIN, "namespace": namespace}])


TABLE = [
    pytest.param("eve", policy(), {}, ["root-a-x"], id="a tenant's policy in a leaf's namespace"),
    pytest.param("bob", policy(), {}, ["root/a"], id="with the verb on that queue"),
    pytest.param("ann", policy(), {}, ["*"], id="with the verb on all queues"),
    pytest.param("eve", policy(queue=True), {}, [], id="a policy that queues"),
    pytest.param("eve", policy(suspension={"scheduling": False}), {}, ["root-a-x"], id="scheduling: false"),
    pytest.param("eve", policy(suspension={"dispatching": True}), {}, ["root-a-x"], id="dispatching alone"),
    pytest.param("eve", policy(resourceSelectors=[MAPS], placement=None), {}, [], id="no gangs"),
    pytest.param("eve", policy(resourceSelectors=[MAPS, BATCH]), {}, ["root-a-x"], id="batch Jobs beside maps"),
    pytest.param("eve", policy(namespace="team-b"), {}, ["root-b-x"], id="another leaf"),
    pytest.param("bob", policy(namespace="team-b"), {}, ["root-b-x"], id="the verb on another queue"),
    pytest.param("eve", policy(namespace="team-c"), {}, ["root-deep-x"], id="a leaf below an inner node"),
    pytest.param("eve", policy(namespace="free"), {}, [], id="a namespace without a leaf"),
    pytest.param("eve", policy(namespace="free"), {"open_leaf": True}, ["root-open-x"], id="beside an open leaf"),
    pytest.param("bob", policy(), {"open_leaf": True}, ["root/a"], id="an open leaf is not its namespace's"),
    pytest.param("eve", cluster_policy(), {}, ["root-a-x", "root-b-x", "root-deep-x"], id="for every namespace"),
    pytest.param("bob", cluster_policy(), {}, ["root-b-x", "root-deep-x"], id="the verb on one of three"),
    pytest.param("ann", cluster_policy(), {}, ["*"], id="for every namespace, with the verb"),
    pytest.param("bob", over("default"), {}, ["root/a"], id="cluster-wide, for one namespace"),
    pytest.param("bob", over("team-b"), {}, ["root-b-x"], id="cluster-wide, for another namespace"),
    pytest.param("eve", over("free"), {}, [], id="cluster-wide, for one without a leaf"),
]


@pytest.mark.parametrize(("user", "body", "how", "outcome"), TABLE)
async def test_who_may_write_which_policy(hub: Hub, user: str, body: Body, how: Body, outcome: list[str]) -> None:
    """`outcome`: the queues that a refusal names, or the leaves that the mark names, or nothing."""
    await world(hub, **how)
    refused = any(name.endswith("-x") for name in outcome)
    if not refused:
        stored = await create(hub, body, by(user))
        assert list(bypass_of(stored).leaves) == outcome
        assert bypass_of(stored).by == (user if outcome else "")
        return
    before = await hub.store.revision()
    with pytest.raises(StatusError) as refusal:
        await create(hub, body, by(user))
    assert (refusal.value.code, refusal.value.reason) == (403, "Forbidden")
    assert f'user "{user}" needs the verb "bypass" on queues.scheduling.x-k8s.io root-' in refusal.value.message
    assert [f"root-{leaf}-x" for leaf in (*LEAVES, "open") if f"root-{leaf}-x" in refusal.value.message] == outcome
    assert await hub.store.revision() == before


async def test_without_a_tree_nobody_is_refused_and_an_administrators_policy_is_marked(hub: Hub) -> None:
    bypass.install(hub.objects, Rights())  # type: ignore[arg-type]
    assert MARK not in (await create(hub, policy("eves"), by("eve")))["metadata"].get("annotations", {})
    assert bypass_of(await create(hub, policy("anns"), by("ann"))).leaves == ("*",)


def unsuspended(body: Body) -> Body:
    return {**body, "spec": {k: v for k, v in body["spec"].items() if k != "suspension"}}


WAYS = ["put", "merge", "json", "apply"]


async def let_pass(hub: Hub, way: str, stored: Body, options: Options) -> Body:
    """Take `spec.suspension` off a stored policy in one of the ways that clients have."""
    kind, objects, meta = kind_of(hub, stored), hub.objects, stored["metadata"]
    where = (kind, meta.get("namespace", ""), meta["name"])
    if way == "put":
        return (await objects.update(*where, unsuspended(copy.deepcopy(stored)), options)).body
    if way == "merge":
        return (await objects.patch(*where, {"spec": {"suspension": None}}, patches.MERGE, options)).body
    if way == "json":
        removal = [{"op": "remove", "path": "/spec/suspension"}]
        return (await objects.patch(*where, removal, patches.JSON, options)).body
    config = {key: stored[key] for key in ("apiVersion", "kind")}
    config["metadata"] = {key: meta[key] for key in ("name", "namespace") if key in meta}
    config["spec"] = {"suspension": {"scheduling": False}, "resourceSelectors": stored["spec"]["resourceSelectors"]}
    return (await objects.patch(*where, config, patches.APPLY, Options(options.user, "ops", force=True))).body


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", [policy(queue=True), cluster_policy(queue=True)], ids=["namespaced", "cluster-wide"])
async def test_a_stored_policy_is_let_past_by_the_same_right(hub: Hub, way: str, body: Body) -> None:
    await world(hub)
    stored = await create(hub, body, by("eve"))
    before = await hub.store.revision()
    with pytest.raises(StatusError, match='needs the verb "bypass"') as refusal:
        await let_pass(hub, way, stored, by("eve"))
    assert refusal.value.code == 403 and await hub.store.revision() == before
    assert bypass_of(await let_pass(hub, way, stored, by("ann"))).leaves == ("*",)


async def test_an_apply_that_creates_is_looked_at_too(hub: Hub) -> None:
    await world(hub)
    body = policy()
    with pytest.raises(StatusError, match='needs the verb "bypass"'):
        await hub.objects.patch(kind_of(hub, body), "default", "example-policy", body, patches.APPLY, by("eve"))


async def test_a_dry_run_is_refused_and_changes_nothing(hub: Hub) -> None:
    await world(hub)
    with pytest.raises(StatusError, match='needs the verb "bypass"'):
        await create(hub, policy(), by("eve", dry_run=True))
    assert bypass_of(await create(hub, policy(), by("ann", dry_run=True))).leaves == ("*",)
    assert not await hub.objects.list(kind_of(hub, policy()))


async def test_a_label_alone_needs_no_right_and_keeps_the_mark(hub: Hub) -> None:
    await world(hub)
    stored = await create(hub, policy(), by("ann"))
    labels = {"metadata": {"labels": {"team": "a"}}}
    labelled = await hub.objects.patch(
        kind_of(hub, stored), "default", "example-policy", labels, patches.MERGE, by("eve")
    )
    assert (bypass_of(labelled.body).by, labelled.warnings) == ("ann", ())


async def test_a_change_of_what_passes_takes_the_right_again(hub: Hub) -> None:
    await world(hub)
    stored = copy.deepcopy(await create(hub, policy(), by("ann")))
    stored["spec"]["priority"] = 7
    with pytest.raises(StatusError, match='needs the verb "bypass"'):
        await hub.objects.update(kind_of(hub, stored), "default", "example-policy", stored, by("eve"))


async def test_a_policy_that_queues_again_loses_its_mark(hub: Hub) -> None:
    await world(hub)
    stored = copy.deepcopy(await create(hub, policy(), by("ann")))
    stored["spec"]["suspension"] = {"scheduling": True}
    queued = await hub.objects.update(kind_of(hub, stored), "default", "example-policy", stored, by("eve"))
    assert MARK not in queued.body["metadata"].get("annotations", {})


async def test_a_policy_from_before_is_marked_by_whatever_somebody_with_the_right_writes(hub: Hub) -> None:
    await create(hub, policy(), by("eve"))
    await world(hub)
    where = (kind_of(hub, policy()), "default", "example-policy")
    await hub.objects.patch(*where, {"metadata": {"labels": {"x": "1"}}}, patches.MERGE, by("eve"))
    assert bypass_of(await hub.objects.get(*where)).leaves == ()
    written = await hub.objects.patch(*where, {"metadata": {"labels": {"x": "2"}}}, patches.MERGE, by("bob"))
    assert bypass_of(written.body).leaves == ("root/a",)
    assert "takes gangs past their queues from now on" in written.warnings[0]


@pytest.mark.parametrize("said", ['{"by":"ann","leaves":["*"]}', "yes"])
async def test_nobody_writes_the_mark(hub: Hub, said: str) -> None:
    await world(hub)
    forged = policy(queue=True)
    forged["metadata"]["annotations"] = {MARK: said, "mine": "1"}
    stored = await create(hub, forged, by("eve"))
    assert stored["metadata"]["annotations"] == {"mine": "1"}
    patch = {"metadata": {"annotations": {MARK: said}}}
    where = (kind_of(hub, stored), "default", "example-policy")
    patched = await hub.objects.patch(*where, patch, patches.MERGE, by("eve"))
    assert patched.body["metadata"]["annotations"] == {"mine": "1"}


async def test_nobody_takes_the_mark_off(hub: Hub) -> None:
    await world(hub)
    stored = await create(hub, policy(), by("ann"))
    patch = {"metadata": {"annotations": {MARK: None}}}
    where = (kind_of(hub, stored), "default", "example-policy")
    assert bypass_of((await hub.objects.patch(*where, patch, patches.MERGE, by("eve"))).body).by == "ann"


async def test_a_manifest_that_was_read_from_the_hub_can_be_applied_again(hub: Hub) -> None:
    await world(hub)
    kind = kind_of(hub, policy())
    read = copy.deepcopy(await create(hub, policy(), by("ann")))
    await hub.objects.delete(kind, "default", "example-policy", by("ann"))
    read["metadata"] = {key: read["metadata"][key] for key in ("name", "namespace", "annotations")}
    assert bypass_of(await create(hub, read, by("bob"))).by == "bob"
    older = await hub.objects.patch(kind, "default", "example-policy", read, patches.MERGE, by("eve"))
    assert bypass_of(older.body).by == "bob"


async def test_the_hubs_own_writes_pass(hub: Hub) -> None:
    await world(hub)
    assert (await create(hub, policy(), THE_HUB))["metadata"]["name"] == "example-policy"


REQUIRED = [
    pytest.param("a", policy(), True, id="at the leaf"),
    pytest.param("root", policy(), True, id="at the root"),
    pytest.param("inner", policy(namespace="team-c"), True, id="above the leaf"),
    pytest.param("b", policy(), False, id="at another leaf"),
    pytest.param("b", cluster_policy(), True, id="at one of the leaves that it reaches"),
    pytest.param("root", policy(queue=True), False, id="a policy that queues"),
    pytest.param("root", policy(namespace="free"), False, id="a namespace without a leaf"),
]


@pytest.mark.parametrize(("node", "body", "refused"), REQUIRED)
async def test_where_a_node_requires_the_queue_nobody_passes(hub: Hub, node: str, body: Body, refused: bool) -> None:
    await world(hub, required=node)
    if not refused:
        await create(hub, body, by("ann"))
        return
    with pytest.raises(StatusError) as refusal:
        await create(hub, body, by("ann"))
    path = "root" if node == "root" else f"root/{node}"
    assert refusal.value.code == 403
    assert f"requireQueue: true at node {path} of the quota tree" in refusal.value.message


async def test_where_the_hub_requires_the_queue_nobody_passes_any(hub: Hub) -> None:
    await world(hub)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hub", "namespace": "fleet-system"}}
    await hub.create({**config, "data": {"id": "x", "requireQueue": "true"}})
    for body in (policy(), policy(namespace="free"), cluster_policy()):
        with pytest.raises(StatusError, match='requireQueue: "true" in ConfigMap fleet-system/hub') as refusal:
            await create(hub, body, by("ann"))
        assert refusal.value.code == 403
    await create(hub, policy(queue=True), by("eve"))
    await hub.update({**config, "data": {"id": "x", "requireQueue": "false"}})
    await create(hub, cluster_policy(), by("ann"))


async def test_a_choice_for_the_hub_that_means_nothing_is_refused(hub: Hub) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hub", "namespace": "fleet-system"}}
    refusal = await hub.refused({**config, "data": {"requireQueue": "yes"}})
    assert [cause.field for cause in refusal.causes] == ["data[requireQueue]"]


@pytest.mark.parametrize("group", ["policy.one.alibabacloud.com", "policy.karmada.io"])
async def test_both_groups_of_policies_ask_for_the_right_over_http(group: str) -> None:
    async with open_hub() as served:
        await served.create("namespaces", {"metadata": {"name": "kube-system"}})
        await served.create("elasticquotatrees", tree(), "scheduling.sigs.k8s.io", "kube-system")
        role = {"metadata": {"name": "edit"}, "rules": _ROLES["edit"]}
        await served.create("clusterroles", role, "rbac.authorization.k8s.io")
        subjects = [{"kind": "User", "name": "nobody", "apiGroup": "rbac.authorization.k8s.io"}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        binding = {"metadata": {"name": "nobody"}, "subjects": subjects, "roleRef": reference}
        await served.create("rolebindings", binding, "rbac.authorization.k8s.io", "default")
        path = f"/apis/{group}/v1alpha1/namespaces/default/propagationpolicies"
        body = {**policy(), "apiVersion": f"{group}/v1alpha1"}
        refused = await served.client("nobody-token").post(path, json=body)
        assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden"), refused.text
        assert 'user "nobody" needs the verb "bypass"' in refused.json()["message"]
        apply = {"content-type": "application/apply-patch+yaml"}
        applied = await served.client("nobody-token").patch(
            f"{path}/example-policy?fieldManager=t", content=orjson.dumps(body), headers=apply
        )
        assert applied.status_code == 403, applied.text
        taken = await served.client().post(path, json=body)
        assert (taken.status_code, bypass_of(taken.json()).leaves) == (201, ("*",)), taken.text


def test_of_the_roles_that_fleet_brings_only_cluster_admin_has_the_verb() -> None:
    having = [
        name
        for name, rules in _ROLES.items()
        if any({"bypass", "*"} & set(r["verbs"]) and {"queues", "*"} & set(r.get("resources", ())) for r in rules)
    ]
    assert having == ["cluster-admin"]
