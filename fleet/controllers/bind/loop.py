"""Policies × objects → ResourceBindings: which object follows which policy, its requests, its placement rules.

A binding is derived from its object and its policy; fields of other writers (placement, eviction tasks, attempts) are
left alone. A policy that goes leaves its bindings as they are, but for the reference to it, as in Karmada: nothing
that runs stops because a person tidied up. A gang on a leaf waits in its queue, unless a policy takes it that may pass
the queue. Objects without pods need no decision, and go from here to every member that matches. Objects with pods that
are no gangs go nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from api.engine.kind import Kind
from api.loops.controller import Controller, Source
from fleet.admission.declaring import target_of
from fleet.admission.interpreters import DeclarationLoader
from fleet.admission.selecting import best_policy, policies_for, policy_reference, selects
from fleet.admission.travel import propagatable
from fleet.admission.workloads import carries_pods, kinds_in_words, may_stay_beside_gangs
from fleet.bindings import binding as b
from fleet.bindings.components import to_body
from fleet.bindings.elastic import with_ranges
from fleet.bindings.matching import candidate, duplicated_to
from fleet.bindings.names import key_of
from fleet.bindings.ownerless import in_the_way, let_go
from fleet.bindings.passing import hub_requires_queue, leaf_of_gang, why_queued
from fleet.bindings.trees import TreeReader
from fleet.controllers.bind.awaiting import tell, waiting_for, why_waits
from fleet.controllers.bind.ownerless import settle_ownerless, taken_over
from fleet.controllers.bind.spec import BindingInputs, new_binding, settle, settle_unclaimed
from fleet.controllers.cluster.taints import leaves_at
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.controllers.runtime.news import News
from fleet.core.quota.tree import QuotaTree
from fleet.kinds import Interpreter, interpreter_for
from fleet.values.ports import Body, Event, EventType, Key, StoredObject
from fleet.values.quantity import BadQuantity
from fleet.values.untyped import rows, text, whole
from fleet.wellknown import (
    ANNOTATION_JOB_GENERATION,
    ANNOTATION_POLICY,
    CLUSTER,
    CONFIG,
    HUB_CONFIG,
    NAME_TAKEN,
    POLICY,
    POLICY_FAILED,
    QUEUE_REQUIRED,
    QUOTA,
    SYSTEM_NAMESPACE,
    WORK,
)

POLICIES = ("propagationpolicies", "clusterpropagationpolicies")
OVERRIDES = ("overridepolicies", "clusteroverridepolicies")
_REFRESH = Key("", "", "", "which resources policies select")
_RETRY_S = 1.0


class BindLoop:
    """Keeps the bindings of everything that a policy selects."""

    name = "bind"

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._clusters_mark: object = None
        self._queue_rules: object = None
        self._tree = TreeReader(hub.store)
        self._interpreters = DeclarationLoader(hub.store)
        self._news = News()  # of Clusters and of the objects that policies select: their status is not read here
        self._marks: dict[Key, object] = {}  # of bindings: the state that this loop has seen
        sources = [
            *(Source(POLICY, resource, self._on_policy) for resource in POLICIES),
            *(Source(POLICY, resource, self._on_override) for resource in OVERRIDES),
            Source(WORK, "resourcebindings", self._on_binding),
            Source("scheduling.k8s.io", "priorityclasses", lambda event: self._bound(gang=True)),
            Source(CLUSTER, "clusters", self._on_cluster),
            Source("apiextensions.k8s.io", "customresourcedefinitions", lambda event: (_REFRESH,)),
            Source(QUOTA, "elasticquotatrees", self._on_queue_rules),
            Source("", "configmaps", self._on_config),
            Source(CONFIG, "workloadinterpreters", self._on_declaration),
        ]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=64)

    async def run(self) -> None:
        self.controller.queue.add(_REFRESH)
        await self.controller.run()

    # -- events and the keys that they ask for

    def _on_policy(self, event: Event) -> Iterable[Key]:
        yield _REFRESH
        yield from self._objects_of(event.stored.body)

    def _on_override(self, event: Event) -> Iterable[Key]:
        if event.type is not EventType.MODIFIED:  # the existence is what matters
            for policy in waiting_for(self._hub, event.stored.key, POLICIES):
                yield from self._objects_of(policy)

    def _objects_of(self, policy: Body) -> Iterable[Key]:
        """The objects that the policy selects now, and the objects that follow it so far."""
        selectors = rows(b.spec_of(policy).get("resourceSelectors"))
        namespace = policy["metadata"].get("namespace", "")
        kinds = [k for entry in selectors if (k := self._hub.registry.kind_of(*_named(entry))) is not None]
        for group, resource in {(kind.group, kind.resource) for kind in kinds}:
            for stored in self._hub.scan(group, resource, namespace or None):
                if selects(selectors, stored.body, namespace):
                    yield stored.key
        reference = policy_reference(policy)
        for stored in self._hub.scan(WORK, "resourcebindings"):
            if b.annotation(stored.body, ANNOTATION_POLICY) == reference:
                yield from self._object_of(stored)

    def _on_object(self, event: Event) -> Iterable[Key]:
        return (event.stored.key,) if self._news.is_new(event) else ()

    def _on_binding(self, event: Event) -> Iterable[Key]:
        """A binding that went, or that a user edited, is made right again; its status is not this loop's matter."""
        key, meta = event.stored.key, event.stored.body["metadata"]
        mark = (event.stored.uid, meta.get("generation"), b.annotation(event.stored.body, ANNOTATION_POLICY))
        if event.type is EventType.DELETED:
            self._marks.pop(key, None)
        elif self._marks.get(key) == mark:
            return ()
        else:
            self._marks[key] = mark
        return self._object_of(event.stored)

    def _on_cluster(self, event: Event) -> Iterable[Key]:
        """A member that came, went or was relabelled matters to what goes to every member; its status does not."""
        if not self._news.is_new(event):
            return ()
        mark = repr([candidate(body) for body in self._hub.bodies(CLUSTER, "clusters")])
        if mark == self._clusters_mark:
            return ()
        self._clusters_mark = mark
        return self._bound(gang=False)

    def _on_declaration(self, event: Event) -> Iterable[Key]:
        """A kind that came, changed or went: its objects are looked at again, by the new table."""
        self._interpreters.load()
        group, name = target_of(event.stored.body)
        kind = self._hub.registry.kind(group, name)
        return [stored.key for stored in self._hub.scan(kind.group, kind.resource)] if kind is not None else ()

    def _on_config(self, event: Event) -> Iterable[Key]:
        ours = (event.stored.key.namespace, event.stored.key.name) == (SYSTEM_NAMESPACE, HUB_CONFIG)
        return self._on_queue_rules(event) if ours else ()

    def _on_queue_rules(self, event: Event) -> Iterable[Key]:
        """The tree, and a choice for the whole hub, say which gangs wait in queues, even against their policies."""
        mark = (_rules_of(self._tree.read()), hub_requires_queue(self._hub.store))
        if mark == self._queue_rules:
            return ()
        self._queue_rules = mark
        return self._bound(gang=True)

    def _bound(self, *, gang: bool) -> Iterable[Key]:
        for stored in self._hub.scan(WORK, "resourcebindings"):
            if b.is_gang(stored.body) == gang:
                yield from self._object_of(stored)

    def _object_of(self, binding: StoredObject) -> Iterable[Key]:
        key = object_key(self._hub.registry, b.resource_of(binding.body))
        return (key,) if key is not None else ()

    # -- the work

    async def reconcile(self, key: Key) -> float | None:
        if key == _REFRESH:
            return self._refresh()
        return await self._bind(key)

    def _refresh(self) -> float | None:
        """Follow the resources that policies select. Asks to come again while a selected kind is not known yet."""
        sources, unknown = set(), False
        for resource in POLICIES:
            for policy in self._hub.bodies(POLICY, resource):
                for entry in rows(b.spec_of(policy).get("resourceSelectors")):
                    kind = self._hub.registry.kind_of(*_named(entry))
                    if kind is None:
                        unknown = True
                    elif propagatable(kind):
                        sources.add(Source(kind.group, kind.resource, self._on_object))
        self.controller.follow_only(sources)
        return 30.0 * _RETRY_S if unknown else None

    async def _bind(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        kind = self._hub.registry.resource(key.group, key.resource)
        if kind is None or (stored is not None and b.deleting(stored.body)):
            return None
        binding_key = key_of(self._hub.store.peek, kind.group, kind.kind, key.namespace, key.name)
        binding = self._hub.store.peek(binding_key)
        if stored is None:
            if binding is not None and let_go(binding.body) and key in self._object_of(binding):
                await settle_ownerless(self._hub, binding)
            return None
        body = stored.body
        if binding is not None and binding.body["spec"]["resource"].get("uid") != stored.uid:
            return await self._beside(stored, kind, binding)
        if binding is not None and b.deleting(binding.body):
            return None  # its deletion comes back as an event
        reference = b.annotation(binding.body, ANNOTATION_POLICY) if binding is not None else ""
        policies = policies_for(self._hub.store, kind, key, body)
        policy, interpreter = best_policy(body, policies, reference), interpreter_for(kind)
        taken_up = policy is None or (binding is not None and policy_reference(policy) == reference)
        waits = "" if taken_up or policy is None else why_waits(self._hub, policy)
        if binding is None or waits:
            await tell(self._hub, self._events, stored, interpreter if binding is None else None, waits)
        if waits and binding is None:
            return None
        if waits:  # the policy that it follows so far goes on, where it still selects it
            policy = best_policy(body, [p for p in policies if policy_reference(p) == reference], reference)
        now = self._hub.clock.now()
        if policy is None:
            if binding is not None:
                queue = self._on_a_leaf(body, binding.body)
                await self._hub.edit(binding_key, lambda found: settle_unclaimed(found, now, queue=queue))
            return None
        wrong = _not_taken(body, policy, interpreter)
        if wrong:
            await self._events.once(body, POLICY_FAILED, f"{policy_reference(policy)} {wrong}")
            if interpreter is not None or binding is None or b.is_gang(binding.body):
                return None
        return await self._follow(body, policy, interpreter, binding_key, binding)

    async def _beside(self, stored: StoredObject, kind: Kind, binding: StoredObject) -> float | None:
        """An object whose name has the binding of another one, which is gone: it leaves, is taken over, or stays with
        its copy."""
        if let_go(binding.body) and not await taken_over(self._hub, binding, stored):
            why = in_the_way(binding.body)
            await tell(self._hub, self._events, stored, interpreter_for(kind), why, NAME_TAKEN)
        return _RETRY_S

    async def _follow(
        self, body: Body, policy: Body, interpreter: Interpreter | None, key: Key, binding: StoredObject | None
    ) -> float | None:
        """Make the binding of an object that follows the policy, or mend it."""
        binding_body, now = binding.body if binding is not None else None, self._hub.clock.now()
        must = self._must_queue(body, policy, binding_body) if interpreter is not None else ""
        newly = bool(must) and (binding_body is None or not b.wants_queue(binding_body))
        if binding_body is not None and not newly and _waits_for_its_object(policy, body, binding_body):
            return None
        again = None
        if interpreter is None:
            members, again = self._members(body, policy, binding_body, now)
            inputs = BindingInputs(body, policy, gang=False, members=members)
        else:
            classes = self._hub.bodies("scheduling.k8s.io", "priorityclasses")
            inputs = wanted_of_job(body, policy, interpreter, classes, must)
        if binding is None:
            made = new_binding(body, inputs, key.namespace, key.name, now)
            if not await self._hub.create(WORK, "resourcebindings", key.namespace, made):
                return _RETRY_S
        else:
            await self._hub.edit(key, lambda stored: settle(stored, inputs, now), uid=binding.uid)
        if newly:
            placed = binding_body is not None and bool(b.clusters_of(binding_body))
            does = "runs on and is charged to its queue" if placed else "waits in its queue"
            message = (
                f"the job {does}, though {policy_reference(policy)} does not say spec.suspension.scheduling: {must}"
            )
            await self._events.record(body, QUEUE_REQUIRED, message, warning=True)
        return again

    def _must_queue(self, body: Body, policy: Body, binding: Body | None) -> str:
        """Why the gang waits in a queue although its policy does not say so, or ""."""
        hub = hub_requires_queue(self._hub.store)
        return why_queued(policy, self._tree.read(), *_charged_by(body, binding), hub=hub)

    def _on_a_leaf(self, body: Body, binding: Body) -> bool:
        tree = self._tree.read()
        if tree is None:
            return False
        return hub_requires_queue(self._hub.store) or leaf_of_gang(tree, *_charged_by(body, binding)) is not None

    def _members(
        self, body: Body, policy: Body, binding: Body | None, now: float
    ) -> tuple[tuple[str, ...], float | None]:
        """Where an object without pods goes, and the seconds after which time alone changes that."""
        placement = policy["spec"].get("placement")
        clusters = [candidate(c) for c in self._hub.bodies(CLUSTER, "clusters") if not b.deleting(c)]
        there = b.clusters_of(binding) if binding else ()
        leaving = {c.name: at for c in clusters if c.name in there and (at := leaves_at(placement, c, now)) is not None}
        staying = [name for name in there if leaving.get(name, now + 1) > now]
        everywhere = duplicated_to(placement, clusters, staying)
        if carries_pods(body):  # bound before this was looked at: its copies stay
            everywhere = [name for name in everywhere if name in staying]
        pauses = [at - now + 0.01 for at in leaving.values() if at > now]
        return tuple(everywhere), min(pauses, default=None)


def _rules_of(tree: QuotaTree | None) -> object:
    """The part of the tree that says which gangs wait in queues: limits and promises are edited often, and say nothing
    of that."""
    if tree is None:
        return None
    return [(n.path, n.name, n.children, n.namespaces, n.require_queue) for n in tree.nodes.values()]


def wanted_of_job(
    body: Body, policy: Body, interpreter: Interpreter, priority_classes: Iterable[Body], must_queue: str = ""
) -> BindingInputs:
    """The inputs that the binding of a job is derived from. `must_queue`: see BindingInputs."""
    class_name = (policy["spec"].get("schedulePriority") or {}).get("priorityClassName") or interpreter.priority_class(
        body
    )
    try:
        found = interpreter.components(body)
    except BadQuantity:
        found = ()  # decide refuses a gang without components and says why
    components = with_ranges(body, [to_body(c, interpreter.priority_class(body)) for c in found], interpreter)
    priority = _priority(class_name, priority_classes)
    return BindingInputs(
        body, policy, True, components, priority, suspended=interpreter.suspended(body), must_queue=must_queue
    )


def _priority(class_name: str, priority_classes: Iterable[Body]) -> int:
    """Of the PriorityClass, of the cluster's default when none is named, 0 when there is none."""
    for body in priority_classes:
        if body["metadata"]["name"] == class_name or (not class_name and body.get("globalDefault")):
            return whole(body.get("value"))
    return 0


def _named(reference: Body) -> tuple[str, str]:
    return text(reference.get("apiVersion")), text(reference.get("kind"))


def _not_taken(body: Body, policy: Body, interpreter: Interpreter | None) -> str:
    """Why the policy binds the object to no member, in words that follow its name; "" when it does."""
    scheduling = ((policy["spec"].get("placement") or {}).get("replicaScheduling")) or {}
    gang = scheduling.get("customSchedulingType") == "Gang"
    if interpreter is None and gang and not may_stay_beside_gangs(body["apiVersion"], body["kind"]):
        return f"is for gangs, and no WorkloadInterpreter says what pods a {body['kind']} of {body['apiVersion']} has"
    if interpreter is None:
        return f"does not take it to members, since it has pods: {kinds_in_words()}" if carries_pods(body) else ""
    if not gang:
        return "selects a job, but its placement.replicaScheduling.customSchedulingType is not Gang"
    return ""


def _waits_for_its_object(policy: Body, body: Body, binding: Body) -> bool:
    """Whether changes of a lazy policy wait until the object that follows it changes."""
    if policy["spec"].get("activationPreference") != "Lazy":
        return False
    if b.annotation(binding, ANNOTATION_POLICY) != policy_reference(policy):
        return False
    return b.annotation(binding, ANNOTATION_JOB_GENERATION) == str(body["metadata"].get("generation", 0))


def _charged_by(body: Body, binding: Body | None) -> tuple[str, dict[str, str]]:
    """The namespace and the labels that say which leaf a job is charged to: a placed one as it was admitted."""
    placed = binding is not None and bool(b.clusters_of(binding))
    return body["metadata"].get("namespace", ""), dict(b.labels_of(binding if placed and binding else body))
