"""Repair random networks with odd options, and hold each result to its word.

    python benchmarks/soundness/campaign.py [--count 1400] [--seed 0] [--workers N] [--record FILE]

Every seed is a network, a spec, people and options of its own: all methods, activations, precisions, kinds of features,
scales from tiny to huge, both solvers, all file formats. A repair must end in one of three ways: a certificate that is
VALID for the saved file; no certificate, because nothing is proven; or a FairmendError with a reason. Where the
certificate covers inference, sampled neighbours must get equal predictions from the format's own runtime. Prints a
table and every failure with its seed; exits with 1 if there is one. With --record, seeds that are in the file are not
run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import fairmend
from fairmend import FairmendError, Feature, Network, Spec
from fairmend.auditing.neighbours import stream_random_neighbours
from fairmend.network import Activation, Affine
from fairmend.prove.certificate import Certificate
from fairmend.repairing.options import METHODS, group_options, has_tolerances

VALID, VALID_REAL = "VALID", "VALID with --real"
NOTHING, REFUSED, NOT_SAVED = "nothing proven", "refused", "not saved"
INVALID, RAW, UNEQUAL = "INVALID", "raw exception", "unequal in the runtime"
FAILURES = (INVALID, RAW, UNEQUAL)
ENDS = (VALID, VALID_REAL, NOTHING, REFUSED, NOT_SAVED, *FAILURES)

SUFFIXES = (".onnx", ".pth", ".safetensors", ".h5", ".keras", ".nnet")
_SECONDS = 60  # for one repair, of a busy machine; a solver may need hours for a problem of this size
_SAMPLES = 200


@dataclass(frozen=True)
class Outcome:
    """How the repair of one seed ended."""

    seed: int
    end: str
    method: str
    suffix: str
    what: str


@dataclass(frozen=True)
class Case:
    """What one seed stands for."""

    spec: Spec
    network: Network
    X: np.ndarray
    y: np.ndarray
    repair_rows: int
    suffix: str
    method: str
    options: dict[str, Any]


class Draw:
    """The case of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, np.random.default_rng([seed, 1013])

    def case(self) -> Case:
        suffix = self.one_of(*SUFFIXES, ".onnx", ".pth")
        dtype = self.one_of("float32", "float32", "float64")
        if suffix in (".h5", ".keras") and self.seed % 10:  # a float64 network is refused there
            dtype = "float32"
        spec = Spec([self.feature(number) for number in range(self.whole(2, 4))])
        X = spec.sample_inputs(self.whole(15, 60), self.rng, dtype)
        network = self.network(spec.width, dtype, relu_only=suffix == ".nnet")
        classes = max(2, network.outputs)
        y = self.one_of(self.predictions(network, X), self.rng.integers(0, classes, len(X)), np.zeros(len(X), int))
        method = self.one_of("auto", "blind", "blind", "prof", "prof", "prof", "prof", *METHODS)
        return Case(spec, network, X, y, self.whole(1, 6), suffix, method, self.options(method, spec))

    def predictions(self, network: Network, X: np.ndarray) -> np.ndarray:
        try:
            return network.predict(X)
        except FairmendError:  # it overflows, and the repair has to say so
            return np.arange(len(X)) % 2

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def feature(self, number: int) -> Feature:
        name, protected = f"feature {number}", number == 0 or self.rng.random() < 0.3
        kind = self.one_of("one-hot", "ordinal", "integer", "continuous")
        if kind in ("one-hot", "ordinal"):
            categories = tuple(f"c{i}" for i in range(self.whole(2, 4)))
            dropped = self.one_of(None, categories[0]) if kind == "one-hot" else None
            scale = None if kind == "one-hot" else self.scale(0.0, len(categories) - 1.0)
            return self.with_bands(
                Feature(
                    name,
                    "categorical",
                    categories=categories,
                    encoding=kind,
                    protected=protected,
                    dropped=dropped,
                    scale=scale,
                )
            )
        low = float(self.one_of(0, 1, -3, 18, 1_000_000))
        high = low + self.whole(1, 40)
        if kind == "continuous":
            stretch = float(self.one_of(1, 1, 1e-6, 1e6))
            low, high = low * stretch, high * stretch
        step = high - low
        tolerance = 0.0 if protected else self.one_of(0.0, 0.0, 1.0 if kind == "integer" else 0.05 * step)
        return self.with_bands(
            Feature(
                name, kind, range=(low, high), protected=protected, tolerance=tolerance, scale=self.scale(low, high)
            )
        )

    def with_bands(self, feature: Feature) -> Feature:
        """Return a feature, which has bands now and then if it is not protected."""
        if feature.protected or self.rng.random() > 0.3:
            return feature
        low, high = feature.bounds
        bands: Any = {"width": self.whole(1, 3) * ((high - low) / 7 if feature.kind == "continuous" else 3)}
        if feature.categories:
            bands = [list(feature.categories[::2]), list(feature.categories[1::2])]
        try:
            return replace(feature, bands=bands, tolerance=0.0)
        except FairmendError:  # one band, one value in each, or edges that float32 cannot tell apart
            return feature

    def scale(self, low: float, high: float) -> dict[str, float] | None:
        span = high - low
        usual = {"mean": (low + high) / 2, "std": span / 3}
        far = {"mean": low + 1e5 * span, "std": span / 3}  # mean far above std
        return self.one_of(usual, usual, usual, {"min": low, "max": high}, None, far)

    def network(self, inputs: int, dtype: str, relu_only: bool) -> Network:
        outputs = self.one_of(1, 1, 1, 2, 3)
        widths = [inputs, *(self.whole(1, 8) for _ in range(self.whole(0, 3))), outputs]
        size = self.one_of(1.0, 1.0, 1.0, 1.0, 1e-3, 30.0, 1e3, 1e-8, 1e8)
        affines = [
            Affine(
                (size * np.sqrt(2 / before) * self.rng.normal(size=(after, before))).astype(dtype),
                (0.5 * size * self.rng.normal(size=after)).astype(dtype),
            )
            for before, after in pairwise(widths)
        ]
        kinds = [Activation("relu")]
        if not relu_only:
            kinds += [Activation("leaky_relu", self.one_of(0.01, 0.25, 0.9)), Activation("tanh"), Activation("sigmoid")]
        closing = self.one_of("none", "sigmoid" if outputs == 1 else "softmax")
        activation = self.one_of(*kinds)  # one for all layers: some formats hold no mixture
        return Network(affines, [activation] * (len(affines) - 1), "none" if relu_only else closing)

    def options(self, method: str, spec: Spec) -> dict[str, Any]:
        """Return a few options that the method takes, each as often at its default."""
        choices: dict[str, tuple[Any, ...]] = {
            "steps": (0, 1, 5),
            "learning_rate": (1e-3, 1e-6, 0.5),
            "fairness_weight": (0.0, 1.0) if method == "care" else (0.0, 1.0, 10.0),
            "label_weight": (0.0, 0.5, 1.0),
            "reference": ("mean", "best"),
            "bounds": ("linear", "interval"),
            "batch_size": (1, 7),
            "features": ("linear", "box", "points") if spec.finite else ("linear", "box"),
            "margin": (1e-6, 1e-12, 0.1, 100.0),
            "delta_limit": (1e-3, 1.0, 1e6),
            "solver": ("highs", "scip"),
            "search": ("branch", "milp"),
            "gap": (0.0, 0.1),
            "cover_inference": (True, False),
        }
        takes = METHODS[method].options
        unused = () if method != "blind" or has_tolerances(spec) else ("fairness_weight", "bounds", "features")
        strict_blind = method == "blind" and not has_tolerances(spec)
        given: dict[str, Any] = {}
        for name, values in choices.items():
            head = name in ("margin", "delta_limit", "solver", "search", "gap", "cover_inference")
            if name in takes and name not in unused and not (strict_blind and head) and self.rng.random() < 0.4:
                given[name] = self.one_of(*values)
        if given.get("solver") == "scip":
            given["search"] = "milp"
        if "steps" in takes:
            given.setdefault("steps", 3)
        if "time_limit" in takes and not strict_blind:
            given["time_limit"] = _SECONDS
        return given


def run_seed(seed: int) -> Outcome:
    """Repair, save, check and attack the case of a seed."""
    case = Draw(seed).case()
    outcome = _run(case, seed)
    return Outcome(seed, outcome[0], case.method, case.suffix, outcome[1])


def _run(case: Case, seed: int) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        folder = Path(name)
        original, model, certificate = (folder / f for f in (f"a{case.suffix}", f"b{case.suffix}", "certificate.json"))
        try:
            case.network.save(original)
            net = fairmend.load_network(
                original, activation=str(case.network.activations[0] if case.network.activations else "relu")
            )
        except FairmendError as error:
            return NOT_SAVED, str(error)
        except Exception:
            return RAW, traceback.format_exc(limit=-4)
        try:
            rows = case.repair_rows
            found = fairmend.repair(
                net,
                case.spec,
                case.X[:rows],
                case.X[rows:],
                case.y[rows:],
                method=case.method,
                seed=seed % 7,
                **group_options(case.options),
            )
            found.network.save(model)
            if found.certificate is None:
                return NOTHING, ""
            found.certificate.save(certificate, model)
        except FairmendError as error:
            return REFUSED, str(error)
        except Exception:
            return RAW, traceback.format_exc(limit=-4)
        real = found.certificate.real_only
        result = fairmend.check(certificate, model, real=real, run=False)
        if not result.valid:
            return INVALID, f"{case.options}: {'; '.join(result.reasons)}"
        difference = None if real else _unequal(found.certificate, case, found.network, model)
        if difference is not None:
            return UNEQUAL, difference
        return (VALID_REAL if real else VALID), ""


# Attacks: neighbours in the runtime of the format


def _unequal(certificate: Certificate, case: Case, network: Network, model: Path) -> str | None:
    """Return where the runtime contradicts a certificate that covers inference."""
    rng = np.random.default_rng([certificate.count, 7])
    for number, x in enumerate(certificate.inputs):
        points = np.concatenate([x[None], _neighbours(case.spec, x[None], network, rng)])
        classes = _classes(_outputs(model, network, points), network)
        wrong = np.flatnonzero(classes != classes[0])
        if len(wrong):
            return f"input {number}: the class at {points[wrong[0]].tolist()} is another"
    if certificate.content["global"] is not None:
        columns = certificate.content["global"]["columns"]
        others = case.X.copy()
        others[:, columns] = (rng.normal(size=(len(others), len(columns))) * 10.0 ** rng.integers(-3, 6)).astype(
            others.dtype
        )
        before, after = (_outputs(model, network, points) for points in (case.X, others))
        if not np.array_equal(before, after):
            return f"the output depends on the columns {columns}"
    return None


def _neighbours(spec: Spec, x: np.ndarray, network: Network, rng: np.random.Generator) -> np.ndarray:
    if spec.finite and int(spec.neighbourhood_sizes(x, network.dtype)[0]) <= 5000:
        return np.concatenate([points for _, points in spec.points(x, dtype=network.dtype)])
    return np.concatenate([points for _, points in stream_random_neighbours(spec, x, _SAMPLES, rng)])


def _classes(outputs: np.ndarray, network: Network) -> np.ndarray:
    if network.outputs > 1:
        return outputs.argmax(axis=1)
    return (outputs[:, 0] >= (0.5 if network.closing == "sigmoid" else 0.0)).astype(int)


def _outputs(model: Path, network: Network, X: np.ndarray) -> np.ndarray:
    """Return what the model file gives in the runtime of its format: probabilities, or logits without a closing."""
    run = {".onnx": _by_onnxruntime, ".h5": _by_keras, ".keras": _by_keras, ".nnet": _by_numpy}
    return np.asarray(run.get(model.suffix, _by_torch)(model, network, X)).reshape(len(X), -1)


def _by_onnxruntime(model: Path, network: Network, X: np.ndarray) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: X})[0]


def _by_keras(model: Path, network: Network, X: np.ndarray) -> Any:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    return keras.models.load_model(model, compile=False)(X).detach().cpu().numpy()


def _by_numpy(model: Path, network: Network, X: np.ndarray) -> Any:
    return fairmend.load_network(model).probabilities(X) if network.closing != "none" else network.logits(X)


def _by_torch(model: Path, network: Network, X: np.ndarray) -> Any:
    import torch

    if model.suffix == ".safetensors":
        from safetensors.torch import load_file

        state = load_file(model)
    else:
        state = torch.load(model, weights_only=True)
    parts = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "identity": lambda z: z}
    h = torch.from_numpy(X)
    for layer, name in enumerate(network.names):
        h = torch.nn.functional.linear(h, state[f"{name}.weight"], state[f"{name}.bias"])
        if layer < len(network.activations):
            kind = network.activations[layer]
            h = torch.nn.functional.leaky_relu(h, kind.slope) if kind.name == "leaky_relu" else parts[kind.name](h)
    closings = {"none": lambda z: z, "sigmoid": torch.sigmoid, "softmax": lambda z: torch.softmax(z, 1)}
    return closings[network.closing](h).numpy()


# The run


def run_seeds(seeds: list[int], workers: int, record: Path | None, console: Console) -> list[Outcome]:
    """Run the seeds that the record does not hold yet, and return the outcomes of all."""
    known = (
        [] if record is None or not record.exists() else [json.loads(line) for line in record.read_text().splitlines()]
    )
    done = {entry["seed"]: Outcome(**entry) for entry in known if entry["seed"] in set(seeds)}
    left = [seed for seed in seeds if seed not in done]
    with ProcessPoolExecutor(workers, initializer=_start_worker) as pool, Progress(console=console) as bar:
        task = bar.add_task("repairs", total=len(seeds), completed=len(done))
        running: dict[Future[Outcome], int] = {pool.submit(run_seed, seed): seed for seed in left}
        for finished in as_completed(running):
            outcome = finished.result()
            done[outcome.seed] = outcome
            if record is not None:
                with record.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
            bar.advance(task)
    return [done[seed] for seed in seeds]


def _start_worker() -> None:
    import torch

    torch.set_num_threads(1)


def show(outcomes: list[Outcome], console: Console) -> int:
    """Print the table and the failures; return the number of failures."""
    for attribute in ("method", "suffix"):
        table = Table("", *ENDS, "all")
        rows = sorted({getattr(outcome, attribute) for outcome in outcomes})
        for name in (*rows, "all"):
            ends = Counter(o.end for o in outcomes if name in ("all", getattr(o, attribute)))
            table.add_row(name, *(str(ends[end]) for end in ENDS), str(ends.total()))
        console.print(table)
    reasons = Counter(_kind_of(outcome.what) for outcome in outcomes if outcome.end in (REFUSED, NOT_SAVED))
    for reason, count in reasons.most_common():
        console.print(f"{count:5d} refused: {reason}", markup=False, highlight=False)
    failures = [outcome for outcome in outcomes if outcome.end in FAILURES]
    for outcome in failures:
        console.print(f"seed {outcome.seed}: {outcome.end}: {outcome.what}", markup=False, highlight=False)
    console.print(f"{len(outcomes)} repairs, {len(failures)} failures")
    return len(failures)


def _kind_of(reason: str) -> str:
    """Return a reason without its numbers, to count those of one kind together."""
    words = ["N" if any(c.isdigit() for c in word) else word for word in reason.split()]
    return " ".join(words)[:150]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1400)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", type=Path, help="a file of outcomes, to go on with a run that was stopped")
    options = parser.parse_args()
    console = Console(width=150)
    seeds = list(range(options.seed, options.seed + options.count))
    outcomes = run_seeds(seeds, options.workers, options.record, console)
    return 1 if show(outcomes, console) else 0


if __name__ == "__main__":
    sys.exit(main())
