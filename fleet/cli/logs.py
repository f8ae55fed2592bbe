"""The log of long-running processes, on stderr and in the data directory: one JSON line an event, of libraries too.

Fleet's own events, the libraries' loggers (uvicorn, asyncio, alembic), Python's warnings, uncaught exceptions. stdout
is left to answers, such as the `ready` line.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO, cast

ENV_OWN = "FLEET_LOG_IS_OWN"  # set by a supervisor, which has opened this process's file as its stdout and stderr

_as_json = False
_kept: TextIO | None = None  # of a process that speaks to a terminal


def configure(file: Path | None = None) -> None:
    """From now on, in this process. `file`: of the data directory, which gets the lines too (logfile.py)."""
    global _as_json
    import logging

    import structlog

    _as_json = True
    stream = _stream(file)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    of_libraries = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(of_libraries)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def _stream(file: Path | None) -> TextIO:
    """What takes the lines. A file that cannot be had is no reason to end: stderr has the lines then."""
    from fleet.cli.logfile import LogFile

    own = os.environ.pop(ENV_OWN, "") != ""
    if file is not None:
        with contextlib.suppress(OSError):
            return cast(TextIO, LogFile(file, None if own else sys.stderr, own=own))
    return sys.stderr


def keep(file: Path) -> None:
    """From now on what this process says on a terminal is in the file, too."""
    global _kept
    from fleet.cli.logfile import LogFile

    with contextlib.suppress(OSError):
        _kept = cast(TextIO, LogFile(file))


def say(text: str, level: Literal["info", "warning", "error"] = "info") -> None:
    """One line for the reader of stderr: JSON where this process logs so, else the text itself."""
    if _as_json:
        import structlog

        getattr(structlog.get_logger(__name__), level)(text)
    else:
        print(text, file=sys.stderr, flush=True)
        if _kept is not None:
            now = datetime.now(UTC).isoformat().replace("+00:00", "Z")  # noqa: TID251  # as the other lines have it
            _kept.write(json.dumps({"event": text, "level": level, "timestamp": now}) + "\n")


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    import structlog

    if not issubclass(kind, KeyboardInterrupt):
        structlog.get_logger(__name__).error("an exception that nobody caught", exc_info=(kind, error, trace))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        _uncaught(args.exc_type, args.exc_value, args.exc_traceback)
