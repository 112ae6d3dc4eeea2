"""Certificates of shares: how long a check takes beside the run, leaves checked again in other ways, and forgeries.

    python benchmarks/quantify/check.py [CASE ...] [--seconds 10] [--leaves 1000] [--marabou 20]

A case is one of the networks made here, or a network and a protected feature as in run.py, such as AC-1:sex. For
each, people are quantified for so many CPU seconds, and the certificate is checked. Random leaves are then compared
with random people in them, who are tried with every combination of protected values (or random ones, if there are
many): a leaf is wrong if so many people are treated unequally, or equally, that what is proven has a chance of less
than 1e-9. Marabou, if it is installed, is asked for a counterexample to what linear bounds prove of random leaves:
people on the sure side of a form with another class, for random protected values, and for the two that show that people
are treated unequally. (In some leaves no form proves anything, and people are listed.) At last the certificate is
forged in several ways, to claim more than the checker confirms: none may be VALID. (They are made from the certificate
of one second.)
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import fairmend
from fairmend import quantify
from fairmend.network import Activation, Affine, Network
from fairmend.quantifying import run
from fairmend.spec import Feature, Spec
from fairmend_check.kernel.spec import read_spec
from fairmend_check.readers.read_model import read_model
from fairmend_check.shares.people import Boxes, People
from fairmend_check.shares.prover import Prover

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common.settings import SHARED
from benchmarks.quantify.run import CASES, load

PEOPLE = 200  # random ones in a leaf
COMBINATIONS = 64  # of protected values that each is tried with
UNLIKELY = 1e-9
MARABOU_SECONDS = 60  # for one question


@dataclass
class Row:
    """What is found for one case."""

    name: str
    found: fairmend.QuantifyResult
    run_seconds: float
    check_seconds: float
    checked: fairmend.CheckResult
    size: int
    wrong_leaves: int = 0
    marabou: str = ""
    forgeries: int = 0
    accepted: int = 0

    @property
    def good(self) -> bool:
        """Whether nothing contradicts the proof."""
        return (
            self.checked.valid
            and not self.wrong_leaves
            and ", sat 0" in (self.marabou or ", sat 0")
            and not self.accepted
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = CASES if SHARED.is_dir() else ()
    parser.add_argument("cases", nargs="*", default=[*MADE, *shared], metavar="CASE")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds for each run (default: 10)")
    parser.add_argument(
        "--leaves", type=int, default=1000, help="leaves that are compared with samples (default: 1000)"
    )
    parser.add_argument("--marabou", type=int, default=20, help="leaves that Marabou is asked about (default: 20)")
    arguments = parser.parse_args()
    run._clock = time.process_time  # other programs on the machine take no part
    print(f"{'case':14} {'leaves':>7} {'kB':>6} {'run s':>6} {'check s':>7} | run: fair, unfair % | checker: the same")
    print(f"{'':14} verdict | leaves sampled, wrong | Marabou | forgeries, accepted")
    rows = [examine(name, arguments.seconds, arguments.leaves, arguments.marabou) for name in arguments.cases]
    sys.exit(0 if all(row.good for row in rows) else 1)


def examine(name: str, seconds: float, leaves: int, marabou: int) -> Row:
    """Run one case and print its lines."""
    network, spec = MADE[name]() if name in MADE else load(name)
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        model, certificate = Path(folder, "model.onnx"), Path(folder, "certificate.json")
        network.save(model)
        started = time.process_time()
        found = quantify(network, spec, seconds=seconds, samples=0)
        run_seconds = time.process_time() - started
        found.certificate.save(certificate, model)
        started = time.process_time()
        checked = fairmend.check(certificate, model)
        row = Row(name, found, run_seconds, time.process_time() - started, checked, certificate.stat().st_size)
        row.wrong_leaves = count_wrong_leaves(found, leaves, rng)
        if marabou and importlib.util.find_spec("maraboupy"):
            row.marabou = ask_marabou(found, model, marabou, rng)
        quantify(network, spec, seconds=min(1.0, seconds), samples=0).certificate.save(certificate, model)
        row.forgeries, row.accepted = forge(certificate, model, spec, Path(folder), rng)
    figures = [f"{100 * share:.4f}" for share in (found.fair, found.unfair, checked.fair or 0.0, checked.unfair or 0.0)]
    print(
        f"{name:14} {found.leaves:7,} {row.size / 1000:6.1f} {row.run_seconds:6.1f} {row.check_seconds:7.1f} | "
        f"{figures[0]}, {figures[1]} | {figures[2]}, {figures[3]}\n"
        f"{'':14} {checked.verdict.upper()} | {min(leaves, found.leaves):,}, {row.wrong_leaves} | "
        f"{row.marabou or 'not asked'} | {row.forgeries}, {row.accepted}",
        flush=True,
    )
    return row


def count_wrong_leaves(found: fairmend.QuantifyResult, count: int, rng: np.random.Generator) -> int:
    """Return how many of some random leaves random people contradict."""
    network, people, leaves = found.evidence.network, found.evidence.people, found.evidence.leaves
    rows = rng.choice(leaves.count, min(count, leaves.count), replace=False)
    sizes = [axis.cells for axis in people.protected]
    complete = math.prod(sizes) <= COMBINATIONS and not people.reach.any()
    wrong = 0
    for row in rows:
        unequal = int(find_unequal(network, people, leaves.boxes.take(np.array([row])), rng).sum())
        wrong += chance_of_more(unequal, 1 - leaves.fair[row]) < UNLIKELY
        if complete:
            wrong += chance_of_more(PEOPLE - unequal, 1 - leaves.unfair[row]) < UNLIKELY
    return wrong


def find_unequal(network: Network, people: People, box: Boxes, rng: np.random.Generator) -> np.ndarray:
    """Return which random people in a box get different classes with different protected values, bool (people,)."""
    X = np.zeros((PEOPLE, people.width))
    for k, axis in enumerate(people.axes):
        cells = rng.integers(box.first[0, k], box.last[0, k] + 1, PEOPLE)
        low, high = axis.hull(cells, cells)
        X[:, axis.columns] = low + rng.random((PEOPLE, 1)) * (high - low)
    sizes = [axis.cells for axis in people.protected]
    every = np.stack(np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij"), -1).reshape(-1, len(sizes))
    cells = every if len(every) <= COMBINATIONS else every[rng.choice(len(every), COMBINATIONS, replace=False)]
    classes = []
    for each in cells:
        for axis, cell in zip(people.protected, each, strict=True):
            X[:, axis.columns] = axis.columns_of(np.array([cell]))
        classes.append(network.predict(X.astype(network.dtype)))
    return np.asarray(np.ptp(np.array(classes), axis=0) > 0)


def chance_of_more(count: int, share: float) -> float:
    """Return the chance that so many of `PEOPLE` or more are in a share: a binomial tail."""
    share = min(max(float(share), 0.0), 1.0)
    return math.fsum(math.comb(PEOPLE, k) * share**k * (1 - share) ** (PEOPLE - k) for k in range(count, PEOPLE + 1))


def ask_marabou(found: fairmend.QuantifyResult, path: Path, count: int, rng: np.random.Generator) -> str:
    """Ask for counterexamples to what is proven of random leaves; "sat" is a contradiction."""
    network, leaves = found.evidence.network, found.evidence.leaves
    relu = all(activation.name == "relu" for activation in network.activations)
    if not relu or network.outputs != 1 or found.evidence.people.reach.any():
        return ""
    model, _ = read_model(path, None)
    path = path.with_name("open.onnx")
    Network(network.affines, network.activations).save(path)  # Marabou is asked about the logit
    spec = read_spec(found.evidence.spec.with_about(None).to_dict(), "spec")
    parts = found.certificate.content["shares"]["pieces"]
    people = People.of(spec, model.dtype, found.certificate.content["shares"]["cells"], parts)
    prover = Prover(model, spec, people)
    answers: dict[str, int] = {"unsat": 0, "sat": 0}
    rows = rng.permutation(np.flatnonzero((leaves.fair > 0) | (leaves.unfair > 0)))[:count]
    asked = 0
    for row in rows:
        statements = list(statements_of(prover, leaves.boxes.take(np.array([row])), rng))
        asked += bool(statements)
        for statement in statements:
            answer = solve(path, *statement)
            answers[answer] = answers.get(answer, 0) + 1
    listed = f"{len(rows) - asked:,} of them listed" if asked < len(rows) else "all by forms"
    return f"{len(rows):,} leaves ({listed}): " + ", ".join(f"{answer} {n:,}" for answer, n in answers.items())


Statement = tuple[np.ndarray, np.ndarray, np.ndarray, float, bool]
"""The columns of a box, low and high; a form and what it exceeds; and whether these people get class 1, or class 0."""


def statements_of(prover: Prover, box: Boxes, rng: np.random.Generator) -> Iterator[Statement]:
    """Yield what linear forms prove of a leaf: where a class is sure, with random protected values and with the best.

    There is nothing for a leaf in which no one is on the sure side of a form: its people are listed.
    """
    people, required = prover.people, prover.requirement
    cases, one = people.cases(1), np.zeros(1, np.int64)
    lower, upper = people.hulls(box, cases)
    forms = required.forms(prover.bound(box, cases))
    assert forms is not None
    for label, ((above, _),) in enumerate(required.ways(len(lower))):
        group, piece = forms.group(one, above), int(rng.integers(len(lower)))
        g = group.A.mean(axis=1)
        end = float(prover._needed(box, group, g, False)[0])
        if np.maximum(g[0] * lower[0], g[0] * upper[0]).sum() > end:
            yield lower[piece], upper[piece], g[0], end, label == 1
    if people.single:
        value = (forms.A @ people.people_in(box.middle)[:, :, None])[:, :, 0] + forms.some
        numbers = sorted((each.item() for each in required.unequal_forms(value - forms.beyond)), reverse=True)
        first, second = (forms.choose(np.array([[number]])) for number in numbers)
        g = (first.A[:, 0] - second.A[:, 0]) / 2
        low, high = float(prover._needed(box, first, g, True)[0]), -float(prover._needed(box, second, -g, True)[0])
        span = np.sort(np.stack([g[0] * lower[0], g[0] * upper[0]]), axis=0).sum(axis=1)
        if max(low, span[0]) < min(high, span[1]):
            for number, form, end, positive in ((numbers[0], g[0], low, True), (numbers[1], -g[0], -high, False)):
                yield lower[number % len(lower)], upper[number % len(lower)], form, end, positive


def solve(path: Path, lower: np.ndarray, upper: np.ndarray, g: np.ndarray, end: float, negative: bool) -> str:
    """Ask whether someone in a box, with g above an end, has a logit below 0, or with ``negative`` above 0."""
    from maraboupy import Marabou, MarabouCore, MarabouUtils

    from benchmarks.soundness.attacks import without_output

    query = Marabou.read_onnx(str(path))
    variables = np.array(query.inputVars[0]).ravel()
    for column, variable in enumerate(variables):
        query.setLowerBound(variable, float(lower[column]))
        query.setUpperBound(variable, float(upper[column]))
    if np.isfinite(end):
        side = MarabouUtils.Equation(MarabouCore.Equation.GE)
        for column in np.flatnonzero(g):
            side.addAddend(float(g[column]), int(variables[column]))
        side.setScalar(end)
        query.addEquation(side)
    flip = MarabouUtils.Equation(MarabouCore.Equation.LE if negative else MarabouCore.Equation.GE)
    flip.addAddend(1.0, int(np.array(query.outputVars[0]).ravel()[0]))
    flip.setScalar(-1e-6 if negative else 1e-6)
    query.addEquation(flip)
    with without_output():
        options = Marabou.createOptions(verbosity=0, timeoutInSeconds=MARABOU_SECONDS)
        answer, values, _ = query.solve(options=options, verbose=False)
    if answer != "sat":
        return str(answer)
    point = np.clip([values[variable] for variable in variables], lower, upper)  # Marabou has a tolerance
    logit = float(fairmend.load_network(path).astype(np.float64).logits(point[None])[0])
    contradicts = (logit < 0 if negative else logit > 0) and (not np.isfinite(end) or point @ g > end)
    return "sat" if contradicts else "sat but not so in float64"


def forge(certificate: Path, model: Path, spec: Spec, folder: Path, rng: np.random.Generator) -> tuple[int, int]:
    """Return how many forgeries there are, and how many of them are accepted."""
    true = fairmend.check(certificate, model)
    content = json.loads(certificate.read_text())
    shares = content["shares"]
    nodes, cuts = unpack(shares["nodes"], "<u2"), unpack(shares["cuts"], "<u4")
    rest = max(0.0, 1 - (true.fair or 0) - (true.unfair or 0))
    raised = {"fair": (true.fair or 0) + max(1e-9, rest / 1000), "unfair": (true.unfair or 0) + max(1e-9, rest / 1000)}
    raised = {name: share for name, share in raised.items() if share <= 1}
    forgeries: list[dict[str, Any]] = [{name: share} for name, share in raised.items()]
    # Another tree may prove a little more, and truly. With one, more is claimed than can be true.
    wrong = {"fair": 1 - (true.unfair or 0) / 2, "unfair": 1 - (true.fair or 0) / 2}
    forgeries += [{**wrong, "pieces": [1] * len(shares["pieces"])}, {**wrong, "cells": 1}]
    for _ in range(4):  # a cut moved by a cell, an axis exchanged, a leaf left out, one there twice
        moved, turned = cuts.copy(), nodes.copy()
        if len(cuts):
            moved[rng.integers(len(cuts))] += 1
            turned[rng.integers(len(nodes))] += 1
        forgeries += [{**wrong, "cuts": pack(moved, "<u4")}, {**wrong, "nodes": pack(turned, "<u2")}]
    forgeries += [{**wrong, "leaves": shares["leaves"] - 1}, {**wrong, "leaves": shares["leaves"] + 1}]
    forged, accepted = folder / "forged.json", 0
    for change in forgeries:
        text = json.dumps({**content, "shares": {**shares, **change}})
        forged.write_text(text.removesuffix("]}") + "\n]}\n")  # the list of inputs is empty, and the last line its end
        accepted += fairmend.check(forged, model).valid
    other = fairmend.load_network(model)
    weights = [affine.weight.copy() for affine in other.affines]
    weights[0][0, 0] = np.nextafter(weights[0][0, 0], np.float32(np.inf))
    affines = [Affine(weight, affine.bias) for weight, affine in zip(weights, other.affines, strict=True)]
    Network(affines, other.activations, other.closing).save(folder / "other.onnx")
    accepted += fairmend.check(certificate, folder / "other.onnx").valid
    spec_file = folder / "other.toml"
    Spec([replace(feature, name=f"{feature.name} 2") for feature in spec.features]).save(spec_file)
    accepted += fairmend.check(certificate, model, spec_file).valid
    return len(forgeries) + 2, accepted


def unpack(text: str, kind: str) -> np.ndarray:
    """Return the numbers of an array of a certificate."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).copy()


def pack(numbers: np.ndarray, kind: str) -> str:
    """Return the text of an array of a certificate."""
    return base64.b64encode(zlib.compress(numbers.astype(kind).tobytes())).decode("ascii")


def made(hidden: list[int], seed: int, tolerance: float = 0.0) -> tuple[Network, Spec]:
    """Return a random network of ReLU units, and a spec with features of every kind."""
    rng = np.random.default_rng(seed)
    spec = Spec(
        [
            Feature(name="age", kind="integer", range=(18, 75), scale={"mean": 45, "std": 15}, protected=True),
            Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True),
            Feature(
                name="income", kind="continuous", range=(8, 250), scale={"mean": 70, "std": 40}, tolerance=tolerance
            ),
            Feature(name="years", kind="integer", range=(0, 45), scale={"mean": 12, "std": 9}),
            Feature(name="home", kind="categorical", categories=("own", "rent", "family"), encoding="one-hot"),
            Feature(name="credits", kind="integer", range=(0, 8)),
        ]
    )
    layers = []
    for before, after in pairwise([spec.width, *hidden, 1]):
        weight = (rng.normal(size=(after, before)) * np.sqrt(2 / before)).astype(np.float32)
        layers.append((weight, (rng.normal(size=after) / 2).astype(np.float32)))
    layers[0][0][:, :2] *= np.float32(0.1)  # protected features decide for few people
    return Network([Affine(*layer) for layer in layers], [Activation("relu")] * len(hidden)), spec


MADE: dict[str, Callable[[], tuple[Network, Spec]]] = {
    "made 16-8": lambda: made([16, 8], 1),
    "made 50": lambda: made([50], 2),
    "made tolerance": lambda: made([16, 8], 3, 2.5),
    "made 3 x 50": lambda: made([50, 50, 50], 4),
}


if __name__ == "__main__":
    main()
