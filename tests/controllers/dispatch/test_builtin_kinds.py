"""Kinds of Kubernetes without pods travel by a policy; what a member fills in there stays its own."""

from __future__ import annotations

from typing import Any

from fleet.values.ports import Key
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import cluster_policy, hub, member

NEW: dict[str, dict[str, Any]] = {
    "Service": {"apiVersion": "v1", "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}},
    "NetworkPolicy": {"apiVersion": "networking.k8s.io/v1", "spec": {"podSelector": {}}},
    "PodDisruptionBudget": {
        "apiVersion": "policy/v1",
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    },
}
SELECTORS = [{"apiVersion": body["apiVersion"], "kind": kind} for kind, body in NEW.items()]
SERVICE = Key("", "services", "default", "one")


async def test_objects_go_to_every_member_and_what_a_member_fills_in_is_not_fought_over() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        named = {"metadata": {"name": "one", "namespace": "default"}}
        plain = cluster_policy(placement={}, resourceSelectors=SELECTORS)
        await world.apply(plain, *({"kind": kind, **named, **body} for kind, body in NEW.items()))
        for name in ("cfa", "cfb"):
            there = world.members.by_name[name]
            await eventually(lambda there=there: {body["kind"] for body in there.applies} == set(NEW))
        there = world.members.by_name["cfa"]
        sent = next(body for body in there.applies if body["kind"] == "Service")
        assert "status" not in sent and not {"clusterIP", "clusterIPs", "ipFamilies"} & sent["spec"].keys()
        assert sent["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
        filled = there.objects[SERVICE]
        filled["spec"] |= {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"]}
        filled["status"] = {"loadBalancer": {}}
        applies = len(there.applies)
        await settle(30)
        assert len(there.applies) == applies and there.objects[SERVICE]["spec"]["clusterIP"] == "10.0.0.7"
        assert "clusterIP" not in (world.see("Service", "one") or {})["spec"]
