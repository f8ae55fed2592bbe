"""Arguments that are written out and can never be right: Kubernetes refuses them with the expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fleet.values.cel.tree import Call, Const, ListOf
from fleet.values.cel.values import duration, timestamp
from fleet.values.pattern import BadPattern, Pattern


def literal_flaws(node: Call) -> Iterator[tuple[int, str]]:
    """(place, what is wrong)"""
    check = _CHECKS.get(node.function)
    argument = node.args[-1] if node.args else None
    if check is not None and isinstance(argument, Const) and isinstance(argument.value, str):
        try:
            check(argument.value)
        except ValueError:
            yield argument.at, f"invalid {node.function} argument"
    if node.function == "format" and isinstance(node.target, Const) and isinstance(argument, ListOf):
        wanted, given = str(node.target.value).replace("%%", "").count("%"), len(argument.items)
        if wanted < given:
            yield node.at, f"too many arguments supplied to string.format (expected {wanted}, got {given})"
        elif wanted > given:
            yield argument.at, f"index {given} out of range"


def _pattern(text: str) -> None:
    try:
        Pattern(text)
    except BadPattern as problem:
        raise ValueError(str(problem)) from None


_CHECKS: dict[str, Callable[[str], object]] = {"timestamp": timestamp, "duration": duration, "matches": _pattern}
