"""Kinds that nobody stores: ComponentStatuses and APIServices, as kubectl shows them."""

from __future__ import annotations

from pathlib import Path

import orjson

from api.store.memory import MemoryStore
from fleet.bindings.heartbeat import LATE_S, LEASE, component_checks
from fleet.simulate.wall import WallClock
from fleet.values.ports import Put, StoredObject, StoreUnavailable
from fleet.values.times import rfc3339
from tests.api.conftest import KUBECTL, Hub, open_hub

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
STATUSES = "/api/v1/componentstatuses"


class _Away(MemoryStore):
    """A store that can be away."""

    away = False

    async def revision(self, *, alone: bool = False) -> int:
        if self.away:
            raise StoreUnavailable("away")
        return await super().revision(alone=alone)


async def test_kubectl_shows_who_serves_each_group(hub: Hub) -> None:
    _, out, _ = await hub.kubectl(KUBECTL, "get", "apiservices", "v1.batch", "v1.", "v1.kubeflow.org")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["NAME", "SERVICE", "AVAILABLE", "AGE"]
    assert [row[:3] for row in rows[1:]] == [[name, "Local", "True"] for name in ("v1.batch", "v1.", "v1.kubeflow.org")]
    async with hub.client() as client:
        items = (await client.get(SERVICES)).json()["items"]
        groups = (await client.get("/apis")).json()["groups"]
        served = {version["groupVersion"] for group in groups for version in group["versions"]} | {"v1"}
        assert {f"{one['spec'].get('group', '')}/{one['spec']['version']}".lstrip("/") for one in items} == served
        missing = await client.get(f"{SERVICES}/v1.none")
        assert (missing.status_code, missing.json()["reason"]) == (404, "NotFound")


async def test_an_aggregated_api_server_is_refused_in_plain_words(hub: Hub) -> None:
    remote = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": "metrics", "namespace": "kube-system"},
        },
    }
    code, _, err = await hub.kubectl(KUBECTL, "create", "-f", "-", stdin=orjson.dumps(remote).decode(), ok=False)
    assert code == 1 and "has no aggregated API servers" in err


async def test_component_statuses_say_which_parts_work(tmp_path: Path) -> None:
    clock = WallClock()
    store = _Away(clock)
    async with open_hub(tmp_path, store, parts=component_checks(store, clock)) as hub, hub.client() as client:

        async def healthy() -> dict[str, str]:
            found = (await client.get(STATUSES)).json()["items"]
            return {one["metadata"]["name"]: one["conditions"][0]["status"] for one in found}

        assert await healthy() == {"scheduler": "False", "controller-manager": "False", "etcd-0": "True"}
        await _renew(store, clock.now())
        assert await healthy() == {"scheduler": "True", "controller-manager": "True", "etcd-0": "True"}
        await _renew(store, clock.now(), acquired=clock.now() - 3600)
        assert await healthy() == {"scheduler": "False", "controller-manager": "True", "etcd-0": "True"}
        _, out, _ = await hub.kubectl(KUBECTL, "get", "cs")
        rows = [line.split() for line in out.splitlines()]
        assert rows[0] == ["NAME", "STATUS", "MESSAGE", "ERROR"] and rows[1][:2] == ["scheduler", "Unhealthy"]
        assert rows[2] == ["controller-manager", "Healthy", "ok"]
        await _renew(store, clock.now() - 2 * LATE_S)
        store.away = True
        assert set((await healthy()).values()) == {"False"}
        refused = await client.delete(f"{STATUSES}/etcd-0")
        assert refused.status_code == 405 and "cannot be written" in refused.json()["message"]


async def _renew(store: MemoryStore, renewed: float, acquired: float | None = None) -> None:
    began = rfc3339(renewed if acquired is None else acquired)
    spec = {"holderIdentity": "a", "renewTime": rfc3339(renewed), "acquireTime": began}
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE.name, "namespace": LEASE.namespace, "uid": "l"},
        "spec": spec,
    }
    await store.commit([Put(LEASE, body)])
    assert isinstance(store.peek(LEASE), StoredObject)
