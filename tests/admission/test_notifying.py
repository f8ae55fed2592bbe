"""NotificationReceivers and the annotation that names them: which are refused, with which field."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.status import StatusError
from tests.admission.conftest import THE_HUB, USER, Body, Hub
from tests.controllers.world import pytorchjob

WEB = {"url": "https://chat.example/hook"}
MAIL = {"host": "smtp.example.com", "from": "fleet@example.com", "to": ["ada@example.com"]}
OF_SECRET = {"name": "hook", "key": "url"}


def receiver(namespace: str = "default", **spec: Any) -> Body:
    return {
        "apiVersion": "config.fleet.io/v1alpha1",
        "kind": "NotificationReceiver",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        ({}, "spec.webhook", "exactly one of webhook and smtp"),
        ({"webhook": WEB, "smtp": MAIL}, "spec.smtp", "exactly one of webhook and smtp"),
        ({"webhook": {}}, "spec.webhook.url", "exactly one of url and urlFrom"),
        ({"webhook": {**WEB, "urlFrom": OF_SECRET}}, "spec.webhook.urlFrom", "exactly one of url and urlFrom"),
        ({"webhook": {"url": "http://chat.example/"}}, "spec.webhook.url", "must be an address of https"),
        ({"webhook": {"urlFrom": {"name": "hook"}}}, "spec.webhook.urlFrom.key", "Required"),
        ({"webhook": WEB, "allNamespaces": True}, "spec.allNamespaces", "in the namespace fleet-system"),
        ({"webhook": WEB, "events": ["WaitsLong"]}, "spec.waitsLongerThan", "how long is long"),
        ({"webhook": WEB, "events": ["Begun"]}, "spec.events[0]", "Unsupported value"),
        ({"webhook": WEB, "waitsLongerThan": "2 hours"}, "spec.waitsLongerThan", "should match"),
        ({"webhook": WEB, "selector": {"matchLabels": {"a b": "c"}}}, "spec.selector.matchLabels", "name part"),
        ({"smtp": {**MAIL, "to": []}}, "spec.smtp.to", "at least 1"),
        ({"smtp": {**MAIL, "from": "a@b.c\r\nBcc: d@e.f"}}, "spec.smtp.from", "should match"),
    ],
)
async def test_a_receiver_that_cannot_be_told_is_refused(hub: Hub, spec: Body, field: str, says: str) -> None:
    refusal = await hub.refused(receiver(**spec))
    assert field in [cause.field for cause in refusal.causes]
    assert says in " ".join(cause.message for cause in refusal.causes)


async def test_receivers_of_both_ways_are_taken(hub: Hub) -> None:
    assert await hub.create(
        receiver(webhook={"urlFrom": OF_SECRET, "format": "Slack"}, selector={}, events=["Started"])
    )
    mail = receiver("fleet-system", smtp=MAIL, selector={}, allNamespaces=True, waitsLongerThan="2h")
    assert (await hub.create(mail))["spec"]["smtp"] == MAIL


async def test_the_hub_alone_says_how_deliveries_go(hub: Hub) -> None:
    stored = await hub.create(receiver(webhook=WEB))
    kind = hub.registry.need("config.fleet.io", "notificationreceivers")
    body = {**stored, "status": {"lastDelivered": "2026-01-01T00:00:00Z"}}
    with pytest.raises(StatusError, match="Fleet's controllers alone write its status"):
        await hub.objects.update(kind, "default", "chat", body, USER, subresource="status")
    written = await hub.objects.update(kind, "default", "chat", body, THE_HUB, subresource="status")
    assert written.body["status"] == body["status"]


@pytest.mark.parametrize(
    ("said", "why"),
    [("chat=Begun", '"Begun" is none of Started, Succeeded'), ("Chat", "no NAME or NAME=EVENT+EVENT")],
)
async def test_a_job_that_names_no_receiver_by_its_annotation_is_refused(hub: Hub, said: str, why: str) -> None:
    job = pytorchjob("train")
    job["metadata"]["annotations"] = {"fleet.io/notify": said}
    refusal = await hub.refused(job)
    assert [cause.field for cause in refusal.causes] == ["metadata.annotations[fleet.io/notify]"]
    assert why in refusal.causes[0].message
