"""A Dask cluster that runs somewhere: its scheduler gives the tasks of a worker that dies to another one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line
from fairmend.workers.engine import CONNECT_SECONDS, Engine, Failure, Pool
from fairmend.workers.local import SharedPart, call_for_data, pack, read_answer

_SENT, _RECEIVED = ["dask", "msgpack", "pickle"], ["dask", "msgpack"]  # results are bytes, and never unpickled
_PATIENCE = 60.0  # seconds without any worker: a nanny starts a killed one again in less
_ASK_AGAIN, _LOOK_AGAIN = 2.0, 0.01  # seconds: the scheduler for workers, and Dask for results


class DaskEngine(Engine):
    """Runs tasks on the workers of a Dask scheduler."""

    def __init__(self, address: str) -> None:
        """Connect to the scheduler, and count its workers."""
        try:
            import distributed
        except ImportError as error:
            raise FairmendError("a Dask cluster needs Dask: pip install 'fairmend[dask]'") from error
        self._address = address
        for name in ("distributed.client", "distributed.batched", "distributed.comm", "distributed.protocol"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # errors are raised here
        try:
            self._client: Any = distributed.Client(
                address, timeout=CONNECT_SECONDS, set_as_default=False, serializers=_SENT, deserializers=_RECEIVED
            )
        except (OSError, ValueError) as error:
            raise FairmendError(
                f"{address}: no Dask scheduler answers there ({first_line(error)}); correct the address"
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError as error:
            self._client.close()
            raise FairmendError(
                f"{address}: the scheduler has no workers; start some: dask worker {address}"
            ) from error
        self.slots = sum(self._client.nthreads().values())
        self.window = 2 * self.slots + 1

    @contextmanager
    def open(self, function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()) -> Iterator[Pool]:
        """Send the function and what its calls share to the scheduler, once."""
        pool = _DaskPool(self._client, pack(function, shared, classes), self._address)
        try:
            yield pool
        finally:
            pool.cancel()

    def __exit__(self, *error: object) -> None:
        """Leave the cluster as it was."""
        self._client.close()


class _DaskPool:
    def __init__(self, client: Any, part: SharedPart, address: str) -> None:
        from distributed import as_completed

        self._client, self._address, self._shared = client, address, part
        # The result of a task, not data that is scattered: the scheduler can make it again if its workers die.
        self._part = client.submit(_same, part, pure=False)
        self._finished = as_completed(loop=client.loop)
        self._numbers: dict[Any, int] = {}

    def submit(self, number: int, task: Any) -> None:
        # Lower priority for later tasks, so that results come in about the order in which they are needed.
        future = self._client.submit(call_for_data, self._part, task, pure=False, priority=-number)
        self._numbers[future] = number
        self._finished.add(future)

    def next_finished(self) -> tuple[int, Any]:
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        self._wait()
        future = next(self._finished)
        number = self._numbers.pop(future)
        try:
            return number, read_answer(self._shared, future.result(), self._address)
        except TypeError as error:
            if future.status != "finished":  # it is the error of the task
                raise
            raise FairmendError(
                f"{self._address}: a worker sent something else than plain data: {first_line(error)}; is it yours?"
            ) from error
        except KilledWorker as error:
            return number, Failure(
                f"{self._address}: {first_line(error)} Read the logs of the workers: is memory short?"
            )
        except ModuleNotFoundError as error:
            return number, Failure(f"{self._address}: {error} on a worker; install the same fairmend on all workers")
        except (CancelledError, OSError) as error:
            raise FairmendError(f"{self._address}: the connection to the scheduler was lost; start again") from error
        finally:
            future.release()

    def _wait(self) -> None:
        """Wait until a task is finished; raise an error if there are no workers for a minute."""
        there = asked = time.monotonic()
        while not self._finished.has_ready():
            time.sleep(_LOOK_AGAIN)
            now = time.monotonic()
            if now - asked < _ASK_AGAIN or self._client.status != "running":
                continue
            asked = now
            there = now if self._client.nthreads() else there
            if now - there > _PATIENCE:
                raise FairmendError(
                    f"{self._address}: the scheduler has lost all its workers; start some (dask worker "
                    f"{self._address}), and run again"
                )

    def cancel(self) -> None:
        """Stop what is under way."""
        if self._client.status == "running":
            self._client.cancel([*self._numbers, self._part])


def _same(part: SharedPart) -> SharedPart:
    return part
