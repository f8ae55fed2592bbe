"""The fold: the life of one job so far, and one event → its life after that. Pure.

A `JobLife` is the rows of one job (models.py) as one value. The recorder reads it from the tables, folds the events of
the log into it in order, and writes it back, so that no state is kept anywhere else.

An event says what stands in the object after the change. `JobObservation.listed` marks an object that was found in a
list instead: then the object's own times count, in whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleet.accounts.run import AttemptOutcome, AttemptRun, begun, resized, restarted, with_end
from fleet.bindings import binding as b
from fleet.bindings.components import components_of
from fleet.bindings.conditions import condition, is_true
from fleet.bindings.unit import BACKING_OFF, RESERVED, active, in_queue, phase_of, priority_of, queue_of, reason_of
from fleet.core.model.amounts import gpus_in
from fleet.core.model.reason import Code
from fleet.core.model.unit import Component
from fleet.kinds import JobState, interpreter_of, word_of
from fleet.values.ports import Body
from fleet.values.quantity import BadQuantity
from fleet.values.times import seconds
from fleet.values.untyped import text
from fleet.wellknown import ANNOTATION_CHECKPOINT, ANNOTATION_CREATOR, GANG_WHOLE, NO_POLICY, SCHEDULED

UNDECIDED = "Undecided"  # a wait for which no reason has been given: the hub has not looked at the job yet
TAKEN_S = 5.0  # a policy that takes a job within this time has not let it wait
MESSAGE_MAX = 500
INTEGER_MAX = 2**31 - 1  # of a column
DELETED, GONE_UNSEEN = "Deleted", "NotRecorded"


@dataclass(frozen=True, slots=True)
class JobLife:
    """The rows of one job. Times are epoch seconds. `waits`: seconds by reason, of spells that are over; `spell`: the
    reason that it waits by now, and since when; `run`: its latest attempt; `earlier`: those before it that have changed
    and are not written yet. `first_member`, `first_models`: as they were written last; `first_start` tells them."""

    uid: str
    submitted: float
    namespace: str
    name: str
    kind: str
    user: str | None = None
    queue: str | None = None
    priority: int = 0
    gpus: int = 0
    pods: int = 0
    state: str = "Queued"
    why: str | None = None
    message: str | None = None
    started: float | None = None
    first_member: str | None = None
    first_models: Sequence[str] | None = None
    ended: float | None = None
    attempts: int = 0
    evictions: int = 0
    lost_gpu_s: float = 0.0
    waits: Mapping[str, float] = field(default_factory=dict)
    spell: tuple[str, float] | None = None
    run: AttemptRun | None = None
    earlier: tuple[AttemptRun, ...] = ()

    @property
    def over(self) -> bool:
        """Nothing of it goes on."""
        return self.ended is not None and (self.run is None or self.run.ended is not None)

    @property
    def first_start(self) -> tuple[str | None, Sequence[str] | None]:
        """Member and GPU models of the attempt that was the first to start. The models may become known later."""
        for run in (*self.earlier, self.run):
            if run is not None and run.started is not None and run.started == self.started:
                return run.member, sorted(part.model for part in run.parts)
        return self.first_member, self.first_models


@dataclass(frozen=True, slots=True)
class JobObservation:
    """One event: the object after it, and when. `models`: GPUs by model where its pods are, as far as they are known
    (of a binding)."""

    body: Body
    at: float
    is_deleted: bool = False
    listed: bool = False
    models: Mapping[str, int] = field(default_factory=dict)


def job_seen(life: JobLife | None, event: JobObservation) -> JobLife:
    """The job itself was created, changed or deleted."""
    metadata = event.body["metadata"]
    if life is None:
        submitted = seconds(text(metadata.get("creationTimestamp"))) or event.at
        life = JobLife(
            uid=metadata["uid"],
            submitted=submitted,
            namespace=text(metadata.get("namespace")),
            name=metadata["name"],
            kind=word_of(event.body),
            user=_user(event.body),
            spell=(NO_POLICY, submitted),
        )
    if life.run is None or life.run.ended is not None:
        life = _sized(life, _asked(event.body))
    if not event.is_deleted or life.ended is not None:
        return life
    return replace(_closed(life, event.at), state=DELETED, why=DELETED, ended=event.at)


def binding_seen(life: JobLife | None, event: JobObservation) -> JobLife:
    """The job's ResourceBinding was made, changed or removed."""
    binding = event.body
    life = life if life is not None else _of_binding(binding, event)
    life = _settled(_placed(_sized(life, _admitted(binding)), event), event)
    until = life.run.placed if event.listed and life.run is not None else event.at
    outcome = b.outcome_of(binding)
    if event.is_deleted or life.state == DELETED:
        return _closed(life, until)
    if outcome:
        return _finished(_closed(life, until), event, outcome)
    life = replace(life, ended=None, why=None, message=None)
    if b.clusters_of(binding):
        running = life.run is not None and life.run.started is not None
        return replace(_closed(life, until), state="Running" if running else "Placed")
    return _waiting(replace(life, state="Evicting" if b.tasks_of(binding) else "Queued"), event)


def _waiting(life: JobLife, event: JobObservation) -> JobLife:
    """A unit tells why a job waits in its queue; outside of queues the binding tells it itself."""
    if life.spell is None:
        life = replace(life, spell=(UNDECIDED, event.at))
    elif life.spell[0] == NO_POLICY:  # a policy has taken it
        at_once = event.listed or event.at - life.spell[1] < TAKEN_S
        life = replace(life, spell=(UNDECIDED, life.spell[1])) if at_once else _respelt(life, UNDECIDED, event)
    if b.queued(event.body):
        return life
    told = condition(event.body, SCHEDULED) or {}
    return _respelt(life, text(told.get("reason")), event) if told.get("status") == "False" else life


def unit_seen(life: JobLife, event: JobObservation, paths: Mapping[str, str]) -> JobLife:
    """The job's QueueUnit was made, changed or removed. `paths`: of the quota tree, by name of the Queue."""
    queue = queue_of(event.body)
    life = replace(life, queue=paths.get(queue, queue) or None, priority=_priority(event.body, life.priority))
    return life if event.is_deleted else _respelt(life, _reason(event.body), event)


def vanished(life: JobLife, at: float) -> JobLife:
    """Its objects went while nothing was recorded; `at`: up to when it is known."""
    run = life.run
    if run is not None and run.ended is None:
        life = replace(life, run=with_end(run, at, AttemptOutcome.UNSEEN))
    if life.ended is None:
        life = replace(_closed(life, at), state=DELETED, why=GONE_UNSEEN, ended=at)
    return _closed(life, at)


def _reason(unit: Body) -> str:
    """The code by which a unit waits; "" where none is said."""
    if phase_of(unit) == RESERVED:
        return str(Code.ADMISSION_CHECKS)
    if not in_queue(unit):
        return ""
    if not active(unit):
        return str(Code.HELD)
    return text(reason_of(unit).get("code")) or (str(Code.BACK_OFF) if phase_of(unit) == BACKING_OFF else "")


def _of_binding(binding: Body, event: JobObservation) -> JobLife:
    """Of a job whose own events the log does not have any more."""
    resource = b.resource_of(binding)
    submitted = seconds(text(binding["metadata"].get("creationTimestamp"))) or event.at
    return JobLife(
        uid=text(resource.get("uid")),
        submitted=submitted,
        namespace=text(resource.get("namespace")),
        name=text(resource.get("name")),
        kind=word_of(resource),
        user=_user(binding),
        spell=(UNDECIDED, submitted),
    )


def _placed(life: JobLife, event: JobObservation) -> JobLife:
    """The latest attempt as the binding shows it, not yet ended."""
    binding, run, number = event.body, life.run, b.attempt(event.body)
    members = b.clusters_of(binding)
    if not members:
        return life
    if run is None or run.number < number:
        life = _given_way(life, event) if run is not None else life
        run = begun(number, _time(b.placed_at(binding), event), members[0], life.gpus)
        life = replace(life, attempts=max(life.attempts, number))
    if run.number != number:
        return life
    if run.ended is not None and not b.finished(binding):
        run = restarted(run, event.at)
    if run.ended is None:
        run = resized(run, event.at, life.gpus, event.models)
    if run.started is None and (is_true(binding, GANG_WHOLE) or _runs(binding)):
        told = condition(binding, GANG_WHOLE) or {}
        since = _time(text(told.get("lastTransitionTime")), event)
        run = replace(run, started=since, counted=since)
    return replace(life, run=run, started=life.started if life.started is not None else run.started)


def _given_way(life: JobLife, event: JobObservation) -> JobLife:
    """The attempt before a new one: where it failed, its work is done again."""
    run = life.run
    assert run is not None
    if run.ended is None:  # its end was not recorded
        run = with_end(run, event.at, AttemptOutcome.UNSEEN)
    again = run.gpu_s if run.outcome == AttemptOutcome.FAILED else 0.0
    return replace(life, earlier=(*life.earlier, run), lost_gpu_s=life.lost_gpu_s + again)


def _settled(life: JobLife, event: JobObservation) -> JobLife:
    """The end of the attempt, where this is it: its job is over, or nothing of it is in its member any more."""
    binding, run = event.body, life.run
    if run is None or run.ended is not None:
        return life
    tasks, outcome, placed = b.tasks_of(binding), b.outcome_of(binding), bool(b.clusters_of(binding))
    if outcome and placed:
        told = condition(binding, b.FINISHED) or {}
        return replace(
            life, run=with_end(run, _time(text(told.get("lastTransitionTime")), event), AttemptOutcome(outcome))
        )
    if tasks and not placed and run.why is None:
        run = replace(run, why=text(tasks[0].get("reason")) or str(AttemptOutcome.EVICTED))
    if (placed or tasks) and not event.is_deleted:
        return replace(life, run=run)
    how = AttemptOutcome.WITHDRAWN if run.started is None else AttemptOutcome.EVICTED
    run = with_end(run, event.at, AttemptOutcome.DELETED if event.is_deleted and run.why is None else how)
    if run.outcome != AttemptOutcome.EVICTED:
        return replace(life, run=run)
    saved = seconds(b.annotation(binding, ANNOTATION_CHECKPOINT)) or 0.0
    return replace(life, run=run, evictions=life.evictions + 1, lost_gpu_s=life.lost_gpu_s + run.since(saved))


def _finished(life: JobLife, event: JobObservation, outcome: str) -> JobLife:
    entry = condition(event.body, b.FINISHED) or {}
    return replace(
        life,
        state=outcome,
        ended=life.ended or _time(text(entry.get("lastTransitionTime")), event),
        why="JobFailed" if outcome == AttemptOutcome.FAILED else None,
        message=_kept(text(entry.get("message")))[:MESSAGE_MAX] or None,
    )


def _respelt(life: JobLife, reason: str, event: JobObservation) -> JobLife:
    """A job that waits does so by this reason from now on; of an object in a list, since it began."""
    if life.spell is None or reason in ("", life.spell[0]):
        return life
    if event.listed and life.spell[0] == UNDECIDED:
        return replace(life, spell=(reason, life.spell[1]))
    return replace(_closed(life, event.at), spell=(reason, event.at))


def _closed(life: JobLife, at: float) -> JobLife:
    """The spell of waiting is over."""
    if life.spell is None:
        return life
    reason, since = life.spell
    return replace(life, waits={**life.waits, reason: life.waits.get(reason, 0.0) + max(0.0, at - since)}, spell=None)


def _runs(binding: Body) -> bool:
    resource = b.resource_of(binding)
    interpreter = interpreter_of(text(resource.get("apiVersion")), text(resource.get("kind")))
    shown = next((copy.get("status") for copy in b.copies_of(binding)), None)
    return interpreter is not None and bool(shown) and interpreter.state(shown).state is JobState.RUNNING


def _time(said: str, event: JobObservation) -> float:
    """When it happened: the event's time, which is exact; of an object in a list, what the object says."""
    return (seconds(said) or event.at) if event.listed else event.at


def _sized(life: JobLife, components: tuple[Component, ...]) -> JobLife:
    gpus = sum(gpus_in(part.requests) * part.replicas for part in components)
    pods = sum(part.replicas for part in components)
    return replace(life, gpus=min(gpus, INTEGER_MAX), pods=min(pods, INTEGER_MAX)) if components else life


def _user(body: Body) -> str | None:
    return _kept(b.annotation(body, ANNOTATION_CREATOR)) or None


def _priority(unit: Body, otherwise: int) -> int:
    """A priority that is no number costs itself alone."""
    try:
        return max(-INTEGER_MAX, min(priority_of(unit, {"metadata": {}}), INTEGER_MAX))
    except ValueError:
        return otherwise


def _kept(said: str) -> str:
    """A text as PostgreSQL takes it."""
    return said.replace("\x00", "")


def _asked(job: Body) -> tuple[Component, ...]:
    interpreter = interpreter_of(text(job.get("apiVersion")), text(job.get("kind")))
    try:
        return tuple(interpreter.components(job)) if interpreter is not None else ()
    except BadQuantity:
        return ()


def _admitted(binding: Body) -> tuple[Component, ...]:
    try:
        return components_of(binding)
    except BadQuantity:
        return ()
