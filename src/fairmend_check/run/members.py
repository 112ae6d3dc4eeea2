"""Runs a model on people and on other members of their classes: they must get the same outputs, bit for bit.

A claim about classes does not depend on what a runtime makes of the nodes behind the entry. What a run can show is that
a runtime does not compute the entry as it stands in the file, or that the checker overlooked another way to the inputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.certificate import ClassCertificate
from fairmend_check.kernel.entry import FLOATS, WHOLE, Entry, Port
from fairmend_check.kernel.neighbourhood import encode, encode_one_hot, slack
from fairmend_check.kernel.rounding import Array
from fairmend_check.kernel.spec import Feature, Spec
from fairmend_check.run.compare import ModelRun, NotRunError, Runtime, run_job
from fairmend_check.run.sample import values_as_is, values_between

PEOPLE = 256
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
    program, saved = run_job(path, runtime, arrays, PEOPLE, ports=files, names=names)
    digests, numbers = saved.get("digests"), saved.get("numbers")
    fits = digests is not None and numbers is not None and digests.shape == (VARIANTS, len(numbers), 16)
    if not fits or digests is None or numbers is None or set(numbers.tolist()) != set(range(PEOPLE)):
        raise CheckError(f"{program} did not compute the outputs of every person once or more")
    different = (digests != digests[0]).any(axis=(0, 2))
    if different.any():
        people = len(np.unique(numbers[different]))
        raise NotConfirmedError(
            f"{program} does not compute the entry that was checked: of {PEOPLE} people, {people} get another output "
            "than a member of their class in their place"
        )
    return ClassRun(program, PEOPLE)


def class_members(spec: Spec, entry: Entry, rng: np.random.Generator, people: int = PEOPLE) -> list[list[np.ndarray]]:
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
        if feature.varies or not feature.whole:
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
