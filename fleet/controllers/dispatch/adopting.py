"""Adopting an unknown copy: the hub takes what runs in a member for a job of its own, without touching it there.

The binding gets the uid that the copy and its pods name, and the number of their placement. So everything that finds
copies and pods by these marks finds them, and no label in the member has to change: pods that an operator makes later
carry the same marks. The job is made of the copy as it stands. Quota is not asked: the work runs, and is charged.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from api.engine.status import StatusError, conflict
from fleet.admission.selecting import best_policy, policies_for
from fleet.bindings import binding as b
from fleet.bindings.conditions import drop_condition
from fleet.bindings.names import key_of, names
from fleet.bindings.unit import unit_of
from fleet.controllers.bind.loop import wanted_of_job
from fleet.controllers.bind.spec import new_binding
from fleet.controllers.dispatch.domainpins import pins_on, unpinned_from
from fleet.controllers.dispatch.unknowncopies import Bindings
from fleet.controllers.fields.rooms import Driver, gang_name
from fleet.controllers.fields.starting import Way, dequeued, placed
from fleet.controllers.runtime.hub import Hub, kind_of, object_key
from fleet.kinds import Interpreter, interpreter_of
from fleet.kinds.gangs import at_once, unmarked
from fleet.kinds.gates import ungated
from fleet.kinds.pins import unpinned
from fleet.members.members import ActResult
from fleet.values.ports import Body, CommitResult, Key, Put, Write
from fleet.values.times import rfc3339_micro, seconds
from fleet.wellknown import (
    ANNOTATION_ENQUEUED,
    ATTEMPT,
    GANG_WHOLE,
    LABEL_BINDING,
    WORK,
)
from fleet.wellknown.marks import HUB_KEYS

_UID = re.compile(r"[0-9a-z][0-9a-z-]{0,62}")


class AdoptionRefusal(Exception):
    """The copy stays unknown; the text says why."""


class Adoption:
    """See the module."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def adopt(self, member: str, orphan: Body, bindings: Bindings) -> None:
        """Take the copy over. `orphan`: as the cache shows it. Raises AdoptionRefusal."""
        interpreter = interpreter_of(str(orphan.get("apiVersion")), str(orphan.get("kind")))
        if interpreter is None:
            raise AdoptionRefusal("only jobs are adopted: create the object on the hub again, and remove the copy")
        sighting = await self._hub.members.look(member, orphan)
        live_copy = sighting.body
        if (
            sighting.did is not ActResult.DONE
            or live_copy is None
            or live_copy["metadata"]["uid"] != orphan["metadata"]["uid"]
        ):
            raise AdoptionRefusal(f"the member does not show it: {sighting.message or sighting.did}")
        uid, attempt = b.labels_of(live_copy).get(LABEL_BINDING, ""), b.attempt_of_copy(live_copy)
        if not _UID.fullmatch(uid) or attempt < 1 or b.deleting(live_copy):
            raise AdoptionRefusal("it does not carry the marks of a copy of this hub, or is being deleted")
        try:
            writes = self._writes(member, live_copy, interpreter, bindings, uid, attempt)
            outcome = await self._hub.commit(writes)
        except StatusError as error:
            raise AdoptionRefusal(error.message) from error
        if not isinstance(outcome, CommitResult):
            raise AdoptionRefusal("its job changed meanwhile: try again")

    def _writes(
        self, member: str, live_copy: Body, interpreter: Interpreter, bindings: Bindings, uid: str, attempt: int
    ) -> list[Write]:
        job, way = job_of(live_copy, interpreter)
        place = partial(_placed_at, member=member, attempt=attempt, way=way, now=self._hub.clock.now())
        if uid in bindings:
            return self._taken_over(bindings[uid], place, member, attempt)
        return self._new(place, live_copy, job, interpreter, uid)

    def _taken_over(
        self, known: tuple[Key, Body], place: Callable[[Body], Body], member: str, attempt: int
    ) -> list[Write]:
        """The job is on the hub still, in an earlier state: it waits, or is placed as it was before."""
        key, binding = known
        now, hub = self._hub.clock.now(), self._hub
        if b.deleting(binding) or b.tasks_of(binding):
            raise AdoptionRefusal("its job on the hub is leaving a member: wait until it has left")
        if b.suspended(binding):
            raise AdoptionRefusal("its job on the hub is suspended: resume it, or remove the copy")
        writes = [hub.change(key, place, uid=binding["metadata"]["uid"])]
        unit = unit_of(hub.store.peek, key, binding["metadata"]["uid"])
        if unit is not None:
            writes.append(
                hub.change(unit.key, lambda body: dequeued(body, binding, member, attempt, now), uid=unit.uid)
            )
        return writes

    def _new(
        self, place: Callable[[Body], Body], live_copy: Body, job: Body, interpreter: Interpreter, uid: str
    ) -> list[Write]:
        """The job is not on the hub: it and its binding are made, in one commit."""
        hub, now, namespace = self._hub, self._hub.clock.now(), str(job["metadata"].get("namespace") or "")
        kind, key = kind_of(hub.registry, job), object_key(hub.registry, {**job, **job["metadata"]})
        if kind is None or key is None:
            raise AdoptionRefusal(f"the hub has no kind {job['kind']}")
        bound = key_of(hub.store.peek, kind.group, kind.kind, namespace, key.name)
        if hub.store.peek(key) is not None or hub.store.peek(bound) is not None:
            raise AdoptionRefusal("the hub has another job of this name: delete one of the two")
        if hub.peek("", "namespaces", "", namespace) is None:
            raise AdoptionRefusal(f'the hub has no namespace "{namespace}": create it')
        policy = best_policy(job, policies_for(hub.store, kind, key, job))
        if policy is None:
            raise AdoptionRefusal("no policy selects it: apply the policy that it followed")
        create = hub.objects.prepare_new(kind, namespace, job, hub.options)
        classes = hub.bodies("scheduling.k8s.io", "priorityclasses")
        wanted = wanted_of_job(create.body, policy, interpreter, classes)
        binding = new_binding(create.body, wanted, namespace, bound.name, now)
        began = seconds(live_copy["metadata"].get("creationTimestamp")) or now
        binding["metadata"]["annotations"][ANNOTATION_ENQUEUED] = rfc3339_micro(min(began, now))
        made = hub.new(WORK, "resourcebindings", namespace, place(binding))
        assert isinstance(made, Put)
        body = {**made.body, "metadata": {**made.body["metadata"], "uid": uid}}
        return [create, replace(made, body=body)]


def _placed_at(binding: Body, *, member: str, attempt: int, way: Way, now: float) -> Body:
    """The binding, in the member for just this attempt."""
    if b.tasks_of(binding):
        raise conflict(WORK, "resourcebindings", binding["metadata"]["name"])
    binding["spec"].pop("clusters", None)
    placed(binding, member, now, way)
    binding["metadata"]["annotations"][ATTEMPT] = str(attempt)
    drop_condition(binding, GANG_WHOLE)
    return binding


def job_of(member_copy: Body, interpreter: Interpreter) -> tuple[Body, Way]:
    """The job as the hub sends it, made of a copy of it in a member, and how it went member_copy."""
    sent = copy.deepcopy(member_copy)
    gangs = names(interpreter.group, interpreter.kind, str(member_copy["metadata"]["name"]))
    marks = (unmarked(at_once(interpreter, sent), gang_name({"metadata": {"name": name}})) for name in gangs)
    gang = next(filter(None, marks), "")
    job = copy.deepcopy(interpreter.stamp(sent, {}, {}))
    templates = [template for template in interpreter.templates(job) if template.own]
    domain, room, pins = "", "", pins_on(member_copy).pins
    for template in templates:
        room = Driver.PLACEHOLDERS if ungated(template.template) else room
        domain = unpinned(template.template) or domain
        unpinned_from(template.template, template.name, pins)
    _drop_marks(job["spec"])
    return job, Way(domain, room, gang)


def _drop_marks(part: object) -> None:
    """Take the hub's own keys away, in place, wherever the kind keeps labels of its pods."""
    if isinstance(part, dict):
        for key in HUB_KEYS.intersection(part):
            del part[key]
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _drop_marks(inner)
