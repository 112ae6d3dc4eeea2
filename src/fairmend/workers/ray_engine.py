"""Ray: a cluster that runs somewhere, or one that is started on this machine for a single run."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line, printable
from fairmend.workers.engine import Engine, Failure, Pool
from fairmend.workers.local import SharedPart, call_for_data, pack, read_answer

_THREADS = "ray_"  # how the names of the threads start in which Ray listens for messages

_logger = logging.getLogger(__name__)


class RayEngine(Engine):
    """Runs tasks on Ray: at ray://host:port, on the cluster of this machine (ray://auto), or a new one (ray://local).

    ray://local:2 starts one with two workers; without a number it has one for each core.
    """

    def __init__(self, address: str) -> None:
        """Connect to Ray, unless this program is connected already, and count its cores."""
        try:
            import ray
        except ImportError as error:
            raise FairmendError("Ray needs its package: pip install 'fairmend[ray]'") from error
        self._ray, self._address, self._messages = ray, address, RayMessages()
        self._connected_before = bool(ray.is_initialized())
        self._elsewhere = TemporaryDirectory(prefix="fairmend-")  # empty
        if not self._connected_before:
            self._connect()
        self.slots = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.window = 2 * self.slots + 1

    def _connect(self) -> None:
        word, _, number = self._address.partition("://")[2].partition(":")
        logging.getLogger("ray.util.client").setLevel(logging.CRITICAL)  # errors are raised here
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if word == "local":
            options |= {"include_dashboard": False, "num_cpus": int(number) if number else None}
        try:
            with _working_in(self._elsewhere.name):  # Ray lets its workers import modules from the current folder
                self._ray.init(address=word if word in ("local", "auto") else self._address, **options)
        except Exception as error:  # Ray raises what its transport raises
            raise FairmendError(
                f"{self._address}: cannot connect to Ray ({_reason(error)}); correct the address, and if this Ray asks "
                "for a token, set RAY_AUTH_TOKEN"
            ) from error

    @contextmanager
    def open(self, function: Callable[[Any, Any], Any], shared: Any, classes: Sequence[type] = ()) -> Iterator[Pool]:
        """Put the function and what its calls share into Ray's store, once."""
        pool = _RayPool(self._ray, pack(function, shared, classes), self._address)
        try:
            yield pool
        finally:
            pool.cancel()

    def __enter__(self) -> RayEngine:
        """Return the engine; what Ray prints meanwhile is logged."""
        self._messages.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Disconnect; a Ray that was started for this run ends."""
        with self._messages.shutting_down():
            if not self._connected_before:
                self._ray.shutdown()
        self._elsewhere.cleanup()


class _RayPool:
    def __init__(self, ray: Any, part: SharedPart, address: str) -> None:
        self._ray, self._shared, self._address = ray, part, address
        self._part = ray.put(part)
        # Ray runs the tasks of a worker that dies again: three times by default.
        self._call = ray.remote(num_cpus=1)(call_for_data)
        self._numbers: dict[Any, int] = {}
        errors = ray.exceptions
        self._lost = (ConnectionError, errors.RaySystemError, errors.LocalRayletDiedError, *_transport_errors())

    def submit(self, number: int, task: Any) -> None:
        with self._connection():
            self._numbers[self._call.remote(self._part, task)] = number

    def next_finished(self) -> tuple[int, Any]:
        errors = self._ray.exceptions
        with self._connection():
            (done, *_), _ = self._ray.wait(list(self._numbers), num_returns=1)
            number = self._numbers.pop(done)
            try:
                return number, read_answer(self._shared, self._ray.get(done), self._address)
            except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError) as error:
                return number, Failure(f"{self._address}: {first_line(error)} Read the logs of Ray: is memory short?")

    @contextmanager
    def _connection(self) -> Iterator[None]:
        try:
            yield
        except self._lost as error:
            raise FairmendError(f"{self._address}: the connection to Ray was lost; start again") from error

    def cancel(self) -> None:
        """Stop what is under way, unless the connection is lost."""
        with suppress(*self._lost):
            for reference in self._numbers:
                self._ray.cancel(reference, force=True)


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    """Make a folder the current one for a moment."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _transport_errors() -> list[type[Exception]]:
    """Return what a client of Ray raises if its server has ended; without a client, grpc need not be installed."""
    grpc = sys.modules.get("grpc")
    return [] if grpc is None else [grpc.RpcError]


def _reason(error: BaseException) -> str:
    """Return the first line of an error, and the last one if the first announces the traceback of Ray's server."""
    first, lines = first_line(error), str(error).strip().splitlines()
    return f"{first} {printable(lines[-1].strip())}" if first.endswith(":") and len(lines) > 1 else first


class RayMessages:
    """Logs what the threads of Ray print while it is in use, and what any thread prints while Ray shuts down.

    It is about workers that die, and standard output is for results such as JSON.
    """

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
