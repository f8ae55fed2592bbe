"""How commands read their options: as Typer does, but without its way through pydantic where a value needs none.

Typer makes a pydantic adapter for each parameter, also for one that nobody has given. To load pydantic takes as long as
the rest of Typer. Texts, words of a choice, paths and defaults are read here; numbers and everything wrong by Typer.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

_OTHERWISE = object()


class Command(TyperCommand):
    """A command that loads pydantic for the values alone that need it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _lightened(super().get_params(ctx))


class Group(TyperGroup):
    """A group that loads pydantic for no value of its own, and knows the words of other systems for its commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _lightened(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            from fleet.cli.nearest import called_here

            if here := called_here(args[0], self.commands):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, here))}?")
        return super().resolve_command(ctx, args)


def _lightened(params: list[Any]) -> list[Any]:
    for param in params:
        if "get_runtime_param" not in vars(param):
            param.get_runtime_param = _Light(param.get_runtime_param).itself
    return params


class _Light:
    """In the place of Typer's reader of one parameter, which `typers` makes."""

    def __init__(self, typers: Any) -> None:
        self._typers = typers

    def itself(self) -> _Light:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        described = param.type_descriptor
        read = _OTHERWISE if described.parameter_info.parser else _read(value, described)
        return self._typers().coerce(value, param=param, ctx=ctx) if read is _OTHERWISE else read


def _read(value: Any, described: Any) -> Any:
    """The value, or _OTHERWISE where Typer has to read it."""
    wanted, info = described.annotation, described.parameter_info
    if wanted == list[str] and isinstance(value, (list, tuple)) and all(type(one) is str for one in value):
        return list(value)
    if not isinstance(wanted, type):
        return _OTHERWISE
    if issubclass(wanted, Enum):
        return next((choice for choice in wanted if value in (choice, choice.value)), _OTHERWISE)
    if wanted is Path and type(value) in (str, Path) and not (info.exists or info.writable or info.resolve_path):
        path = Path(value)
        return path if info.file_okay and info.dir_okay and _may_be_read(path) else _OTHERWISE
    return value if wanted in (str, int, float, bool) and type(value) is wanted else _OTHERWISE


def _may_be_read(path: Path) -> bool:
    """A path that leads nowhere is for the command to judge."""
    return os.access(path, os.R_OK) or not path.exists()
