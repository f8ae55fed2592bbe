"""Jobs that start after others: the loop notes on each binding which of the named jobs are over.

A user names the jobs in an annotation (fleet/bindings/after.py). `decide` keeps a binding waiting until all of them are
met. A job is judged by the binding that has its name now. Where none has the name any more, a job that has been there
counts as over, and not as succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.after import (
    ANY,
    OK,
    After,
    AfterProgress,
    circle,
    entries,
    entries_text,
    open_entries,
    progress,
    waits_for_itself,
)
from fleet.bindings.faults import moves_again
from fleet.bindings.names import binding_of, group_of
from fleet.controllers.runtime.hub import Hub
from fleet.kinds import INTERPRETERS, word_of
from fleet.values.ports import Body, Event, EventType, Key
from fleet.values.untyped import text
from fleet.wellknown import ANNOTATION_AFTER, ANNOTATION_AFTER_SEEN, WORK

_Job = tuple[str, str]  # namespace, name


class AfterLoop:
    """A Loop."""

    name = "after"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._awaited_jobs: dict[Key, frozenset[_Job]] = {}  # the jobs that a binding waits for
        self._waiting: dict[_Job, set[Key]] = {}  # the bindings that wait for a job
        sources = [Source(WORK, "resourcebindings", self._on_binding)]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=4)

    async def run(self) -> None:
        await self.controller.run()

    def _on_binding(self, event: Event) -> Iterable[Key]:
        """The binding itself, and those that wait for its job."""
        key, body = event.stored.key, event.stored.body
        is_deleted = event.type is EventType.DELETED
        jobs = frozenset() if is_deleted else frozenset((key.namespace, one.name) for one in entries(body))
        for job in self._awaited_jobs.pop(key, frozenset()) - jobs:
            self._waiting[job].discard(key)
            if not self._waiting[job]:
                del self._waiting[job]
        if jobs:
            self._awaited_jobs[key] = jobs
            for job in jobs:
                self._waiting.setdefault(job, set()).add(key)
        mine = not is_deleted and (jobs or b.annotation(body, ANNOTATION_AFTER_SEEN))
        others = self._waiting.get((key.namespace, text(b.resource_of(body).get("name"))), ())
        return (*((key,) if mine else ()), *others)

    async def reconcile(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        if stored is None or b.deleting(stored.body):
            return None
        every = entries(stored.body)
        others = {one: self._bindings(key, one) for one in every}
        around = circle(key, self._behind) if every else []
        jobs = [_job(binding) for one in reversed(around) if (binding := self._binding(one)) is not None]
        itself = waits_for_itself(jobs) if jobs else ""
        await self._hub.edit(key, lambda binding: _noted(binding, others, itself), uid=stored.uid)
        return None

    def _behind(self, key: Key) -> list[Key]:
        """The bindings that wait for the job of a binding."""
        found = self._binding(key)
        if found is None or b.clusters_of(found) or b.finished(found):
            return []
        resource = b.resource_of(found)
        group, kind, name = group_of(found), text(resource.get("kind")), text(resource.get("name"))
        waiting = ((one, self._binding(one)) for one in sorted(self._waiting.get((key.namespace, name), ()), key=str))
        return [
            one
            for one, body in waiting
            if body is not None and any(entry.name == name and entry.takes(group, kind) for entry in open_entries(body))
        ]

    def _binding(self, key: Key) -> Body | None:
        return self._hub.peek(key.group, key.resource, key.namespace, key.name)

    def _bindings(self, key: Key, one: After) -> list[Body]:
        """Of the jobs with this name; of its kind alone, where one is said."""
        kinds = [target for target in sorted(INTERPRETERS) if one.takes(*target)]
        found = [binding_of(self._hub.store.peek, *target, key.namespace, one.name) for target in kinds]
        return [stored.body for stored in found if stored is not None and stored.key.name != key.name]


def _job(binding: Body) -> tuple[str, str]:
    resource = b.resource_of(binding)
    return word_of(resource), text(resource.get("name"))


def _noted(binding: Body, others: Mapping[After, Sequence[Body]], itself: str) -> bool:
    """Write down how the named jobs stand, in place; False when it is written already."""
    annotations = binding["metadata"].setdefault("annotations", {})
    if not annotations.get(ANNOTATION_AFTER):
        return annotations.pop(ANNOTATION_AFTER_SEEN, None) is not None
    before, note = annotations.get(ANNOTATION_AFTER_SEEN), str(judged(progress(binding), others, itself))
    annotations[ANNOTATION_AFTER_SEEN] = note
    return bool(before != note)


def judged(before: AfterProgress, by_job: Mapping[After, Sequence[Body]], itself: str = "") -> AfterProgress:
    """How the named jobs stand now. `by_job`: each with the bindings of its name. `itself`: why the job waits for
    itself, where it does."""
    met, still, missing, never = list[str](), list[After](), list[str](), list[str]()
    for after, bindings in by_job.items():
        is_gone = not bindings and after.job in before.jobs
        over = all(_met(after, binding) for binding in bindings) if bindings else is_gone and after.outcome == ANY
        if over or str(after) in before.met:
            met.append(str(after))
            continue
        still.append(after)
        never += [f"{after.job} was deleted before it had succeeded"] if is_gone else []
        never += [why for binding in bindings if (why := _never(after, binding))]
        missing += [after.job] if not bindings and not is_gone else []
    jobs = dict.fromkeys(after.job for after, bindings in by_job.items() if bindings or after.job in before.jobs)
    absent = f"; no job {', '.join(missing[:3])} is there yet" if missing else ""
    return AfterProgress(tuple(met), tuple(jobs), entries_text(still) + absent, itself or (never[0] if never else ""))


def _met(one: After, binding: Body) -> bool:
    outcome = b.outcome_of(binding)
    over = outcome == "Succeeded" or (outcome == "Failed" and not moves_again(binding))
    return over and (one.outcome == ANY or outcome == "Succeeded")


def _never(one: After, binding: Body) -> str:
    """Why the job will never have succeeded; "" where it may."""
    if one.outcome == OK and b.outcome_of(binding) == "Failed" and not moves_again(binding):
        return f"{one.job} has failed"
    return f"{one.job} never starts" if one.outcome == OK and progress(binding).never else ""
