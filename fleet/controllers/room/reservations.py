"""Koordinator's Reservations: one for each pod of a gang, which its scheduler gives a node to as if it were the pod.

A Reservation that has a node is Available. The pod of the job with the labels of its owner takes the room, and the
Reservation has Succeeded. Koordinator ends an Available one after its `ttl`. Pure. Koordinator 1.8.0,
scheduling.koordinator.sh/v1alpha1.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.controllers.room.places import Placeholder
from fleet.values.ports import Body
from fleet.values.times import seconds
from fleet.values.untyped import mapping, pairs, rows, text
from fleet.wellknown import ATTEMPT, LABEL_BINDING, LABEL_COMPONENT, LABEL_HUB, LABEL_PLACEHOLDER

API = "scheduling.koordinator.sh/v1alpha1"
SCHEDULER = "koord-scheduler"


def reservations(placeholders: Sequence[Body], scheduler: str) -> list[Body]:
    """For the pods that these placeholders stand for. `scheduler`: the schedulerName of pods that name none."""
    return [_reservation(pod, scheduler) for pod in placeholders]


def _reservation(pod: Body, scheduler: str) -> Body:
    labels = pairs(pod["metadata"]["labels"])
    owner = {key: labels[key] for key in (LABEL_BINDING, ATTEMPT, LABEL_COMPONENT)}
    spec = {key: value for key, value in pod["spec"].items() if key != "activeDeadlineSeconds"}
    return {
        "apiVersion": API,
        "kind": "Reservation",
        "metadata": {
            "name": pod["metadata"]["name"],
            "labels": {key: value for key, value in labels.items() if key != LABEL_PLACEHOLDER},
            "annotations": dict(pod["metadata"]["annotations"]),
        },
        "spec": {
            "template": {
                "metadata": {"namespace": pod["metadata"]["namespace"], "labels": {LABEL_HUB: labels[LABEL_HUB]}},
                "spec": {"schedulerName": scheduler, **spec},
            },
            "owners": [{"labelSelector": {"matchLabels": owner}}],
            "ttl": f"{pod['spec']['activeDeadlineSeconds']}s",
            "allocateOnce": True,
        },
    }


def place(body: Body) -> Placeholder:
    """How far a Reservation is, as the member shows it."""
    status, meta = mapping(body.get("status")), body["metadata"]
    told = next((c for c in rows(status.get("conditions")) if c.get("type") == "Scheduled"), {})
    refused = text(told.get("message")) or text(told.get("reason")) if told.get("status") == "False" else ""
    over = text(status.get("phase")) == "Failed"
    since = seconds(text(meta.get("creationTimestamp"))) or 0.0
    held = text(status.get("phase")) in ("Available", "Succeeded")
    return Placeholder(meta["name"], held, refused or ("it has failed" if over else ""), since, over)
