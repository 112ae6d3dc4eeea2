"""Write and check a certificate of 100,000 synthetic people.

    python benchmarks/scale/check_many.py

The people and the network are random: 18 columns, 64 and 32 hidden units, sex and a one-hot race protected, so that
each neighbourhood has ten members. Writing and checking run in processes of their own, on one core each; CPU seconds
and peak memory are theirs. Exits with 1 if a check fails or takes more than a minute, if the file is larger than 50 MB,
or if a process needs more than 500 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

PEOPLE = 100_000
MOST_MEGABYTES, MOST_SECONDS, MOST_MEMORY = 50.0, 60.0, 500.0
ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def write(folder: Path, people: int) -> None:
    """Certify a few more people than asked for, as not all are FAIR, and write the certificate and the model."""
    from fairmend.network import Activation, Affine, Network
    from fairmend.prove import certificate
    from fairmend.spec import Feature, Spec

    rng = np.random.default_rng(0)
    money = [Feature(f"amount {i}", "continuous", range=(0, 100), scale={"mean": 50.3, "std": 25.7}) for i in range(6)]
    counts = [Feature(f"count {i}", "integer", range=(0, 40), scale={"mean": 20, "std": 9}) for i in range(6)]
    sex = Feature("sex", "categorical", categories=("f", "m"), protected=True)
    race = Feature("race", "categorical", categories=tuple("abcde"), encoding="one-hot", protected=True)
    spec = Spec([sex, race, *money, *counts])
    widths = [spec.width, 64, 32, 1]
    weights = [(rng.normal(size=(after, before)) * np.sqrt(2 / before)).astype(np.float32)
               for before, after in pairwise(widths)]  # fmt: skip
    weights[0][:, :6] *= 0.2  # the network is not trained: nearly fair weights make it provable
    network = Network([Affine(w, np.zeros(len(w), np.float32)) for w in weights], [Activation("relu")] * 2)
    made, _ = certificate.certificate_of_fair(network, spec, spec.sample_inputs(int(people * 1.12), rng))
    assert made is not None
    network.save(folder / "model.onnx")
    made.save(folder / "certificate.json", folder / "model.onnx")


def check(folder: Path) -> None:
    import fairmend_check

    result = fairmend_check.check(folder / "certificate.json", folder / "model.onnx", run=False)
    if not result.valid:
        sys.exit(f"{result.verdict}: {result.reasons[0]}")
    print(result.regions)


def measured(*arguments: str) -> list[float]:
    """Return what this script with these arguments prints: at the end CPU seconds and peak memory in megabytes."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True, env=os.environ | ONE_CORE
    )
    return [float(figure) for figure in done.stdout.split()]


def peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)  # the process that is measured
    options = parser.parse_args()
    if options.part:
        action, folder, people = options.part
        started = time.process_time()
        if action == "write":
            write(Path(folder), int(people))
        else:
            check(Path(folder))
        print(time.process_time() - started, peak_megabytes())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        written = measured("--part", "write", folder, str(options.people))
        size = Path(folder, "certificate.json").stat().st_size / 1e6
        confirmed, *checked = measured("--part", "check", folder, str(options.people))
    print(f"{'people':>8} {'MB':>8} {'write s':>8} {'write MB':>9} {'check s':>8} {'check MB':>9}")
    figures = f"{written[0]:8.1f} {written[1]:9.0f} {checked[0]:8.1f} {checked[1]:9.0f}"
    print(f"{confirmed:8,.0f} {size:8.2f} {figures}", flush=True)
    fine = size < MOST_MEGABYTES and checked[0] < MOST_SECONDS and max(written[1], checked[1]) < MOST_MEMORY
    print("ok" if fine else f"more than {MOST_MEGABYTES:g} MB, {MOST_SECONDS:g} s or {MOST_MEMORY:g} MB of memory")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
