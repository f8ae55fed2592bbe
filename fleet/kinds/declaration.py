"""A declaration of a kind (the spec of a WorkloadInterpreter) as values, read once, with every flaw named by its field.

The same reading serves the files that Fleet ships (declared/*.yaml), the objects of users, and admission.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.kinds.expressions import KindExpression
from fleet.kinds.interpreter import JobState, PodLabels
from fleet.kinds.paths import is_path, parsed
from fleet.values.cel.tree import BadExpression
from fleet.values.untyped import mapping, rows, text, texts

DEPENDENCY_KINDS = ("ConfigMap", "PersistentVolumeClaim", "Secret", "Service", "ServiceAccount")
STATES = tuple(str(state) for state in JobState if state is not JobState.UNKNOWN)
CONDITION_FIELDS = ("type", "status", "reason", "message", "lastTransitionTime")
_OBJECT, _STATUS = ("object",), ("status",)
_FIXED, _RANGE = ("object",), ("object", "item", "key", "index")

NO_LABELS = PodLabels()

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeclarationPath:
    """A path of a declaration. `root`: object, item or status."""

    root: str
    steps: Keys


@dataclass(frozen=True, slots=True)
class PodsFrom:
    """The pods of a component, made of fields that are no pod template. `labels`: where their labels stand, if
    anywhere. `sized`: the annotation fleet.io/size says how many, and their requests, and goes before the rest."""

    labels: DeclarationPath | None = None
    resources: KindExpression | None = None
    requests: tuple[tuple[str, KindExpression], ...] = ()
    fields: tuple[tuple[str, KindExpression], ...] = ()  # of the pod spec
    sized: bool = False


@dataclass(frozen=True, slots=True)
class ComponentRule:
    """One component, or with `each` one for every entry of a list or a map."""

    name: str
    each: DeclarationPath | None = None
    name_from: KindExpression | None = None
    order: Mapping[str, int] = field(default_factory=dict)
    when: KindExpression | None = None
    replicas: KindExpression | None = None
    at_most: KindExpression | None = None
    minimum: KindExpression | None = None
    maximum: KindExpression | None = None
    count: DeclarationPath | None = None  # the field that says how many replicas it has
    per: KindExpression | None = None  # pods of each replica
    template: DeclarationPath | None = None
    pods: PodsFrom | None = None
    together: bool = True


@dataclass(frozen=True, slots=True)
class StateRule:
    state: JobState
    when: KindExpression
    message: KindExpression | None


@dataclass(frozen=True, slots=True)
class DependencyRule:
    kind: str
    name: KindExpression
    namespace: KindExpression | None


@dataclass(frozen=True, slots=True)
class DroppedField:
    """A field that the member writes itself. `unless`: but the job says that it is its own."""

    steps: Keys
    unless: KindExpression | None


@dataclass(frozen=True, slots=True)
class TimeToLive:
    """A field with the seconds that a job lives after its end, which the hub counts. `when`: after which ends."""

    steps: Keys
    when: KindExpression | None
    stays: bool = False  # in a copy that was sent with it, since its member takes no change of it


@dataclass(frozen=True, slots=True)
class ManagedBy:
    """The field that names the controller of a job. `own`: the names of the kind's own controller."""

    steps: Keys = ()
    own: tuple[str, ...] = ()


NO_MANAGER = ManagedBy()


@dataclass(frozen=True, slots=True)
class JobRule:
    """What the kind's operator requires of a job. `field`: below the entry, where there is `each`. `rule` is false for
    a job that it refuses, or, with `warns`, that its user is warned of."""

    field: str
    rule: KindExpression
    message: str
    each: DeclarationPath | None = None
    warns: bool = False


@dataclass(frozen=True, slots=True)
class JobDefault:
    """The value of a field that a job leaves out. `place`: below the entry, where there is `each`."""

    place: DeclarationPath
    value: KindExpression
    each: DeclarationPath | None = None


@dataclass(frozen=True, slots=True)
class PlacementWord:
    """A word of the kind for where pods stand: the values of a PlacementRule. `field`: what a refusal names, below the
    entry, where there is `each`; it says nothing where `level` has no value. `of`: a component, or a list of them."""

    field: str
    level: KindExpression
    each: DeclarationPath | None = None
    of: KindExpression | None = None
    size: KindExpression | None = None
    most: KindExpression | None = None
    hard: KindExpression | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    group: str
    kind: str
    components: tuple[ComponentRule, ...]
    minimum: KindExpression | None = None  # of the pods of all components together
    states: tuple[StateRule, ...] = ()
    suspend: Keys = ()
    walltime: Keys = ()
    priority_class: Keys = ()
    retryable: KindExpression | None = None
    in_turn: KindExpression | None = None
    dependencies: tuple[DependencyRule, ...] = ()
    status_fields: tuple[str, ...] | None = None
    condition_fields: tuple[str, ...] = CONDITION_FIELDS
    first_status: Mapping[str, Any] = field(default_factory=dict)  # beside a condition, before the member shows any
    pod_labels: PodLabels = NO_LABELS
    drop: tuple[DroppedField, ...] = ()
    times_to_live: tuple[TimeToLive, ...] = ()
    managed_by: ManagedBy = NO_MANAGER
    rules: tuple[JobRule, ...] = ()
    defaults: tuple[JobDefault, ...] = ()
    placement: tuple[PlacementWord, ...] = ()
    groups: KindExpression | None = None


@dataclass(frozen=True, slots=True)
class DeclarationFlaw:
    """A part of a declaration that cannot be meant. `field`: below the object (`spec.components[0].replicas`)."""

    field: str
    value: str
    why: str


class BadDeclaration(ValueError):
    """The text names the first flaw."""


def read_declaration(spec: Mapping[str, Any]) -> Declaration:
    """Raises BadDeclaration."""
    reader = _Reader()
    found = reader.declaration(spec)
    if reader.flaws:
        first = reader.flaws[0]
        raise BadDeclaration(f"{first.field}: {first.value!r:.80}: {first.why}")
    return found


def flaws_of(spec: Mapping[str, Any]) -> list[DeclarationFlaw]:
    """Every flaw. All expressions are compiled in the library, too."""
    reader = _Reader(compiles=True)
    reader.declaration(spec)
    return reader.flaws


class _Reader:
    def __init__(self, *, compiles: bool = False) -> None:
        self.flaws: list[DeclarationFlaw] = []
        self._compiles = compiles

    def declaration(self, spec: Mapping[str, Any]) -> Declaration:
        target, status, pods, managed = (mapping(spec.get(name)) for name in ("target", "status", "pods", "managedBy"))
        components = tuple(
            self._component(f"spec.components[{i}]", c) for i, c in enumerate(rows(spec.get("components")))
        )
        self._names_differ(components)
        fields = status.get("conditionFields")
        return Declaration(
            group=text(target.get("group")),
            kind=text(target.get("kind")),
            components=components,
            minimum=self._expression("spec.minimum", spec.get("minimum"), _OBJECT),
            states=tuple(
                rule
                for i, entry in enumerate(rows(spec.get("state")))
                if (rule := self._state(f"spec.state[{i}]", entry)) is not None
            ),
            suspend=self._steps("spec.suspend", spec.get("suspend")),
            walltime=self._steps("spec.walltime", spec.get("walltime")),
            priority_class=self._steps("spec.priorityClass", spec.get("priorityClass")),
            retryable=self._expression("spec.retryable", spec.get("retryable"), ("object", "status")),
            in_turn=self._expression("spec.inTurn", spec.get("inTurn"), _OBJECT),
            dependencies=tuple(
                named
                for i, entry in enumerate(rows(spec.get("dependencies")))
                if (named := self._dependency(f"spec.dependencies[{i}]", entry)) is not None
            ),
            status_fields=texts(status["fields"]) if status.get("fields") is not None else None,
            condition_fields=CONDITION_FIELDS if fields is None else texts(fields),
            first_status=mapping(status.get("first")),
            pod_labels=PodLabels(text(pods.get("nameLabel")), text(pods.get("componentLabel"))),
            drop=tuple(
                DroppedField(steps, self._expression(f"spec.drop[{i}].unless", entry.get("unless"), _OBJECT))
                for i, entry in enumerate(rows(spec.get("drop")))
                if (steps := self._steps(f"spec.drop[{i}].path", entry.get("path")))
            ),
            times_to_live=tuple(
                self._time_to_live(f"spec.timeToLive[{i}]", entry)
                for i, entry in enumerate(rows(spec.get("timeToLive")))
            ),
            managed_by=ManagedBy(
                self._steps("spec.managedBy.path", managed.get("path")), texts(managed.get("controllers"))
            ),
            rules=tuple(
                required
                for i, entry in enumerate(rows(spec.get("rules")))
                if (required := self._rule(f"spec.rules[{i}]", entry)) is not None
            ),
            defaults=tuple(
                default
                for i, entry in enumerate(rows(spec.get("defaults")))
                if (default := self._default(f"spec.defaults[{i}]", entry)) is not None
            ),
            placement=tuple(self._placement(rows(spec.get("placement")))),
            groups=self._expression("spec.groups", spec.get("groups"), _OBJECT),
        )

    # -- parts

    def _component(self, where: str, entry: Mapping[str, Any]) -> ComponentRule:
        each = self._place(f"{where}.forEach", entry.get("forEach"), _OBJECT)
        roots = _FIXED if each is None else _RANGE
        name_from = self._expression(f"{where}.nameFrom", entry.get("nameFrom"), roots)
        if name_from is not None and each is None:
            self._flaw(f"{where}.nameFrom", name_from.text, "needs forEach; a single component has its name")
        template = self._place(f"{where}.template", entry.get("template"), roots)
        pods = self._pods(f"{where}.pods", mapping(entry["pods"]), roots) if entry.get("pods") is not None else None
        if (entry.get("template") is None) == (entry.get("pods") is None):
            self._flaw(where, text(entry.get("name")), "needs either template or pods, and not both")
        replicas = self._expression(f"{where}.replicas", entry.get("replicas"), roots)
        minimum = self._expression(f"{where}.minimum", entry.get("minimum"), roots)
        maximum = self._expression(f"{where}.maximum", entry.get("maximum"), roots)
        count = self._count(f"{where}.replicasPath", entry, roots)
        for name, bound in (("minimum", minimum), ("maximum", maximum)):
            if bound is not None and count is None:
                self._flaw(f"{where}.{name}", bound.text, "needs replicasPath, the field for its replicas")
        together = entry.get("atOnce") is not False
        if not together and each is not None:
            self._flaw(f"{where}.atOnce", "false", "is for a component without forEach")
        return ComponentRule(
            name=text(entry.get("name")).lower(),
            each=each,
            name_from=name_from,
            order={name.lower(): position for position, name in enumerate(texts(entry.get("order")))},
            when=self._expression(f"{where}.when", entry.get("when"), roots),
            replicas=replicas,
            at_most=self._expression(f"{where}.atMost", entry.get("atMost"), roots),
            minimum=minimum,
            maximum=maximum,
            count=count,
            per=self._expression(f"{where}.podsPerReplica", entry.get("podsPerReplica"), roots),
            template=template,
            pods=pods,
            together=together,
        )

    def _count(self, where: str, said: Mapping[str, Any], roots: Keys) -> DeclarationPath | None:
        """The field that says how many replicas a component has: `replicas` itself, where that is a plain path."""
        if said.get("replicasPath") is not None:
            return self._place(where, said["replicasPath"], roots)
        root, steps = parsed(plain) if is_path(plain := text(said.get("replicas"))) else ("", ())
        return DeclarationPath(root, steps) if root in ("object", "item") and steps else None

    def _pods(self, where: str, entry: Mapping[str, Any], roots: Keys) -> PodsFrom:
        expressions: dict[str, list[tuple[str, KindExpression]]] = {"requests": [], "fields": []}
        for group, entries in expressions.items():
            for name, source in mapping(entry.get(group)).items():
                expression = self._expression(f"{where}.{group}[{name}]", source, roots)
                if expression is not None:
                    entries.append((name, expression))
        resources = self._expression(f"{where}.resources", entry.get("resources"), roots)
        sized = entry.get("sizeAnnotation") is True
        if resources is None and not expressions["requests"] and not sized:
            self._flaw(where, "", "says no size: it needs resources, requests or sizeAnnotation")
        labels = self._place(f"{where}.labels", entry.get("labels"), roots)
        return PodsFrom(labels, resources, tuple(expressions["requests"]), tuple(expressions["fields"]), sized)

    def _state(self, where: str, entry: Mapping[str, Any]) -> StateRule | None:
        when = self._expression(f"{where}.when", entry.get("when"), _STATUS)
        message = self._expression(f"{where}.message", entry.get("message"), _STATUS)
        if text(entry.get("state")) not in STATES:
            self._flaw(f"{where}.state", text(entry.get("state")), f"must be one of {', '.join(STATES)}")
            return None
        return StateRule(JobState(entry["state"]), when, message) if when is not None else None

    def _dependency(self, where: str, said: Mapping[str, Any]) -> DependencyRule | None:
        kind, name = text(said.get("kind")), self._expression(f"{where}.name", said.get("name"), _OBJECT)
        namespace = self._expression(f"{where}.namespace", said.get("namespace"), _OBJECT)
        if kind not in DEPENDENCY_KINDS:
            self._flaw(f"{where}.kind", kind, f"must be one of {', '.join(DEPENDENCY_KINDS)}")
        return DependencyRule(kind, name, namespace) if name is not None else None

    def _time_to_live(self, where: str, said: Mapping[str, Any]) -> TimeToLive:
        when = self._expression(f"{where}.when", said.get("when"), ("object", "status"))
        return TimeToLive(self._steps(f"{where}.path", said.get("path")), when, said.get("stays") is True)

    def _rule(self, where: str, entry: Mapping[str, Any]) -> JobRule | None:
        each = self._place(f"{where}.forEach", entry.get("forEach"), _OBJECT)
        roots = _OBJECT if each is None else _RANGE
        rule = self._expression(f"{where}.rule", entry.get("rule"), roots, once=True)
        if rule is None:
            return None
        return JobRule(text(entry.get("field")), rule, text(entry.get("message")), each, entry.get("warns") is True)

    def _default(self, where: str, said: Mapping[str, Any]) -> JobDefault | None:
        each = self._place(f"{where}.forEach", said.get("forEach"), _OBJECT)
        place = self._place(f"{where}.path", said.get("path"), _OBJECT if each is None else ("item",))
        value = self._expression(f"{where}.value", said.get("value"), _OBJECT if each is None else _RANGE)
        return JobDefault(place, value, each) if place is not None and value is not None else None

    def _placement(self, entries: Iterable[Mapping[str, Any]]) -> Iterator[PlacementWord]:
        for i, entry in enumerate(entries):
            where = f"spec.placement[{i}]"
            each = self._place(f"{where}.forEach", entry.get("forEach"), _OBJECT)
            roots = _OBJECT if each is None else _RANGE
            level, of, size, most, hard = (
                self._expression(f"{where}.{name}", entry.get(name), roots)
                for name in ("level", "of", "size", "most", "hard")
            )
            if level is not None:
                yield PlacementWord(text(entry.get("field")), level, each, of, size, most, hard)

    def _names_differ(self, components: tuple[ComponentRule, ...]) -> None:
        names: set[str] = set()
        for index, component in enumerate(components):
            if not component.name:
                self._flaw(f"spec.components[{index}].name", "", "must not be empty")
            elif component.name in names:
                self._flaw(f"spec.components[{index}].name", component.name, "another component has this name")
            names.add(component.name)
        if not components:
            self._flaw("spec.components", "", "a job has at least one component")

    # -- words

    def _expression(self, where: str, source: object, roots: Keys, *, once: bool = False) -> KindExpression | None:
        if source is None:
            return None
        code = str(source).lower() if isinstance(source, bool) else str(source)
        try:
            expression = KindExpression(code, once=once)
            if self._compiles:
                expression.checked()
        except BadExpression as problem:
            self._flaw(where, code, str(problem))
            return None
        unknown = sorted({root for root, _ in expression.places} - set(roots))
        if unknown:
            self._flaw(where, code, f"knows {', '.join(roots)} here, and not {', '.join(unknown)}")
        return expression

    def _place(self, where: str, source: object, roots: Keys) -> DeclarationPath | None:
        if source is None:
            return None
        said = text(source)
        root, steps = parsed(said) if is_path(said) else ("", ())
        if root not in roots or root in ("key", "index") or not steps:
            begin = " or ".join(f"{name}." for name in roots if name not in ("key", "index"))
            self._flaw(where, said, f"must be a path that begins with {begin}")
            return None
        return DeclarationPath(root, steps)

    def _steps(self, where: str, source: object) -> Keys:
        place = self._place(where, source, _OBJECT)
        return place.steps if place is not None else ()

    def _flaw(self, where: str, value: str, why: str) -> None:
        self.flaws.append(DeclarationFlaw(where, value, why))
