"""Measure how long it takes to check certificates: those of the paper's settings, and one of a large network.

    python benchmarks/speed/check.py

Each of the 22 settings is repaired with method prof. Only the check is measured, including reading the certificate and
the model. The large network has 4 × 200 neurons. Exits with 1 above 10 s for the settings together, or above 60 s for
the large network.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fairmend
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certificate import certificate_of_inputs
from fairmend.prove.proof import prove_inputs

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import settings

LIMIT, LARGE_LIMIT = 10.0, 60.0


def check_settings(console: Console, folder: Path) -> bool:
    table = Table(title="the paper's settings, 100 regions each")
    for heading in ("setting", "verdict", "float32", "least margin", "MB", "seconds"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    total, valid = 0.0, True
    for name in track(settings.names(), "22 settings", console=Console(stderr=True)):
        s = settings.setting(name)
        result = fairmend.repair(s.network, s.spec, s.X_repair, s.X_cal, s.y_cal, method="prof")
        report, size = saved_and_checked(folder, result.network, result.certificate)
        total, valid = total + report.seconds, valid and report.valid
        table.add_row(*row(name, report, size))
    console.print(table)
    console.print(f"together {total:.2f} s (at most {LIMIT:.0f})")
    return valid and total < LIMIT


def check_large(console: Console, folder: Path) -> bool:
    """Check a network of 4 × 200 neurons for 50 inputs of adult, with sex and race protected."""
    s = settings.setting("adult-sex+race")
    rng = np.random.default_rng(0)
    widths = [s.network.inputs, 200, 200, 200, 200, 1]
    weights = [
        (rng.normal(size=(after, before)) * np.sqrt(2 / before)).astype(np.float32)
        for before, after in pairwise(widths)
    ]
    for name in ("sex", "race"):
        weights[0][:, s.spec.columns(name)] *= 1e-3  # the network is not trained: nearly fair weights make it provable
    affines = [Affine(weight, np.zeros(len(weight), np.float32)) for weight in weights]
    table = Table(title="4 × 200 neurons, 50 regions")
    for heading in ("activation", "verdict", "float32", "least margin", "MB", "seconds"):
        table.add_column(heading, justify="left" if heading == "activation" else "right")
    fine = True
    for activation in ("relu", "tanh"):
        net = Network(affines, [Activation(activation)] * 4)
        X = s.spec.as_inputs(s.dataset.X_train[:400])
        proof = prove_inputs(net, s.spec, X)
        X = X[np.flatnonzero(proof.holds)[:50]]
        certificate = certificate_of_inputs(net, s.spec, X, prove_inputs(net, s.spec, X), method="certify")
        report, size = saved_and_checked(folder, net, certificate)
        fine = fine and report.valid and report.regions == 50 and report.seconds < LARGE_LIMIT
        table.add_row(*row(activation, report, size))
    console.print(table)
    console.print(f"at most {LARGE_LIMIT:.0f} s each")
    return fine


def saved_and_checked(folder: Path, network: Network, certificate: object) -> tuple[fairmend.CheckResult, int]:
    model, path = folder / "model.onnx", folder / "certificate.json"
    network.save(model)
    certificate.save(path, model=model)
    return fairmend.check(path, model, real=certificate.real_only, run=False), path.stat().st_size


def row(name: str, report: fairmend.CheckResult, size: int) -> list[str]:
    verdict = "valid" if report.valid else report.reasons[0]
    margin = "" if report.least_margin is None else f"{report.least_margin:.2e}"
    return [name, verdict, str(report.covers_inference), margin, f"{size / 1e6:.2f}", f"{report.seconds:.3f}"]


if __name__ == "__main__":
    settings.parse_arguments(__doc__, positional=None)
    out = Console(width=max(Console().width, 100))
    with tempfile.TemporaryDirectory() as place:
        results = [check_settings(out, Path(place)), check_large(out, Path(place))]
    sys.exit(0 if all(results) else 1)
