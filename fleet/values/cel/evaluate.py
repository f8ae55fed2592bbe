"""An expression, made into functions of Python that run it and count its cost as Kubernetes does.

What a part costs in any case is known when it is compiled, and is charged once where its branch begins. Only what
depends on values (the length of a text, the turns of a loop) is charged on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.values.cel.arithmetic import OPERATORS
from fleet.values.cel.declare import CONSTANTS
from fleet.values.cel.kubernetes import KUBERNETES
from fleet.values.cel.loops import LOOPS
from fleet.values.cel.messages import Message
from fleet.values.cel.network import NETWORK
from fleet.values.cel.sequences import SEQUENCES
from fleet.values.cel.texts import TEXTS
from fleet.values.cel.times import TIMES
from fleet.values.cel.tree import Bind, Call, Const, Ident, ListOf, Loop, MapOf, Select, Struct, SyntaxNode
from fleet.values.cel.types import Type, unwrapped
from fleet.values.cel.values import NO_OVERLOAD, NONE, Evaluation, NoValue, Optional, TypeValue, no_such_key

Step = Callable[[Evaluation], Any]
Function = Callable[..., Any]
FUNCTIONS: Mapping[str, tuple[Function, int]] = {
    **OPERATORS,
    **TEXTS,
    **SEQUENCES,
    **TIMES,
    **KUBERNETES,
    **NETWORK,
}
_LIST, _MAP, _MESSAGE = 10, 30, 40  # what it costs to make one
_BROKEN = (TypeError, AttributeError, ValueError, KeyError, OverflowError, RecursionError)


class Compiler:
    """`slots`: the variables that an expression sees, by number."""

    def __init__(self, variables: list[str], functions: Mapping[str, tuple[Function, int]]) -> None:
        self.slots: dict[str, int] = {name: number for number, name in enumerate(variables)}
        self.count = len(variables)
        self.functions = functions
        self.uses: set[str] = set()

    def compile(self, node: SyntaxNode) -> tuple[Step, int]:
        """What runs it, and what it costs in any case."""
        made: tuple[Step, int] = getattr(self, f"_{type(node).__name__.lower()}")(node)
        return made

    def slot(self) -> int:
        self.count += 1
        return self.count - 1

    def inside(self, names: Mapping[str, int], node: SyntaxNode) -> tuple[Step, int]:
        """A part that sees variables of its own."""
        before = self.slots
        self.slots = {**before, **names}
        try:
            return self.compile(node)
        finally:
            self.slots = before

    def _const(self, node: Const) -> tuple[Step, int]:
        value = node.value
        return lambda run: value, 0

    def _ident(self, node: Ident) -> tuple[Step, int]:
        return self._named(node.name.removeprefix("."))

    def _named(self, name: str) -> tuple[Step, int]:
        number = self.slots.get(name)
        if number is not None:
            self.uses.add(name)
            return lambda run: run.slots[number], 1
        inner = CONSTANTS[name].params[0] if name in CONSTANTS else None
        plain = inner is None or inner.kind in ("timestamp", "duration", "null")
        fixed = TypeValue(name if inner is None or plain else inner.name)
        return lambda run: fixed, 1

    def _struct(self, node: Struct) -> tuple[Step, int]:
        parts = [(name, *self.compile(value), optional) for _, name, value, optional in node.fields]
        message_type = node.type

        def make(run: Evaluation) -> Message:
            fields: dict[str, Any] = {}
            for name, step, _, optional in parts:
                found = step(run)
                if not optional:
                    fields[name] = found
                elif found.content:
                    fields[name] = found.content[0]
            return Message(message_type, fields)

        return make, _MESSAGE + sum(part[2] for part in parts)

    def _select(self, node: Select) -> tuple[Step, int]:
        from fleet.values.cel.check import qualified

        # The type checker looks into no part of a name with dots, so its first part has no type.
        if node.operand.type.kind == "dyn" and (node.type.kind == "type" or qualified(node) in self.slots):
            return self._named(qualified(node))
        operand, cost = self.compile(node.operand)
        given, was_optional = unwrapped(node.operand.type)
        shape = given.shape if given.kind == "struct" else None
        name = shape.names.get(node.name, node.name) if shape is not None else node.name
        field = (given.fields or {}).get(node.name)
        convert = field.shape.convert if field is not None and field.shape is not None else None
        if node.test:
            return _tests(operand, name), cost
        if node.optional or was_optional:
            return _selects_perhaps(operand, name, convert), cost + 1
        return _selects(operand, name, convert), cost + 1

    def _call(self, node: Call) -> tuple[Step, int]:
        if node.function in ("_&&_", "_||_"):
            return self._logical(node)
        if node.function == "_?_:_":
            return self._conditional(node)
        if node.function in ("or", "orValue"):
            return self._otherwise(node)
        parts = [self.compile(part) for part in node.operands]
        cost = sum(part[1] for part in parts)
        if node.function == "_[_]" and isinstance(node.args[1], Ident):
            cost -= 1  # Kubernetes counts a name in brackets as a step of the path
        steps = [part[0] for part in parts]
        if node.function in _QUICK and all(part.type.kind == "int" for part in node.operands):
            return _QUICK[node.function](*steps), cost + 1
        function, fixed = self.functions.get(node.function) or FUNCTIONS[node.function]
        if node.function in ("_==_", "_!=_", "@in"):
            kinds = [part.type for part in node.operands]
            function = _of_lists(node.function, kinds) or function
        return _calls(function, steps), cost + fixed

    def _logical(self, node: Call) -> tuple[Step, int]:
        (left, cost), (right, later) = self.compile(node.args[0]), self.compile(node.args[1])
        return _decides(left, right, later, node.function == "_||_"), cost

    def _conditional(self, node: Call) -> tuple[Step, int]:
        (test, cost), (yes, yes_cost), (no, no_cost) = map(self.compile, node.args)

        def choose(run: Evaluation) -> Any:
            found = test(run)
            if found is True:
                run.spend(yes_cost)
                return yes(run)
            if found is not False:
                raise NoValue(NO_OVERLOAD)
            run.spend(no_cost)
            return no(run)

        return choose, cost

    def _otherwise(self, node: Call) -> tuple[Step, int]:
        (first, cost), (other, later) = map(self.compile, node.operands)
        whole = node.function == "or"

        def choose(run: Evaluation) -> Any:
            found = first(run)
            if type(found) is not Optional:
                raise NoValue(NO_OVERLOAD)
            if found.content:
                return found if whole else found.content[0]
            run.spend(later)
            return other(run)

        return choose, cost + 1

    def _listof(self, node: ListOf) -> tuple[Step, int]:
        parts = [self.compile(item) for item in node.items]
        cost = _LIST + sum(part[1] for part in parts)
        steps = [part[0] for part in parts]
        if not node.optional:
            if all(isinstance(item, Const) for item in node.items):
                fixed = [item.value for item in node.items if isinstance(item, Const)]
                return lambda run: fixed, 0
            return lambda run: [step(run) for step in steps], cost
        optional = node.optional

        def make(run: Evaluation) -> list[Any]:
            items: list[Any] = []
            for number, step in enumerate(steps):
                found = step(run)
                if number in optional:
                    items += found.content
                else:
                    items.append(found)
            return items

        return make, cost

    def _mapof(self, node: MapOf) -> tuple[Step, int]:
        parts = [(self.compile(key), self.compile(value), optional) for key, value, optional in node.entries]
        cost = _MAP + sum(key[1] + value[1] for key, value, _ in parts)
        steps = [(key[0], value[0], optional) for key, value, optional in parts]

        def make(run: Evaluation) -> dict[Any, Any]:
            entries: dict[Any, Any] = {}
            for key, value, optional in steps:
                name, item = key(run), value(run)
                if type(name) in (list, dict, float) or name is None:
                    raise NoValue(f"unsupported key type: {type(name).__name__}")
                if name in entries:
                    raise NoValue(f"Failed with repeated key: {name}")
                if not optional:
                    entries[name] = item
                elif item.content:
                    entries[name] = item.content[0]
            return entries

        return make, cost

    def _bind(self, node: Bind) -> tuple[Step, int]:
        value, cost = self.compile(node.value)
        number = self.slot()
        result, later = self.inside({node.name: number}, node.result)

        def run_it(run: Evaluation) -> Any:
            run.slots[number] = value(run)
            return result(run)

        return run_it, cost + later + _LIST

    def _loop(self, node: Loop) -> tuple[Step, int]:
        over, cost = self.compile(node.over)
        first, second = self.slot(), self.slot() if node.second else None
        names = {node.first: first} if second is None else {node.first: first, node.second: second}
        test = self.inside(names, node.test) if node.test is not None else None
        output = self.inside(names, node.output) if node.output is not None else None
        shape, fixed = LOOPS[node.macro]
        return shape(over, first, second, test, output), cost + fixed


# -- steps


def select(value: Any, name: str) -> Any:
    if type(value) is dict:
        if name in value:
            return value[name]
        raise no_such_key(name)
    if type(value) is Message:
        return value.fields.get(name)
    if type(value) is Optional:
        return select_perhaps(value, name)
    raise NoValue(NO_OVERLOAD)


def select_perhaps(value: Any, name: str) -> Optional:
    if type(value) is Optional:
        return select_perhaps(value.content[0], name) if value.content else NONE
    fields = value.fields if type(value) is Message else value
    if type(fields) is dict:
        return Optional((fields[name],)) if name in fields else NONE
    raise NoValue(NO_OVERLOAD)


def _selects(operand: Step, name: str, convert: Callable[[Any], Any] | None) -> Step:
    def plain(run: Evaluation) -> Any:
        value = operand(run)
        if type(value) is dict and name in value:
            return value[name]
        return select(value, name)

    if convert is None:
        return plain
    return lambda run: convert(plain(run))


def _selects_perhaps(operand: Step, name: str, convert: Callable[[Any], Any] | None) -> Step:
    def perhaps(run: Evaluation) -> Optional:
        found = select_perhaps(operand(run), name)
        return found if convert is None or not found.content else Optional((convert(found.content[0]),))

    return perhaps


def _tests(operand: Step, name: str) -> Step:
    def test(run: Evaluation) -> bool:
        value = operand(run)
        if type(value) is dict:
            return name in value
        return bool(select_perhaps(value, name).content)

    return test


def _decides(first: Step, second: Step, later: int, decisive_value: bool) -> Step:
    """&& and ||: either side may decide, even where the other one has no value."""

    def decide(run: Evaluation) -> bool:
        problem: NoValue | None = None
        try:
            value = first(run)
            if value is decisive_value:
                return bool(decisive_value)
            if value is not True and value is not False:
                problem = NoValue(NO_OVERLOAD)
        except NoValue as fault:
            if run.balance < 0:
                raise
            problem = fault
        run.spend(later)
        value = second(run)
        if value is decisive_value:
            return bool(decisive_value)
        if problem is not None:
            raise problem
        if value is not True and value is not False:
            raise NoValue(NO_OVERLOAD)
        return not decisive_value

    return decide


def _calls(function: Function, steps: list[Step]) -> Step:
    """Dynamic values may be of another type than the function takes."""
    if len(steps) == 2:
        first, second = steps

        def call_two(run: Evaluation) -> Any:
            try:
                return function(run, first(run), second(run))
            except _BROKEN:
                raise NoValue(NO_OVERLOAD) from None

        return call_two

    def call(run: Evaluation) -> Any:
        try:
            return function(run, *[step(run) for step in steps])
        except _BROKEN:
            raise NoValue(NO_OVERLOAD) from None

    return call


def _quick_equals(one: Step, other: Step) -> Step:
    return lambda run: bool(one(run) == other(run))


def _quick(compare: Callable[[Any, Any], bool]) -> Callable[[Step, Step], Step]:
    return lambda one, other: lambda run: compare(one(run), other(run))


_QUICK: dict[str, Callable[..., Step]] = {
    "_==_": _quick_equals,
    "_!=_": _quick(lambda a, b: bool(a != b)),
    "_<_": _quick(lambda a, b: bool(a < b)),
    "_<=_": _quick(lambda a, b: bool(a <= b)),
    "_>_": _quick(lambda a, b: bool(a > b)),
    "_>=_": _quick(lambda a, b: bool(a >= b)),
}


def _of_lists(function: str, kinds: list[Type]) -> Function | None:
    """Equality where the schema says that the order of a list does not matter."""
    equal = next((one.shape.equal for one in kinds if one.shape is not None and one.shape.equal is not None), None)
    if equal is None or function == "@in":
        return None
    wanted = function == "_==_"

    def compare(run: Evaluation, one: Any, other: Any) -> bool:
        run.spend(1 + min(len(one), len(other)) if hasattr(one, "__len__") and hasattr(other, "__len__") else 1)
        return equal(one, other) is wanted

    return compare
