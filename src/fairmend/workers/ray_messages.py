"""What Ray prints about workers that die: it goes to the log, because standard output is for results such as JSON."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_THREADS = "ray_"  # how the names of the threads start in which Ray listens for messages

_logger = logging.getLogger(__name__)


class RayMessages:
    """Logs what the threads of Ray print while it is in use, and what any thread prints while Ray shuts down."""

    def __init__(self) -> None:
        self._stream: TextIO | None = None
        self._proxy: _WithoutRay | None = None

    def start(self) -> None:
        """Take the place of standard output; the output of other threads is passed on."""
        self._stream = sys.stdout
        self._proxy = _WithoutRay(self._stream)
        sys.stdout = self._proxy  # it has all that the stream has

    @contextmanager
    def shutting_down(self) -> Iterator[None]:
        """Log everything meanwhile, because Ray prints its last messages from this thread, and end."""
        if self._proxy is not None:
            self._proxy.logs_everything = True
        try:
            yield
        finally:
            if self._stream is not None and sys.stdout is self._proxy:
                sys.stdout = self._stream


class _WithoutRay:
    """A stream that passes on everything but what the threads of Ray write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.logs_everything = False

    def write(self, text: str) -> int:
        """Write the text, or log it."""
        if not self.logs_everything and not threading.current_thread().name.startswith(_THREADS):
            return self._stream.write(text)
        if text.strip():
            _logger.info("%s", text.strip())
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """Return what the stream has."""
        return getattr(self._stream, name)
