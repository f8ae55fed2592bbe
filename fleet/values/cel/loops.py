"""The macros that run over a list or a map, and what a turn of each costs in Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fleet.values.cel.sequences import insert
from fleet.values.cel.values import NO_OVERLOAD, Evaluation, NoValue

Step = Callable[[Evaluation], Any]
Part = tuple[Step, int]
Shape = Callable[[Step, int, int | None, Part | None, Part | None], Step]


def _turns(run: Evaluation, values: Any, first: int, second: int | None, cost: int) -> Iterator[None]:
    """Sets the variables of each turn. `cost`: of a turn in any case."""
    slots = run.slots
    if type(values) is list:
        pairs: Iterable[tuple[Any, Any]] = enumerate(values)
    elif type(values) is dict:
        pairs = values.items()
    else:
        raise NoValue(NO_OVERLOAD)
    single = values if second is None else ()
    for value in single:
        run.spend(cost)
        slots[first] = value
        yield
    if second is not None:
        for key, value in pairs:
            run.spend(cost)
            slots[first], slots[second] = key, value
            yield


def _quantifier(decisive_value: bool, turn: int) -> Shape:
    """`all` ends at a false item, `exists` at a true one. A fault counts only where no item decides."""

    def shape(over: Step, first: int, second: int | None, test: Part | None, made: Part | None) -> Step:
        assert test is not None
        ask, cost = test
        cost += turn

        def decide(run: Evaluation) -> bool:
            problem: NoValue | None = None
            for _ in _turns(run, over(run), first, second, cost):
                try:
                    found = ask(run)
                    if found is decisive_value:
                        return bool(found)
                    if found is not True and found is not False:
                        problem = problem or NoValue(NO_OVERLOAD)
                except NoValue as fault:
                    if run.balance < 0:
                        raise
                    problem = problem or fault
            if problem is not None:
                raise problem
            return not decisive_value

        return decide

    return shape


def _exists_one(over: Step, first: int, second: int | None, test: Part | None, made: Part | None) -> Step:
    assert test is not None
    ask, cost = test

    def count(run: Evaluation) -> bool:
        found = 0
        for _ in _turns(run, over(run), first, second, cost):
            found += _truth(ask(run))
        run.spend(2 * found)
        return found == 1

    return count


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise NoValue(NO_OVERLOAD)


def _collects(turn: int) -> Shape:
    """Into a list. `turn`: what it costs to add an item."""

    def shape(over: Step, first: int, second: int | None, test: Part | None, made: Part | None) -> Step:
        assert made is not None
        make, cost = made[0], made[1] + turn
        ask, asking = test if test is not None else (None, 0)

        def collect(run: Evaluation) -> list[Any]:
            items: list[Any] = []
            for _ in _turns(run, over(run), first, second, asking if ask is not None else cost):
                if ask is not None:
                    if not _truth(ask(run)):
                        continue
                    run.spend(cost)
                items.append(make(run))
            return items

        return collect

    return shape


def _maps(keyed: bool) -> Shape:
    """Into a map: under the key of each turn, or each turn's entries."""

    def shape(over: Step, first: int, second: int | None, test: Part | None, made: Part | None) -> Step:
        assert made is not None
        make, cost = made[0], made[1] + (3 if keyed else 2)
        ask, asking = test if test is not None else (None, 0)

        def collect(run: Evaluation) -> dict[Any, Any]:
            entries: dict[Any, Any] = {}
            for _ in _turns(run, over(run), first, second, asking if ask is not None else cost):
                if ask is not None:
                    if not _truth(ask(run)):
                        continue
                    run.spend(cost)
                key = run.slots[first]
                outcome = make(run)
                if keyed:
                    insert(run, entries, key, outcome)
                elif type(outcome) is dict:
                    run.spend(len(outcome))
                    for name, value in outcome.items():
                        insert(run, entries, name, value)
                else:
                    raise NoValue(NO_OVERLOAD)
            return entries

        return collect

    return shape


# macro -> (what makes its step, what it costs in any case)
LOOPS: dict[str, tuple[Shape, int]] = {
    "all": (_quantifier(False, 3), 1),
    "exists": (_quantifier(True, 4), 1),
    "exists_one": (_exists_one, 2),
    "map": (_collects(12), 1),
    "filter": (_collects(12), 1),
    "transformList": (_collects(12), 1),
    "transformMap": (_maps(True), 1),
    "transformMapEntry": (_maps(False), 1),
}
