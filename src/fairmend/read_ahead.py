"""Read and encode the next people while the last ones are audited: reading takes one core, the audit the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Generic, TypeVar

T = TypeVar("T")

_AHEAD = 1  # items that may wait
_PATIENCE = 0.1  # seconds after which the reader looks whether it is still needed


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, of which a second thread prepares the next ones; an error is raised in its place."""
    reader = _Reader(items)
    reader.start()
    try:
        while True:
            item, error, ended = reader.ready.get()
            if error is not None:
                raise error
            if ended:
                return
            yield from item
            reader.room.release()
    finally:
        reader.stopped.set()
        reader.join()


class _Reader(Thread, Generic[T]):
    """Puts items into `ready` while there is room: each a list of one item, an error, and whether it is the end."""

    def __init__(self, items: Iterable[T]) -> None:
        super().__init__(name="read ahead", daemon=True)
        self._items = items
        self.ready: SimpleQueue[tuple[list[T], BaseException | None, bool]] = SimpleQueue()
        self.room, self.stopped = Semaphore(_AHEAD), Event()

    def run(self) -> None:
        """Read until the end, an error, or until nobody wants more."""
        try:
            for item in self._items:
                while not self.room.acquire(timeout=_PATIENCE):
                    if self.stopped.is_set():
                        return
                self.ready.put(([item], None, False))
            self.ready.put(([], None, True))
        except BaseException as error:  # raised again by the thread that asks for the item
            self.ready.put(([], error, False))
