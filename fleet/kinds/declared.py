"""The interpreter of every kind: it reads a job as the kind's declaration says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.core.model.unit import Component
from fleet.kinds import pods
from fleet.kinds.declaration import Declaration, DroppedField, Keys
from fleet.kinds.expressions import ONCE_STEPS_MAX, KindExpression, budget_of
from fleet.kinds.interpreter import (
    AskedRule,
    Body,
    BrokenRule,
    Dependency,
    Health,
    JobState,
    PodLabels,
    Range,
    Standing,
    Template,
)
from fleet.kinds.paths import Steps, drop, getter, is_path, put, spelled, with_part
from fleet.kinds.reader import BodyComponent, ComponentReader
from fleet.kinds.rules import CompiledRule, Default, PlacementReader
from fleet.values.untyped import mapping, rows, text, whole
from fleet.wellknown import ANNOTATION_MIN_REPLICAS


class DeclaredKind:
    """An Interpreter."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.group, self.kind = declaration.group, declaration.kind
        self._components = tuple(map(ComponentReader, declaration.components))
        self._only = self._components[0] if len(self._components) == 1 else None
        self._drop = _by_condition(
            (*declaration.drop, *(DroppedField(t.steps, None) for t in declaration.times_to_live))
        )
        self._suspend = getter("object", declaration.suspend)
        self._priority = getter("object", declaration.priority_class)
        self._walltime = getter("object", declaration.walltime)
        self._lives = tuple((getter("object", rule.steps), rule) for rule in declaration.times_to_live)
        self._managed = getter("object", declaration.managed_by.steps)
        self._ranged = any(rule.minimum is not None for rule in declaration.components)
        self._rules = tuple(map(CompiledRule, declaration.rules))
        self._defaults = tuple(map(Default, declaration.defaults))
        self._placement = tuple(map(PlacementReader, declaration.placement))
        self._over_time = frozenset(rule.name for rule in declaration.components if not rule.together)

    @property
    def pod_labels(self) -> PodLabels:
        return self.declaration.pod_labels

    @property
    def pods_unmarked(self) -> bool:
        """Whether some of its pods carry no labels that the hub writes, but one of its controller's with the name."""
        unmarked = any(rule.pods is not None and rule.pods.labels is None for rule in self.declaration.components)
        return unmarked and bool(self.pod_labels.name)

    @property
    def gateable(self) -> bool:
        return all(rule.template is not None and rule.together for rule in self.declaration.components)

    @property
    def first_status(self) -> Mapping[str, Any]:
        return self.declaration.first_status

    @property
    def suspend_field(self) -> str:
        return spelled(self.declaration.suspend)

    @property
    def priority_class_field(self) -> str:
        return spelled(self.declaration.priority_class)

    @property
    def managed_by_field(self) -> str:
        return spelled(self.declaration.managed_by.steps)

    def templates(self, body: Body) -> tuple[Template, ...]:
        if self._only is not None:
            found = self._only.templates(body)
        else:
            found = [template for reader in self._components for template in reader.templates(body)]
        if len(found) > 1 and len({template.name for template in found}) < len(found):
            return tuple(_apart(found))
        return tuple(found)

    def components(self, body: Body, priority_classes: Mapping[str, int] | None = None) -> tuple[Component, ...]:
        return tuple(pods.component(template) for template in self.templates(body) if template.replicas > 0)

    def priority_class(self, body: Body) -> str:
        named = pods.priority_class(self.templates(body))
        return named or (text(self._priority({"object": body})) if self.declaration.priority_class else "")

    def state(self, status: Body | None) -> Standing:
        values = {"status": mapping(status)}
        conditions: dict[Any, Body] | None = None
        for rule in self.declaration.states:
            condition: Body = {}
            if rule.when.condition:
                if conditions is None:
                    said = rows(values["status"].get("conditions"))
                    conditions = {text(entry.get("type")): entry for entry in said if entry.get("status") == "True"}
                if rule.when.condition not in conditions:
                    continue
                condition = conditions[rule.when.condition]
            elif rule.when.read(values) is not True:
                continue
            message = rule.message.read(values) if rule.message is not None else condition.get("message")
            return Standing(rule.state, str(message or ""))
        return Standing(JobState.UNKNOWN)

    def health(self, body: Body) -> Health:
        return self.state(body.get("status")).health

    @property
    def size_fields(self) -> tuple[str, ...]:
        made = (rule.pods.resources for rule in self.declaration.components if rule.pods is not None)
        return tuple(one.text.partition(".")[2] for one in made if one is not None and is_path(one.text))

    @property
    def takes_min_replicas(self) -> bool:
        rules = (rule.minimum for rule in self.declaration.components)
        return any(rule is not None and ANNOTATION_MIN_REPLICAS in rule.text for rule in rules)

    def ranges(self, body: Body) -> Mapping[str, Range]:
        if not self._ranged:
            return {}
        parts = [part for reader in self._components for part in reader.parts(body, ranged=True)]
        if len({part.name for part in parts}) < len(parts):
            return {}  # components of one name cannot be told apart
        sizes = {part.name: part.pods for part in parts}
        ranges = {part.name: part.range for part in parts if part.range is not None}
        rule = self.declaration.minimum
        least = whole(rule.read({"object": body})) if rule is not None and ranges else 0
        short = least - sum(ranges[name].least if name in ranges else pods for name, pods in sizes.items())
        for part in parts:
            if short > 0 and part.name in ranges:
                kept, step = ranges[part.name]
                more = min(-(-short // step) * step, part.pods - kept)
                ranges[part.name], short = Range(kept + more, step), short - more
        return {name: range_ for name, range_ in ranges.items() if range_.least < sizes[name]}

    def sized(self, body: Body, most: Mapping[str, int]) -> Body:
        for part in self._countable(body):
            if part.pods > most.get(part.name, part.pods):
                body = with_part(body, part.place, most[part.name] // part.per)
        return body

    def sizes(self, body: Body) -> Mapping[str, int]:
        return {part.name: part.pods for part in self._countable(body)}

    def as_large_as(self, body: Body, sizes: Mapping[str, int]) -> Body:
        for part in self._countable(body, ranged=True):
            wanted = sizes.get(part.name, part.pods)
            if wanted != part.pods:
                size = max(part.least, wanted if part.most is None else min(wanted, part.most))
                body = with_part(body, part.place, size // part.per)
        return body

    def _countable(self, body: Body, *, ranged: bool = False) -> list[BodyComponent]:
        """Its components of which a field of the body says the number; none where two have one name."""
        parts = [part for reader in self._components for part in reader.parts(body, ranged=ranged)]
        return [part for part in parts if part.place] if len({part.name for part in parts}) == len(parts) else []

    def together(self, component: str) -> bool:
        return component not in self._over_time

    def walltime_s(self, body: Body) -> int:
        return whole(self._walltime({"object": body})) if self.declaration.walltime else 0

    @property
    def times_to_live(self) -> tuple[str, ...]:
        return tuple(spelled(rule.steps) for rule in self.declaration.times_to_live)

    def lives_s(self, body: Body) -> int | None:
        values = {"object": body, "status": mapping(body.get("status"))}
        for read, rule in self._lives:
            said = whole(read(values), -1)
            if said >= 0 and (rule.when is None or rule.when.read(values) is True):
                return said
        return None

    def manager(self, body: Body) -> str:
        named = text(self._managed({"object": body})) if self.declaration.managed_by.steps else ""
        return "" if named in self.declaration.managed_by.own else named

    @property
    def ends(self) -> bool:
        return any(rule.state is JobState.SUCCEEDED for rule in self.declaration.states)

    def in_turn(self, body: Body) -> bool:
        rule = self.declaration.in_turn
        return rule is not None and rule.read({"object": body}) is True

    def retryable(self, body: Body) -> bool:
        rule = self.declaration.retryable
        return rule is None or rule.read({"object": body, "status": mapping(body.get("status"))}) is not False

    def placement(self, body: Body) -> Iterable[AskedRule]:
        return (wish for reader in self._placement for wish in reader.wishes(body))

    def groups(self, body: Body) -> int:
        rule = self.declaration.groups
        return max(1, whole(rule.read({"object": body}), 1)) if rule is not None else 1

    def faults(self, body: Body) -> Iterable[BrokenRule]:
        if not self._rules:
            return ()
        budget = budget_of(ONCE_STEPS_MAX)
        return (fault for rule in self._rules for fault in rule.faults(body, budget))

    def filled(self, body: Body) -> Body:
        for one in self._defaults:
            body = one.filled(body)
        return body

    def dependencies(self, body: Body, *, optional: bool = True) -> frozenset[Dependency]:
        namespace = body["metadata"].get("namespace", "")
        dependencies = {
            dependency
            for template in self.templates(body)
            for dependency in pods.dependencies(namespace, mapping(template.template.get("spec")), optional=optional)
        }
        values = {"object": body}
        for rule in self.declaration.dependencies:
            said = rule.name.read(values)
            where = text(rule.namespace.read(values)) if rule.namespace is not None else ""
            for name in said if isinstance(said, list) else [said]:
                if text(name):
                    dependencies.add((rule.kind, where or namespace, text(name)))
        return frozenset(dependencies)

    def stamp(
        self,
        body: Body,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        component_labels: Mapping[str, Mapping[str, str]] | None = None,
        member_copy: Body | None = None,
    ) -> Body:
        manifest = dict(body)
        manifest.pop("status", None)
        manifest["metadata"] = pods.stamped_metadata(body["metadata"], labels, annotations)
        fresh: set[int] = set()
        if self.manager(body):
            *above, last = self.declaration.managed_by.steps
            drop(manifest, tuple(above), frozenset({last}), fresh)
        if self._drop:
            values = {"object": body}
            for unless, places in self._drop:
                if unless is None or not unless.read(values):
                    for where, names in places:
                        drop(manifest, where, names, fresh)
        for name, template, steps, own in self._stamped(manifest):
            more = component_labels.get(name) if component_labels else None
            stamped = pods.stamped_template(template, name, labels, more)
            put(manifest, steps, stamped if own else stamped["metadata"]["labels"], fresh)
        for read, rule in self._lives:
            if rule.stays and (said := read({"object": member_copy})) is not None:
                put(manifest, rule.steps, said, fresh)
        return manifest

    def _stamped(self, body: Body) -> Iterable[tuple[str, Body, Steps, bool]]:
        """The component, the template, the place to write to, and whether that is the whole template's: of all pods
        that carry labels of the job."""
        if self._only is not None and self._only.plain:
            return self._only.places(body)
        return [
            (template.name, template.template, template.steps if template.own else template.labels, template.own)
            for template in self.templates(body)
            if template.marked
        ]

    def suspend(self, body: Body, suspended: bool) -> Body:
        steps = self.declaration.suspend
        return with_part(body, steps, suspended) if steps else body

    def suspended(self, body: Body) -> bool:
        if self.declaration.suspend:
            return bool(self._suspend({"object": body}))
        templates = self.templates(body)
        return bool(templates) and all(template.own and not template.replicas for template in templates)

    def condition(self, type_: str, status: str, reason: str, message: str, at: str) -> Body:
        whole_ = {**pods.condition(type_, status, reason, message, at), "lastUpdateTime": at}
        return {name: whole_[name] for name in self.declaration.condition_fields if name in whole_}

    def merge_status(self, hub: Body | None, member: Body | None) -> Body:
        fields = self.declaration.status_fields
        if fields is not None:
            member = {name: value for name, value in mapping(member).items() if name in fields}
        merged = pods.merged_status(hub, member)
        return {**self.declaration.first_status, **merged} if merged and not member else merged


def _by_condition(
    dropped: Iterable[DroppedField],
) -> list[tuple[KindExpression | None, list[tuple[Keys, frozenset[str]]]]]:
    """The fields to drop, by what keeps them, and then by the object that has them: each is looked for once."""
    found: dict[str, tuple[KindExpression | None, dict[Keys, list[str]]]] = {}
    for one in dropped:
        _, places = found.setdefault(one.unless.text if one.unless is not None else "", (one.unless, {}))
        places.setdefault(one.steps[:-1], []).append(one.steps[-1])
    return [(unless, [(at, frozenset(names)) for at, names in places.items()]) for unless, places in found.values()]


def _apart(found: list[Template]) -> Iterator[Template]:
    """Components of one name (a worker group that is called as the head is) get names of their own."""
    taken: set[str] = set()
    for position, template in enumerate(found):
        name = template.name if template.name not in taken else f"{template.name}-{position}"
        taken.add(name)
        yield template if name == template.name else template._replace(name=name)
