"""The wishes of people in annotations and labels of a job or a policy: a value without a meaning is refused.

Read on, an unknown word would count as not being there: a job under a hold would start, and a job that must not be
preempted would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from api.admission.causes import invalid
from api.engine.status import Cause
from fleet.bindings import after
from fleet.bindings.notice import NOTICE_MAX_S
from fleet.core.model.notificationevent import receivers_of
from fleet.values.ports import Body
from fleet.values.times import seconds
from fleet.values.untyped import digits, mapping, text
from fleet.wellknown import (
    ANNOTATION_AFTER,
    ANNOTATION_AT_MOST,
    ANNOTATION_BACKOFF_LIMIT,
    ANNOTATION_CHECKPOINT,
    ANNOTATION_FORCE_DELETE,
    ANNOTATION_HOLD,
    ANNOTATION_MIN_REPLICAS,
    ANNOTATION_NOTICE,
    ANNOTATION_NOTIFY,
    PREEMPTIBLE_LABELS,
)

_DIGITS_MAX = 9
_YES_OR_NO = 'must be "true" or "false"'


def _whole(text: str) -> bool:
    return digits(text, _DIGITS_MAX) is not None


def _counts(text: str) -> bool:
    return bool(digits(text, _DIGITS_MAX))


def _notice(text: str) -> bool:
    said = digits(text, _DIGITS_MAX)
    return said is not None and said <= NOTICE_MAX_S


def _yes_or_no(text: str) -> bool:
    return text.lower() in ("true", "false")


_Wanted = Mapping[str, tuple[Callable[[str], bool], str]]
_OF_BOTH: _Wanted = {
    ANNOTATION_BACKOFF_LIMIT: (_whole, "must be a whole number of attempts; 0 for any number"),
    ANNOTATION_FORCE_DELETE: (_whole, "must be a whole number of seconds"),
    ANNOTATION_NOTICE: (_notice, f"must be a whole number of seconds, at most {NOTICE_MAX_S}"),
}
_OF_JOBS: _Wanted = {
    ANNOTATION_HOLD: (lambda text: text in ("true", "false"), _YES_OR_NO),
    ANNOTATION_CHECKPOINT: (lambda text: seconds(text) is not None, "must be a time such as 2026-11-21T13:55:00Z"),
    ANNOTATION_AT_MOST: (_counts, "must be a whole number of jobs, at least 1"),
    ANNOTATION_MIN_REPLICAS: (_counts, "must be a whole number of replicas, at least 1"),
}
_LABELS: _Wanted = dict.fromkeys(PREEMPTIBLE_LABELS, (_yes_or_no, _YES_OR_NO))


def asked_of_policy(body: Body) -> Sequence[Cause]:
    """A check of one policy."""
    return _wrong(body, "annotations", _OF_BOTH)


def asked_of_job(body: Body) -> Sequence[Cause]:
    """A check of one job."""
    annotations, labels = _wrong(body, "annotations", {**_OF_BOTH, **_OF_JOBS}), _wrong(body, "labels", _LABELS)
    return [*annotations, *_behind(body), *_told(body), *labels]


def _told(body: Body) -> Sequence[Cause]:
    """The faults of the list of receivers that are told of the job."""
    value = mapping(body["metadata"].get("annotations")).get(ANNOTATION_NOTIFY)
    if value is None:
        return ()
    try:
        receivers_of(text(value))
    except ValueError as error:
        return [invalid(f"metadata.annotations[{ANNOTATION_NOTIFY}]", value, str(error))]
    return ()


def _behind(body: Body) -> Sequence[Cause]:
    """The faults of the list of jobs after which this one starts."""
    value = mapping(body["metadata"].get("annotations")).get(ANNOTATION_AFTER)
    if value is None:
        return ()
    me = {text(body["metadata"].get("name")), f"{body['kind']}/{body['metadata'].get('name')}"}
    try:
        mine = [one.job for one in after.read(text(value)) if one.job in me]
        why = "a job cannot start after itself" if mine else ""
    except ValueError as error:
        why = str(error)
    return [invalid(f"metadata.annotations[{ANNOTATION_AFTER}]", value, why)] if why else []


def _wrong(body: Body, where: str, wanted: _Wanted) -> list[Cause]:
    given = body["metadata"].get(where) or {}
    return [
        invalid(f"metadata.{where}[{name}]", given[name], why)
        for name, (means_something, why) in wanted.items()
        if name in given and not means_something(given[name])
    ]
