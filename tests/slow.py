"""The short form of a test that repeats: `make test` runs some of its parameters, `make slow` the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")


def repeated(values: Iterable[T], *, short: Collection[str], name: Callable[[T], str] = str) -> list[ParameterSet]:
    """The parameters with their names as ids; all but those of the short form are slow. Raises ValueError for a name in
    `short` that no parameter has."""
    named = {name(value): value for value in values}
    if unknown := set(short) - set(named):
        raise ValueError(f"of the short form, and no parameter: {', '.join(sorted(unknown))}")
    return [pytest.param(value, id=key, marks=() if key in short else pytest.mark.slow) for key, value in named.items()]
