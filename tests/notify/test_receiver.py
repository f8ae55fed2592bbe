"""Which receivers are told of which jobs."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.core.model.notificationevent import NotificationEvent, receivers_of
from fleet.notify.receiver import asks_for, lasting, receiver_of

Body = dict[str, Any]


def receiver(namespace: str = "vision", **spec: Any) -> Body:
    way = {} if "smtp" in spec else {"webhook": {"url": "https://chat.example/hook"}}
    return {"metadata": {"namespace": namespace, "name": "chat"}, "spec": {**way, **spec}}


def job(namespace: str = "vision", notify: str = "", **labels: str) -> Body:
    annotations = {"fleet.io/notify": notify} if notify else {}
    return {"metadata": {"namespace": namespace, "name": "train", "labels": labels, "annotations": annotations}}


TEAM = {"matchLabels": {"team": "a"}}


@pytest.mark.parametrize(
    ("case", "of", "told", "about", "expected"),
    [
        ("no selector, not named", receiver(), NotificationEvent.FAILED, job(), False),
        ("named by the job", receiver(), NotificationEvent.FAILED, job(notify="chat"), True),
        ("another is named", receiver(), NotificationEvent.FAILED, job(notify="mail"), False),
        ("named, an event that neither asks for", receiver(), NotificationEvent.STARTED, job(notify="chat"), False),
        (
            "named with events of the job's own",
            receiver(),
            NotificationEvent.STARTED,
            job(notify="chat=Started+Failed"),
            True,
        ),
        ("named with other events", receiver(), NotificationEvent.SUCCEEDED, job(notify="chat=Started"), False),
        ("every job of the namespace", receiver(selector={}), NotificationEvent.EVICTED, job(), True),
        ("a job of another namespace", receiver(selector={}), NotificationEvent.EVICTED, job("speech"), False),
        ("the labels match", receiver(selector=TEAM), NotificationEvent.FAILED, job(team="a"), True),
        ("the labels do not match", receiver(selector=TEAM), NotificationEvent.FAILED, job(team="b"), False),
        (
            "events of the receiver's own",
            receiver(selector={}, events=["Started"]),
            NotificationEvent.FAILED,
            job(),
            False,
        ),
        ("a long wait", receiver(selector={}, waitsLongerThan="2h"), NotificationEvent.WAITS_LONG, job(), True),
        ("a long wait that nobody asks for", receiver(selector={}), NotificationEvent.WAITS_LONG, job(), False),
        (
            "of the system, all namespaces",
            receiver("fleet-system", selector={}, allNamespaces=True),
            NotificationEvent.FAILED,
            job("speech"),
            True,
        ),
        (
            "of the system, its own namespace",
            receiver("fleet-system", selector={}),
            NotificationEvent.FAILED,
            job("speech"),
            False,
        ),
        (
            "of the system, named by the job",
            receiver("fleet-system"),
            NotificationEvent.FAILED,
            job("speech", "chat"),
            True,
        ),
        (
            "all namespaces, outside of the system",
            receiver(selector={}, allNamespaces=True),
            NotificationEvent.FAILED,
            job("speech"),
            False,
        ),
        (
            "an annotation from before it was checked",
            receiver(selector={}),
            NotificationEvent.FAILED,
            job(notify="?="),
            True,
        ),
    ],
)
def test_a_receiver_is_told_of_what_it_or_the_job_asks_for(
    case: str, of: Body, told: NotificationEvent, about: Body, expected: bool
) -> None:
    assert asks_for(receiver_of(of), told, about) is expected, case


def test_a_job_names_receivers_and_events() -> None:
    assert receivers_of("chat=Started + Failed, mail") == {
        "chat": frozenset({NotificationEvent.STARTED, NotificationEvent.FAILED}),
        "mail": None,
    }


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        ("", '"" is no NAME'),
        ("Chat", '"Chat" is no NAME'),
        ("chat=", '"chat=" is no NAME'),
        ("chat=Begun", '"Begun" is none of Started, Succeeded, Failed, Evicted, WaitsLong'),
        (",".join(f"r{number}" for number in range(11)), "11 receivers, at most 10"),
    ],
)
def test_a_list_of_receivers_that_means_nothing_is_refused(annotation: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        receivers_of(annotation)


@pytest.mark.parametrize(("said", "seconds"), [("90m", 5400.0), ("2h", 7200.0), ("1d", 86400.0), ("2", None)])
def test_durations(said: str, seconds: float | None) -> None:
    assert lasting(said) == seconds
