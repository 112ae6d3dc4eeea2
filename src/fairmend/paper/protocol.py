"""The 22 settings of the paper's evaluation: a network, a spec, and the inputs of a repair."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.network import Network, load_network
from fairmend.paper.datasets import Dataset, load, train_biased
from fairmend.spec import Spec

MODELS = {"adult": "AC1", "compas": "compas1", "german": "GC1", "bank": "BM0"}
COLUMNS = {
    "compas": {"sex": "Female", "race": "Race", "age": "Age"},
    "adult": {"sex": "sex", "race": "race", "age": "age"},
    "german": {"sex": "sex", "age": "age"},
    "bank": {"age": "age"},
}
TOLERANCES = {"A1": {"hours-per-week": 1.0}, "B1": {"duration": 1.0}, "G1": {"credit_amount": 100.0}}
REPAIR_ROWS = 100
CALIBRATION_ROWS = {"adult": 500, "compas": 500, "german": 100, "bank": 500}


@dataclass(frozen=True)
class Sources:
    """Folders of the data, the networks and the sets.

    models  state dicts; without it, networks of the paper's sizes are trained
    data    raw files of the data sets; without it, `fairmend.paper.datasets.load` finds them
    splits  the paper's repair and calibration sets; without it, they are drawn with `seed`
    """

    models: Path | None = None
    data: Path | None = None
    splits: Path | None = None
    seed: int = 0


@dataclass(frozen=True)
class Setting:
    """One row of the paper's tables."""

    name: str
    dataset: Dataset
    network: Network
    spec: Spec
    X_repair: FloatArray
    X_cal: FloatArray
    y_cal: np.ndarray

    @property
    def everyone(self) -> FloatArray:
        """All rows of the data set, for IDI-D."""
        return np.concatenate([self.dataset.X_train, self.dataset.X_test])

    def uniform(self, count: int, seed: int = 2025) -> FloatArray:
        """Return samples of the published input space (count, features), for IDI-S."""
        low, high = self.dataset.bounds.astype(int).T
        return np.random.default_rng(seed).integers(low, high + 1, (count, len(low))).astype(np.float32)


@cache
def paper_numbers() -> dict[str, Any]:
    """Return the paper's numbers: "repair" (CUR, IDI-D, IDI-S), "accuracy" and "testers", by setting and method."""
    content: dict[str, Any] = json.loads(resources.files("fairmend.paper").joinpath("paper.json").read_text())
    return content


def setting_names(kind: str = "all") -> list[str]:
    """Return the settings in the paper's order; `kind` is "single", "multi", "relaxed", "strict" or "all"."""
    every = list(paper_numbers()["repair"])
    relaxed = [name for name in every if name.count("-") == 2]
    multi = [name for name in every if "+" in name]
    strict = [name for name in every if name not in relaxed]
    single = [name for name in strict if name not in multi]
    return {"single": single, "multi": multi, "relaxed": relaxed, "strict": strict, "all": every}[kind]


def load_setting(name: str, sources: Sources) -> Setting:
    """Load one setting."""
    if name not in paper_numbers()["repair"]:
        raise FairmendError(f"unknown setting {name!r}; there are {', '.join(setting_names())}")
    dataset_name, attributes, *tolerance = name.split("-")
    dataset = _dataset(dataset_name, sources.data)
    protected = [COLUMNS[dataset_name][attribute] for attribute in attributes.split("+")]
    network = _network(dataset_name, sources)
    spec = dataset.spec(protected, TOLERANCES[tolerance[0]] if tolerance else None)
    if sources.splits is None:
        rows = np.random.default_rng(sources.seed).permutation(len(dataset.X_train))
        chosen, rest = rows[:REPAIR_ROWS], rows[REPAIR_ROWS:][: CALIBRATION_ROWS[dataset_name]]
        X_repair, X_cal, y_cal = dataset.X_train[chosen], dataset.X_train[rest], dataset.y_train[rest]
    else:
        path = sources.splits / f"{name}.npz"
        if not path.is_file():
            raise FairmendError(
                f"{path}: no such file; give the folder of the paper's sets, or leave out --splits-dir to draw them"
            )
        with np.load(path, allow_pickle=False) as splits:
            X_repair, X_cal, y_cal = splits["X_r"], splits["X_c"], splits["y_c"]
    return Setting(name, dataset, network, spec, X_repair, X_cal, y_cal)


@cache
def _network(dataset: str, sources: Sources) -> Network:
    if sources.models is None:
        return train_biased(_dataset(dataset, sources.data))
    return load_network(sources.models / f"{MODELS[dataset]}.pth", "relu")


@cache
def _dataset(name: str, data: Path | None) -> Dataset:
    return load(name, data)
