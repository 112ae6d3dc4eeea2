"""Where log lines go: stderr, above the progress bars, and a file."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path

from fairmend.errors import FairmendError

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_A_LOG_LINE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")


class _Stderr(logging.Handler):
    """Writes to whatever sys.stderr is at the time: progress bars put something there that keeps them below."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")
        sys.stderr.flush()


def log_to(verbosity: int, file: Path | None) -> Callable[[], None]:
    """Send what fairmend logs to stderr (1: INFO, 2: DEBUG) and, in full, to a file; return what undoes it."""
    logger = logging.getLogger("fairmend")
    handlers: list[logging.Handler] = []
    if verbosity:
        handlers.append(_Stderr(logging.INFO if verbosity == 1 else logging.DEBUG))
    if file is not None:
        handlers.append(_file_handler(file))
    before = logger.level, logger.handlers[:]
    for handler in logger.handlers[:]:
        if not isinstance(handler, logging.NullHandler):
            logger.removeHandler(handler)
    for handler in handlers:
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if file is not None or verbosity > 1 else logging.INFO)

    def stop() -> None:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
        logger.handlers[:] = before[1]
        logger.setLevel(before[0])

    return stop


def _file_handler(file: Path) -> logging.Handler:
    """Append to the file, unless it is something else than a log: a slip must not spoil a model."""
    try:
        if file.exists():
            with file.open("rb") as existing:
                start = existing.read(64)
            if start and not _A_LOG_LINE.match(start):
                raise FairmendError(f"{file}: exists and is not a log of fairmend; choose another name")
        return logging.FileHandler(file, mode="a", encoding="utf-8")
    except OSError as error:
        raise FairmendError(f"{file}: cannot write the log: {error.strerror or error}") from error
