"""A process that runs ONNX files in the ONNX Runtime of one folder, and asks for nothing else of this repository.

    python benchmarks/readers/onnx_worker.py [FOLDER]

FOLDER is what `pip install --target FOLDER onnxruntime==1.18.0 "numpy<2"` makes; without it, the installed packages are
used. Requests and answers are pickles of plain Python values, because releases of NumPy pickle arrays differently.
`Runtime` starts the process and talks to it.
"""

from __future__ import annotations

import contextlib
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

Plain = tuple[str, tuple[int, ...], Any]  # of an array: its dtype, its shape, and its bytes or list of texts
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL")


def send(stream: IO[bytes], value: Any) -> None:
    content = pickle.dumps(value, protocol=4)
    stream.write(struct.pack("<Q", len(content)) + content)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Return what the other process sent; raise EOFError if it has ended."""
    header = stream.read(8)
    content = stream.read(struct.unpack("<Q", header)[0]) if len(header) == 8 else b""
    if not content:
        raise EOFError
    return pickle.loads(content)


def plain(array: Any) -> Plain:
    texts = array.dtype.kind in "OSU"
    return ("O" if texts else array.dtype.str), array.shape, array.reshape(-1).tolist() if texts else array.tobytes()


def array_of(given: Plain) -> Any:
    import numpy as np

    dtype, shape, data = given
    return np.array(data, object).reshape(shape) if dtype == "O" else np.frombuffer(data, dtype).reshape(shape)


class Runtime:
    """A process with one version of ONNX Runtime; it is started again if a file ends it."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._start()

    def _start(self) -> None:
        command = [sys.executable, __file__, *([] if self.folder is None else [str(self.folder.resolve())])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to, self.back = self.process.stdin, self.process.stdout
        self.version: str = receive(self.back)

    def ask(self, content: bytes, feeds: list[dict[str, Any]]) -> None:
        """Let it run a file on several batches."""
        send(self.to, (content, [{name: plain(array) for name, array in feed.items()} for feed in feeds]))

    def answer(self) -> dict[str, list[list[Any]] | str]:
        """Return the outputs of each batch by level of optimisation, or why a level has none."""
        try:
            found = receive(self.back)
        except EOFError:
            self.close()
            self._start()
            return dict.fromkeys(LEVELS, "the process ended")
        return {
            level: runs if isinstance(runs, str) else [[_output(each) for each in outputs] for outputs in runs]
            for level, runs in found.items()
        }

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # if it has ended
            self.to.close()
        self.process.wait()
        self.back.close()


def _output(given: Any) -> Any:
    return given if isinstance(given, list) else array_of(given)  # a list of maps, as ZipMap gives


def serve() -> None:
    """Answer requests until there are no more."""
    if len(sys.argv) > 1:
        sys.path.insert(0, sys.argv[1])
    import onnxruntime

    back = sys.stdout.buffer
    send(back, onnxruntime.__version__)
    while True:
        try:
            content, feeds = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(back, {level: _run(onnxruntime, content, feeds, level) for level in LEVELS})


def _run(onnxruntime: Any, content: bytes, feeds: list[dict[str, Plain]], level: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        runs = [session.run(None, {name: array_of(each) for name, each in feed.items()}) for feed in feeds]
    except Exception as error:  # ONNX Runtime has a class for each of its codes and no class for them all
        return str(error)
    return [[each if isinstance(each, list) else plain(each) for each in outputs] for outputs in runs]


if __name__ == "__main__":
    serve()
