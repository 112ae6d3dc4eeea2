"""Repair Adult with sex linked to relationship and marital status, and compare the cost with that of plain sex.

    python benchmarks/repairs/links.py [--samples 100000]

A counterfactual of the other sex has another relationship (a husband is a wife, a wife a husband), and of a spouse or
of somebody who lives apart, the marital status may be either kind. `plain` is the same spec without the links. Each is
repaired with `auto`, for everyone, and with the paper's two steps (`prof`). IDI is the share of people who have a
counterfactual with another prediction: on the repair inputs, on the whole data set, and on uniform samples, by
enumeration in ONNX Runtime. The enumeration is written here from the words above and uses nothing of fairmend's
neighbourhoods. Exits with 1 if a repair input has such a counterfactual, if anybody has one after `auto`, or if a
certificate is not valid.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fairmend
from fairmend import Feature, Network, Spec
from fairmend.base.metrics import accuracy, balanced_accuracy
from fairmend.paper.datasets import ADULT_CATEGORIES

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings
from benchmarks.repairs.figures import Limit, verdict, within

METHODS = ("auto", "prof")
SPOUSES = ["Married-AF-spouse", "Married-civ-spouse"]
APART = ["Divorced", "Separated"]
OTHER_RELATIONSHIP = {"Husband": "Wife", "Wife": "Husband"}
EITHER = {name: both for both in (SPOUSES, APART) for name in both}
LINKS = [
    {"when": {"sex": "Female"}, "then": {"relationship": {"Husband": "Wife"}, "marital-status": EITHER}},
    {"when": {"sex": "Male"}, "then": {"relationship": {"Wife": "Husband"}, "marital-status": EITHER}},
]


def adult_spec(setting: settings.Setting, links: list[dict[str, dict[str, object]]]) -> Spec:
    """Return the spec of Adult with its categories by name; sex is protected."""
    features = [
        Feature(f.name, "categorical", categories=tuple(ADULT_CATEGORIES[f.name].split()), protected=f.protected)
        if f.name in ADULT_CATEGORIES
        else f
        for f in setting.spec.features
    ]
    return Spec(features, links=links)


class Counterfactuals:
    """Lists the people of the other sex who count as similar, from the words of this script."""

    def __init__(self, columns: tuple[str, ...], *, linked: bool) -> None:
        self.sex, self.relationship, self.marital = (
            columns.index(n) for n in ("sex", "relationship", "marital-status")
        )
        self.linked = linked

    def of(self, X: np.ndarray) -> list[np.ndarray]:
        """Return arrays like ``X (rows, features)``: together the counterfactuals of each row, some of them twice."""
        other = X.copy()
        other[:, self.sex] = 1 - X[:, self.sex]
        if not self.linked:
            return [other]
        for own, new in OTHER_RELATIONSHIP.items():
            other[X[:, self.relationship] == code("relationship", own), self.relationship] = code("relationship", new)
        found = []
        for choice in (0, 1):
            chosen = other.copy()
            for own, both in EITHER.items():
                rows = X[:, self.marital] == code("marital-status", own)
                chosen[rows, self.marital] = code("marital-status", both[choice])
            found.append(chosen)
        return found


def code(column: str, category: str) -> int:
    return ADULT_CATEGORIES[column].split().index(category)


def idi(network: Network, counterfactuals: Counterfactuals, X: np.ndarray) -> float:
    """Return the percentage of these people who have a counterfactual with another prediction in ONNX Runtime."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        network.save(path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name, threshold = session.get_inputs()[0].name, 0.5 if network.closing == "sigmoid" else 0.0

    def predict(points: np.ndarray) -> np.ndarray:
        return session.run(None, {name: points.astype(np.float32)})[0].reshape(-1) >= threshold

    own = predict(X)
    return 100 * float(np.mean(np.any([predict(others) != own for others in counterfactuals.of(X)], axis=0)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    samples = parser.parse_args().samples
    s = settings.setting("adult-sex")
    console = Console(width=max(Console().width, 150))
    table = Table(title="Adult, sex protected (percent, test rows)")
    for heading in (
        "spec",
        "method",
        "accuracy",
        "balanced",
        "IDI, repair inputs",
        "IDI-D",
        "IDI-S",
        "proven for",
        "check",
    ):
        table.add_column(heading, justify="left" if heading in ("spec", "method") else "right")
    limits: list[Limit] = []
    cases = [(spec, method) for spec in ("plain", "linked") for method in ("original", *METHODS)]
    for which, method in track(cases, "repairs", console=Console(stderr=True)):
        spec = adult_spec(s, LINKS if which == "linked" else [])
        network, proven_for, check = s.network, "", ""
        if method != "original":
            for_everyone = {"X_unlabelled": s.dataset.X_train, "guarantee": "everyone"}
            more = for_everyone if method == "auto" else {}
            result = fairmend.repair(s.network, spec, s.X_repair, s.X_cal, s.y_cal, method=method, **more)
            network, check = result.network, verdict(result)
            proven_for = "everyone" if result.everyone else f"{result.proven} of {result.regions} repair inputs"
        similar = Counterfactuals(s.dataset.columns, linked=which == "linked")
        rates = [idi(network, similar, X) for X in (s.X_repair, s.everyone, s.uniform(samples))]
        predicted = network.predict(s.dataset.X_test)
        quality = [100 * metric(s.dataset.y_test, predicted) for metric in (accuracy, balanced_accuracy)]
        table.add_row(which, method, *(f"{value:.2f}" for value in (*quality, *rates)), proven_for, check)
        if method != "original":
            limits.append((f"{which}, {method}: IDI on the repair inputs", rates[0], 0.0))
            limits.append((f"{which}, {method}: certificates not valid", check != "valid", 0.0))
        if method == "auto":
            limits.append((f"{which}, {method}: IDI-D and IDI-S, the larger", max(rates[1:]), 0.0))
    console.print(table)
    return 0 if within(limits, console) else 1


if __name__ == "__main__":
    sys.exit(main())
