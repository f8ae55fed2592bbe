"""`fleet demo`."""

from __future__ import annotations


def demo() -> None:
    """Run the whole walk-through here, then stop everything."""
