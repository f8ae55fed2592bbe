"""How commands are named: the words of other systems lead to those of Fleet."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """A group that knows the words of other systems for its commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            from fleet.cli.nearest import called_here

            if here := called_here(args[0], self.commands):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, here))}?")
        return super().resolve_command(ctx, args)
