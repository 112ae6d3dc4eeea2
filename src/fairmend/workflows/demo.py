"""The demo: loan applicants with biased decisions, a network that learns the bias, and the folder of its repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.folders import staged_folder
from fairmend.base.progress import Progress
from fairmend.base.threads import few_threads
from fairmend.evaluate.compare import Measurement, RepairComparison, measure
from fairmend.evaluate.document import DemoExample
from fairmend.evaluate.split import DataSplit, split_data
from fairmend.evaluate.what_if import WHAT_IF_ROWS
from fairmend.network import Model, Network, load_network
from fairmend.spec import Feature, Label, Spec
from fairmend.tables import write_csv
from fairmend.workflows.outputs import REPORT_FILES, check_certificate, write_report
from fairmend.workflows.repair import RepairedFiles, RepairFolder

# Choose pairs of similar people with different predictions as examples, and tabulate all of them.


# This many rows are enough to find pairs of every kind, and take no time to enumerate.
_MOST_ROWS = 300


@dataclass(frozen=True, eq=False)
class ExamplePair:
    """Row `row` of the data, encoded as x (width,), and a neighbour that differs in the features `differs_in`."""

    row: int
    x: FloatArray
    other: FloatArray
    differs_in: tuple[str, ...]

    def answers(self, net: Model) -> tuple[int, int]:
        """Return the predictions for both."""
        first, second = net.predict(np.stack([self.x, self.other])).tolist()
        return first, second


def choose_example_pairs(net: Network, spec: Spec, X: FloatArray, rows: Ints, count: int) -> list[ExamplePair]:
    """Return up to `count` pairs from the unequal `rows`, with few differences each, and not always the same ones."""
    examined = rows[:_MOST_ROWS]
    if len(examined) == 0:
        return []
    chosen: list[ExamplePair] = []
    seen: Counter[tuple[int, tuple[str, ...]]] = Counter()
    streamed = [*spec.points(X[examined], dtype=X.dtype)]
    owner, points = (np.concatenate(parts) for parts in zip(*streamed, strict=True))
    classes, own = net.predict(points), net.predict(X[examined])
    for position, row in enumerate(examined.tolist()):
        others = points[(owner == position) & (classes != own[position])]
        kinds = _by_difference(spec, X[row], others)
        prediction = int(own[position])
        # Prefer the fewest differences; of equally few, those shown least so far with this prediction.
        kind = min(kinds, key=lambda names: (len(names), seen[prediction, names]))
        if seen[prediction, kind] > len(chosen) // 3:
            continue
        seen[prediction, kind] += 1
        chosen.append(ExamplePair(row, X[row], kinds[kind][len(kinds[kind]) // 2], kind))
        if len(chosen) == count:
            break
    return chosen


def _by_difference(spec: Spec, x: FloatArray, others: FloatArray) -> dict[tuple[str, ...], list[FloatArray]]:
    """Return others (points, width), grouped by the features in which they differ from x (width,)."""
    groups: dict[tuple[str, ...], list[FloatArray]] = {}
    features = spec.varying
    differs = np.array([(others[:, spec.columns(f.name)] != x[spec.columns(f.name)]).any(1) for f in features])
    for point, mask in zip(others, differs.T, strict=True):
        names = tuple(f.name for f, differing in zip(features, mask, strict=True) if differing)
        groups.setdefault(names, []).append(point)
    return groups


class UnequalRows:
    """Collects the rows that an audit finds to be treated unequally, each with its worst counterfactual."""

    def __init__(self) -> None:
        """Start without rows."""
        self._found: list[tuple[Ints, FloatArray, FloatArray]] = []

    def add(self, rows: Ints, X: FloatArray, other: FloatArray) -> None:
        """Add rows (k,), their inputs X (k, width), and a neighbour of each."""
        self._found.append((rows, X, other))

    def tabulate(self, spec: Spec, frame: pd.DataFrame, before: Model, after: Model) -> pd.DataFrame:
        """Return one line for each row: the row of the frame, the neighbour, and the predictions of both networks."""
        empty = np.zeros((0, spec.width), before.dtype)
        rows, X, other = (
            np.concatenate(parts) for parts in zip((np.zeros(0, np.int64), empty, empty), *self._found, strict=True)
        )
        table = frame.iloc[rows].reset_index(drop=True)
        decoded = spec.decode(other)
        for feature in spec.varying:
            table[f"other_{feature.name}"] = decoded[feature.name]
        for name, net in (("before", before), ("after", after)):
            table[f"answer_{name}"] = net.predict(X) if len(rows) else rows
            table[f"other_answer_{name}"] = net.predict(other) if len(rows) else rows
        return table


FILES = {
    "applicants.csv": "the applicants",
    "spec.toml": "the spec: the features, and which are protected",
    "model.onnx": "the network of the bank",
    "unfair_pairs.csv": "everyone it treats unequally, each with a counterfactual",
    "repaired-model.onnx": "the repaired network",
    "certificate.json": "the certificate, for fairmend check",
    "repair_inputs.csv": "the applicants it was repaired with",
    **REPORT_FILES,
}
ANSWERS = ("refused", "approved")

_SHOWN = 5
_SOURCES = {"model": "model.onnx", "data": "applicants.csv", "spec": "spec.toml"}

GENDERS = ("female", "male")
HOUSING = ("own", "rent", "with family")
PURPOSES = ("car", "home", "education", "business", "other")

# The bias in log-odds: the penalty for women, and for the oldest compared with the youngest.
GENDER_BIAS = 0.5
AGE_BIAS = 1.0

YOUNGEST, OLDEST = 18, 75
INCOME = (8_000.0, 250_000.0)
AMOUNT = (1_000.0, 80_000.0)


def loan_spec() -> Spec:
    """Return the spec of the applicants; age and gender are protected."""
    return Spec(
        [
            Feature(
                "age",
                "integer",
                range=(YOUNGEST, OLDEST),
                scale={"min": YOUNGEST, "max": OLDEST},
                protected=True,
            ),
            Feature("gender", "categorical", categories=GENDERS, encoding="one-hot", protected=True),
            Feature("income", "continuous", range=INCOME, scale={"mean": 42_000, "std": 22_000}),
            Feature("years_employed", "integer", range=(0, 45), scale={"mean": 10, "std": 9}),
            Feature("loan_amount", "continuous", range=AMOUNT, scale={"mean": 15_000, "std": 10_000}),
            Feature("housing", "categorical", categories=HOUSING, encoding="one-hot"),
            Feature("purpose", "categorical", categories=PURPOSES, encoding="one-hot"),
            Feature("open_credits", "integer", range=(0, 8), scale={"min": 0, "max": 8}),
            Feature("missed_payments", "integer", range=(0, 6), scale={"min": 0, "max": 6}),
        ],
        Label("approved", "yes"),
    )


def loan_applicants(rows: int = 5_000, seed: int = 0) -> pd.DataFrame:
    """Return applicants with a number, the features of `loan_spec`, and the decision in "approved"."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(42, 14, rows).round(), YOUNGEST, OLDEST)
    female = rng.random(rows) < 0.48
    employed = np.clip((age - YOUNGEST) * rng.beta(1.6, 2.6, rows), 0, 45).round()
    income = np.clip(rng.lognormal(10.45, 0.45, rows) * (1 + 0.008 * employed), *INCOME).round(-2)
    amount = np.clip(rng.lognormal(9.4, 0.6, rows), *AMOUNT).round(-2)
    housing = rng.choice(len(HOUSING), rows, p=(0.45, 0.4, 0.15))
    purpose = rng.choice(len(PURPOSES), rows, p=(0.3, 0.2, 0.15, 0.15, 0.2))
    open_credits = np.minimum(rng.poisson(1.5, rows), 8)
    missed = np.minimum(rng.poisson(0.7, rows), 6)

    merit = (
        2.2 * np.log(income / 36_000)
        - 1.6 * np.log(amount / 12_000)
        + 0.06 * (employed - 8)
        + np.array([0.5, -0.3, -0.1])[housing]
        + np.array([0.1, 0.4, 0.0, -0.5, -0.1])[purpose]
        - 0.35 * (open_credits - 1.5)
        - 1.3 * (missed - 0.7)
    )
    bias = -GENDER_BIAS * female - AGE_BIAS * (age - YOUNGEST) / (OLDEST - YOUNGEST)
    approved = merit + bias + 1.0 + rng.logistic(0, 0.6, rows) > 0
    return pd.DataFrame(
        {
            "applicant": np.arange(1, rows + 1),
            "age": age.astype(np.int64),
            "gender": np.where(female, *GENDERS),
            "income": income,
            "years_employed": employed.astype(np.int64),
            "loan_amount": amount,
            "housing": np.array(HOUSING)[housing],
            "purpose": np.array(PURPOSES)[purpose],
            "open_credits": open_credits,
            "missed_payments": missed,
            "approved": np.where(approved, "yes", "no"),
        }
    )


def train_network(
    X: npt.NDArray[np.float32],
    y: npt.NDArray[np.integer],
    *,
    hidden: Sequence[int] = (24, 12),
    epochs: int = 30,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> Network:
    """Return a ReLU network with one logit, trained on X (rows, inputs) and classes y (rows,)."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]), few_threads(256 * X.shape[1] * hidden[0]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for before, after in zip([X.shape[1], *hidden], hidden, strict=False):
            layers += [nn.Linear(before, after), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear([X.shape[1], *hidden][-1], 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
        inputs, labels = torch.from_numpy(X), torch.from_numpy(y.astype(np.float32))
        for epoch in range(epochs):
            order = torch.randperm(len(inputs))
            for rows in (order[start : start + 256] for start in range(0, len(order), 256)):
                loss = nn.functional.binary_cross_entropy_with_logits(model(inputs[rows])[:, 0], labels[rows])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if progress is not None:
                progress("train", epoch + 1, epochs)
    return load_network(model.eval())


@dataclass(frozen=True, eq=False)
class BiasedNetwork:
    """The network of the bank, the applicants, whom it treats unequally, and some of them as pairs."""

    network: Network
    people: DataSplit
    before: Measurement
    unequal: UnequalRows
    pairs: list[ExamplePair]

    def number(self, pair: ExamplePair) -> int:
        """Return the number of the applicant."""
        return int(self.people.frame["applicant"].iloc[pair.row])

    def answers(self, pair: ExamplePair, net: Model) -> tuple[str, str]:
        """Return what a network decides about both."""
        first, second = pair.answers(net)
        return ANSWERS[first], ANSWERS[second]


def learn_bias(
    spec: Spec,
    frame: pd.DataFrame,
    *,
    epochs: int = 30,
    repair_rows: int = 100,
    calibration_rows: int = 500,
    seed: int = 0,
    progress: Progress | None = None,
) -> BiasedNetwork:
    """Train a network on the decisions, and find whom it treats unequally."""
    net = train_network(spec.encode(frame), spec.labels(frame), epochs=epochs, seed=seed, progress=progress)
    people = split_data(spec, net, frame, repair_rows=repair_rows, calibration_rows=calibration_rows, seed=seed)
    unequal = UnequalRows()
    before = measure(net, people, stage="audit original", seed=seed, progress=progress, witnesses=unequal.add)
    # among the repair inputs and among the others: the proof may cover only the former
    assert people.repair is not None
    covered = people.repair[before.data.unequal[people.repair]]
    others = np.setdiff1d(np.flatnonzero(before.data.unequal), people.repair)
    pairs = choose_example_pairs(net, spec, people.X, covered, _SHOWN - 2)
    pairs += choose_example_pairs(net, spec, people.X, others, _SHOWN - len(pairs))
    return BiasedNetwork(net, people, before, unequal, pairs)


def write_demo(
    out: Path, biased: BiasedNetwork, comparison: RepairComparison, *, seed: int = 0, command: str | None = None
) -> RepairedFiles:
    """Write the folder of the demo, once its certificate is checked."""
    net, people, result = biased.network, biased.people, comparison.result
    assert result.certificate is not None
    with staged_folder(out) as stage:
        write_csv(stage / "applicants.csv", people.frame)
        people.spec.save(stage / "spec.toml")
        net.save(stage / "model.onnx")
        unequal = biased.unequal.tabulate(people.spec, people.frame, net, result.network)
        write_csv(stage / "unfair_pairs.csv", unequal)
        model, certificate = stage / "repaired-model.onnx", stage / "certificate.json"
        result.network.save(model)
        result.certificate.save(certificate, model)
        checked = check_certificate(certificate, model, real=result.certificate.real_only)
        write_csv(stage / "repair_inputs.csv", people.repair_frame)
        sources = {role: stage / name for role, name in _SOURCES.items()}
        written = RepairFolder(out, sources, command, seed, WHAT_IF_ROWS)
        document = written.describe(stage, model.name, net, comparison, checked, FILES)
        document = replace(document, examples=_examples(biased, comparison))
        write_report(stage, document)
    return RepairedFiles(comparison, checked, document, out, FILES, model.name, replaced=False, removed=())


def _examples(biased: BiasedNetwork, comparison: RepairComparison) -> list[DemoExample]:
    people, result = comparison.split, comparison.result
    assert people.repair is not None
    return [
        DemoExample(
            applicant=biased.number(pair),
            difference=people.spec.describe_pair(pair.x, pair.other),
            before=list(biased.answers(pair, biased.network)),
            after=list(biased.answers(pair, result.network)),
            proven=result.blind or bool(pair.row in people.repair),
        )
        for pair in biased.pairs
    ]
