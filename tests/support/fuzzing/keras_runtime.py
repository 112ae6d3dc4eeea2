"""What Keras itself reads in a file, asked in a process of its own: libhdf5 runs forever on some damaged files.

Run as a program, it answers each line of JSON on standard input with one line of JSON.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["KerasRuntime", "probe_inputs", "serve"]

_CPU_SECONDS, _WALL_SECONDS = 20, 900  # a good file takes a tenth of a second, however busy the machine is


def probe_inputs(width: int) -> np.ndarray:
    """Return inputs at which networks are compared (rows, width)."""
    return np.random.default_rng(width).normal(scale=3, size=(24, width)).astype(np.float32)


class KerasRuntime:
    """A process that loads models with Keras; it is started again after a file that it does not finish.

    `python` is the interpreter, `backend` what Keras computes with, `folder` where another Keras is than that of the
    interpreter, and `program` what runs: this file, or another one that calls `serve`.
    """

    def __init__(
        self, python: str = sys.executable, backend: str = "torch", folder: str = "", program: Path = Path(__file__)
    ) -> None:
        self._command = [python, "-W", "ignore", str(program)]
        self._environment = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._environment |= {"PYTHONPATH": folder} if folder else {}
        self._process: subprocess.Popen[str] | None = None
        self.version = ""

    def read(self, path: Path) -> dict[str, Any]:
        """Return the weights and the outputs of the model in a file, or why Keras does not read it."""
        return self.ask({"path": str(path)})

    def outputs(self, path: Path, rows: Path, *, compiled: bool) -> dict[str, Any]:
        """Return the outputs of the model in a file for the rows in another (.npy), or why Keras does not read it."""
        return self.ask({"path": str(path), "rows": str(rows), "compiled": compiled})

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request; it has the key "refused" if there is none."""
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return self._answer() or {"refused": "no answer"}
        except BrokenPipeError:
            self.close()
            return {"refused": "the process ended"}

    def start(self) -> None:
        """Start the process, if it does not run."""
        if self._process is not None:
            return
        environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""} | self._environment
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        answer = self._answer()
        if answer is None:
            raise RuntimeError(f"Keras cannot be started: {' '.join(self._command)}")
        self.version = answer["version"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _answer(self) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _WALL_SECONDS)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.close()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer


def _read(keras: Any, request: dict[str, Any]) -> dict[str, Any]:
    model = keras.models.load_model(request["path"])
    if "rows" in request:
        return {"outputs": _outputs(model, np.load(request["rows"]), request["compiled"]).astype(float).tolist()}
    weights = [np.asarray(weight) for weight in model.get_weights()]
    outputs = np.asarray(model.predict_on_batch(probe_inputs(weights[0].shape[0])))
    return {
        "weights": [[weight.dtype.name, list(weight.shape), weight.tobytes().hex()] for weight in weights],
        "outputs": outputs.astype(float).tolist(),
        "dtype": outputs.dtype.name,
    }


def _outputs(model: Any, rows: np.ndarray, compiled: bool) -> np.ndarray:
    """Return what a model gives for rows, whose columns are those of its inputs one after the other."""
    ends = np.cumsum([given.shape[-1] for given in model.inputs])[:-1]
    parts = np.split(rows, ends, axis=1)
    given = parts if len(parts) > 1 else parts[0]
    if compiled:
        return np.asarray(model.predict_on_batch(given))
    found = model(given, training=False)
    return np.asarray(found.detach().cpu() if hasattr(found, "detach") else found)


def serve(answer: Callable[[Any, dict[str, Any]], dict[str, Any]]) -> None:
    """Answer requests on standard input with what a function makes of Keras and a request, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Keras prints is not an answer
    sys.path.pop(0)  # the folder of the program has modules of the names of libraries
    import keras

    answers.write(json.dumps({"version": keras.__version__}) + "\n")
    answers.flush()
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_SECONDS)  # its signal ends the process, in C code too
        try:
            found = answer(keras, json.loads(line))
        except Exception as error:  # Keras raises what a damaged file makes it raise
            found = {"refused": f"{type(error).__name__}: {str(error)[:200]}"}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(_read)
