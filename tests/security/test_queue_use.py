"""A job is charged to the leaf of its namespace; another team's leaf takes the verb `use` on its Queue."""

from __future__ import annotations

import copy

import pytest

from api.engine import patch as patches
from api.engine.status import StatusError
from api.objects.writing import Options, User
from api.wire.rights import Attributes
from fleet.admission import queueuse
from tests.admission.conftest import Body, Hub
from tests.controllers.world import pytorchjob

LABEL = "quota.scheduling.alibabacloud.com/name"
EVE = User("eve")


class Rights:
    """An Authorizer: eve may use the queues that are named."""

    def __init__(self, *queues: str) -> None:
        self.queues = queues

    def allowed(self, user: User, wanted: Attributes) -> bool:
        assert (wanted.verb, wanted.resource, wanted.namespace) == ("use", "queues", "kube-queue")
        return user.name == "eve" and wanted.name in self.queues


async def two_teams(hub: Hub, *queues: str) -> Options:
    """Leaves a (namespace default), b (namespace team-b) and open (none), each with its Queue."""
    room = {"nvidia.com/gpu": 8}
    children = [
        {"name": "a", "max": room, "namespaces": ["default"]},
        {"name": "b", "max": room, "namespaces": ["team-b"]},
        {"name": "open", "max": room},
    ]
    await hub.create(
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
            "kind": "ElasticQuotaTree",
            "metadata": {"name": "t", "namespace": "kube-system"},
            "spec": {"root": {"name": "root", "max": room, "min": room, "children": children}},
        }
    )
    for leaf in ("a", "b", "open"):
        await hub.made(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "Queue",
                "metadata": {
                    "name": f"root-{leaf}-x",
                    "namespace": "kube-queue",
                    "annotations": {"kube-queue/quota-fullname": f"root/{leaf}"},
                },
                "spec": {"queuePolicy": "Priority"},
            }
        )
    queueuse.install(hub.objects, Rights(*queues))  # type: ignore[arg-type]
    return Options(user=EVE, manager="tests")


def job(leaf: str = "") -> Body:
    body = pytorchjob("one")
    if leaf:
        body["metadata"]["labels"] = {LABEL: leaf}
    return body


async def create(hub: Hub, body: Body, options: Options) -> Body:
    kind = next(k for k in hub.registry if k.kind == "PyTorchJob")
    return (await hub.objects.create(kind, "default", body, options)).body


@pytest.mark.parametrize("leaf", ["", "a", "open", "nowhere"])
async def test_her_own_leaf_and_an_open_one_need_no_right(hub: Hub, leaf: str) -> None:
    await create(hub, job(leaf), await two_teams(hub))


async def test_another_teams_leaf_is_refused_with_the_verb_that_is_missing(hub: Hub) -> None:
    eve = await two_teams(hub)
    with pytest.raises(StatusError) as refusal:
        await create(hub, job("b"), eve)
    assert refusal.value.code == 422 and [c.field for c in refusal.value.causes] == [f"metadata.labels[{LABEL}]"]
    assert 'needs the verb "use" on queues.scheduling.x-k8s.io root-b-x in namespace kube-queue' in str(refusal.value)


@pytest.mark.parametrize("granted", ["root-b-x", ""], ids=["that queue", "every queue"])
async def test_the_verb_on_its_queue_opens_it(hub: Hub, granted: str) -> None:
    await create(hub, job("b"), await two_teams(hub, granted))


async def test_a_label_that_is_put_on_later_is_looked_at_too(hub: Hub) -> None:
    eve = await two_teams(hub)
    stored = await create(hub, job(), eve)
    kind = next(k for k in hub.registry if k.kind == "PyTorchJob")
    with pytest.raises(StatusError, match="is the leaf of other namespaces"):
        labels = {"metadata": {"labels": {LABEL: "b"}}}
        await hub.objects.patch(kind, "default", "one", labels, patches.MERGE, eve)
    moved = copy.deepcopy(stored)
    moved["metadata"]["labels"] = {"quota.scheduling.koordinator.sh/name": "b"}
    with pytest.raises(StatusError, match="is the leaf of other namespaces"):
        await hub.objects.update(kind, "default", "one", moved, eve)


async def test_a_job_that_an_administrator_moved_there_stays_hers_to_edit(hub: Hub) -> None:
    eve = await two_teams(hub, "root-b-x")
    stored = await create(hub, job("b"), eve)
    queueuse.install(hub.objects, Rights())  # type: ignore[arg-type]
    kind = next(k for k in hub.registry if k.kind == "PyTorchJob")
    held = copy.deepcopy(stored)
    held["metadata"]["annotations"]["fleet.io/hold"] = "true"
    await hub.objects.update(kind, "default", "one", held, Options(user=User("mallory"), manager="tests"))
