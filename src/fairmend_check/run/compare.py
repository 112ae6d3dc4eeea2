"""Runs a model file where its runtime is installed, and compares the outputs with what the checker says they can be.

A proof is about the network that the checker reads from the file. If the runtime computes anything else, because the
checker or the runtime reads the file in another way, its numbers are outside the bounds. A run can only take VALID
away. It happens in a process of its own (`runtimes`), with a limit on its time.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.enclosure import certain_classes, close_outputs, enclose_outputs
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.rounding import Array
from fairmend_check.run.runtimes import ANSWER, JOB, MAX_FILE, OUTPUTS, ROWS

SECONDS = 120.0  # for one runtime; its start alone can take ten
_SIZES = (1, 7)  # of batches, beside one with all people, or with so many:
_MOST = 1024
_NO_RUN = "To check the file without running it, pass --no-run (in Python run=False)"
_BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
_INSTALL = {
    ".onnx": "ONNX Runtime is not installed. To run the file as well: python -m pip install onnxruntime",
    ".keras": "Keras and one of its backends are not installed. To run the file as well: python -m pip install keras "
    "jax",
    ".pt2": "loading a .pt2 file can run code from it. Run your program on a copy that you trust, with "
    "fairmend.verify_deployment",
    ".nnet": "a .nnet file has no runtime of its own. Run your program with fairmend.verify_deployment",
    "": "a state dict stores no program. Run your module with fairmend.verify_deployment",
}


@dataclass(frozen=True)
class Runtime:
    """A program that is installed here and runs files of a format; ``{}`` in its name stands for its version."""

    key: str
    name: str
    backend: str = ""


class NotRunError(Exception):
    """A program refuses a file, for example because it is of a later version, or there is nothing to compare."""


@dataclass(frozen=True)
class ModelRun:
    """A run that contradicts nothing: in which program, and on how many people; ``found`` is what it shows."""

    program: str
    people: int
    found: ClassVar[str] = "all outputs within the bounds of the proof"


def installed_runtimes(suffix: str) -> list[Runtime]:
    """Return the programs that are installed here and run files with a suffix, in lower case."""
    if suffix == ".onnx" and _is_installed("onnxruntime"):
        return [Runtime("onnxruntime", "ONNX Runtime {}")]
    if suffix in (".h5", ".hdf5", ".keras") and _is_installed("keras"):
        return [
            Runtime("keras", f"Keras {{}} on {name}", module)
            for module, name in _BACKENDS.items()
            if _is_installed(module)
        ]
    return []


def why_not_run(suffix: str) -> str:
    """Return why a file with a suffix is not run, and how it can be, where no runtime is installed."""
    return _INSTALL.get({".h5": ".keras", ".hdf5": ".keras"}.get(suffix, suffix), _INSTALL[""])


def run_model(path: Path, model: Model, rows: Array, runtime: Runtime) -> ModelRun:
    """Run a file on encoded rows (people, width); raise NotConfirmedError if an output is outside its bounds.

    Raises NotRunError if the program refuses the file or nothing can be compared, and CheckError if it crashes, does
    not end, or answers something else than outputs.
    """
    bounds = enclose_outputs(model, rows)
    bounded = np.isfinite(bounds[0]).all(axis=1) & np.isfinite(bounds[1]).all(axis=1)
    if not bounded.any():
        raise NotRunError("no person has outputs with finite bounds, so that a run shows nothing")
    rows, low, high = rows[bounded], bounds[0][bounded], bounds[1][bounded]
    program, numbers, outputs, labels = _execute(path, model, rows, runtime)
    expected = close_outputs(low, high, model.closing, model.dtype, outputs.shape[1])
    if expected is None:
        raise NotConfirmedError(f"{program} computes {outputs.shape[1]} outputs for a network with {model.outputs}")
    least, most = expected
    outside = ~((outputs >= least[numbers]) & (outputs <= most[numbers]))
    if outside.any():
        at = np.argwhere(outside)[0]
        person, output = numbers[at[0]], at[1]
        people = len(np.unique(numbers[outside.any(axis=1)]))
        raise NotConfirmedError(
            f"{program} does not compute the network that was checked: of {len(rows):,} people, {people:,} get an "
            f"output outside its bounds. Output {output} of person {person} is {outputs[tuple(at)]:.9g} instead of "
            f"{least[person, output]:.9g} to {most[person, output]:.9g}"
        )
    _check_labels(program, labels, certain_classes(model, low, high)[numbers])
    return ModelRun(program, len(rows))


def _check_labels(program: str, labels: np.ndarray, classes: np.ndarray) -> None:
    """Refuse labels that are not the classes by other names; a file without labels has -1 for all."""
    if (labels < 0).all():
        return
    found = np.unique(np.stack([labels, classes])[:, classes >= 0], axis=1)
    if len(np.unique(found[0])) < found.shape[1] or len(np.unique(found[1])) < found.shape[1]:
        raise NotConfirmedError(f"{program} gives people of one class several labels, or those of several classes one")


def _execute(path: Path, model: Model, rows: Array, runtime: Runtime) -> tuple[str, np.ndarray, Array, np.ndarray]:
    """Run a file in a process of its own; return the program, and the numbers of rows with their outputs and labels."""
    program, saved = run_job(path, runtime, {ROWS: rows.astype(model.dtype)}, len(rows))
    try:
        numbers, outputs, labels = saved["numbers"], saved["outputs"], saved["labels"].reshape(-1)
    except KeyError as error:
        raise CheckError(f"{program} left outputs that cannot be read. {_NO_RUN}") from error
    fits = outputs.ndim == 2 and numbers.shape == labels.shape == outputs.shape[:1] and outputs.dtype == np.float64
    if not fits or numbers.dtype != np.int64 or set(numbers.tolist()) != set(range(len(rows))):
        raise CheckError(f"{program} did not compute the outputs of every person once or more. {_NO_RUN}")
    return program, numbers, outputs, labels


def run_job(
    path: Path, runtime: Runtime, arrays: Mapping[str, np.ndarray], people: int, **job: Any
) -> tuple[str, dict[str, np.ndarray]]:
    """Run a file in a process of its own, on arrays by the names of their files; return the program and what it saved.

    ``job`` says what else that process needs to know; `runtimes` reads it.
    """
    name = runtime.name.replace(" {}", "")
    with tempfile.TemporaryDirectory(prefix="fairmend-check-") as temporary:
        folder = Path(temporary)
        whole = {"runtime": runtime.key, "model": str(path.absolute()), "sizes": [*_SIZES, min(people, _MOST)], **job}
        (folder / JOB).write_text(json.dumps(whole), encoding="utf-8")
        for file, array in arrays.items():
            np.save(folder / file, array)
        ended = _start_and_wait(folder, runtime.backend)
        if ended:
            raise CheckError(f"{name} {ended} while it ran the file, so there is no verdict. {_NO_RUN}")
        try:
            answer = json.loads(_read(folder / ANSWER))
            program = "" if {"error", "refused"} & answer.keys() else runtime.name.format(answer["version"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckError(f"{name} left no answer, so there is no verdict. {_NO_RUN}") from error
        if "refused" in answer:
            raise NotRunError(str(answer["refused"])[:300])
        if not program:
            raise CheckError(f"{name} cannot run the file ({str(answer['error'])[:300]}). {_NO_RUN}")
        try:
            with np.load(io.BytesIO(_read(folder / OUTPUTS)), allow_pickle=False) as saved:
                return program, dict(saved)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise CheckError(f"{program} left outputs that cannot be read. {_NO_RUN}") from error


def _start_and_wait(folder: Path, backend: str) -> str:
    """Run `runtimes` on a folder; return how it ended if that was not by itself."""
    # The child sees the modules that this process sees, and none in the folder where the user happens to be.
    paths = [str(Path(entry).absolute()) for entry in sys.path if entry]
    code = (
        f"import sys; sys.path[:] = {paths!r}; from pathlib import Path; "
        "from fairmend_check.run.runtimes import main; main(Path(sys.argv[1]))"
    )
    settings = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, **settings, **({"KERAS_BACKEND": backend} if backend else {})},
        start_new_session=True,
    )
    try:
        code_of_end = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.wait()
    if code_of_end < 0:
        return f"crashed ({signal.Signals(-code_of_end).name})"
    return f"ended with code {code_of_end}" if code_of_end else ""


def _read(path: Path) -> bytes:
    if path.stat().st_size > MAX_FILE:
        raise ValueError("the file is too large")
    return path.read_bytes()


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
