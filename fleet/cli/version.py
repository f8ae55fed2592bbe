"""`fleet version`."""

from __future__ import annotations


def version() -> None:
    """Print the version of this program."""
    from fleet import __version__

    print(f"fleet {__version__}")
