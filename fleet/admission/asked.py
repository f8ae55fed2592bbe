"""The wishes of people in annotations and labels of a job or a policy: a value without a meaning is refused.

Read on, an unknown word would count as not being there: a job under a hold would start, and a job that must not be
preempted would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fleet.admission.causes import invalid
from fleet.bindings.notice import NOTICE_MAX_S
from fleet.engine.status import Cause
from fleet.model.times import seconds
from fleet.model.untyped import digits
from fleet.ports import Body
from fleet.wellknown import (
    ANNOTATION_BACKOFF_LIMIT,
    ANNOTATION_CHECKPOINT,
    ANNOTATION_FORCE_DELETE,
    ANNOTATION_HOLD,
    ANNOTATION_MIN_REPLICAS,
    ANNOTATION_NOTICE,
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
    ANNOTATION_MIN_REPLICAS: (_counts, "must be a whole number of replicas, at least 1"),
}
_LABELS: _Wanted = dict.fromkeys(PREEMPTIBLE_LABELS, (_yes_or_no, _YES_OR_NO))


def asked_of_policy(body: Body) -> Sequence[Cause]:
    """A check of one policy."""
    return _wrong(body, "annotations", _OF_BOTH)


def asked_of_job(body: Body) -> Sequence[Cause]:
    """A check of one job."""
    return [*_wrong(body, "annotations", {**_OF_BOTH, **_OF_JOBS}), *_wrong(body, "labels", _LABELS)]


def _wrong(body: Body, where: str, wanted: _Wanted) -> list[Cause]:
    given = body["metadata"].get(where) or {}
    return [
        invalid(f"metadata.{where}[{name}]", given[name], why)
        for name, (means_something, why) in wanted.items()
        if name in given and not means_something(given[name])
    ]
