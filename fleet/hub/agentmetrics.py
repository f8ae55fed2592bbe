"""The metrics of an agent, and the right to read them.

An agent reaches no roles of the hub, and has no certificate of it. So the people who run the agent give it both: a
certificate for its address, and one token that reads the metrics.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from api import buildinfo
from api.engine.status import StatusError, unauthorized, unavailable
from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from fleet.agent.serving import Agent


class OneToken:
    """`token` is asked at each request, so that a new one counts at once; it raises Failure."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def refusal(self, authorization: str) -> StatusError | None:
        """The answer to a request with this header; None where it may read."""
        try:
            wanted = self._token()
        except Failure:
            return unavailable("the token cannot be read now")
        scheme, _, token = authorization.partition(" ")
        same = hmac.compare_digest(token.strip().encode("utf-8", "replace"), wanted.encode())
        return None if scheme.lower() == "bearer" and same else unauthorized()


def registry_of(agent: Agent) -> CollectorRegistry:
    """All metrics of an agent's process; docs/reference/metrics.md lists them."""
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    class AgentCollector(Collector):
        def collect(self) -> Iterator[Metric]:
            bytes_sent, received = agent.carried()
            for kind, name, says, value in (
                (
                    GaugeMetricFamily,
                    "fleet_tunnel_connected",
                    "1 while the hub is connected.",
                    agent.connected.is_set(),
                ),
                (CounterMetricFamily, "fleet_tunnel_connections", "Connections with the hub.", agent.connections),
                (GaugeMetricFamily, "fleet_tunnel_streams", "Open streams of the hub.", agent.streams),
                (CounterMetricFamily, "fleet_tunnel_sent_bytes", "Bytes to the hub.", bytes_sent),
                (CounterMetricFamily, "fleet_tunnel_received_bytes", "Bytes from the hub.", received),
            ):
                metric = kind(name, says, labels=["member"])
                metric.add_metric([agent.name], float(value))
                yield metric

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    buildinfo.show(registry)
    registry.register(AgentCollector())
    return registry
