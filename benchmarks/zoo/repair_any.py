"""Models of other libraries, taken the whole way: audited, repaired, VALID, given back to their framework, bits equal?

    python benchmarks/zoo/repair_any.py --state zoo.jsonl      # all of any_models.py, an hour or two; resumes
    python benchmarks/zoo/repair_any.py --only rtdl            # those with this in library, form or name
    python benchmarks/zoo/repair_any.py --state zoo.jsonl --part 1/2   # every second model, for two processes at a time
    python benchmarks/zoo/repair_any.py --state zoo.jsonl --markdown   # the tables of docs/formats.md
    python benchmarks/zoo/repair_any.py --keep folder         # keeps what is repaired, with the certificates
    python benchmarks/zoo/repair_any.py --check folder        # checks again what was kept
    python benchmarks/zoo/repair_any.py --cost                 # what a repaired model costs beside the original

- audited: of 200 people, fairmend counts as many treated unequally as an enumeration in the model's own framework;
- repaired: by `repair(method="average")`, or by `auto` if the model is a file whose exporter fixed the number of rows;
- VALID: the repaired model is saved as ONNX, and `fairmend check` says VALID, the run of the file included;
- loads: ONNX Runtime loads a file, a module is `result.module`, an estimator `result.estimator`, and both have the
  scores of the saved file up to 1e-4, for each of 2,000 people;
- bits: of 2,000 people, none has other scores, to the last bit, with other values of the protected features, in the
  framework and in the saved file. Each is run with every combination of values (106 if sex and age are protected),
  beside people with others, and with what is no value of these features: NaN, infinity and a huge number, or text and
  whole numbers that nobody has where an input holds text or whole numbers. All 2,000 in one batch, 28 of them in
  batches of 7, 8 in pairs, and 4 alone.

A function holds no model that could be written to a file, some converters write a model wrongly or not at all, and some
files `check` does not follow: such a repair has no certificate that is VALID, which is said in the table.
A model that cannot be repaired for everyone must be refused by name.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))

import fairmend
from benchmarks.zoo import any_models
from benchmarks.zoo.run_only.models import BOTH, BY_PROBABILITIES, CALLABLE, ESTIMATOR, KERAS, MODULE, Model
from benchmarks.zoo.run_only.people import (
    CALIBRATION_ROWS,
    CODES,
    REPAIR_ROWS,
    TRAINING_ROWS,
    counterparts,
    load_frame,
)
from fairmend.models import RunModel
from fairmend.models.ports import Port
from fairmend.models.repaired import RepairedModel

STEPS = ("built", "audited", "repaired", "VALID", "loads", "bits")
JUDGED, PEOPLE = 200, 2000
BATCHES = {PEOPLE: PEOPLE, 7: 28, 2: 8, 1: 4}  # the size of a batch, and how many people are run in such batches
COSTS = ("rtdl | module | FT-Transformer", "scikit-learn | estimator | RandomForest")
COST_PEOPLE, LEAST_TIMED, TURNS = (1, 100, PEOPLE), 500, 51
CLOSE = 1e-4


@dataclass(frozen=True)
class NoValue:
    """What a protected column is given that is no value of it: in an input of numbers, of whole numbers and of text."""

    number: float
    whole: int
    text: str


NO_VALUES = (
    NoValue(np.nan, -1, "nobody"),
    NoValue(np.inf, 99, ""),
    NoValue(-np.inf, 2**31 - 1, "\N{SNOWMAN}"),
    NoValue(-1e30, -(2**31), "female "),
)
Run = Callable[[pd.DataFrame, NoValue | None], np.ndarray]
"""Returns the scores of people; their protected columns hold what is no value, if one is given."""


@dataclass(frozen=True)
class SpoiltPort(Port):
    """An input whose columns of these features hold what is no value."""

    spoilt: tuple[str, ...] = ()
    given: NoValue = NO_VALUES[0]

    def values(self, spec: fairmend.Spec, X: np.ndarray) -> np.ndarray:
        """Return what the input holds for rows X (rows, width of the spec)."""
        found = super().values(spec, X)
        held = found[:, None] if self.rank == 1 else found
        value = self.given.text if self.type == "string" else self.given.whole
        for name, columns in _places(spec, self.features).items():
            if name in self.spoilt and self.type != "bool":
                held[:, columns] = self.given.number if self.type.startswith("float") else value
        return found


@dataclass
class Outcome:
    """How far a model came: the steps that it passed, and what went wrong first."""

    library: str
    form: str
    name: str
    passed: list[str] = field(default_factory=list)
    problem: str = ""
    refused: bool = False
    unequal: int = 0
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether the model went the whole way."""
        return len(self.passed) == len(STEPS)

    @property
    def without_certificate(self) -> bool:
        """Whether the model has no file, and went the rest of the way."""
        return "bits" in self.passed and "VALID" not in self.passed

    @property
    def key(self) -> str:
        """What tells the model from others."""
        return f"{self.library} | {self.form} | {self.name}"


def main() -> int:
    options = _arguments()
    logging.disable(logging.WARNING)
    if options.cost:
        print(_costs())
        return 0
    known = _read_state(options.state)
    if options.check:
        return _check_again(options.check)
    models = [each for each in any_models.all_models() if options.only.lower() in _describe(each).lower()]
    part, parts = map(int, options.part.split("/"))
    models = models[part - 1 :: parts]
    outcomes = []
    for model in models:
        kept = known.get(_describe(model))
        if kept is None and options.markdown:
            continue
        if kept is None or (options.retry and not kept.whole and not kept.refused):
            kept = _run(model, options)
            _show(kept)
            if options.state:
                with options.state.open("a") as file:
                    file.write(json.dumps(asdict(kept)) + "\n")
        outcomes.append(kept)
    print(_markdown(outcomes))
    for outcome in outcomes:
        if not outcome.whole:
            print(f"- {outcome.key}: {outcome.problem}")
    return 0 if all(o.whole or o.refused or o.without_certificate for o in outcomes) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models with this text in library, form or name")
    parser.add_argument("--state", type=Path, help="a file that keeps what became of each model, one line each")
    parser.add_argument("--retry", action="store_true", help="run those again that did not go the whole way")
    parser.add_argument("--markdown", action="store_true", help="print what is in the state file, and run nothing")
    parser.add_argument("--limit", type=int, default=300, help="CPU seconds for each model (default: 300)")
    parser.add_argument("--cost", action="store_true", help="print how long repaired models take beside the originals")
    parser.add_argument("--part", default="1/1", help="which part of the models, of how many (default: 1/1)")
    parser.add_argument("--keep", type=Path, help="a folder for the repaired files and their certificates")
    parser.add_argument("--check", type=Path, help="check the files of such a folder, and run nothing else")
    parser.add_argument("--traceback", action="store_true", help="print where a model fails")
    return parser.parse_args()


def _describe(model: Model) -> str:
    return f"{model.library} | {model.form} | {model.name}"


def _read_state(path: Path | None) -> dict[str, Outcome]:
    if path is None or not path.exists():
        return {}
    found = [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]
    return {outcome.key: outcome for outcome in found}


def _run(model: Model, options: argparse.Namespace) -> Outcome:
    outcome = Outcome(model.library, model.form, model.name)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), any_models._quiet():
        warnings.simplefilter("ignore")
        try:
            with _time_limit(options.limit):
                _take(model, Path(folder), outcome)
        except Exception as error:  # every failure is shown, and the next model follows
            outcome.refused = (
                isinstance(error, fairmend.FairmendError) and bool(model.refused) and (model.refused in str(error))
            )
            outcome.problem = f"{type(error).__name__}: {error}".splitlines()[0][:400]
            if options.traceback:
                outcome.problem = traceback.format_exc()
        if options.keep:
            _keep(Path(folder), options.keep / re.sub(r"\W+", "-", outcome.key))
    outcome.seconds = time.perf_counter() - started
    return outcome


def _keep(folder: Path, place: Path) -> None:
    """Copy a repaired file, its weights and its certificate, if there is one."""
    if (folder / "certificate.json").exists():
        place.mkdir(parents=True, exist_ok=True)
        for path in (folder / "certificate.json", *folder.glob("repaired.onnx*")):
            shutil.copy(path, place)


def _check_again(folder: Path) -> int:
    """Check the kept files, run included, and print those that are not VALID; return 1 if there are any."""
    places = sorted(path.parent for path in folder.glob("*/certificate.json"))
    found = [fairmend.check(place / "certificate.json", place / "repaired.onnx", require_run=True) for place in places]
    for place, checked in zip(places, found, strict=True):
        if not checked.valid:
            print(f"- {place.name}: {checked.verdict}: {'; '.join(checked.reasons)[:300]}")
    print(f"{sum(checked.valid for checked in found)} of {len(found)} repaired files are VALID")
    return 0 if all(checked.valid for checked in found) else 1


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"took more than {seconds} CPU s")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _take(model: Model, folder: Path, outcome: Outcome) -> None:
    """Take a model the whole way; a step that fails is noted, and those that can follow do."""
    frame, y = load_frame()
    made = model.build(model.reading.rows(frame[:TRAINING_ROWS]), y[:TRAINING_ROWS], folder)
    outcome.passed.append("built")
    spec = model.reading.spec(model.protected)
    loaded = _load(model, made, spec)
    outcome.unequal = _audit(model, made, loaded, spec, frame[-JUDGED:].reset_index(drop=True))
    outcome.passed.append("audited")
    to_repair, to_calibrate = _split(frame, TRAINING_ROWS, REPAIR_ROWS, CALIBRATION_ROWS)
    rows = slice(TRAINING_ROWS + REPAIR_ROWS, TRAINING_ROWS + REPAIR_ROWS + CALIBRATION_ROWS)
    result = fairmend.repair(
        loaded, spec, *(spec.encode(part, dtype=loaded.dtype) for part in (to_repair, to_calibrate)), y[rows],
        method="auto" if isinstance(loaded, RunModel) and getattr(loaded.runner, "batch_size", None) else "average",
    )  # fmt: skip
    outcome.passed.append("repaired")
    path: Path | None = folder / "repaired.onnx"
    if result.certificate is None:
        path = None
        outcome.problem = "no certificate: " + " ".join(result.warnings)
    else:
        result.network.save(path)
        result.certificate.save(folder / "certificate.json", path)
        checked = fairmend.check(folder / "certificate.json", path, require_run=True)
        if checked.valid and checked.runs:
            outcome.passed.append("VALID")
        else:
            outcome.problem = f"not VALID: {'; '.join(checked.reasons)}"
    people = frame[-PEOPLE:].reset_index(drop=True)
    runs = _runs(model, result, spec, path)
    if not runs:
        return
    _require_same(runs, people)
    outcome.passed.append("loads")
    for what, run in runs.items():
        other = _other_bits(model, run, people)
        if other:
            raise AssertionError(f"{other} of {PEOPLE:,} people have other bits in {what}")
    outcome.passed.append("bits")


def _split(frame: pd.DataFrame, start: int, *sizes: int) -> Iterator[pd.DataFrame]:
    for size in sizes:
        yield frame[start : start + size].reset_index(drop=True)
        start += size


def _load(model: Model, made: Any, spec: fairmend.Spec) -> Any:
    """Return the model as fairmend runs it; of a module, and of a file made from one, its owner says what it gives."""
    kind = "probability" if model.output.startswith("prob") else "logit"
    asked = model.name in BY_PROBABILITIES and model.form == ESTIMATOR
    outputs = kind if asked or model.form in (MODULE, KERAS, *BOTH) else None
    takes = "people" if model.form == CALLABLE and model.reading.raw else None
    return fairmend.load_model(made, outputs=outputs, takes=takes, spec=spec)


def _audit(model: Model, made: Any, loaded: Any, spec: fairmend.Spec, people: pd.DataFrame) -> int:
    """Return how many people are treated unequally; raise an error if fairmend counts others than the framework."""
    others = list(counterparts(people, model.protected))
    together = model.reading.rows(pd.concat(others, ignore_index=True))
    accepted = model.accepts(model.scores(made, together)).reshape(len(others), len(people))
    counted = int((accepted.any(axis=0) != accepted.all(axis=0)).sum())
    found = fairmend.audit(loaded, spec, spec.encode(people, dtype=loaded.dtype)).count
    if found != counted:
        raise AssertionError(f"fairmend counts {found} people, the framework {counted}")
    return counted


def _runs(model: Model, result: Any, spec: fairmend.Spec, path: Path | None) -> dict[str, Run]:
    """Return what runs a repaired model on people: its framework, and ONNX Runtime on the saved file."""
    runs: dict[str, Run] = {}
    base = result.network.base
    if model.form == MODULE or (model.form == ESTIMATOR and isinstance(base, RunModel)):
        repaired = result.module if model.form == MODULE else result.estimator
        runs[model.form] = lambda people, given: model.scores(repaired, _rows(model, people, given))
    elif model.form in (CALLABLE, KERAS):
        runs[model.form] = lambda people, given: _probabilities(
            result.network.logits(_spoil(spec, spec.encode(people, dtype=base.dtype), model.protected, given))
        )
    if path is not None:
        kind = base.kind if isinstance(base, RunModel) else None
        file = fairmend.load_model(path, outputs=kind or "logit", spec=spec)
        assert isinstance(file, RunModel)

        def run_file(people: pd.DataFrame, given: NoValue | None) -> np.ndarray:
            ports = file.ports
            if given is not None:
                ports = tuple(SpoiltPort(*astuple(port), model.protected, given) for port in ports)
            return _one_score(model, file.runner.run(spec, ports, spec.encode(people, dtype=file.dtype)))

        runs["the file"] = run_file
    return runs


def _rows(model: Model, people: pd.DataFrame, given: NoValue | None) -> pd.DataFrame | np.ndarray:
    """Return what the framework reads; of whole numbers, the whole number that is no value."""
    if given is None:
        return model.reading.rows(people)
    if model.reading.raw:
        return people.assign(**{name: given.text if name in CODES else given.number for name in model.protected})
    spec, rows = model.reading.spec(model.protected), model.reading.rows(people)
    whole = {name for names in (model.reading.inputs or {}).values() if set(names) <= set(CODES) for name in names}
    for name in model.protected:
        rows[:, spec.columns(name)] = given.whole % 1000 if name in whole else given.number
    return rows


def _spoil(spec: fairmend.Spec, X: np.ndarray, protected: tuple[str, ...], given: NoValue | None) -> np.ndarray:
    for name in protected if given is not None else ():
        X[:, spec.columns(name)] = given.number
    return X


def _places(spec: fairmend.Spec, names: tuple[str, ...]) -> dict[str, slice]:
    """Return the columns of each feature in an input that reads these."""
    widths = {name: len(range(spec.width)[spec.columns(name)]) for name in names}
    ends = np.cumsum(list(widths.values())).tolist()
    return {name: slice(end - width, end) for (name, width), end in zip(widths.items(), ends, strict=True)}


def _probabilities(logits: np.ndarray) -> np.ndarray:
    lead = logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]
    return 1 / (1 + np.exp(-lead))


def _one_score(model: Model, given: np.ndarray) -> np.ndarray:
    outputs = np.asarray(given, dtype=np.float64).reshape(len(given), -1)
    if outputs.shape[1] == 1:
        return outputs[:, 0]
    return outputs[:, 1] - outputs[:, 0] if model.output == "logits" else outputs[:, 1]


def _require_same(runs: dict[str, Run], people: pd.DataFrame) -> None:
    """Raise an error if the framework does not give the scores of the saved file."""
    scores = {what: run(people, None) for what, run in runs.items()}
    first, *others = scores.items()
    for what, found in others:
        off = np.abs(found - first[1]) / np.maximum(1.0, np.abs(first[1]))
        if not (off <= CLOSE).all():
            raise AssertionError(
                f"scores of {what} and {first[0]} differ by up to {off.max():.2g}, {(off > CLOSE).sum()} of {PEOPLE:,}"
            )


def _other_bits(model: Model, run: Run, people: pd.DataFrame) -> int:
    """Return for how many people what the protected columns hold changes a bit of the score."""
    others = list(counterparts(people, model.protected))
    together = pd.concat(others, ignore_index=True)
    changed = np.zeros(len(people), dtype=bool)
    for size, count in BATCHES.items():
        own = _in_batches(run, people[:count], size, None).view(np.int64)
        for shift in range(len(others)):
            mixed = together.iloc[_values_by_person(len(others), shift, len(people))[:count]].reset_index(drop=True)
            changed[:count] |= _in_batches(run, mixed, size, None).view(np.int64) != own
        for given in NO_VALUES:
            changed[:count] |= _in_batches(run, people[:count], size, given).view(np.int64) != own
    return int(changed.sum())


def _values_by_person(values: int, shift: int, people: int) -> np.ndarray:
    """Return the rows of people, among those of all people with each of the values: other values from row to row."""
    number = np.arange(people)
    return (number + shift) % values * people + number


def _in_batches(run: Run, people: pd.DataFrame, size: int, given: NoValue | None) -> np.ndarray:
    parts = (people[start : start + size].reset_index(drop=True) for start in range(0, len(people), size))
    return np.ascontiguousarray(np.concatenate([run(part, given) for part in parts]), dtype=np.float64)


def _show(outcome: Outcome) -> None:
    start = "whole" if outcome.whole else "refused" if outcome.refused else "FAILED"
    start = "no file" if outcome.without_certificate else start
    steps = " ".join(step if step in outcome.passed else "-" * len(step) for step in STEPS)
    print(f"{start:8}{outcome.key:75} {steps} {outcome.seconds:6.1f} s  {outcome.problem}", flush=True)


def _markdown(outcomes: list[Outcome]) -> str:
    """Return how many models of each library passed each step."""
    lines = [f"| library | models | {' | '.join(STEPS)} | whole way |", f"|---|{'---|' * (len(STEPS) + 2)}"]
    libraries = dict.fromkeys(outcome.library for outcome in outcomes)
    for library in [*libraries, ""]:
        some = [outcome for outcome in outcomes if library in ("", outcome.library)]
        passed = [sum(step in outcome.passed for outcome in some) for step in STEPS]
        counts = [len(some), *passed, sum(outcome.whole for outcome in some)]
        lines.append(f"| {library or 'all'} | {' | '.join(map(str, counts))} |")
    refused = sum(outcome.refused for outcome in outcomes)
    functions = sum(o.without_certificate for o in outcomes if o.form == CALLABLE)
    others = sum(o.without_certificate for o in outcomes) - functions
    lines += [
        "",
        f"Refused by name: {refused}. Repaired, with equal bits, but without a certificate that is VALID: "
        f"{functions} functions, and {others} that a converter writes wrongly or not at all, or `check` refuses.",
    ]
    return "\n".join(lines)


def _costs() -> str:
    """Return how many times as long as the original a repaired transformer and forest take in ONNX Runtime."""
    lines = ["| model | people | members | averaged | original, that many times the people | representative alone |"]
    lines.append("|---|---|---|---|---|---|")
    for key in COSTS:
        model = next(each for each in any_models.all_models() if Outcome(each.library, each.form, each.name).key == key)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), any_models._quiet():
            warnings.simplefilter("ignore")
            members, found = _cost(model, Path(folder))
        for people, (original, averaged, alone, more) in found.items():
            ratios = " | ".join(f"{seconds / original:.2f}" for seconds in (averaged, more, alone))
            lines.append(f"| {model.library} {model.name} | {people:,} | {members} | {ratios} |")
    return "\n".join(lines)


def _cost(model: Model, folder: Path) -> tuple[int, dict[int, list[float]]]:
    frame, y = load_frame()
    made = model.build(model.reading.rows(frame[:TRAINING_ROWS]), y[:TRAINING_ROWS], folder)
    spec = model.reading.spec(model.protected)
    loaded = _load(model, made, spec)
    to_repair, to_calibrate = (
        spec.encode(part, dtype=loaded.dtype) for part in _split(frame, TRAINING_ROWS, REPAIR_ROWS, CALIBRATION_ROWS)
    )
    rows = slice(TRAINING_ROWS + REPAIR_ROWS, TRAINING_ROWS + REPAIR_ROWS + CALIBRATION_ROWS)
    repaired = fairmend.repair(loaded, spec, to_repair, to_calibrate, y[rows], method="average").network
    paths = {name: folder / f"{name}.onnx" for name in ("original", "averaged", "alone")}
    loaded.runner.exports(spec, loaded.ports)[0](paths["original"])
    repaired.save(paths["averaged"])
    RepairedModel(loaded, repaired.canonical).bind(spec).save(paths["alone"])
    X = spec.encode(frame, dtype=np.float32)
    return repaired.members, {
        people: _time_files(list(paths.values()), spec, X, people, repaired.members) for people in COST_PEOPLE
    }


def _time_files(paths: list[Path], spec: fairmend.Spec, X: np.ndarray, people: int, members: int) -> list[float]:
    """Return the CPU seconds of each file, and of the first with so many times as many people, in one thread.

    They take turns in any order, with other people in each, so that no processor learns which way these go through a
    tree. The least of all turns counts: other programs only add to it.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]) for path in paths]
    loaded = fairmend.load_model(paths[0], outputs="logit", spec=spec)
    held = {port.name: port.values(spec, X) for port in loaded.ports}
    rng = np.random.default_rng(0)
    seconds: list[list[float]] = [[] for _ in (*paths, "more people")]
    for _ in range(TURNS):
        few, many = (
            [
                {name: values[rows] for name, values in held.items()}
                for rows in rng.integers(len(X), size=(max(1, LEAST_TIMED // people), size))
            ]
            for size in (people, people * members)
        )
        timed = [(session, few) for session in sessions] + [(sessions[0], many)]
        for which in rng.permutation(len(timed)):
            session, batches = timed[which]
            started = time.process_time()
            for fed in batches:
                session.run(None, fed)
            seconds[which].append((time.process_time() - started) / len(batches))
    return [min(taken) for taken in seconds]


if __name__ == "__main__":
    sys.exit(main())
