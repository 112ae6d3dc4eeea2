"""How long operations report progress: a callback, and the line that shows it where the caller gives none.

In a notebook or a terminal, a call that takes long shows its stage on one line, which disappears at the end. Nothing is
shown elsewhere, so that logs and pipes stay clean. Pass a callback of your own as ``progress`` to replace it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TextIO, TypeVar

Progress = Callable[[str, int, int], None]
"""Called with the stage, the number of steps done and the total number of steps, which is 0 while it is unknown."""

QUIET_SECONDS, EVERY_SECONDS = 2.0, 0.2
"""A call that ends within the first shows nothing; after that, the line changes at most once in the second."""

_WIDTH = 60

P = ParamSpec("P")
R = TypeVar("R")


def shows_progress(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function with an argument ``progress`` show a line if the caller gives none and would see it."""

    @wraps(function)
    def with_line(*args: P.args, **kwargs: P.kwargs) -> R:
        stream = sys.stdout if _is_notebook(sys.stdout) else sys.stderr  # a notebook shows stderr as an error
        if kwargs.get("progress") is not None or not _is_watched(stream):
            return function(*args, **kwargs)
        line = ProgressLine(function.__name__, stream)
        given: dict[str, Any] = {**kwargs, "progress": line}
        try:
            return function(*args, **given)
        finally:
            line.clear()

    return with_line


def _is_watched(stream: TextIO | None) -> bool:
    """Return whether somebody sees what is written at once: in a terminal, or in the output of a notebook's cell."""
    if stream is None:
        return False
    return stream.isatty() or _is_notebook(stream)


def _is_notebook(stream: TextIO | None) -> bool:
    return type(stream).__module__.partition(".")[0] == "ipykernel"


class ProgressLine:
    """A progress callback that rewrites one line of text."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name, self._stream = name, stream
        self._started = self._last = time.monotonic()
        self._shown = False

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the stage, unless the call has just started or the line has just changed."""
        now = time.monotonic()
        if now - self._started < QUIET_SECONDS or now - self._last < EVERY_SECONDS:
            return
        self._last, self._shown = now, True
        share = f"{min(done / total, 1):.0%}" if total else f"{done:,}"
        text = f"{self._name}: {stage}, {share}, {now - self._started:.0f} s"
        self._stream.write(f"\r{text[:_WIDTH]:<{_WIDTH}}")
        self._stream.flush()

    def clear(self) -> None:
        """Remove the line, if there is one."""
        if self._shown:
            self._stream.write(f"\r{'':<{_WIDTH}}\r")
            self._stream.flush()
