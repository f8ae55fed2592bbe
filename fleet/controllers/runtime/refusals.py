"""Jobs that are not sent to their member, or not taken there, by the cause: many at once have one cause."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

from fleet.core.model.reason import Reason
from fleet.values.ports import Key

KEPT_MOST = 10_000  # jobs; the oldest refusals are forgotten first
LATELY_S = 600.0  # a job that backs off is sent again within this time
CAUSES_MOST = 5
TEXT_MOST = 300  # characters

Job = tuple[str, str, str]  # kind, namespace, name


class Refusals:
    """The latest refusal of each job, by the key of its binding, until the job is taken or goes."""

    def __init__(self) -> None:
        self._latest: OrderedDict[Key, tuple[float, Job, Reason]] = OrderedDict()

    def note(self, binding: Key, resource: Mapping[str, Any], reason: Reason, now: float) -> None:
        """`resource`: the object, as its binding names it."""
        job = (str(resource.get("kind")), str(resource.get("namespace") or ""), str(resource.get("name")))
        self._latest[binding] = (now, job, reason)
        self._latest.move_to_end(binding)
        while len(self._latest) > KEPT_MOST:
            self._latest.popitem(last=False)

    def forget(self, binding: Key) -> None:
        self._latest.pop(binding, None)

    def by_code(self) -> Counter[str]:
        """In any thread."""
        return Counter(str(reason.code) for _, _, reason in list(self._latest.values()))

    def causes(self, now: float) -> list[dict[str, Any]]:
        """Those with most jobs. One cause is one code and one message, whichever the member."""
        self._forget(now)
        jobs: Counter[tuple[str, str]] = Counter()
        newest: dict[tuple[str, str], tuple[Job, Reason]] = {}
        for _, job, reason in self._latest.values():
            cause = (str(reason.code), str(reason.numbers.get("message", "")))
            jobs[cause] += 1
            newest[cause] = (job, reason)
        told = []
        for cause, count in jobs.most_common(CAUSES_MOST):
            (kind, namespace, name), reason = newest[cause]
            first = {"kind": kind, "namespace": namespace, "name": name}
            told.append({"code": cause[0], "jobs": count, "text": reason.text[:TEXT_MOST], "first": first})
        return told

    def _forget(self, now: float) -> None:
        while self._latest and next(iter(self._latest.values()))[0] < now - LATELY_S:
            self._latest.popitem(last=False)
