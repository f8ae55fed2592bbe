"""Requests of Kubernetes clients and of /fleet/v1 are counted by verb, resource and code, within a bound."""

from __future__ import annotations

from api.server.health import OTHERS, PAIRS_MOST, Metrics
from tests.controllers.world import member, tree
from tests.rest.rest import rest


async def test_requests_of_both_faces_are_counted_with_their_times() -> None:
    async with rest(member("cfa"), objects=[tree()]) as hub:
        client = hub.client()
        await hub.get("/jobs")
        assert (await client.get("/fleet/v1/no-such-page")).status_code == 404
        assert (await client.get("/api/v1/namespaces/default/configmaps")).status_code == 200
        said = hub.app.metrics.registry.get_sample_value
        ours = {"verb": "get", "resource": "fleet/v1"}
        assert said("fleet_api_requests_total", {**ours, "code": "404"}) == 1
        assert said("fleet_api_requests_total", {**ours, "code": "200"}) == 1
        assert said("fleet_api_request_seconds_count", ours) == 2
        assert said("fleet_api_request_seconds_count", {"verb": "list", "resource": "configmaps"}) == 1


def test_pairs_of_verb_and_resource_are_bounded() -> None:
    metrics = Metrics()
    for number in range(PAIRS_MOST + 100):
        metrics.count("get", f"kind{number}.example.com", 200, 0.1)
    found = {metric.name: metric for metric in metrics.registry.collect()}
    requests = [one for one in found["fleet_api_requests"].samples if one.name.endswith("_total")]
    assert len(requests) == PAIRS_MOST + 1
    shared = {"verb": OTHERS, "resource": OTHERS}
    assert metrics.registry.get_sample_value("fleet_api_requests_total", {**shared, "code": "200"}) == 100
    assert metrics.registry.get_sample_value("fleet_api_request_seconds_count", shared) == 100
    assert len(found["fleet_api_request_seconds"].samples) == 16 * (PAIRS_MOST + 1)
