"""The part "planted" of scores.py: violations of score claims that must be found.

Each of many small networks gets a delta that about half of 100 neighbourhoods exceed, as an enumeration in float64
shows that is written here. The audit and `certify` must report these neighbourhoods and no others. For each of them two
certificates are forged, as by a writer that lies: one has true bounds of the scores and calls them close enough, one
has bounds that are too close. The checker must refuse both.
"""

from __future__ import annotations

import math
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

import fairmend
from auto_figures import Limit
from fairmend import Feature, Network, Spec, Verdict
from fairmend.network import Activation, Affine
from fairmend.prove.certificate import certificate_of_regions
from fairmend.prove.score_proof import ScoreProof, prove_scores_at_points, prove_scores_over_regions
from fairmend.spec.claim import Claim

ROWS_OF_A_NETWORK = 100


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
    planted = networks = seed = 0
    missed = {"audit": 0, "certify": 0, "checker": 0}
    false_alarms = forged = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in track(range(first_seed, first_seed + count), "networks", console=Console(stderr=True)):
            if planted >= count:
                break
            case = Planted(seed)
            if case.differences.max() - case.delta < 1e-4:
                continue  # nothing depends on what varies
            spec, violated = case.spec, case.differences > case.delta
            planted, networks = planted + int(violated.sum()), networks + 1
            unequal = fairmend.audit(case.network, spec, case.X).examined.unequal
            verdicts = np.array(
                [each is Verdict.UNFAIR for each in fairmend.certify(case.network, spec, case.X).verdicts]
            )
            missed["audit"] += int((violated & ~unequal).sum())
            missed["certify"] += int((violated & ~verdicts).sum())
            false_alarms += int((~violated & (unequal | verdicts)).sum())
            rows = np.flatnonzero(violated)
            missed["checker"] += accepted_forgeries(case, rows, Path(folder))
            forged += 2 * len(rows)
    console.print(f"{planted} planted violations in {networks} networks, {forged} forged certificates")
    return [
        ("planted violations missing", max(0, count - planted), 0),
        ("planted violations that the audit does not report", missed["audit"], 0),
        ("planted violations that certify does not report", missed["certify"], 0),
        ("forged certificates that the checker accepts", missed["checker"], 0),
        ("neighbourhoods within delta that the audit or certify reports", false_alarms, 0),
    ]


def accepted_forgeries(case: Planted, rows: np.ndarray, folder: Path) -> int:
    """Return how many certificates over these rows, of a writer that lies, the checker accepts: two for each row.

    One has true bounds of the scores and calls them close enough; one has bounds that are too close.
    """
    spec, X, model, path = case.spec, case.X[rows], folder / "model.onnx", folder / "certificate.json"
    case.network.save(model)
    regions = spec.regions(X)
    proofs = (prove_scores_over_regions(case.network, regions, spec.claim),
              prove_scores_at_points(case.network, spec, X, spec.claim))  # fmt: skip
    nothing, accepted = np.zeros(1), 0
    for row in range(len(X)):
        one = np.array([row])
        proof, boxes = proofs[row % 2].subset(one), None if row % 2 else regions.subset(one)
        middle = (proof.low + proof.high) / 2
        for low, high in ((proof.low, proof.high), (middle, middle)):
            lie = ScoreProof(low, high, nothing, nothing, case.delta)
            certificate = certificate_of_regions(case.network, spec, X[one], lie, method="certify", regions=boxes)
            certificate.save(path, model)
            accepted += fairmend.check(path, model).valid
    return accepted
