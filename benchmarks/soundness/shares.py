"""Attack the counts of shares: random specs, networks and trees, each leaf compared with an enumeration of its people.

    python benchmarks/soundness/shares.py [--count 2000] [--seed 0] [--start 0]

Specs have whole numbers, categories in every encoding, continuous features, tolerances (also fractional, and larger
than the range), bands, links with every effect, thresholds, score claims; features of a single value; scales far from
0. Leaves are proven by linear bounds, person by person and as a whole, with pieces of protected values of any number.
The enumeration is written from docs/certificate.md: it lists values, not cells, and of a continuous feature a grid, so
that counts of leaves with one may be above those of the grid by some of its points. What is proven of everyone in a
leaf must be true of every point of the grid.

Then come volumes: linear networks in float64 over up to four continuous features of up to 2^32 cells each, where what
is proven of a leaf must not be above its volume in exact rationals. Prints how many leaves were compared, and exits
with 1 at a share above the true one.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.special import expit, softmax

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fairmend.network import Affine, Network
from fairmend_check.errors import CheckError
from fairmend_check.kernel.claim import ScoreClaim
from fairmend_check.kernel.features import Feature
from fairmend_check.kernel.spec import Spec, read_spec
from fairmend_check.shares.people import People
from fairmend_check.shares.prove import LINEAR, LISTED, WHOLE, Leaves, prove_shares
from support.checker_models import checked_model
from support.share_cases import part_of, random_leaves
from support.strategies import random_network

GRID = 120  # values of a continuous feature of people
ENDS = 25  # and of one that is protected, or that a link sets
MOST_POINTS = 150_000  # combinations of all values, of which the network is evaluated at each
MOST_NEIGHBOURS = 3_000


def random_spec(rng: np.random.Generator) -> dict[str, Any]:
    """Return a spec as data; some are refused."""
    features = [random_feature(rng, number) for number in range(rng.integers(2, 6))]
    if not any(feature.get("protected") for feature in features):
        features[0] = {key: features[0][key] for key in features[0] if key not in ("tolerance", "bands")}
        features[0]["protected"] = True
    content: dict[str, Any] = {"label": {"column": "y", "positive": "1"}, "feature": features}
    links = random_links(rng, features) if rng.random() < 0.4 else []
    if links:
        content["link"] = links
    if rng.random() < 0.35:
        on = str(rng.choice(["probability", "logit"]))
        content["claim"] = {"kind": "score", "on": on, "delta": float(rng.choice([0.02, 0.1, 0.3, 0.7]))}
    elif rng.random() < 0.3:
        content["label"]["threshold"] = float(rng.choice([0.1, 0.3, 0.9]))
    return content


def random_feature(rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Return a feature of few values."""
    feature: dict[str, Any] = {"name": f"f{number}", "kind": str(rng.choice(["integer", "categorical", "continuous"]))}
    if feature["kind"] == "categorical":
        names = [f"c{i}" for i in range(rng.integers(1, 6))]
        feature["categories"] = names
        if rng.random() < 0.6:
            feature["encoding"] = "one-hot"
            if len(names) > 1 and rng.random() < 0.4:
                feature["dropped"] = str(rng.choice(names))
    elif feature["kind"] == "integer":
        low = int(rng.integers(-5, 6)) if rng.random() < 0.8 else int(rng.choice([2**24 - 3, -(2**31), 10**12]))
        feature["range"] = [low, low + int(rng.integers(0, 9))]
    else:
        start = float(np.round(rng.normal() * 10, rng.integers(0, 4)))
        feature["range"] = [start, start + float(rng.choice([0.0, 0.3, 1.0, 7.77]))]
    if feature["kind"] != "categorical" and rng.random() < 0.6:
        low, high = feature["range"]
        feature["scale"] = {"mean": (low + high) / 2 + 0.1, "std": float(rng.choice([0.37, 1.0, 5.3]))}
        if rng.random() < 0.4:
            feature["scale"] = {"min": float(low), "max": float(high) + (low == high)}
    kind = rng.random()
    if kind < 0.4:
        feature["protected"] = True
    elif kind < 0.6 and feature["kind"] != "categorical":
        feature["tolerance"] = float(rng.choice([0.05, 0.5, 1.0, 1.7, 2.0, 30.0]))
    elif kind < 0.8 and feature["kind"] == "categorical":
        order = rng.permutation(feature["categories"]).tolist()
        cut = int(rng.integers(1, max(2, len(order))))
        feature["bands"] = [order[:cut], order[cut:]]
    elif kind < 0.8:
        low, high = feature["range"]
        inner = rng.uniform(low, high, rng.integers(1, 4))
        inner = np.unique(inner.round()) if feature["kind"] == "integer" else np.unique(inner)
        feature["bands"] = [low, *(each for each in inner.tolist() if low < each <= high)]
    return feature


def random_links(rng: np.random.Generator, features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return up to two links; some contradict each other, or have no effect, and are refused."""
    sources = [each for each in features if each.get("protected")]
    targets = [each for each in features if not {"protected", "tolerance", "bands"} & set(each)]
    found = []
    for _ in range(rng.integers(1, 3) if sources and targets else 0):
        when = {each["name"]: some_values(rng, each) for each in sources if rng.random() < 0.7}
        then = {each["name"]: effect(rng, each) for each in targets if rng.random() < 0.7}
        if when and then:
            found.append({"when": when, "then": then})
    return found


def some_values(rng: np.random.Generator, feature: dict[str, Any]) -> Any:
    """Return a value or several."""
    if feature["kind"] == "categorical":
        names = feature["categories"]
        return rng.choice(names, rng.integers(1, len(names) + 1), replace=False).tolist()
    low, high = feature["range"]
    ends = np.sort(rng.uniform(low, high, 2))
    return (np.round(ends) if feature["kind"] == "integer" else ends).tolist()


def effect(rng: np.random.Generator, feature: dict[str, Any]) -> Any:
    """Return what a link does to a feature."""
    if feature["kind"] == "categorical":
        own = rng.choice(feature["categories"], rng.integers(1, len(feature["categories"]) + 1), replace=False)
        return {str(name): some_values(rng, feature) for name in own}
    if rng.random() < 0.5:
        return {"range": some_values(rng, feature)}
    wide = max(1.0, (feature["range"][1] - feature["range"][0]) / 2)
    ends = np.sort(rng.uniform(-wide, wide, 2))
    return {"offset": (np.round(ends) if feature["kind"] == "integer" else ends).tolist()}


@dataclass
class Values:
    """The values of a feature, or the numbers of categories, that the enumeration knows."""

    feature: Feature
    numbers: np.ndarray

    @staticmethod
    def of(feature: Feature) -> Values:
        if feature.whole:
            return Values(feature, np.arange(int(feature.low), int(feature.high) + 1, dtype=np.float64))
        if feature.low == feature.high:
            return Values(feature, np.array([feature.low]))
        count = ENDS if feature.protected else GRID
        ends = [feature.low, feature.high] if feature.protected else []
        middle = feature.low + (feature.high - feature.low) * (np.arange(count) + 0.5) / count
        return Values(feature, np.unique([*middle.tolist(), *ends]))

    def columns(self, dtype: Any) -> np.ndarray:
        """Return the columns of each value."""
        feature = self.feature
        if feature.one_hot:
            return np.eye(len(feature.categories), dtype=dtype)[
                :, [name != feature.dropped for name in feature.categories]
            ]
        offset, factor = feature.affine
        return ((self.numbers - offset) / factor).astype(dtype)[:, None]

    def near(self, place: int) -> np.ndarray:
        """Return the places of the values that similar people may have, but for links."""
        feature, own = self.feature, self.numbers[place]
        if feature.protected:
            return np.arange(len(self.numbers))
        if feature.groups:
            group = next(each for each in feature.groups if feature.categories[int(own)] in each)
            return np.array([feature.categories.index(name) for name in group])
        if feature.bands:
            edges = np.array(feature.bands)
            band = np.searchsorted(edges, self.numbers, "right")
            return np.flatnonzero(band == band[place])
        reach = math.floor(feature.tolerance) if feature.kind == "integer" else feature.tolerance
        return np.flatnonzero(np.abs(self.numbers - own) <= reach)

    def between(self, low: float, high: float) -> list[int]:
        """Return the places of values from low to high; of a continuous feature, some may be missing."""
        return np.flatnonzero((low <= self.numbers) & (self.numbers <= high)).tolist()


def outputs_of(network: Network, points: np.ndarray) -> np.ndarray:
    """Return the outputs of a chain in double precision."""
    for number, affine in enumerate(network.affines):
        points = points @ affine.weight.astype(np.float64).T + affine.bias
        if number < len(network.activations):
            points = np.maximum(points, 0) if network.activations[number].name == "relu" else np.tanh(points)
    return points


class Truth:
    """All combinations of values, the answers of the network at each, and who is similar to whom."""

    def __init__(self, spec: Spec, network: Network) -> None:
        self.spec, self.values = spec, [Values.of(feature) for feature in spec.features]
        self.sizes = [len(each.numbers) for each in self.values]
        if math.prod(self.sizes) > MOST_POINTS:
            raise CheckError("too many points to list")
        places = np.stack(np.unravel_index(np.arange(math.prod(self.sizes)), self.sizes), axis=1)
        columns = [each.columns(network.dtype)[places[:, k]] for k, each in enumerate(self.values)]
        outputs = outputs_of(network, np.concatenate(columns, axis=1).astype(np.float64))
        # Half of all people are on either side, for most networks.
        last, shift = network.affines[-1], np.median(outputs, axis=0).astype(network.dtype)
        affines = [*network.affines[:-1], Affine(last.weight, last.bias - shift)]
        self.network = Network(affines, network.activations)
        self.answers = self._answers(outputs - last.bias.astype(np.float64) + affines[-1].bias.astype(np.float64))

    def _answers(self, points: np.ndarray) -> np.ndarray:
        """Return the class of each point, or its scores (points, answers), from outputs (points, outputs)."""
        if isinstance(self.spec.claim, ScoreClaim):
            if self.spec.claim.on != "probability":
                return points
            return np.asarray(softmax(points, axis=1) if points.shape[1] > 1 else expit(points))
        if points.shape[1] > 2:
            return np.asarray(points.argmax(axis=1)[:, None], np.float64)
        lead = points[:, 0] if points.shape[1] == 1 else points[:, 1] - points[:, 0]
        odds = math.log(self.spec.threshold / (1 - self.spec.threshold))
        return np.asarray((lead >= odds)[:, None], np.float64)

    def is_unequal(self, person: tuple[int, ...]) -> bool:
        """Return whether two people who are similar to someone with values in these places get other answers."""
        near = [each.near(place) for each, place in zip(self.values, person, strict=True)]
        free = [k for k, feature in enumerate(self.spec.features) if feature.protected]
        answers = []
        if not self.spec.links:
            answers.append(self._of(near))
        else:
            for chosen in product(*(near[k] for k in free)):
                own = dict(zip(free, chosen, strict=True))
                around = [np.array([own[k]]) if k in own else each for k, each in enumerate(near)]
                for link in self.spec.links:
                    self._apply(link, own, person, around)
                answers.append(self._of(around))
        low, high = (np.array([getattr(each, end)(axis=0) for each in answers]) for end in ("min", "max"))
        apart = high.max(axis=0) - low.min(axis=0)
        limit = self.spec.claim.delta if isinstance(self.spec.claim, ScoreClaim) else 0.5
        return bool(apart.max() > limit)

    def _of(self, around: list[np.ndarray]) -> np.ndarray:
        if math.prod(map(len, around)) > MOST_NEIGHBOURS:
            raise CheckError("too many neighbours to list")
        return self.answers[np.ravel_multi_index(np.ix_(*around), self.sizes).ravel()]

    def _apply(self, link: Any, own: dict[int, int], person: tuple[int, ...], around: list[np.ndarray]) -> None:
        """Replace the values of a person that a link sets, if it applies to the chosen protected ones."""
        names = [feature.name for feature in self.spec.features]
        places = [(names.index(name), runs) for name, runs in link.when]
        numbers = [(self.values[k].numbers[own[k]], runs) for k, runs in places]
        if not all(any(low <= number <= high for low, high in runs) for number, runs in numbers):
            return
        if all(own[k] == person[k] for k, _ in places):
            return
        for name, change in link.then:
            k = names.index(name)
            runs = change.values(self.spec.features[k], self.values[k].numbers[person[k]])
            if runs is None:
                continue
            found = [place for low, high in runs for place in self.values[k].between(low, high)]
            if found:  # a narrow range of a continuous feature may miss the grid
                around[k] = np.array(found)
            else:
                middle = (runs[0][0] + runs[0][1]) / 2
                around[k] = np.array([np.abs(self.values[k].numbers - middle).argmin()])


def compare(content: dict[str, Any], rng: np.random.Generator, tally: Counter[str]) -> None:
    """Prove random leaves of a spec and compare each with the truth."""
    spec = read_spec(content, "spec")
    outputs = int(rng.integers(1, 4)) if spec.threshold == 0.5 else int(rng.integers(1, 3))
    dtype = np.float32 if rng.random() < 0.8 else np.float64
    function = "relu" if rng.random() < 0.8 else "tanh"
    hidden = [int(size) for size in rng.integers(2, 7, rng.integers(0, 3))]
    network = random_network(rng, spec.width, hidden, outputs, function, dtype)
    truth = Truth(spec, network)
    protected = [feature for feature in spec.features if feature.protected]
    cells = 2 ** int(rng.integers(0, 12))
    count = [cells if not feature.whole else int(feature.high - feature.low) + 1 for feature in protected]
    parts = [int(rng.integers(1, min(each, 6) + 1)) for each in count]
    people = People.of(spec, network.dtype.name, cells, parts)
    leaves = random_leaves(people, rng, int(rng.integers(0, 6)))
    leaves = Leaves(leaves.first, leaves.last, rng.choice([LINEAR, LISTED, WHOLE], len(leaves.first)))
    names = [feature.name for feature in spec.features]
    axes = [names.index(axis.feature.name) for axis in people.axes]
    grid = any(not feature.whole and feature.low < feature.high for feature in spec.features)
    linked = any(not spec.features[names.index(name)].whole for link in spec.links for name, _ in link.then)
    model = checked_model(truth.network)
    for row in range(len(leaves.first)):
        leaf = part_of(leaves, row)
        found = prove_shares(model, spec, people, leaf)
        size = leaf.cells[0]
        fair, unfair = found.fair / size, found.unfair / size
        if fair + unfair == 0:
            tally["leaves of which nothing is proven"] += 1
            continue
        places = [
            _places(axis, truth.values[k], leaf, j) for j, (axis, k) in enumerate(zip(people.axes, axes, strict=True))
        ]
        others = [k for k in range(len(names)) if k not in axes]
        listed = math.prod(map(len, places))
        if not listed:
            tally["leaves between two points of the grid"] += 1
            continue
        chosen = (
            list(product(*places))
            if listed <= 400
            else [tuple(int(rng.choice(each)) for each in places) for _ in range(400)]
        )
        unequal = 0
        for each in chosen:
            person = [0] * len(names)
            for k, place in zip([*axes, *others], [*each, *[0] * len(others)], strict=True):
                person[k] = place
            unequal += truth.is_unequal(tuple(person))
        share = unequal / len(chosen)
        room = 0.0 if listed <= 400 else 5 * math.sqrt(0.25 / 400)
        if grid:
            room += sum(4 / len(each) for each, axis in zip(places, people.axes, strict=True) if not axis.feature.whole)
        tally["leaves compared"] += 1
        tally["of these, on a grid"] += grid
        tally["with bands"] += bool(people.banded)
        tally["with links"] += bool(spec.links)
        tally["about scores"] += isinstance(spec.claim, ScoreClaim)
        tally["proven whole"] += fair == 1 or unfair == 1
        if fair > 1 - share + room + 1e-12 or (fair == 1 and unequal):
            raise AssertionError(f"{fair} fair, but at most {1 - share} is")
        sampled = any(not feature.whole and feature.low < feature.high for feature in protected) or linked
        if unfair > share + room + 1e-12 + 0.3 * sampled or (unfair == 1 and share < 1 and not grid):
            raise AssertionError(f"{unfair} unfair, but at most {share} is")


def _places(axis: Any, values: Values, leaf: Leaves, number: int) -> list[int]:
    """Return the places of the values that are in the cells of a leaf."""
    first, last = int(leaf.first[0, number]), int(leaf.last[0, number])
    feature = axis.feature
    if feature.low == feature.high:
        return [0]
    if feature.groups:
        order = [feature.categories.index(name) for group in feature.groups for name in group]
        return [order[cell] for cell in range(first, last + 1)]
    if feature.whole:
        return list(range(first, last + 1))
    cells = np.floor((values.numbers - feature.low) / (feature.high - feature.low) * axis.cells)
    return np.flatnonzero((first <= cells) & (cells <= last)).tolist()


def compare_volumes(rng: np.random.Generator, tally: Counter[str]) -> None:
    """Prove random leaves of a linear network, and compare each with the exact volume of those treated equally."""
    count, values = int(rng.integers(1, 5)), int(rng.integers(2, 4))
    features: list[dict[str, Any]] = [
        {"name": "sex", "kind": "categorical", "categories": list("abc"[:values]), "protected": True}
    ]
    for number in range(count):
        low = float(np.round(rng.normal() * 3, 2))
        high = low + float(rng.choice([1.0, 0.3, 2.5, 2.0**-20]))
        features.append({"name": f"f{number}", "kind": "continuous", "range": [low, high]})
    spec = read_spec({"feature": features}, "spec")
    weight = rng.normal(size=(1, count + 1)) * 2.0 ** rng.integers(-12, 13, count + 1) ** int(rng.random() < 0.5)
    weight[0, 0] = rng.normal() * float(rng.choice([1.0, 0.01, 1e-6])) * np.abs(weight).max()
    middle = [float(sum(feature["range"]) / 2) for feature in features[1:]]
    bias = -weight[:, 1:] @ np.array(middle) + rng.normal() * np.abs(weight[:, 1:]).max() / 4
    network = Network([Affine(weight, bias)], [])
    people = People.of(spec, "float64", 2 ** int(rng.choice([0, 3, 10, 20, 32])), [int(rng.integers(1, values + 1))])
    leaves = random_leaves(people, rng, int(rng.integers(0, 4)))
    coefficients = [Fraction(float(each)) for each in weight[0, 1:]]
    constants = [Fraction(float(bias[0])) + Fraction(float(weight[0, 0])) * code for code in range(values)]
    for row in range(len(leaves.first)):
        leaf = part_of(leaves, row)
        found = prove_shares(checked_model(network), spec, people, leaf)
        least, widths = Fraction(0), list[Fraction]()
        for k, axis in enumerate(people.axes):
            start, length = Fraction(axis.feature.low), Fraction(axis.feature.high) - Fraction(axis.feature.low)
            first, last = (Fraction(int(end[0, k]), axis.cells) for end in (leaf.first, leaf.last + 1))
            ends = [coefficients[k] * (start + length * end) for end in (first, last)]
            least, widths = least + min(ends), [*widths, abs(ends[1] - ends[0])]
        unequal = _below(-min(constants) - least, widths) - _below(-max(constants) - least, widths)
        size = leaf.cells[0]
        tally["volumes compared"] += 1
        tally["of which a part is proven"] += 0 < found.fair < size or 0 < found.unfair < size
        if found.fair > (1 - unequal) * size or found.unfair > unequal * size:
            raise AssertionError(f"{found.fair} and {found.unfair} of {size}, but {float(unequal)} are unequal")


def _below(end: Fraction, widths: list[Fraction]) -> Fraction:
    """Return the share of a box whose sum of coordinates, from 0 to these widths, is below an end."""
    wide = [width for width in widths if width]
    if not wide:
        return Fraction(int(end > 0))
    total = Fraction(0)
    for chosen in product((0, 1), repeat=len(wide)):
        rest = end - sum(width for width, is_in in zip(wide, chosen, strict=True) if is_in)
        total += (-1) ** sum(chosen) * max(rest, Fraction(0)) ** len(wide)
    return total / math.factorial(len(wide)) / math.prod(wide)


def attack(number: int, seed: int, tally: Counter[str]) -> str:
    """Compare a random spec, and a volume; return what is wrong."""
    rng = np.random.default_rng([seed, number])
    content = random_spec(rng)
    try:
        compare(content, rng, tally)
        tally["specs"] += 1
    except CheckError:
        tally["specs that are refused, or too large to list"] += 1
    except AssertionError as error:
        return f"{error}\n{content}"
    try:
        compare_volumes(np.random.default_rng([seed, number, 1]), tally)
    except AssertionError as error:
        return f"of a volume, {error}"
    return ""


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="how many specs, and as many volumes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first spec")
    options = parser.parse_args()
    console, tally, started = Console(), Counter[str](), time.perf_counter()
    for number in range(options.start, options.start + options.count):
        wrong = attack(number, options.seed, tally)
        if wrong:
            console.print(f"spec {number} of seed {options.seed}: {wrong}", markup=False)
            return 1
    for name, count in tally.items():
        console.print(f"{name}: {count:,}", markup=False)
    console.print(f"no share is above the true one ({time.perf_counter() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
