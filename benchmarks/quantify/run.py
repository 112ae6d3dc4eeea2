"""Which share of all people is proven to be treated equally and unequally, and how FairQuant compares.

    python benchmarks/quantify/run.py [CASE ...] [--seconds 10] [--fairquant [BINARY]] [--times 0.1 1 10]

A case is a network and a protected feature, such as AC-1:sex. For each, the table shows what is decided in so many CPU
seconds, compared with random people: the share treated unequally, with every protected value tried, and whether it is
inside what is proven (within four standard errors of the sample). Then 1,000 random boxes are checked by sampling: the
share of their people who are treated equally and unequally must not be below what is proven (within five standard
errors), and must be all where all is proven.

With --fairquant, a second table compares what is left undecided at equal CPU seconds: 0.1, 1 and 10 times those that
FairQuant takes to its own end. It is run by `fairquant.c`, a re-implementation that is compiled here (pass a path to
run the authors' program instead). "Own" is its own search, stopped at that time; "best" has the limit of depth that is
best at that time, chosen with hindsight. It compares the lowest with the highest protected value only. So does quantify
in the column "two"; in the column "all", all protected values are compared, a harder question. FairQuant's times are
those of its search alone; quantify is stopped at the same time, and then takes "map s" to end the last batch of boxes
and to draw its map. The last column says where quantify leaves more undecided than FairQuant's best.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import fairmend
from fairmend import quantify
from fairmend.network import Network
from fairmend.quantifying import run
from fairmend.quantifying.decide import Decider
from fairmend.quantifying.search import Leaves, search
from fairmend.spec import Feature, Spec

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common.settings import SHARED, require_shared
from benchmarks.quantify.fairquant import FairQuant, program

NETWORKS = {
    "AC-1": ("AC-1.h5", "adult"),
    "GC-3": ("GC-3.h5", "german"),
    "compas-2": ("compas-2.h5", "compas"),
    "AC1": ("AC1.pth", "adult"),
    "GC1": ("GC1.pth", "german"),
    "compas1": ("compas1.pth", "compas"),
    "BM0": ("BM0.pth", "bank"),
}
CASES = (
    *("AC-1:sex", "AC-1:race", "AC-1:age", "GC-3:age", "GC-3:sex", "compas-2:Race"),
    *("AC1:sex", "AC1:race", "AC1:age", "GC1:age", "GC1:sex", "compas1:Race", "BM0:age"),
)
TIMES = (0.1, 1, 10)  # of FairQuant's own
SAMPLES = 200_000
BOXES, PEOPLE = 1000, 200  # that are checked by sampling


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds for each run (default: 10)")
    parser.add_argument(
        "--fairquant",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="BINARY",
        help="compare with FairQuant: with fairquant.c, or with this program (network_test)",
    )
    parser.add_argument("--times", type=float, nargs="+", default=list(TIMES), help="of FairQuant's own CPU seconds")
    arguments = parser.parse_args()
    require_shared()
    run._clock = time.process_time  # other programs on the machine take no part
    wrong = 0 if arguments.fairquant is not None else show_shares(arguments.cases, arguments.seconds)
    if arguments.fairquant is not None:
        compare(arguments.cases, None if arguments.fairquant == Path() else arguments.fairquant, arguments.times)
    sys.exit(1 if wrong else 0)


def show_shares(cases: list[str], seconds: float) -> int:
    """Print what is decided, and return how many cases contradict samples."""
    print(f"{'case':14} {'fair %':>8} {'unfair %':>9} {'open %':>8} {'boxes':>8} | ", end="")
    print(f"{'sampled %':>9} {'inside':>6} | {'boxes wrong':>11} | {'split only: open %':>18}")
    wrong = 0
    for name in cases:
        network, spec = load(name)
        found = quantify(network, spec, seconds=seconds, samples=SAMPLES)
        split = quantify(network, spec, seconds=seconds, samples=0, counting=False)
        inside = is_inside(found) and found.sampled is not None and split.unfair <= found.sampled + error(found)
        contradicted = check_boxes(network, spec, min(seconds, 2.0))
        wrong += not inside or contradicted > 0
        print(
            f"{name:14} {100 * found.fair:8.3f} {100 * found.unfair:9.4f} {100 * found.undecided:8.3f} "
            f"{found.leaves:8,} | {100 * (found.sampled or 0):9.3f} {'yes' if inside else 'NO':>6} | "
            f"{contradicted:5} of {BOXES:,} | {100 * split.undecided:18.3f}",
            flush=True,
        )
    return wrong


def load(name: str) -> tuple[Network, Spec]:
    """Return the network of a case, and the spec of the input space that the reference data gives it."""
    model, protected = name.split(":")
    file, data = NETWORKS[model]
    with np.load(SHARED / "reference" / "processed" / f"{data}.npz", allow_pickle=True) as arrays:
        columns, bounds = [str(column) for column in arrays["columns"]], np.array(arrays["bounds"])
    features = [
        Feature(name=column, kind="integer", range=(int(low), int(high)), protected=column == protected)
        for column, (low, high) in zip(columns, bounds, strict=True)
    ]
    network = fairmend.load_network(SHARED / "models" / file, "relu" if file.endswith(".pth") else None)
    return network, Spec(features)


def is_inside(found: fairmend.QuantifyResult) -> bool:
    """Return whether the sampled share is inside what is proven, within four standard errors."""
    assert found.sampled is not None
    return found.unfair - error(found) <= found.sampled <= 1 - found.fair + error(found)


def error(found: fairmend.QuantifyResult) -> float:
    """Return four standard errors of the sampled share."""
    share = found.sampled or 0.0
    return 4 * float(np.sqrt(max(share * (1 - share), 1 / found.samples) / found.samples))


def check_boxes(network: Network, spec: Spec, seconds: float) -> int:
    """Return how many of 1,000 random boxes with something proven are contradicted by random people in them."""
    decider, started = Decider(network, spec), time.process_time()
    leaves = search(decider, lambda: time.process_time() - started, seconds, 0.0, 0)
    rng = np.random.default_rng(0)
    proven = np.flatnonzero(leaves.fair + leaves.unfair > 0)
    return sum(_contradicted(decider, leaves, row, rng) for row in rng.choice(proven, BOXES))


def _contradicted(decider: Decider, leaves: Leaves, row: int, rng: np.random.Generator) -> bool:
    box, people, network = leaves.boxes.take(np.array([row])), decider.people, decider.network
    cells = rng.integers(box.first[0], box.last[0] + 1, (PEOPLE, len(people.axes)))
    classes = network.predict(people.inputs(cells, people.values).astype(network.dtype)).reshape(PEOPLE, -1)
    unequal = float((classes != classes[:, :1]).any(axis=1).mean())
    for proven, seen in ((leaves.unfair[row], unequal), (leaves.fair[row], 1 - unequal)):
        room = 5 * np.sqrt(max(proven * (1 - proven), 1 / PEOPLE) / PEOPLE)
        everyone = len(people.values.first) == people.combinations
        # Unequal treatment may need a protected value that was not tried, where there are many.
        if ((proven == 1 and seen < 1) or proven > seen + room) and (seen != unequal or everyone):
            return True
    return False


def compare(cases: list[str], path: Path | None, of_own: list[float]) -> None:
    """Print what quantify and FairQuant leave undecided at equal CPU seconds, and what they prove to be unequal."""
    print(f"{'case':14} {'times':>5} {'CPU s':>8} | {'FairQuant: own':>14} {'best':>8} {'unfair %':>8} | ", end="")
    print(f"{'quantify: two':>13} {'unfair %':>8} {'all':>8} {'unfair %':>8} {'map s':>6} | behind")
    quantify(*load(cases[0]), seconds=0.05, samples=0)  # what is loaded once in a process is loaded now
    with program(path) as made:
        for name in cases:
            network, spec = load(name)
            fairquant = FairQuant(network, spec, made, ours=path is None)
            for times in of_own:
                show_comparison(name, times, fairquant, network, spec)


def show_comparison(name: str, times: float, fairquant: FairQuant, network: Network, spec: Spec) -> None:
    """Print one line: what FairQuant and quantify decide in so many times FairQuant's own seconds."""
    seconds = times * fairquant.own.seconds
    own, best = fairquant.stopped(seconds), fairquant.within(seconds)
    two, everyone = (quantify(network, asked, seconds=seconds, samples=0) for asked in (with_two_values(spec), spec))
    found = {"two": two, "all": everyone}
    behind = [word for word, each in found.items() if 100 * each.undecided > best.undecided + 1e-6]
    print(
        f"{name:14} {times:5} {seconds:8.4f} | {own.undecided:14.3f} {best.undecided:8.3f} {best.unfair:8.2g} | "
        f"{100 * two.undecided:13.3f} {100 * two.unfair:8.2g} {100 * everyone.undecided:8.3f} "
        f"{100 * everyone.unfair:8.2g} {everyone.seconds - seconds:6.3f} | {', '.join(behind)}",
        flush=True,
    )


def with_two_values(spec: Spec) -> Spec:
    """Return the spec with the lowest and the highest value of the protected feature only, encoded as they are."""
    features = []
    for feature in spec.features:
        low, high = feature.bounds
        if feature.protected and high - low > 1:
            scale = {"mean": -low / (high - low), "std": 1 / (high - low)}
            feature = Feature(name=feature.name, kind="integer", range=(0, 1), protected=True, scale=scale)
        features.append(feature)
    return Spec(features)


if __name__ == "__main__":
    main()
