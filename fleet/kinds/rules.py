"""What a declaration says of a job beside its components: what the webhook of the kind's operator would refuse and fill
in, and where its pods stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fleet.core.model.rule import WHOLE, PlacementRule
from fleet.kinds.declaration import DeclarationPath, JobDefault, JobRule, PlacementWord
from fleet.kinds.expressions import KindExpression
from fleet.kinds.interpreter import AskedRule, Body, BrokenRule
from fleet.kinds.paths import Step, Steps, getter, parsed, put, spelled
from fleet.values.untyped import mapping, text, texts, whole

if TYPE_CHECKING:
    from fleet.values.cel.program import Budget

Entry = tuple[dict[str, Any], Step]


def entries_of(body: Body, value: Any, rank: Callable[[str], Any] | None = None) -> list[Entry]:
    """The entries of a list or map, each as the values that expressions see, with its key or position."""
    if value.__class__ is dict:
        keys = sorted(value, key=rank) if len(value) > 1 else value
        return [
            ({"object": body, "item": mapping(value[key]), "key": key, "index": i}, key) for i, key in enumerate(keys)
        ]
    if value.__class__ is list:
        return [
            ({"object": body, "item": entry, "key": str(i), "index": i}, i)
            for i, entry in enumerate(value)
            if entry.__class__ is dict
        ]
    return []


class _EntryRule:
    """Something that is said of a job, or of each entry of a list or a map in it."""

    def __init__(self, each: DeclarationPath | None) -> None:
        self._base: Steps = each.steps if each is not None else ()
        self._each = getter(each.root, each.steps) if each is not None else None

    def _entries(self, body: Body) -> Iterator[tuple[Mapping[str, Any], Steps]]:
        """The values that expressions see, and the steps to what they are about."""
        if self._each is None:
            yield {"object": body}, ()
            return
        for values, step in entries_of(body, self._each({"object": body})):
            yield values, (*self._base, step)


class CompiledRule(_EntryRule):
    """A rule of a declaration, compiled."""

    def __init__(self, rule: JobRule) -> None:
        super().__init__(rule.each)
        self._rule = rule
        self._field = parsed(f"x.{rule.field}")[1] if rule.field else ()

    def faults(self, body: Body, budget: Budget) -> Iterator[BrokenRule]:
        """A rule that reads what the job does not have is kept, and so is one when the budget is spent: then the member
        asks it."""
        for values, base in self._entries(body):
            if self._rule.rule.within(values, budget) is False:
                steps = (*base, *self._field)
                yield BrokenRule(spelled(steps), steps, self._rule.message, self._rule.warns)


class Default(_EntryRule):
    """A default of a declaration, compiled."""

    def __init__(self, default: JobDefault) -> None:
        super().__init__(default.each)
        self._default = default
        self._read = getter(default.place.root, default.place.steps)

    def filled(self, body: Body) -> Body:
        copied: Body | None = None
        fresh: set[int] = set()
        for values, base in self._entries(body):
            if self._read(values) in (None, "") and (value := self._default.value.read(values)) is not None:
                copied = dict(body) if copied is None else copied
                put(copied, (*base, *self._default.place.steps), value, fresh)
        return body if copied is None else copied


class PlacementReader(_EntryRule):
    """A word of a declaration for where pods stand, compiled."""

    def __init__(self, word: PlacementWord) -> None:
        super().__init__(word.each)
        self._word = word

    def wishes(self, body: Body) -> Iterator[AskedRule]:
        """The rules that the job asks for by this word."""
        word = self._word
        for values, base in self._entries(body):
            level = text(word.level.read(values))
            if not level:
                continue
            named = _read(word.of, values)
            of = tuple(name.lower() for name in ((named,) if isinstance(named, str) else texts(named)))
            size, most = whole(_read(word.size, values), WHOLE), whole(_read(word.most, values))
            rule = PlacementRule(level, of, size, _read(word.hard, values) in (None, True), most)
            below = spelled(base) if base and not word.field.startswith("object.") else ""
            field = f"{below}.{word.field.removeprefix('object.')}".removeprefix(".")
            yield AskedRule(rule, field, level, native=True)


def _read(expression: KindExpression | None, values: Mapping[str, Any]) -> Any:
    return None if expression is None else expression.read(values)
