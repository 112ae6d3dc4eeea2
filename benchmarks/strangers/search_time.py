"""Measure how long `fairmend spec init --scores` searches for the encoding of tables with more and more columns.

    python benchmarks/strangers/search_time.py [--columns 8 16 24 40 80 120] [--layout NAME ...] [--seconds 10]

Tables of people with as many columns as asked for, a third of them categories, meet a network whose owner encoded them
in one of the layouts that people use (LAYOUTS). The scaler is fitted on all rows, or on three quarters of them, as
after a split. Prints the seconds of processor time of the search, how many encodings were tried, and whether the
one that was found is the owner's: each of its columns has the owner's numbers. Where numbers are more than the network
has units (32), the scores of a split do not determine their scales: "asks for a scaler" is a draft that says so, with
exit 1. Exits with 1 if a search takes longer than --seconds, or finds no encoding, or another one and does not say so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))

from fairmend.base.errors import FairmendError
from fairmend.evaluate.encoding.search import draft_from_scores
from fairmend.network import Activation, Affine, Network
from fairmend.spec.draft.from_data import draft_from_data

ROWS = 2000
HIDDEN = 32
_SAME = 0.01  # of columns: two fits of the same scale differ by less


def people(columns: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of people: numbers of several kinds, and categories among them, in no special order."""
    made: dict[str, np.ndarray] = {"sex": rng.choice(["female", "male"], ROWS)}
    for number in range(1, columns):
        kind = number % 6
        if kind in (0, 3):
            names = [f"{'abcdefgh'[k]}{number}" for k in range(2 + number % 5)]
            made[f"job{number}"] = rng.choice(names, ROWS, p=rng.dirichlet(np.full(len(names), 4.0)))
        elif kind == 1:
            made[f"age{number}"] = rng.integers(18, 90, ROWS)
        elif kind == 2:
            made[f"income{number}"] = rng.lognormal(10, 0.5, ROWS).round(2)
        elif kind == 4:
            made[f"children{number}"] = rng.poisson(1.2, ROWS)
        else:
            made[f"score{number}"] = rng.normal(600, 80, ROWS).round(1)
    return pd.DataFrame(made)


def _scaled(frame: pd.DataFrame, how: str, fitted: pd.DataFrame) -> pd.DataFrame:
    numbers = frame.select_dtypes("number")
    on = fitted[numbers.columns]
    if how == "min-max":
        return (numbers - on.min()) / (on.max() - on.min())
    return (numbers - on.mean()) / on.std(ddof=0) if how == "standard" else numbers.astype(float)


def numbers_first(frame: pd.DataFrame, fitted: pd.DataFrame, how: str = "standard", **options: bool) -> pd.DataFrame:
    """StandardScaler, then get_dummies, or a ColumnTransformer with these parts."""
    texts = frame.select_dtypes(exclude="number")
    return pd.concat([_scaled(frame, how, fitted), pd.get_dummies(texts, dtype=float, **options)], axis=1)


def dummies_first(frame: pd.DataFrame, fitted: pd.DataFrame) -> pd.DataFrame:
    """A ColumnTransformer with the encoder first."""
    texts = frame.select_dtypes(exclude="number")
    return pd.concat([pd.get_dummies(texts, dtype=float), _scaled(frame, "standard", fitted)], axis=1)


def in_place(frame: pd.DataFrame, fitted: pd.DataFrame) -> pd.DataFrame:
    """Every column where it is in the table."""
    scaled = _scaled(frame, "standard", fitted)
    parts = [scaled[[n]] if n in scaled else pd.get_dummies(frame[[n]], dtype=float) for n in frame.columns]
    return pd.concat(parts, axis=1)


def alphabetical(frame: pd.DataFrame, fitted: pd.DataFrame) -> pd.DataFrame:
    """Every column in the order of its name."""
    return in_place(frame[sorted(frame.columns)], fitted)


def codes_in_place(frame: pd.DataFrame, fitted: pd.DataFrame) -> pd.DataFrame:
    """Label encoders, then a scaler for all columns."""
    codes = frame.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category").cat.codes)
    return _scaled(codes, "standard", codes.loc[fitted.index])


def shuffled(frame: pd.DataFrame, fitted: pd.DataFrame) -> pd.DataFrame:
    """An order that nobody can guess."""
    return in_place(frame[list(np.random.default_rng(5).permutation(frame.columns))], fitted)


LAYOUTS: dict[str, Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]] = {
    "numbers first": numbers_first,
    "dummies first": dummies_first,
    "in place": in_place,
    "alphabetical": alphabetical,
    "drop first": lambda frame, fitted: numbers_first(frame, fitted, drop_first=True),
    "min-max": lambda frame, fitted: numbers_first(frame, fitted, "min-max"),
    "codes in place": codes_in_place,
}


def network(X: np.ndarray, rng: np.random.Generator) -> Network:
    """Return a random network with the logits of a trained one."""
    first = rng.normal(size=(HIDDEN, X.shape[1])) / np.sqrt(X.shape[1])
    last = rng.normal(size=(1, HIDDEN)) / np.sqrt(HIDDEN)
    layers = [(first, rng.normal(size=HIDDEN) / 4), (last, np.zeros(1))]
    affines = [Affine(weight.astype(np.float32), bias.astype(np.float32)) for weight, bias in layers]
    return Network(affines, [Activation("relu")])


def measure(columns: int, layout: str, split: bool) -> tuple[float, str]:
    """Return the seconds of processor time of a search, and what came of it."""
    rng = np.random.default_rng(columns)
    frame = people(columns, rng)
    fitted = frame.sample(frac=0.75, random_state=0) if split else frame
    X = LAYOUTS[layout](frame, fitted).to_numpy(np.float32)
    net = network(X, rng)
    scores = 1 / (1 + np.exp(-net.logits(X).astype(np.float64).reshape(-1, 1)))
    draft = draft_from_data(frame, ["sex"], inputs=X.shape[1])
    started = time.process_time()
    try:
        found, _ = draft_from_scores(draft, frame, net, scores)
    except FairmendError as error:
        return time.process_time() - started, f"not found: {str(error)[:60]}"
    spent = time.process_time() - started
    ours = found.spec.encode(frame, np.float64)
    if found.several and any("--scaler" in line for line in found.review):
        return spent, "asks for a scaler"
    return spent, "found" if np.abs(ours - X).max() < _SAME else "another one"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", nargs="*", type=int, default=[8, 16, 24, 40, 80, 120])
    parser.add_argument("--layout", nargs="*", default=list(LAYOUTS), choices=[*LAYOUTS, "shuffled"])
    parser.add_argument("--seconds", type=float, default=10.0, help="the most that a search may take")
    options = parser.parse_args()
    LAYOUTS["shuffled"] = shuffled
    failed = 0
    print(f"{'columns':>7}  {'layout':<16}{'scaler of':<12}{'CPU s':>7}  result")
    for columns in options.columns:
        for layout in options.layout:
            for split in (False, True):
                seconds, result = measure(columns, layout, split)
                failed += seconds > options.seconds or result not in ("found", "asks for a scaler")
                print(
                    f"{columns:>7}  {layout:<16}{'3/4' if split else 'all rows':<12}{seconds:>7.1f}  {result}",
                    flush=True,
                )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
