"""Where log records go: to stderr, above the progress bars, and to a file."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import printable

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_LOG_LINE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")


class _Formatter(logging.Formatter):
    """Writes a message on one line, with control characters escaped, and indents a traceback below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # its name in logging
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  # its name in logging
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).splitlines())


def start_logging(verbosity: int, file: Path | None) -> Callable[[], None]:
    """Log to stderr (verbosity 1: INFO, 2: DEBUG) and, in full, to a file; return a function that stops it."""
    logger = logging.getLogger("fairmend")
    handlers: list[logging.Handler] = []
    if verbosity:
        handlers.append(_stderr_handler(logging.INFO if verbosity == 1 else logging.DEBUG))
    if file is not None:
        handlers.append(_file_handler(file))
    before = logger.level, logger.handlers[:]
    for handler in logger.handlers[:]:
        if not isinstance(handler, logging.NullHandler):
            logger.removeHandler(handler)
    for handler in handlers:
        handler.setFormatter(_Formatter(_FORMAT))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if file is not None or verbosity > 1 else logging.INFO)

    def stop() -> None:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
        logger.handlers[:] = before[1]
        logger.setLevel(before[0])

    return stop


def _stderr_handler(level: int) -> logging.Handler:
    try:
        from rich.logging import RichHandler

        from fairmend.cli.console import stderr_console
    except ModuleNotFoundError:  # `fairmend check` works without rich
        plain = logging.StreamHandler()
        plain.setLevel(level)
        return plain

    class Handler(RichHandler):
        """Prints each record as one line of `_FORMAT`, without rich's columns."""

        def render(self, *, message_renderable: object, **_: object) -> object:  # type: ignore[override]
            return message_renderable

    # The progress bars use the same console, so they stay below the log lines.
    return Handler(level, console=stderr_console(), highlighter=None, markup=False)


def _file_handler(file: Path) -> logging.Handler:
    """Append to the file, unless it is something other than a log: a typing error must not damage a model."""
    try:
        if file.exists():
            with file.open("rb") as existing:
                start = existing.read(64)
            if start and not _LOG_LINE.match(start):
                raise FairmendError(f"{file}: exists and is not a log file of fairmend; choose another name")
        return logging.FileHandler(file, mode="a", encoding="utf-8")
    except OSError as error:
        raise FairmendError(f"{file}: cannot write the log: {error.strerror or error}") from error
