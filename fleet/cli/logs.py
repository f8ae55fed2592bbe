"""The stderr of long-running processes: one JSON line an event, from all libraries too.

Fleet's own events, the libraries' loggers (uvicorn, asyncio, alembic), Python's warnings, uncaught exceptions. stdout
is left to answers, such as the `ready` line.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any

_as_json = False


def configure() -> None:
    """From now on, in this process."""
    global _as_json
    import logging

    import structlog

    _as_json = True
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    of_libraries = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(of_libraries)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def say(text: str) -> None:
    """One line for the reader of stderr: JSON where this process logs so, else the text itself."""
    if _as_json:
        import structlog

        structlog.get_logger(__name__).info(text)
    else:
        print(text, file=sys.stderr, flush=True)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    import structlog

    if not issubclass(kind, KeyboardInterrupt):
        structlog.get_logger(__name__).error("an exception that nobody caught", exc_info=(kind, error, trace))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        _uncaught(args.exc_type, args.exc_value, args.exc_traceback)
