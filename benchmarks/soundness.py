"""Attack what fairmend claims, with random networks and specs: everything that should agree is compared.

    python benchmarks/soundness.py [--regions 10000] [--mutations 1000] [--marabou 200] [--scip 50] [--seed 0]

Networks of 1 to 4 hidden layers with every activation, specs of every kind. For each region: no sampled point outside
the rigorous bounds, verdicts of the three engines equal each other and brute force, the certificate of a repair valid
and true. Then mutated certificates that claim something false, Marabou on regions of ReLU networks, and heads repaired
by SCIP as well. Prints what was tried and every disagreement; exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

import fairmend
from fairmend import Feature, Network, Spec, Verdict
from fairmend.audit.neighbours import find_unequal
from fairmend.bounds.rigorous import rigorous_bounds, rigorous_point_logits
from fairmend.network import Activation, Affine
from fairmend.repair.head.features import Linear
from fairmend.repair.head.solve import repair_head
from fairmend.repair.options import has_tolerances

ACTIVATIONS = [
    Activation("relu"),
    Activation("leaky_relu", 0.125),
    Activation("tanh"),
    Activation("sigmoid"),
    Activation("identity"),
]


class Campaign:
    """Counts what was tried, and keeps every disagreement with what is needed to reproduce it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = np.random.default_rng(seed)
        self.seed, self.folder = seed, folder
        self.tried: Counter[str] = Counter()
        self.disagreements: list[str] = []

    def fail(self, what: str) -> None:
        self.disagreements.append(f"{what} (seed {self.seed}, after {dict(self.tried)})")

    def network(self, inputs: int, *, piecewise_linear: bool = False, outputs: int | None = None) -> Network:
        rng = self.rng
        widths = [inputs, *rng.integers(2, 9, rng.integers(1, 5)), outputs or int(rng.choice([1, 1, 1, 3]))]
        affines = [
            Affine(
                (rng.normal(size=(out, into)) * np.sqrt(2 / into)).astype(np.float32),
                (0.5 * rng.normal(size=out)).astype(np.float32),
            )
            for into, out in pairwise(widths)
        ]
        choices = ACTIVATIONS[:2] if piecewise_linear else ACTIVATIONS
        return Network(affines, [choices[rng.integers(len(choices))] for _ in widths[1:-1]])

    def spec(self) -> Spec:
        """Two to four features, at least one protected, all finite."""
        rng = self.rng
        features = []
        for number in range(int(rng.integers(2, 5))):
            protected = number == 0 or rng.random() < 0.3
            kind = rng.choice(["integer", "ordinal", "one-hot"])
            if kind == "integer":
                size = int(rng.integers(1, 7))
                scale = {"mean": size / 2, "std": 1 + rng.random()} if rng.random() < 0.5 else None
                tolerance = 0.0 if protected or rng.random() < 0.7 else 1.0
                features.append(
                    Feature(name=f"f{number}", kind="integer", range=(0, size), scale=scale, protected=protected,
                            tolerance=tolerance)
                )  # fmt: skip
            else:
                categories = tuple("abcd"[: int(rng.integers(2, 5))])
                features.append(
                    Feature(name=f"f{number}", kind="categorical", categories=categories, encoding=kind,
                            protected=protected)
                )  # fmt: skip
        return Spec(features=features)

    def bounds(self, network: Network, spec: Spec, X: np.ndarray) -> None:
        regions = spec.regions(X)
        lower, upper = rigorous_bounds(network, regions.lower, regions.upper)
        for _ in range(20):
            t = self.rng.random(regions.lower.shape)
            if self.rng.random() < 0.5:
                t = np.round(t)
            points = regions.lower + t * (regions.upper.astype(np.float64) - regions.lower)
            points = np.clip(points, regions.lower, regions.upper)
            low, high = rigorous_point_logits(network, points)
            self.tried["sampled points"] += len(points)
            if (low > upper).any() or (high < lower).any():
                self.fail("a sampled point lies outside the bounds")

    def verdicts(self, network: Network, spec: Spec, X: np.ndarray) -> None:
        truth = find_unequal(network, spec, X).rows
        engines = ["enumerate", "branch"]
        if all(activation.name in ("relu", "leaky_relu", "identity") for activation in network.activations):
            engines.append("milp")
        for engine in engines:
            for unequal, verdict in zip(truth, fairmend.certify(network, spec, X, engine=engine).verdicts, strict=True):
                self.tried[f"{engine}: {verdict.value}"] += 1
                if verdict is not Verdict.UNKNOWN and (verdict is Verdict.UNFAIR) != unequal:
                    self.fail(f"{engine} says {verdict.value}, brute force says {'un' * unequal}fair")

    def certificate(self, network: Network, spec: Spec, X: np.ndarray) -> dict[str, Path]:
        """Repair, save and check, and compare every point; return the files, for mutation."""
        method, features = str(self.rng.choice(["prof", "prof", "blind"])), str(self.rng.choice(["linear", "points"]))
        X_cal = spec.sample_inputs(12, self.rng)
        labels = network.predict(X_cal)
        if method == "blind" and not has_tolerances(spec):
            features = None  # blindness is the whole proof there, and blind refuses the option
        result = fairmend.repair(network, spec, X, X_cal, labels, method=method, features=features, steps=3)
        suffix = str(self.rng.choice(["onnx", "safetensors", "pth"]))
        files = {"model": self.folder / f"model.{suffix}", "certificate": self.folder / "certificate.json"}
        result.network.save(files["model"])
        result.certificate.save(files["certificate"], files["model"])
        report = fairmend.check(files["certificate"], files["model"])
        self.tried["certificates"] += 1
        if not report.valid:
            self.fail(f"a certificate that was just written is refused: {report.reasons[0]}")
        if find_unequal(result.network, spec, X).count:
            self.fail("a certified input is treated unequally")
        return files

    def mutation(self, files: dict[str, Path]) -> bool:
        """Change the certificate or the model so that the claim is false; the check must refuse it. Whether it was."""
        content = json.loads(files["certificate"].read_text())
        content["model"]["file_sha256"] = None
        network = fairmend.load_network(files["model"])
        kinds = (
            ["weights", "spec", "global"] if not content["regions"] else ["weights", "class", "margin", "cover", "drop"]
        )
        kind = str(self.rng.choice(kinds))
        model = files["model"]
        if kind == "weights":
            affine = network.affines[0]
            weight = affine.weight.copy()
            spot = tuple(self.rng.integers(0, size) for size in weight.shape)
            weight[spot] = np.nextafter(weight[spot], np.float32(np.inf))
            model = self.folder / "other.onnx"
            network.with_affines([Affine(weight, affine.bias), *network.affines[1:]]).save(model)
        elif kind == "spec":
            features = content["spec"]["content"]["feature"]
            if all(feature.get("protected") for feature in features):
                return False  # nothing left to claim falsely
            for feature in features:
                feature["protected"] = True
        elif kind == "global":
            content["global"] = None
        else:
            region = content["regions"][int(self.rng.integers(len(content["regions"])))]
            logits = np.atleast_1d(network.astype(np.float64).logits(np.array([region["input"]]))[0])
            if kind == "class":
                classes = 2 if network.outputs == 1 else network.outputs
                region["class"] = (region["class"] + 1) % classes
            elif kind == "margin":
                ordered = np.sort(logits)
                truth = abs(ordered[-1]) if len(logits) == 1 else ordered[-1] - ordered[-2]
                region["margin"] = float(truth * 1.01 + 1e-6)
            elif region["proof"] == "points":
                region["input"][0] = 1e6
            elif kind == "drop":
                region["pieces"] = region["pieces"][1:]
            else:
                piece = region["pieces"][0]
                column = next((c for c in range(len(piece["lower"])) if piece["lower"][c] < piece["upper"][c]), None)
                if column is None:
                    region["pieces"] = []
                else:
                    piece["upper"][column] = piece["lower"][column]
        mutated = self.folder / "mutated.json"
        mutated.write_text(json.dumps(content))
        report = fairmend.check(mutated, model)
        self.tried[f"mutated: {kind}"] += 1
        if report.valid:
            self.fail(f"a certificate with a false {kind} is accepted")
        return True

    def marabou(self) -> None:
        """A box of a ReLU network: can the answer at its centre change? Marabou and branch must say the same."""
        from maraboupy import Marabou, MarabouCore, MarabouUtils

        spec = Spec(
            features=[
                Feature(name="a", kind="continuous", range=(-1, 1), protected=True),
                Feature(name="b", kind="continuous", range=(-2, 2), tolerance=float(self.rng.random() / 2)),
                Feature(name="c", kind="continuous", range=(-2, 2)),
            ]
        )
        network = self.network(3, piecewise_linear=True, outputs=1)
        network = Network(network.affines, [Activation("relu")] * len(network.activations))
        X = spec.sample_inputs(1, self.rng)
        path = self.folder / "box.onnx"
        network.save(path)
        regions = spec.regions(X)
        options = Marabou.createOptions(verbosity=0, timeoutInSeconds=20)
        query = Marabou.read_onnx(str(path))
        for column, variable in enumerate(np.array(query.inputVars[0]).ravel()):
            query.setLowerBound(variable, float(regions.lower[0, column]))
            query.setUpperBound(variable, float(regions.upper[0, column]))
        output = int(np.array(query.outputVars[0]).ravel()[0])
        positive = bool(network.predict(X)[0])
        flip = MarabouUtils.Equation(MarabouCore.Equation.LE if positive else MarabouCore.Equation.GE)
        flip.addAddend(1.0, output)
        flip.setScalar(-1e-6 if positive else 1e-6)
        query.addEquation(flip)
        answer, values, _ = query.solve(options=options, verbose=False)
        verdict = fairmend.certify(network, spec, X, engine="branch", time_limit=20).verdicts[0]
        self.tried[f"Marabou: {answer}, branch: {verdict.value}"] += 1
        if answer == "sat" and verdict is Verdict.FAIR:
            point = np.array([[values[v] for v in np.array(query.inputVars[0]).ravel()]])
            if bool(network.astype(np.float64).predict(point)[0]) != positive:
                self.fail(f"Marabou finds another prediction at {point} in a box that branch calls fair")
        if answer == "unsat" and verdict is Verdict.UNFAIR:
            score = float(
                network.astype(np.float64).logits(fairmend.certify(network, spec, X).witnesses[0].other[None])[0]
            )
            if abs(score) > 1e-6:  # within the band that Marabou was asked to leave out
                self.fail("branch has a witness in a box where Marabou finds none")

    def scip(self) -> None:
        """The same head, by branching, by HiGHS's MILP and by SCIP's."""
        spec = self.spec()
        network = self.network(spec.width, outputs=1)
        regions = spec.regions(spec.sample_inputs(8, self.rng))
        features = Linear.from_network(network, regions)
        weight, bias = network.head.weight, network.head.bias
        found = {
            name: repair_head(weight, bias, features, margin=1e-4, solver=solver, search=search).objective
            for name, solver, search in (
                ("branch", "highs", "branch"),
                ("HiGHS", "highs", "milp"),
                ("SCIP", "scip", "milp"),
            )
        }
        self.tried["heads solved by SCIP as well"] += 1
        if max(found.values()) - min(found.values()) > 1e-6:
            self.fail(f"step 2 has optima {found}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("regions", 10_000), ("mutations", 1000), ("marabou", 200), ("scip", 50), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Tensorflow parser")
    console = Console()
    with tempfile.TemporaryDirectory() as folder, Progress(console=Console(stderr=True)) as bars:
        campaign = Campaign(options.seed, Path(folder))
        regions_bar = bars.add_task("regions", total=options.regions)
        mutations_bar = bars.add_task("mutations", total=options.mutations)
        done = mutated = 0
        while done < options.regions:
            spec = campaign.spec()
            network = campaign.network(spec.width)
            X = spec.sample_inputs(40, campaign.rng)
            campaign.bounds(network, spec, X)
            campaign.verdicts(network, spec, X)
            files = campaign.certificate(network, spec, X)
            done += len(X)
            bars.update(regions_bar, completed=done)
            while mutated < options.mutations * done / options.regions:
                mutated += campaign.mutation(files)
            bars.update(mutations_bar, completed=mutated)
        campaign.tried["regions"] = done
        for what, count, run in (("Marabou", options.marabou, campaign.marabou), ("SCIP", options.scip, campaign.scip)):
            for _ in bars.track(range(count), description=what):
                run()
    for what, number in sorted(campaign.tried.items()):
        console.print(f"{number:8,d}  {what}")
    for disagreement in campaign.disagreements:
        console.print(f"[bold red]DISAGREEMENT[/]: {disagreement}")
    console.print(f"{len(campaign.disagreements)} disagreements")
    return 1 if campaign.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
