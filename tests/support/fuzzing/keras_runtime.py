"""What Keras itself reads in a file, asked in a process of its own: libhdf5 runs forever on some damaged files.

Run as a program, it answers one path per line on standard input with one line of JSON.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["KerasRuntime", "probe_inputs"]

_CPU_SECONDS, _WALL_SECONDS = 20, 900  # a good file takes a tenth of a second, however busy the machine is


def probe_inputs(width: int) -> np.ndarray:
    """Return inputs at which networks are compared (rows, width)."""
    return np.random.default_rng(width).normal(scale=3, size=(24, width)).astype(np.float32)


class KerasRuntime:
    """A process that loads models with Keras; it is started again after a file that it does not finish."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> dict[str, Any]:
        """Return the weights and the outputs of the model in a file, or why Keras does not read it."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{path}\n")
            self._process.stdin.flush()
            return self._answer() or {"refused": "no answer"}
        except BrokenPipeError:
            self.close()
            return {"refused": "the process ended"}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        environment = os.environ | {"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        if self._answer() is None:
            raise RuntimeError("Keras cannot be started")

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


def _read(keras: Any, path: str) -> dict[str, Any]:
    try:
        model = keras.models.load_model(path)
        weights = [np.asarray(weight) for weight in model.get_weights()]
        outputs = np.asarray(model.predict_on_batch(probe_inputs(weights[0].shape[0])))
    except Exception as error:  # Keras raises what a damaged file makes it raise
        return {"refused": f"{type(error).__name__}: {str(error)[:200]}"}
    return {
        "weights": [[weight.dtype.name, list(weight.shape), weight.tobytes().hex()] for weight in weights],
        "outputs": outputs.astype(float).tolist(),
        "dtype": outputs.dtype.name,
    }


def _main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Keras prints is not an answer
    sys.path.pop(0)  # the folder of this file has modules of the names of libraries
    import keras

    answers.write(json.dumps({"version": keras.__version__}) + "\n")
    answers.flush()
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_SECONDS)  # its signal ends the process, in C code too
        answers.write(json.dumps(_read(keras, line.rstrip("\n"))) + "\n")
        answers.flush()


if __name__ == "__main__":
    _main()
