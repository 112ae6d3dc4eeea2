"""Which share of all people is proven to be treated equally and unequally, and how FairQuant compares.

    python benchmarks/quantify.py [CASE ...] [--seconds 10] [--fairquant BINARY]

A case is a network and a protected feature, such as AC-1:sex. For each, the table shows what is decided in so many CPU
seconds, compared with random people: the share treated unequally, with every protected value tried, and whether it is
inside what is proven (within four standard errors of the sample). Then 1,000 random boxes are checked by sampling: the
share of their people who are treated equally and unequally must not be below what is proven (within five standard
errors), and must be all where all is proven.

With --fairquant, FairQuant's program runs on each network, as a .nnet file, and a second table shows what both leave
undecided at equal CPU seconds. FairQuant stops by itself, so its column is its result at its own end, for all times.
It compares the lowest with the highest protected value only; so does quantify in this table, and in parentheses is what
it leaves undecided if all protected values are compared. FairQuant's times include the start of the process; those of
quantify are one call in a running Python.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import fairmend
from fairmend import quantify
from fairmend.network import Network
from fairmend.quantify import run
from fairmend.quantify.decide import Decider
from fairmend.quantify.leaves import Leaves
from fairmend.quantify.search import search
from fairmend.quantify.space import Boxes, Space, make_space
from fairmend.spec import Feature, Spec
from settings import SHARED, require_shared

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
    parser.add_argument("--fairquant", type=Path, help="FairQuant's program, network_test, to compare with")
    parser.add_argument("--most", type=float, default=160.0, help="CPU seconds of the longest comparison")
    arguments = parser.parse_args()
    require_shared()
    run._clock = time.process_time  # other programs on the machine take no part
    wrong = 0 if arguments.fairquant else show_shares(arguments.cases, arguments.seconds)
    if arguments.fairquant:
        compare(arguments.cases, arguments.fairquant, arguments.most)
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
    space, started = make_space(network, spec), time.process_time()
    leaves = search(Decider(network, space), lambda: time.process_time() - started, seconds, 0.0, 0)
    rng = np.random.default_rng(0)
    proven = np.flatnonzero(leaves.fair + leaves.unfair > 0)
    return sum(_contradicted(network, space, leaves, row, rng) for row in rng.choice(proven, BOXES))


def _contradicted(network: Network, space: Space, leaves: Leaves, row: int, rng: np.random.Generator) -> bool:
    box: Boxes = leaves.boxes.take(np.array([row]))
    cells = rng.integers(box.first[0], box.last[0] + 1, (PEOPLE, len(space.axes)))
    classes = network.predict(space.people(cells, space.values, network.dtype)).reshape(PEOPLE, -1)
    unequal = float((classes != classes[:, :1]).any(axis=1).mean())
    for proven, seen in ((leaves.unfair[row], unequal), (leaves.fair[row], 1 - unequal)):
        room = 5 * np.sqrt(max(proven * (1 - proven), 1 / PEOPLE) / PEOPLE)
        # Unequal treatment may need a protected value that was not tried, where there are many.
        if ((proven == 1 and seen < 1) or proven > seen + room) and (seen != unequal or space.all_values):
            return True
    return False


def compare(cases: list[str], program: Path, most: float) -> None:
    """Print what quantify and FairQuant leave undecided at equal CPU seconds."""
    print(f"{'case':14} {'FairQuant: CPU s':>16} {'open %':>8} {'unfair %':>9} | ", end="")
    print(" | ".join(f"{f'{times} ×: open %':>14} {'(all)':>7} {'unfair %':>9}" for times in TIMES))
    quantify(*load(cases[0]), seconds=0.05, samples=0)  # what is loaded once in a process is loaded now
    for name in cases:
        network, spec = load(name)
        seconds, undecided, unfair = run_fairquant(network, spec, program)
        print(f"{name:14} {seconds:16.3f} {undecided:8.3f} {unfair:9.4f} | ", end="", flush=True)
        for times in TIMES:
            if times * seconds > most:
                print(f"{'':32}", end=" | ")
                continue
            ends, everyone = (
                quantify(network, asked, seconds=times * seconds, samples=0) for asked in (with_two_values(spec), spec)
            )
            more = f" ({100 * everyone.undecided:.2f})"
            print(f"{100 * ends.undecided:14.3f}{more:>8} {100 * ends.unfair:9.4f}", end=" | ", flush=True)
        print()


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


def run_fairquant(network: Network, spec: Spec, program: Path) -> tuple[float, float, float]:
    """Return the CPU seconds of FairQuant, and the undecided and unfair shares in per cent."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.nnet"
        write_nnet(network, spec, path)
        (Path(folder) / "res").mkdir()
        protected = next(k for k, feature in enumerate(spec.features) if feature.protected)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [program.resolve(), path, str(protected)], cwd=folder, capture_output=True, text=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rates = re.search(r"fal_rate: ([0-9.]+)%, und_rate: ([0-9.]+)%", done.stdout)
    assert rates, done.stdout
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, float(rates[2]), float(rates[1])


def write_nnet(network: Network, spec: Spec, path: Path) -> None:
    """Write a .nnet file with the ranges of the spec in its header, where FairQuant reads them."""
    network.save(path)
    lines = path.read_text().splitlines()
    start = next(k for k, line in enumerate(lines) if not line.startswith("//")) + 3
    low, high = (np.array([feature.bounds[end] for feature in spec.features], np.float64) for end in (0, 1))
    rows = (low, high, np.append(low, 0.0), np.append(high - low, 1.0))
    lines[start : start + 4] = ["".join(f"{value!r}," for value in row.tolist()) for row in rows]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
