"""Webhooks that fail now are told of, with their last error, until a call is answered or nobody registers them."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from api.admission.dynamic.failing import ERROR_MOST, WEBHOOKS_MOST, FailingHooks
from api.admission.dynamic.webhooks import Webhook
from fleet.simulate.wall import WallClock

KIND = "ValidatingWebhookConfiguration"


def hook(number: int = 0) -> Webhook:
    how: dict[str, Any] = {"match": None, "client": {}, "conditions": (), "versions": ("v1",)}
    return Webhook(
        id=f"checks/{number}",
        name=f"h{number}.example.com",
        configuration="checks",
        ignores_failures=False,
        dry_run=True,
        timeout_s=10,
        reinvoked=False,
        **how,
    )


def test_calls_that_fail_one_after_the_other_are_counted_until_one_is_answered() -> None:
    failing, one = FailingHooks(WallClock()), hook()
    for _ in range(3):
        failing.note(one, KIND, "refused " * 100)
    [told] = failing.now([one])
    assert (told["configuration"], told["webhook"], told["failures"]) == ("checks", "h0.example.com", 3)
    assert len(told["error"]) == ERROR_MOST
    failing.note(one, KIND, "")
    assert failing.now([one]) == []


def test_a_webhook_that_is_gone_fails_no_more() -> None:
    failing = FailingHooks(WallClock())
    failing.note(hook(), KIND, "refused")
    assert failing.now([]) == []


def test_webhooks_take_bounded_room() -> None:
    failing, registry = FailingHooks(WallClock()), CollectorRegistry()
    failing.show(registry)
    hooks = [hook(number) for number in range(2 * WEBHOOKS_MOST + 5)]
    for one in hooks:
        failing.note(one, KIND, "refused")
    assert len(failing.now(hooks)) == WEBHOOKS_MOST
    [family] = [family for family in registry.collect() if family.name == "fleet_api_webhook_calls"]
    assert len(family.samples) == 2 * WEBHOOKS_MOST
