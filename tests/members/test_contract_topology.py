"""HyperNodes of a member place its nodes, whatever serves them: a simulated member or a real kube-apiserver."""

from __future__ import annotations

import asyncio
import uuid

from api.engine.crd import crd_of
from api.engine.registry import Registry
from fleet.admission.kindfiles import load_kinds
from fleet.core.model.matching import domain_of
from fleet.members.clusters import ClusterMembers
from fleet.wellknown import HYPERNODES
from tests.members.builders import Body, node
from tests.members.conftest import Target, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THERE = f"/apis/{HYPERNODES}/v1alpha1/hypernodes"


async def test_hypernodes_of_the_member_place_its_nodes(joined: ClusterMembers, target: Target) -> None:
    if await target.get(THERE) is None:
        await target.post(CRDS, crd_of(Registry(load_kinds()).need(HYPERNODES, "hypernodes")))
    label = uuid.uuid4().hex[:8]
    for number in range(3):
        await target.create_node(node(f"n-{label}-{number}", labels={"pool": label}))
    of_block = {"labelMatch": {"matchLabels": {"pool": label}}}
    selectors = {"rack": {"regexMatch": {"pattern": f"^n-{label}-[01]$"}}, "block": of_block}
    bodies: list[Body] = [
        {
            "apiVersion": f"{HYPERNODES}/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": f"{name}-{label}"},
            "spec": {"tier": tier, "tierName": name, "members": [{"type": "Node", "selector": selectors[name]}]},
        }
        for tier, name in enumerate(selectors)
    ]
    for body in bodies:
        for _ in range(100):  # until the definition is served
            if (await target.client.post(THERE, json=body)).status_code in (201, 409):
                break
            await asyncio.sleep(0.1)

    def placed() -> dict[str, int]:
        model = joined.model("cfa")
        assert model is not None
        domains = [(domain_of(pool, "rack"), count) for pool in model.pools for _, count in pool.free]
        return {domain: sum(n for one, n in domains if one == domain) for domain, _ in domains if label in domain}

    await eventually(lambda: placed() == {f"/block-{label}/rack-{label}": 2}, what="two nodes in the rack of the block")
    for body in bodies:
        await target.call("DELETE", f"{THERE}/{body['metadata']['name']}")
    await eventually(lambda: placed() == {})
    for number in range(3):
        await target.call("DELETE", f"/api/v1/nodes/n-{label}-{number}")
