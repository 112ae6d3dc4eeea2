"""Measure how much rounding changes a repair: adult-age, with weights changed by a relative 1e-7.

    python benchmarks/rounding.py [SETTING] [--runs 10]

Step 1 trains through bounds with kinks, and its weights oscillate around them. Prints accuracy on the test set and
IDI-D of the paper's method, for the network as it is and for copies that differ by about the precision of float32.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console

import fairmend
import settings
from fairmend.audit.neighbours import find_unequal
from fairmend.network import Affine, Network


def perturbed(network: Network, rng: np.random.Generator) -> Network:
    def close(weight: np.ndarray) -> np.ndarray:
        return (weight * (1 + 1e-7 * rng.standard_normal(weight.shape))).astype(weight.dtype)

    return network.with_affines([Affine(close(affine.weight), affine.bias) for affine in network.affines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", nargs="?", default="adult-age")
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    console = Console()
    s = settings.setting(options.setting)
    for run in range(options.runs):
        network = s.network if run == 0 else perturbed(s.network, np.random.default_rng(run))
        for margin, cover in (("as in the paper", False), ("covering float32", True)):
            result = fairmend.repair(
                network, s.spec, s.X_repair, s.X_cal, s.y_cal, method="prof", cover_inference=cover
            )
            accuracy = 100 * float(np.mean(result.network.predict(s.dataset.X_test) == s.dataset.y_test))
            unfair = 100 * find_unequal(result.network, s.spec, s.everyone).rate
            console.print(
                f"{'as it is' if run == 0 else f'perturbed {run}':12s} margins {margin:16s} "
                f"L_fair {result.history.fair[-1]:.6f}  accuracy {accuracy:.2f}  IDI-D {unfair:.2f}"
            )


if __name__ == "__main__":
    main()
