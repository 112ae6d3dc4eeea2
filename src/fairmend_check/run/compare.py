"""Runs a model file where its runtime is installed, and compares the outputs with what the checker says they can be.

A proof is about the network that the checker reads from the file. If the runtime computes anything else, because the
checker or the runtime reads the file in another way, its numbers are outside the bounds. A run can only take VALID
away. It happens in a process of its own (`runtimes`), with a limit on its time.

It is run on the people of a certificate, their neighbours, and other people of its spec. Of a claim about classes,
other members of their classes must get the same outputs, bit for bit. Such a claim about classes does not depend on
what a runtime makes of the nodes behind the entry. What a run can show is that a runtime does not compute the entry as
it stands in the file, or that the checker overlooked another way to the inputs.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.certificate import Certificate, ClassCertificate
from fairmend_check.kernel.entry import FLOATS, WHOLE, Entry, Port
from fairmend_check.kernel.features import Feature
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.neighbourhood import (
    Product,
    batches,
    count_boxes,
    encode,
    encode_one_hot,
    neighbourhoods,
    slack,
)
from fairmend_check.kernel.rounding import Array
from fairmend_check.kernel.spec import Spec
from fairmend_check.run.enclosure import certain_classes, close_outputs, enclose_outputs
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
    expected = close_outputs(low, high, model.closing, model.dtype, outputs.shape[1], model.rescaling)
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


PEOPLE = 512  # of the spec, half of them in corners and half anywhere
MAX_INPUTS = 256  # of a certificate
_NEIGHBOURS = 2  # of each of them
MAX_POINTS = 4096  # of finite neighbourhoods of all of them


def people_of_spec(spec: Spec, dtype: str, count: int, rng: np.random.Generator) -> Array:
    """Return encoded rows (count, width): in the first half all numbers are at an end of their range."""
    return np.concatenate([_column(feature, dtype, count, rng) for feature in spec.features], axis=1)


def values_between(feature: Feature, low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Return a random value of a feature from each low to high."""
    if feature.whole:
        return np.minimum(np.floor(low + rng.random(len(low)) * (high - low + 1)), high)
    return np.clip(low + rng.random(len(low)) * (high - low), low, high)


def values_as_is(count: int, rng: np.random.Generator) -> Array:
    """Return random numbers of many sizes, for a column of which no range is known."""
    return np.asarray(rng.normal(size=count) * 10.0 ** rng.integers(-2, 4, count))


def _column(feature: Feature, dtype: str, count: int, rng: np.random.Generator) -> Array:
    if feature.as_is:
        return values_as_is(count, rng).astype(dtype).astype(np.float64)[:, None]
    low, high = np.full(count, float(feature.low)), np.full(count, float(feature.high))
    within = values_between(feature, low, high, rng)
    if feature.one_hot:
        return encode_one_hot(feature, within.astype(np.int64))
    ends = np.where(rng.random(count) < 0.5, low, high)
    values, (offset, factor) = np.where(np.arange(count) < count // 2, ends, within), feature.affine
    most = float(np.finfo(dtype).max)  # of a feature that does not vary, the proof needs no ends
    with np.errstate(over="ignore"):
        return np.clip((values - offset) / factor, -most, most).astype(dtype).astype(np.float64)[:, None]


def people_of_certificate(claimed: Certificate, model: Model, rng: np.random.Generator) -> Array:
    """Return people of the inputs of a certificate, and of its spec, as encoded rows (people, width)."""
    listed = ListedPeople(claimed.spec, model.dtype, rng)
    for inputs in claimed.read_inputs(model):
        listed.add(inputs)
    return listed.and_others(PEOPLE)


def neighbours(around: Sequence[Product], count: int, rng: np.random.Generator) -> Array:
    """Return random members of a neighbourhood (count, width); the axes of half of them are at an end."""
    found = np.empty((count, len(around[0].x)))
    for row in range(count):
        each = around[int(rng.integers(len(around)))]
        found[row] = each.x
        for axis in each.axes:
            corner = rng.random() < 0.5
            if not axis.feature.whole:
                at = rng.integers(2) if corner else rng.random()
                value = np.array(axis.low + at * (axis.high - axis.low)).astype(axis.kind)
                found[row, axis.column] = np.clip(value, axis.low, axis.high)
                continue
            number = np.array([(axis.count - 1) * rng.integers(2) if corner else rng.integers(axis.count)])
            if axis.feature.one_hot:
                columns = slice(axis.column, axis.column + axis.feature.width)
                found[row, columns] = encode_one_hot(axis.feature, number + int(axis.lowest))[0]
            else:
                found[row, axis.column] = axis.encoded(number)[0]
    return found


class ListedPeople:
    """People of the inputs of a certificate, collected block by block; beyond the limits they are chosen at random.

    They are all members of small finite neighbourhoods, and of others the input and two neighbours.
    """

    def __init__(self, spec: Spec, dtype: str, rng: np.random.Generator) -> None:
        self._spec, self._dtype, self._rng = spec, dtype, rng
        self._inputs = np.empty((0, spec.width))
        self._keys = np.empty(0)  # those with the smallest ones are kept

    def add(self, inputs: Array) -> None:
        """Add a block of inputs (inputs, width)."""
        keys = np.concatenate([self._keys, self._rng.random(len(inputs))])
        kept = np.sort(np.argsort(keys)[:MAX_INPUTS])
        self._keys, self._inputs = keys[kept], np.concatenate([self._inputs, inputs])[kept]

    def and_others(self, count: int) -> Array:
        """Return the people as encoded rows (people, width), and other people of the spec."""
        return np.concatenate([self._rows(), people_of_spec(self._spec, self._dtype, count, self._rng)])

    def _rows(self) -> Array:
        found, most = [self._inputs], MAX_POINTS // max(1, len(self._inputs))
        for products in neighbourhoods(self._spec, self._inputs, self._dtype):
            if isinstance(products, NotConfirmedError):
                raise products
            finite = all(axis.feature.whole for each in products for axis in each.axes)
            if finite and count_boxes(products, each_whole=True) <= most:
                found += [lower for _, lower, _ in batches([(0, products, True)], most)]
            else:
                found.append(neighbours(products, _NEIGHBOURS, self._rng))
        return np.concatenate(found)


ALIKE = 256  # people, each with members of their class
VARIANTS = 6  # of everyone, the first of which is the person; the last half has anything in columns that are cut
_MOVES = 3  # to similar people, on the way to another member of a class
_SAME = 0.4  # how often a feature is left as it is
_ANY_FLOAT = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e-40)
_ANY_TEXT = ("", " ", "?", "nan", "\u2205")

Values = dict[str, Array]  # by feature: values, or numbers of the model if it is continuous; (people,)


class ClassRun(ModelRun):
    """A run in which everyone got the bits that members of their class got in their place."""

    found: ClassVar[str] = "members of their classes get the same outputs, bit for bit"


def run_classes(path: Path, claimed: ClassCertificate, runtime: Runtime) -> ModelRun:
    """Run a file; raise NotConfirmedError if members of a class get different outputs.

    Raises NotRunError if the program refuses the file, and CheckError if it crashes, does not end, or answers something
    else.
    """
    if runtime.key != "onnxruntime":
        raise NotRunError("only ONNX Runtime runs such a file")
    rng = np.random.default_rng(int(claimed.file_sha256, 16))  # the same files are run on the same people
    arrays: dict[str, np.ndarray] = {}
    files: list[list[str]] = [[] for _ in claimed.entry.ports]
    for variant, held in enumerate(class_members(claimed.spec, claimed.entry, rng)):
        for number, array in enumerate(held):
            files[number].append(f"port_{number}_{variant}.npy")
            arrays[files[number][-1]] = array
    names = [port.name for port in claimed.entry.ports]
    program, saved = run_job(path, runtime, arrays, ALIKE, ports=files, names=names)
    digests, numbers = saved.get("digests"), saved.get("numbers")
    fits = digests is not None and numbers is not None and digests.shape == (VARIANTS, len(numbers), 16)
    if not fits or digests is None or numbers is None or set(numbers.tolist()) != set(range(ALIKE)):
        raise CheckError(f"{program} did not compute the outputs of every person once or more")
    different = (digests != digests[0]).any(axis=(0, 2))
    if different.any():
        people = len(np.unique(numbers[different]))
        raise NotConfirmedError(
            f"{program} does not compute the entry that was checked: of {ALIKE} people, {people} get another output "
            "than a member of their class in their place"
        )
    return ClassRun(program, ALIKE)


def class_members(spec: Spec, entry: Entry, rng: np.random.Generator, people: int = ALIKE) -> list[list[np.ndarray]]:
    """Return for each variant what each port holds: people of the spec, and then members of their classes."""
    start = {feature.name: _anyone(feature, _port_of(entry, feature), people, rng) for feature in spec.features}
    found = [[_held(port, start) for port in entry.ports]]
    for variant in range(1, VARIANTS):
        values = start
        for _ in range(int(rng.integers(1, _MOVES + 1))):
            values = _moved(spec, entry, values, rng)
        ports = [_held(port, values) for port in entry.ports]
        if 2 * variant >= VARIANTS:
            for number, port in enumerate(entry.ports):
                _disturb(ports[number], entry, number, port, values, rng)
        found.append(ports)
    return found


def _port_of(entry: Entry, feature: Feature) -> Port:
    return next(port for port in entry.ports if feature in port.features)


def _anyone(feature: Feature, port: Port, people: int, rng: np.random.Generator) -> Array:
    """Return random values of a feature, every other one at an end of its range."""
    if feature.as_is:
        return encode(feature, values_as_is(people, rng), np.dtype(port.type))
    low, high = (np.full(people, float(end)) for end in (feature.low, feature.high))
    values = values_between(feature, low, high, rng)
    values = np.where(rng.random(people) < 0.5, values, np.where(rng.random(people) < 0.5, low, high))
    return values if feature.whole else encode(feature, values, np.dtype(port.type))


def _moved(spec: Spec, entry: Entry, values: Values, rng: np.random.Generator) -> Values:
    """Return similar people, one for each."""
    new, people = {name: each.copy() for name, each in values.items()}, len(next(iter(values.values())))
    for feature in spec.varying:
        if feature.varies_by_itself or not feature.whole:
            port, own = _port_of(entry, feature), values[feature.name]
            banded = bool(feature.bands or feature.groups)
            other = _in_band(feature, port, own, rng) if banded else _anyone(feature, port, people, rng)
            new[feature.name] = np.where(rng.random(people) < _SAME, values[feature.name], other)
    for person in range(people):
        for link in spec.links:
            ends = {name: spec.places[name][0] for name, _ in link.when}
            applies = all(
                any(_within(ends[name], _port_of(entry, ends[name]), new[name][person], run) for run in runs)
                for name, runs in link.when
            )
            if not applies or all(new[name][person] == values[name][person] for name, _ in link.when):
                continue
            for name, effect in link.then:
                feature = spec.places[name][0]
                targets = effect.values(feature, values[name][person]) if feature.whole else None
                if targets:
                    first, last = targets[int(rng.integers(len(targets)))]
                    new[name][person] = rng.integers(int(first), int(last) + 1)
    return new


def _in_band(feature: Feature, port: Port, own: Array, rng: np.random.Generator) -> Array:
    """Return values of the same bands as the own ones."""
    if feature.whole:
        runs = [feature.runs_around(value) for value in own.tolist()]
        chosen = [each[int(rng.integers(len(each)))] for each in runs]
        return np.array([float(rng.integers(int(low), int(high) + 1)) for low, high in chosen])
    kind = np.dtype(port.type)
    ends = encode(feature, np.array([*feature.bands, feature.high]), kind)
    band = np.clip(np.searchsorted(ends[:-1], own, side="right") - 1, 0, len(feature.bands) - 1)
    below = np.nextafter(ends.astype(kind), kind.type(-np.inf)).astype(np.float64)  # the last number of each band
    last = np.where(band + 1 < len(feature.bands), below[band + 1], ends[-1])
    inside = (ends[band] + rng.random(len(own)) * (last - ends[band])).astype(kind).astype(np.float64)
    at_end = np.where(rng.random(len(own)) < 0.5, ends[band], last)
    return np.where(rng.random(len(own)) < 0.5, at_end, np.clip(inside, ends[band], last))


def _within(feature: Feature, port: Port, value: float, run: tuple[float, float]) -> bool:
    low, high = run if feature.whole else encode(feature, np.array(run), np.dtype(port.type)).tolist()
    return bool(low <= value <= high)


def _held(port: Port, values: Values) -> np.ndarray:
    """Return what a port holds: (people, width), or (people,)."""
    columns: list[Any] = []
    for feature in port.features:
        own = values[feature.name]
        if port.type == "string":
            columns.append(np.array(feature.categories)[own.astype(np.int64)][:, None])
        elif feature.one_hot:
            columns.append(encode_one_hot(feature, own.astype(np.int64)))
        elif feature.whole and port.type in FLOATS:
            columns.append(encode(feature, own, np.dtype(port.type))[:, None])
        else:
            columns.append(own[:, None])
    held = np.concatenate(columns, axis=1)
    held = held if port.type == "string" else held.astype(port.type)
    return held[:, 0] if port.rank == 1 else held


def _disturb(held: np.ndarray, entry: Entry, number: int, port: Port, values: Values, rng: np.random.Generator) -> None:
    """Put anything into columns that are cut, and whole numbers scaled in float32 into those that codes read."""
    read, columns = entry.read_columns(number), held[:, None] if port.rank == 1 else held
    for column in entry.cut_columns(number):
        if column not in read:
            columns[:, column] = rng.choice(_anything(port, columns[:, column]), len(columns))
    for column in read - set(entry.kept_columns(number)):
        feature, _ = port.owners[column]
        if feature.whole and not feature.one_hot and port.type in FLOATS:
            offset, factor = feature.affine
            with np.errstate(all="ignore"):
                own = values[feature.name].astype(np.float32)
                scaled = ((own - np.float32(offset)) / np.float32(factor)).astype(np.float64)
            room = np.minimum(slack(feature, values[feature.name]), 0.25)
            near = np.abs(scaled * factor + offset - values[feature.name]) <= room
            columns[near, column] = scaled[near].astype(port.type)


def _anything(port: Port, column: np.ndarray) -> Any:
    if port.type in FLOATS:
        return np.array(_ANY_FLOAT, dtype=port.type)
    if port.type in WHOLE:
        return np.array([np.iinfo(port.type).min, np.iinfo(port.type).max, -1, 0, 7], dtype=port.type)
    return np.array([False, True]) if port.type == "bool" else np.array([*_ANY_TEXT, *column[:4]])
