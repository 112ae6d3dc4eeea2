"""The part "planted" of run.py: violations of score claims that must be found.

Each of many small networks gets a delta that about half of 100 neighbourhoods exceed, as an enumeration in float64
shows that is written here. The audit and `certify` must report these neighbourhoods and no others. For each of them two
certificates are forged, as by a writer that lies: one has true bounds of the scores and calls them close enough, one
has bounds that are too close. The checker must refuse both, and accept the certificate of the other neighbourhoods.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

import fairmend
from benchmarks.repairs.figures import Limit
from fairmend import Feature, Network, Spec, Verdict
from fairmend.network import Activation, Affine
from fairmend.prove.certificate import Certificate, certificate_of_fair, certificate_of_inputs
from fairmend.prove.proof import Proof
from fairmend.spec.claim import Claim

ROWS_OF_A_NETWORK = 100
CLEAR = 1e-5  # how far delta and all differences are apart; a network without such a delta is left out


class Planted:
    """A small network, similar people, and how far the scores of each neighbourhood differ, enumerated in float64."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 4])
        self.values, self.highest = int(rng.integers(2, 6)), 9
        self.tolerance = int(rng.integers(0, 3))
        self.on = str(rng.choice(["probability", "logit"]))
        self.network = self._network(rng)
        self.X = np.column_stack(
            [
                rng.integers(0, self.values, ROWS_OF_A_NETWORK),
                rng.integers(0, self.highest + 1, (ROWS_OF_A_NETWORK, 3)),
            ]
        ).astype(np.float32)
        self.differences = np.array([self._difference(x) for x in self.X])
        self.delta = self._between_two()

    def _network(self, rng: np.random.Generator) -> Network:
        widths = [4, *rng.integers(3, 9, int(rng.integers(1, 4))).tolist(), int(rng.choice([1, 1, 3]))]
        affines = [
            Affine(rng.normal(0, 1 / math.sqrt(before), (after, before)).astype(np.float32),
                   rng.normal(0, 0.3, after).astype(np.float32))
            for before, after in pairwise(widths)
        ]  # fmt: skip
        return Network(affines, [Activation(str(rng.choice(["relu", "tanh"])))] * (len(affines) - 1))

    def _difference(self, x: np.ndarray) -> float:
        """Return the largest difference of a score if the first feature is protected and the second has a tolerance."""
        low, high = max(0, int(x[1]) - self.tolerance), min(self.highest, int(x[1]) + self.tolerance)
        people = np.array([[a, b, *x[2:]] for a in range(self.values) for b in range(low, high + 1)], dtype=np.float64)
        scores = self._scores(people)
        return float((scores.max(axis=0) - scores.min(axis=0)).max())

    def _scores(self, people: np.ndarray) -> np.ndarray:
        hidden = people
        for number, affine in enumerate(self.network.affines):
            hidden = hidden @ affine.weight.astype(np.float64).T + affine.bias.astype(np.float64)
            if number < len(self.network.activations):
                is_relu = self.network.activations[number].name == "relu"
                hidden = np.maximum(hidden, 0) if is_relu else np.tanh(hidden)
        if self.on == "logit":
            return hidden
        if hidden.shape[1] == 1:
            return 1 / (1 + np.exp(-hidden))
        return np.exp(hidden) / np.exp(hidden).sum(axis=1, keepdims=True)

    def _between_two(self) -> float:
        """Return a delta that about half of the neighbourhoods exceed, far from any difference."""
        ordered = np.sort(self.differences)
        middle = slice(len(ordered) // 3, 2 * len(ordered) // 3)
        place = middle.start + int(np.argmax(np.diff(ordered)[middle]))
        return float((ordered[place] + ordered[place + 1]) / 2)

    @property
    def clear(self) -> bool:
        """Whether rounding errors cannot decide which neighbourhoods exceed delta."""
        return self.delta >= CLEAR and float(np.abs(self.differences - self.delta).min()) >= CLEAR

    @property
    def spec(self) -> Spec:
        whole = {"kind": "integer", "range": (0, self.highest)}
        features = [
            Feature("a", "integer", range=(0, self.values - 1), protected=True),
            Feature("b", **whole, tolerance=self.tolerance),
            Feature("c", **whole),
            Feature("d", **whole),
        ]
        return Spec(features, None, Claim("score", self.delta, self.on))


def judge_planted(count: int, first_seed: int, console: Console) -> list[Limit]:
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in track(range(first_seed, first_seed + count), "networks", console=Console(stderr=True)):
            if tally["planted"] >= count:
                break
            case = Planted(seed)
            if case.clear:
                attack(case, Path(folder), tally)
    console.print(
        f"{tally['planted']} planted violations in {tally['networks']} networks, {tally['planted']} forged "
        f"certificates, {tally['true certificates']} true ones"
    )
    limited = ("the audit does not report", "certify does not report", "a forged certificate hides from the checker")
    return [
        ("planted violations missing", max(0, count - tally["planted"]), 0),
        *((f"planted violations that {what}", tally[what], 0) for what in limited),
        ("neighbourhoods within delta that the audit or certify reports", tally["false alarms"], 0),
        ("true certificates that the checker refuses", tally["refused"], 0),
    ]


def attack(case: Planted, folder: Path, tally: Counter[str]) -> None:
    """Count what the audit, `certify` and the checker say about one network."""
    spec, violated = case.spec, case.differences > case.delta
    unequal = fairmend.audit(case.network, spec, case.X).examined.unequal
    verdicts = fairmend.certify(case.network, spec, case.X).verdicts
    unfair = np.array([verdict is Verdict.UNFAIR for verdict in verdicts])
    tally["networks"] += 1
    tally["planted"] += int(violated.sum())
    tally["the audit does not report"] += int((violated & ~unequal).sum())
    tally["certify does not report"] += int((violated & ~unfair).sum())
    tally["false alarms"] += int((~violated & (unequal | unfair)).sum())
    model, path = folder / "model.onnx", folder / "certificate.json"
    case.network.save(model)
    for certificate in forged_certificates(case, np.flatnonzero(violated)):
        certificate.save(path, model)
        tally["a forged certificate hides from the checker"] += fairmend.check(path, model, run=False).valid
    true, _ = certificate_of_fair(case.network, spec, case.X[~violated])
    if true is not None:
        true.save(path, model)
        tally["true certificates"] += 1
        tally["refused"] += not fairmend.check(path, model, real=true.real_only, run=False).valid


def forged_certificates(case: Planted, rows: np.ndarray) -> Iterator[Certificate]:
    """Give a certificate over each of these rows, whose scores are too far apart."""
    for x in case.X[rows]:
        lie = Proof.by_blindness(case.network, case.spec.claim, x[None])
        yield certificate_of_inputs(case.network, case.spec, x[None], lie, method="certify")
