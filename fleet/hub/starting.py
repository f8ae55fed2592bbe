"""The first line in the log of a long-running process: what runs, and on what."""

from __future__ import annotations

import platform
from urllib.parse import urlsplit

import structlog

from fleet.values.release import running


def say_start(process: str, **where: str) -> None:
    """Log the start of this process; `where` names its data and its database."""
    version, commit = running()
    structlog.get_logger(__name__).info(
        f"fleet {process} starts", version=version, commit=commit, python=platform.python_version(), **where
    )


def place_of(database_url: str | None) -> str:
    """The host and the name of a database, without the credentials of its address."""
    if not database_url:
        return "embedded"
    parts = urlsplit(database_url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
