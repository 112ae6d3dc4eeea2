"""The 22 settings of the paper's protocol, read from the reference folder (FAIRMEND_SHARED, default ../shared)."""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import fairmend
from fairmend.datasets import Dataset, load

SHARED = Path(os.environ.get("FAIRMEND_SHARED", Path(__file__).resolve().parents[2] / "shared"))
MODELS = {"adult": "AC1", "compas": "compas1", "german": "GC1", "bank": "BM0"}
COLUMNS = {
    "compas": {"sex": "Female", "race": "Race", "age": "Age"},
    "adult": {"sex": "sex", "race": "race", "age": "age"},
    "german": {"sex": "sex", "age": "age"},
    "bank": {"age": "age"},
}
TOLERANCES = {"A1": {"hours-per-week": 1}, "B1": {"duration": 1}, "G1": {"credit_amount": 100}}


@dataclass(frozen=True)
class Setting:
    """One row of the paper's tables: a network, who counts as similar, and the sets the repair is given."""

    name: str
    dataset: Dataset
    network: fairmend.Network
    spec: fairmend.Spec
    X_repair: np.ndarray
    X_cal: np.ndarray
    y_cal: np.ndarray
    original: dict[str, float | str]

    @property
    def everyone(self) -> np.ndarray:
        return np.concatenate([self.dataset.X_train, self.dataset.X_test])


@cache
def _dataset(name: str) -> Dataset:
    return load(name, SHARED / "data")


def peak_megabytes() -> float:
    """The most memory this process has had. (getrusage would count its parent's, from before exec.)"""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def require_shared() -> None:
    if not (SHARED / "reference").is_dir():
        sys.exit(f"no reference data at {SHARED}; point FAIRMEND_SHARED at it")


def names() -> list[str]:
    require_shared()
    with (SHARED / "reference" / "original_results.csv").open() as file:
        return [row["setting"] for row in csv.DictReader(file)]


def setting(name: str) -> Setting:
    require_shared()
    dataset_name, attributes, *tolerance = name.split("-")
    dataset = _dataset(dataset_name)
    protected = [COLUMNS[dataset_name][attribute] for attribute in attributes.split("+")]
    splits = np.load(SHARED / "reference" / "splits" / f"{name}.npz")
    with (SHARED / "reference" / "original_results.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["setting"] == name)
    return Setting(
        name=name,
        dataset=dataset,
        network=fairmend.load_network(SHARED / "models" / f"{MODELS[dataset_name]}.pth"),
        spec=dataset.spec(protected, TOLERANCES[tolerance[0]] if tolerance else None),
        X_repair=splits["X_r"],
        X_cal=splits["X_c"],
        y_cal=splits["y_c"],
        original={key: value if key.startswith(("setting", "status")) else float(value) for key, value in row.items()},
    )
