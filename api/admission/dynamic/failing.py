"""Webhooks that fail now: the calls of this process, counted, and those that failed since the last that did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, Metric

from api.admission.dynamic.webhooks import Webhook
from fleet.values.ports import Clock
from fleet.values.times import rfc3339

WEBHOOKS_MOST = 200  # that are told of; administrators register them
ERROR_MOST = 300  # characters


class FailingHooks:
    """`note` each call."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[str, dict[str, Any]] = {}
        self._calls: Counter[tuple[str, str]] = Counter()

    def note(self, hook: Webhook, kind: str, error: str) -> None:
        """`kind`: of its configuration; `error`: "" for a call that was answered."""
        outcome = (hook.name, "failed" if error else "answered")
        if outcome in self._calls or len(self._calls) < 2 * WEBHOOKS_MOST:
            self._calls[outcome] += 1
        if not error:
            self._failing.pop(hook.id, None)
        elif hook.id in self._failing or len(self._failing) < WEBHOOKS_MOST:
            self._failing[hook.id] = {
                "kind": kind,
                "configuration": hook.configuration,
                "webhook": hook.name,
                "failures": self._failing.get(hook.id, {}).get("failures", 0) + 1,
                "ignored": hook.ignores_failures,
                "last": rfc3339(self._clock.now()),
                "error": error[:ERROR_MOST],
            }

    def now(self, registered: Iterable[Webhook]) -> list[dict[str, Any]]:
        """Those that fail and are still registered."""
        known = {hook.id for hook in registered}
        self._failing = {identity: told for identity, told in self._failing.items() if identity in known}
        return list(self._failing.values())

    def show(self, registry: CollectorRegistry) -> None:
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        calls = CounterMetricFamily(
            "fleet_api_webhook_calls", "Calls of admission webhooks, by outcome.", labels=("webhook", "outcome")
        )
        for (webhook, outcome), count in sorted(self._calls.items()):
            calls.add_metric((webhook, outcome), count)
        yield calls
