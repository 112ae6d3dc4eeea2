"""Attacks of run.py besides verdicts: certificates that are forged, Marabou, and heads that SCIP repairs."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fairmend
from benchmarks.soundness.cases import Case, random_network, random_spec
from benchmarks.soundness.oracle import Oracle
from benchmarks.soundness.tally import Tally
from fairmend import Feature, Network, Spec, Verdict
from fairmend.network import Activation, Affine
from fairmend.prove.certificate import Certificate, certificate_of_fair
from fairmend.repairing.head.features import Linear
from fairmend.repairing.head.solve import repair_head
from fairmend.repairing.options import has_tolerances

FORMATS = {"float64": ["onnx", "safetensors", "pth"], "float32": ["onnx", "safetensors", "pth", "h5", "keras"]}


def check(certificate: Path, model: Path) -> fairmend.CheckResult:
    """Check a certificate; a claim about real arithmetic only is checked as such."""
    real = json.loads(certificate.read_bytes())["arithmetic"] == "real"
    return fairmend.check(certificate, model, real=real, run=False)


class Certificates:
    """Writes a certificate for a case, checks it against the oracle, and forges others from it."""

    def __init__(self, case: Case, oracle: Oracle, folder: Path, rng: np.random.Generator, tally: Tally) -> None:
        self.case, self.oracle, self.folder, self.rng, self.tally = case, oracle, folder, rng, tally
        self.model = folder / f"model.{rng.choice(FORMATS[case.network.dtype.name])}"
        self.certificate = folder / "certificate.json"
        self.network: Network = case.network

    def write(self, *, repair: bool) -> bool:
        """Write and check a certificate, of a repair or of what is proven anyway; return whether there is one."""
        made = self._make(repair=repair)
        if made is None:
            return False
        self.network.save(self.model)
        made = made.for_model(self.model)
        self.made: Certificate = made
        made.save(self.certificate)
        result = check(self.certificate, self.model)
        self.tally.add(f"certificates ({'repair' if repair else 'certify'}, {made.content['arithmetic']})")
        if not result.valid:
            self.tally.fail(f"a certificate that was just written is refused: {result.reasons[0]}")
        return result.valid

    def _make(self, *, repair: bool) -> Certificate | None:
        """Return a certificate, or None."""
        X = self.case.X[:20]
        if repair:
            try:
                made, self.network = self._repaired(X)
            except fairmend.FairmendError:
                self.tally.add("repairs refused with a reason")
                return None
            return made
        made, _ = certificate_of_fair(self.network, self.case.spec, X)
        if made is None:
            self.tally.add("certificates: nothing proven")
            return None
        self._compare(made.inputs)
        return made

    def _repaired(self, X: np.ndarray) -> tuple[Certificate, Network]:
        rng, spec, network = self.rng, self.case.spec, self.network
        method, features = str(rng.choice(["prof", "prof", "blind"])), str(rng.choice(["linear", "points"]))
        X_cal = spec.sample_inputs(12, rng, network.dtype)
        if not spec.finite:
            features = "linear"
        if method == "blind" and not has_tolerances(spec):
            features = None  # blindness is the whole proof there, and blind refuses the option
        result = fairmend.repair(
            network,
            spec,
            X,
            X_cal,
            network.predict(X_cal),
            method=method,
            training=fairmend.TrainingOptions(steps=3),
            head=fairmend.HeadOptions(features=features),
        )
        self.oracle = Oracle(Case(result.network, spec, X), rng)
        self._compare(result.certificate.inputs)
        return result.certificate, result.network

    def _compare(self, inputs: np.ndarray) -> None:
        """Compare a certificate with the neighbours of its inputs."""
        for row in self._rows(inputs):
            point = self.oracle.contradiction(row, int(self.oracle.own_classes[row]))
            if point is not None:
                self.tally.fail(f"input {row} has a certificate, but {point.tolist()} has another class")

    def _rows(self, inputs: np.ndarray) -> list[int]:
        """Return the rows of the oracle that these inputs are."""
        return [int(np.flatnonzero((x == self.oracle.X).all(axis=1))[0]) for x in inputs]

    def _unfair(self) -> np.ndarray:
        """Return the rows of the oracle with a neighbour of another class, beyond doubt."""
        own = self.oracle.own_classes[:, None]
        return np.flatnonzero(((self.oracle.classes != own) & self.oracle.sure).any(axis=1))

    def forge(self) -> bool:
        """Change the certificate or the model so that the claim is false; the check must refuse it. Whether it was."""
        content, inputs = copy.deepcopy(self.made.content), self.made.inputs.copy()
        content["model"]["file_sha256"] = None
        kinds = ["weights", "arithmetic", "unfair", "far"]
        kinds += ["columns"] if len(inputs) else ["spec", "global"]
        kind = str(self.rng.choice(kinds))
        model = self.model
        if kind == "weights":
            model = self.folder / "other.onnx"
            self._nudged().save(model)
        elif kind == "arithmetic":
            content["arithmetic"] = {"float32": "float64", "float64": "float32"}[self.network.dtype.name]
        elif kind == "spec":
            features = content["spec"]["feature"]
            if all(feature.get("protected") for feature in features):
                return False  # nothing left to claim falsely
            for feature in features:
                feature["protected"] = True
                feature.pop("tolerance", None)
        elif kind == "global":
            content["global"] = None
        elif kind == "columns":
            content["global"] = {"columns": self._read_columns()}
            if not content["global"]["columns"]:
                return False
        elif kind == "far":
            inputs = self._with_far(inputs)
        else:
            unfair = self._unfair()
            if not len(unfair):
                return False
            x = self.oracle.X[self.rng.choice(unfair)]
            inputs = np.insert(inputs, int(self.rng.integers(len(inputs) + 1)), x, axis=0)
        path = self.save_forged(content, inputs)
        self.tally.add(f"forged: {kind}")
        if check(path, model).valid:
            self.tally.fail(f"a certificate with a false {kind} is accepted")
        return True

    def save_forged(self, content: dict[str, Any], inputs: np.ndarray) -> Path:
        """Write a certificate that says this about these inputs."""
        path = self.folder / "forged.json"
        replace(self.made, content={**content, "count": len(inputs)}, inputs=inputs).save(path)
        return path

    def _read_columns(self) -> list[int]:
        """Return the columns of all protected features, if the network reads one of them."""
        spec = self.case.spec
        columns = sorted(column for f in spec.protected for column in range(spec.width)[spec.columns(f.name)])
        return columns if self.network.read_columns[columns].any() else []

    def _with_far(self, inputs: np.ndarray) -> np.ndarray:
        """Return the inputs, one of which cannot be a person."""
        found = inputs if len(inputs) else self.oracle.X[:1].copy()
        found[self.rng.integers(len(found)), self.rng.integers(found.shape[1])] = 1e12
        return found

    def _nudged(self) -> Network:
        affines = list(self.network.affines)
        layer = int(self.rng.integers(len(affines)))
        weight = affines[layer].weight.copy()
        spot = tuple(self.rng.integers(0, size) for size in weight.shape)
        weight[spot] = np.nextafter(weight[spot], weight.dtype.type(np.inf))
        affines[layer] = Affine(weight, affines[layer].bias)
        return self.network.with_affines(affines)


@contextlib.contextmanager
def without_output() -> Iterator[None]:
    """Drop what a library in C++ writes to standard output and standard error."""
    kept = [os.dup(1), os.dup(2)]
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        yield
    finally:
        for number, file in enumerate(kept, 1):
            os.dup2(file, number)
            os.close(file)
        os.close(nothing)


def compare_with_marabou(folder: Path, rng: np.random.Generator, tally: Tally) -> None:
    """A box of a ReLU network: can the answer at its centre change? Marabou and branch must say the same."""
    from maraboupy import Marabou, MarabouCore, MarabouUtils

    spec = Spec(
        features=[
            Feature(name="a", kind="continuous", range=(-1, 1), protected=True),
            Feature(name="b", kind="continuous", range=(-2, 2), tolerance=float(rng.uniform(0.01, 0.5))),
            Feature(name="c", kind="continuous", range=(-2, 2)),
        ]
    )
    network = random_network(rng, 3, activations=[Activation("relu")], outputs=1)
    X = spec.sample_inputs(1, rng)
    path = folder / "box.onnx"
    network.save(path)
    regions = spec.regions(X)
    options = Marabou.createOptions(verbosity=0, timeoutInSeconds=20)
    query = Marabou.read_onnx(str(path))
    variables = np.array(query.inputVars[0]).ravel()
    for column, variable in enumerate(variables):
        query.setLowerBound(variable, float(regions.lower[0, column]))
        query.setUpperBound(variable, float(regions.upper[0, column]))
    positive = bool(network.predict(X)[0])
    flip = MarabouUtils.Equation(MarabouCore.Equation.LE if positive else MarabouCore.Equation.GE)
    flip.addAddend(1.0, int(np.array(query.outputVars[0]).ravel()[0]))
    flip.setScalar(-1e-6 if positive else 1e-6)
    query.addEquation(flip)
    with without_output():
        answer, values, _ = query.solve(options=options, verbose=False)
    result = fairmend.certify(network, spec, X, engine="branch", time_limit=20)
    verdict = result.verdicts[0]
    tally.add(f"Marabou: {answer}, branch: {verdict.value}")
    exact = network.astype(np.float64)
    if answer == "sat" and verdict is Verdict.FAIR:
        point = np.array([[values[variable] for variable in variables]])
        if bool(exact.predict(point)[0]) != positive:
            tally.fail(f"Marabou finds another class at {point} in a box that branch calls fair")
    # Marabou was asked to leave out scores within 1e-6 of 0.
    if (
        answer == "unsat"
        and verdict is Verdict.UNFAIR
        and abs(float(exact.logits(result.witnesses[0].other[None])[0])) > 1e-6
    ):
        tally.fail("branch has a witness in a box where Marabou finds none")


def compare_heads_with_scip(folder: Path, rng: np.random.Generator, tally: Tally) -> None:
    """The same head, by branching, by HiGHS's MILP and by SCIP's."""
    spec = random_spec(rng)
    network = random_network(rng, spec.width, outputs=1)
    while not network.activations:  # a head without features cannot be repaired
        network = random_network(rng, spec.width, outputs=1)
    regions = spec.regions(spec.sample_inputs(8, rng))
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
    tally.add("heads solved by SCIP as well")
    if max(found.values()) - min(found.values()) > 1e-6 * max(1.0, abs(found["branch"])):
        tally.fail(f"step 2 has optima {found}")
