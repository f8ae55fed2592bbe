"""How commands are named: the words of other systems lead to those of Fleet, and values are called as people do."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

# In --help, and in "'x' is not a valid …": Typer has the names that Python gives them.
_VALUES = {
    "str": "text",
    "int": "whole number",
    "int range": "whole number",
    "float": "number",
    "float range": "number",
}


class CommandGroup(TyperGroup):
    """A group that knows the words of other systems for its commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for command in (self, *self.commands.values()):
            for parameter in command.params:
                parameter.type.name = _VALUES.get(parameter.type.name, parameter.type.name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            from fleet.cli.nearest import called_here

            if here := called_here(args[0], self.commands):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, here))}?")
        return super().resolve_command(ctx, args)
