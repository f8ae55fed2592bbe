"""What need not be installed: the part of Fleet that runs a hub or decides without one, and matplotlib."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType

from fleet.cli.failure import Failure

LIGHT, HUB = "fleet-queues", "fleet-queues-hub"  # the distributions
INSTALL = f"pip install {HUB}"
PACKAGE = "fleet.hub"


def hub_is_installed() -> bool:
    found = importlib.util.find_spec(PACKAGE)
    return found is not None and found.origin is not None  # not a directory that something was left in


def hub_module(name: str, command: str) -> ModuleType:
    """The module of this name for a command. Raises Failure where it is not installed."""
    if not hub_is_installed():
        raise Failure(f"fleet {command} is part of the hub, which is not installed here: {INSTALL}")
    return importlib.import_module(f"{PACKAGE}.{name}")


def absent(command: str) -> Callable[[], None]:
    """The function of a command that is not installed."""

    def refuse() -> None:
        hub_module(command, command)

    return refuse


def need_plots(option: str, distribution: str) -> None:
    """Raises Failure where an option cannot draw pictures."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Failure(
            f"{option}: pictures need matplotlib, which is not installed here: pip install '{distribution}[plots]'"
        )
