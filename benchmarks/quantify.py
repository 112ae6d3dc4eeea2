"""Which share of all people is proven to be treated equally, with counting and with splitting alone.

    python benchmarks/quantify.py [CASE ...] [--seconds 10]

A case is a network and a protected feature, such as AC-1:sex. For each, the table shows what is decided in so many CPU
seconds if people on the sure side of a box's linear bounds are counted, and if boxes are only split, with the same
bounds. The next columns compare with random people: the share treated unequally, with every protected value tried, and
whether it is inside what is proven (within four standard errors of the sample). The last column is FairQuant's, at its
own end, where it is known.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import fairmend
from fairmend import quantify
from fairmend.network import Network
from fairmend.quantify import run
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
    *("AC1:sex", "AC1:race", "GC1:age", "GC1:sex", "compas1:Race", "BM0:age"),
)
# Undecided shares of FairQuant at its own end, as measured for these networks.
FAIRQUANT = {"AC-1:sex": "9.3 % in 1.2 s", "GC-3:age": "41.6 % in 3.4 s", "compas-2:Race": "0 % in 0.005 s"}
SAMPLES = 200_000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds for each run (default: 10)")
    arguments = parser.parse_args()
    require_shared()
    run._clock = time.process_time  # other programs on the machine take no part
    print(
        f"{'case':14} {'fair %':>8} {'unfair %':>9} {'open %':>8} {'boxes':>8} | {'split only: open %':>18} | ", end=""
    )
    print(f"{'sampled %':>9} {'inside':>6} | FairQuant: open")
    wrong = 0
    for name in arguments.cases:
        network, spec = load(name)
        counted = quantify(network, spec, seconds=arguments.seconds, samples=SAMPLES)
        split = quantify(network, spec, seconds=arguments.seconds, samples=0, counting=False)
        inside = is_inside(counted) and counted.sampled is not None and split.unfair <= counted.sampled + error(counted)
        wrong += not inside
        print(
            f"{name:14} {100 * counted.fair:8.3f} {100 * counted.unfair:9.4f} {100 * counted.undecided:8.3f} "
            f"{counted.leaves:8,} | {100 * split.undecided:18.3f} | {100 * (counted.sampled or 0):9.3f} "
            f"{'yes' if inside else 'NO':>6} | {FAIRQUANT.get(name, '')}",
            flush=True,
        )
    sys.exit(1 if wrong else 0)


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


if __name__ == "__main__":
    main()
