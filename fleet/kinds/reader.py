"""The components of one declaration in a body: their templates, numbers and ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fleet.kinds.declaration import ComponentRule, PodsFrom
from fleet.kinds.interpreter import Body, Range, Template
from fleet.kinds.paths import Step, Steps, getter, spelled
from fleet.kinds.rules import entries_of
from fleet.kinds.sizes import annotation, declared_size
from fleet.values.quantity import BadQuantity
from fleet.values.untyped import digits, mapping, text, whole
from fleet.wellknown import ANNOTATION_SIZE


class BodyComponent(NamedTuple):
    """One component of a body. `place`: where the body says how many replicas, of `per` pods each, it has."""

    name: str
    pods: int
    per: int
    place: Steps
    range: Range | None
    least: int = 0
    most: int | None = None  # that an autoscaler of the member may give it


class ComponentReader:
    """One component of a declaration, compiled."""

    def __init__(self, rule: ComponentRule) -> None:
        self.rule = rule
        self._last = len(rule.order)
        self._each = getter(rule.each.root, rule.each.steps) if rule.each is not None else None
        self._base = rule.each.steps if rule.each is not None else ()
        place = rule.template if rule.template is not None else rule.pods.labels if rule.pods is not None else None
        self._read = getter(place.root, place.steps) if place is not None else None
        self._steps: Steps = place.steps if place is not None else ()
        self._below = place is not None and place.root == "item"
        self.plain = rule.template is not None and rule.when is None and rule.name_from is None
        # The ends of a template's path in words, which are joined for every job.
        self._head, self._tail = spelled(self._base), f".{spelled(self._steps)}" if self._steps else ""

    def templates(self, body: Body) -> list[Template]:
        rule = self.rule
        if self._each is None:
            values: dict[str, Any] = {"object": body}
            if rule.when is not None and rule.when.read(values) is not True:
                return []
            return [self._template(body, rule.name, values, ())]
        return [
            self._template(body, self._name(values), values, (step,))
            for values, step in self._entries(body)
            if rule.when is None or rule.when.read(values) is True
        ]

    def places(self, body: Body) -> list[tuple[str, Body, Steps, bool]]:
        """The name, template and place of each component, where all of them have templates: without their sizes."""
        assert self._read is not None
        if self._each is None:
            return [(self.rule.name, mapping(self._read({"object": body})), self._steps, True)]
        entries = self._each({"object": body})
        if entries.__class__ is not dict or not self._below:
            return [(t.name, t.template, t.steps, True) for t in self.templates(body)]
        keys = sorted(entries, key=self._rank) if len(entries) > 1 else entries
        return [
            (key.lower(), mapping(self._read({"item": entries[key]})), (*self._base, key, *self._steps), True)
            for key in keys
        ]

    def parts(self, body: Body, *, ranged: bool = False) -> Iterator[BodyComponent]:
        """Its components in this body, without their templates. `ranged`: with the range of each."""
        rule = self.rule
        entries = self._entries(body) if self._each is not None else [({"object": body}, "")]
        for values, step in entries:
            if rule.when is not None and rule.when.read(values) is not True:
                continue
            name = self._name(values) if self._each is not None else rule.name
            pods = self._replicas(values)
            per = max(1, whole(rule.per.read(values), 1)) if rule.per is not None else 1
            steps: Steps = ()
            if rule.count is not None:
                steps = (*self._base, step, *rule.count.steps) if rule.count.root == "item" else rule.count.steps
            said = rule.minimum.read(values) if ranged and rule.minimum is not None and rule.together else None
            least = -(-(digits(said) or whole(said)) // per) * per  # whole replicas
            most = whole(rule.maximum.read(values), -1) if ranged and rule.maximum is not None else -1
            found = Range(least, per) if 0 < least < pods else None
            yield BodyComponent(name, pods, per, steps, found, least, most if most > 0 else None)

    def _entries(self, body: Body) -> list[tuple[dict[str, Any], Step]]:
        """The entries of the list or map, each as the values that expressions see, with its key or position."""
        assert self._each is not None
        return entries_of(body, self._each({"object": body}), self._rank)

    def _rank(self, key: str) -> tuple[int, str]:
        return self.rule.order.get(key.lower(), self._last), key

    def _name(self, values: Mapping[str, Any]) -> str:
        if self.rule.name_from is None:
            return str(values["key"]).lower()
        return text(self.rule.name_from.read(values)).lower() or f"{self.rule.name}{values['index']}"

    def _template(self, body: Body, name: str, values: Mapping[str, Any], step: tuple[Step, ...]) -> Template:
        if self.rule.pods is not None:
            return self._made(body, name, values, self.rule.pods, step)
        assert self._read is not None
        template, replicas = self._read(values), self._replicas(values)
        if template.__class__ is not dict:
            template = {}
        if not self._below:
            return Template(name, replicas, template, self._tail[1:], self._steps)
        at = step[0]
        entry = f"{self._head}[{at}]" if at.__class__ is int else f"{self._head}.{at}"
        return Template(name, replicas, template, entry + self._tail, (*self._base, at, *self._steps))

    def _made(
        self, body: Body, name: str, values: Mapping[str, Any], source: PodsFrom, step: tuple[Step, ...]
    ) -> Template:
        """The template of pods that the kind describes otherwise."""
        replicas, resources = self._replicas(values), _resources(source, values)
        if source.sized:
            try:
                size = declared_size(body)
            except BadQuantity:  # which the amounts of `components` raise again
                size = 1, {ANNOTATION_SIZE: f"no size: {annotation(body, ANNOTATION_SIZE)}"}
            if size is not None:
                replicas, resources = size[0], {"requests": size[1]}
            elif not resources.get("requests") and not resources.get("limits"):
                replicas = 0  # the job says no size at all
        spec = {name: value for name, one in source.fields if (value := one.read(values)) is not None}
        template: Body = {"spec": {"containers": [{"name": name, "resources": resources}], **spec}}
        labels = (*self._base, *step, *self._steps) if self._below else self._steps
        if labels and self._read is not None:
            template["metadata"] = {"labels": mapping(self._read(values))}
        path = spelled(labels[:-1]) or spelled((*self._base, *step)) or "spec"
        return Template(name, replicas, template, path, own=False, labels=labels)

    def _replicas(self, values: Mapping[str, Any]) -> int:
        rule = self.rule
        replicas = 1
        if rule.replicas is not None:
            said = rule.replicas.read(values)
            replicas = said if said.__class__ is int else whole(said, 1)
        return replicas if rule.at_most is None else min(replicas, whole(rule.at_most.read(values), replicas))


def _resources(made: PodsFrom, values: Mapping[str, Any]) -> Body:
    if made.resources is not None:
        return mapping(made.resources.read(values))
    said = {name: expression.read(values) for name, expression in made.requests}
    requests = {name: amount for name, amount in said.items() if amount is not None}
    return {"requests": requests} if requests else {}
