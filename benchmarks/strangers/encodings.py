"""Take models with unusual encodings from CSV and model file to a checked certificate.

    python benchmarks/strangers/encodings.py [--visit NAME ...] [--show]

The same people, in files as their owners have them: a network with embeddings (PyTorch, exported to ONNX), tables with
a row for unknown values as fastai writes them, also of codes that mark missing values, data that is one-hot already,
and a pipeline with logarithms, quantiles and target encodings. For each: `spec init` or `spec from-sklearn`, at most
two lines of the spec edited by hand, `spec check`, `audit`, `repair`, `check`. Prints the commands with their exit
codes. Exits with 1 if one fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

ROWS = 1500
EPOCHS = 60


@dataclass(frozen=True)
class Visit:
    """What the owner of a model has in a folder: `people.csv` and `model.onnx`, and the commands that write the spec.

    ``data`` is the file that the other commands read, ``edits`` are texts of the spec that the owner replaces.
    """

    spec: tuple[str, ...]
    data: str = "people.csv"
    verify: tuple[str, ...] = ("--scores", "scores.npy")
    edits: tuple[tuple[str, str], ...] = ()


def people(rng: np.random.Generator) -> pd.DataFrame:
    """Return applicants; decisions depend on their sex."""
    sex, city = rng.choice(["female", "male"], ROWS), rng.choice(["Bern", "Genf", "Lugano", "Zug"], ROWS)
    income, age = rng.lognormal(10.5, 0.5, ROWS).round(), rng.integers(18, 80, ROWS)
    odds = 1.5 * np.log(income / 36_000) + 0.02 * (age - 45) + 0.8 * (sex == "male") + 0.4 * (city == "Zug")
    granted = np.where(odds + rng.logistic(0, 0.4, ROWS) > 0, "yes", "no")
    return pd.DataFrame({"sex": sex, "city": city, "income": income, "age": age, "granted": granted})


def _standard(frame: pd.DataFrame, names: list[str]) -> np.ndarray:
    values = frame[names].to_numpy(np.float64)
    return (values - values.mean(axis=0)) / values.std(axis=0)


def _train(module, X: np.ndarray, frame: pd.DataFrame, folder: Path) -> None:
    """Train a module, export it to ONNX, and save the scores that it gives."""
    import torch

    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor((frame["granted"] == "yes").to_numpy())
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(EPOCHS):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(module(inputs)[:, 0], labels.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    module.eval()
    batch = torch.export.Dim("batch")
    torch.onnx.export(module, (inputs[:2],), folder / "model.onnx", dynamic_shapes=({0: batch},), verbose=False)
    with torch.no_grad():
        np.save(folder / "scores.npy", torch.sigmoid(module(inputs)[:, 0]).numpy())


def _dense(inputs: int):
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 1))


def _embedding(rows: tuple[int, ...], numbers: int):
    """Return a module that looks up its first columns in tables, as tabular models of PyTorch and fastai do."""
    import torch
    from torch import nn

    class Tabular(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(count, 3) for count in rows])
            self.dense = nn.Sequential(nn.Linear(3 * len(rows) + numbers, 16), nn.ReLU(), nn.Linear(16, 1))

        def forward(self, x):
            looked_up = [table(x[:, place].long()) for place, table in enumerate(self.tables)]
            return self.dense(torch.cat([*looked_up, x[:, len(rows) :]], dim=1))

    torch.manual_seed(0)
    return Tabular()


def _codes(frame: pd.DataFrame, names: list[str], first: int) -> np.ndarray:
    return np.stack([frame[name].astype("category").cat.codes.to_numpy() + first for name in names], axis=1)


def embeddings(folder: Path, frame: pd.DataFrame) -> Visit:
    """Categories as codes from 0 into embeddings, and standardised numbers."""
    frame.to_csv(folder / "people.csv", index=False)
    X = np.hstack([_codes(frame, ["sex", "city"], 0), _standard(frame, ["income", "age"])])
    _train(_embedding((2, 4), 2), X, frame, folder)
    return Visit(("spec", "init", "people.csv", "--model", "model.onnx", "--scores", "scores.npy"))


def unknown_rows(folder: Path, frame: pd.DataFrame) -> Visit:
    """Codes from 1: row 0 of every table is for values that training did not have, as fastai's #na#."""
    frame.to_csv(folder / "people.csv", index=False)
    X = np.hstack([_codes(frame, ["sex", "city"], 1), _standard(frame, ["age", "income"])])
    _train(_embedding((3, 5), 2), X, frame, folder)
    return Visit(("spec", "init", "people.csv", "--model", "model.onnx", "--scores", "scores.npy"))


def marked_gaps(folder: Path, frame: pd.DataFrame) -> Visit:
    """Missing incomes are filled in with the median and marked by a code, 1 or 2, after the others: as in fastai."""
    frame = frame.assign(income=frame["income"].mask(frame.index % 12 == 0))
    frame.to_csv(folder / "people.csv", index=False)
    marks = frame["income"].isna().to_numpy(np.int64)[:, None] + 1
    filled = frame.fillna({"income": frame["income"].median()})
    X = np.hstack([_codes(frame, ["sex", "city"], 1), marks, _standard(filled, ["income", "age"])])
    _train(_embedding((3, 5, 3), 2), X, frame, folder)
    return Visit(("spec", "init", "people.csv", "--model", "model.onnx", "--scores", "scores.npy"))


def one_hot_data(folder: Path, frame: pd.DataFrame) -> Visit:
    """A table that somebody encoded before: one-hot columns and scaled numbers."""
    encoded = pd.get_dummies(frame[["sex", "city"]], dtype=int)
    encoded[["income", "age"]] = _standard(frame, ["income", "age"]).round(6)
    encoded.assign(granted=frame["granted"]).to_csv(folder / "people.csv", index=False)
    _train(_dense(encoded.shape[1]), encoded.to_numpy(np.float64), frame, folder)
    return Visit(("spec", "init", "people.csv", "--model", "model.onnx", "--scores", "scores.npy"))


def unusual_pipeline(folder: Path, frame: pd.DataFrame) -> Visit:
    """Logarithms, quantiles and target encodings, which a spec cannot describe."""
    import joblib
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        FunctionTransformer,
        OneHotEncoder,
        QuantileTransformer,
        StandardScaler,
        TargetEncoder,
    )

    frame.to_csv(folder / "people.csv", index=False)
    logarithm = make_pipeline(FunctionTransformer(np.log1p, feature_names_out="one-to-one"), StandardScaler())
    parts = [
        ("income", logarithm, ["income"]),
        ("age", QuantileTransformer(n_quantiles=100), ["age"]),
        ("city", TargetEncoder(random_state=0), ["city"]),
        ("sex", OneHotEncoder(sparse_output=False), ["sex"]),
    ]
    pipeline = ColumnTransformer(parts)
    pipeline.fit(frame, frame["granted"] == "yes")
    joblib.dump(pipeline, folder / "pipeline.joblib")
    X = pipeline.transform(frame)
    _train(_dense(X.shape[1]), X, frame, folder)
    command = ("spec", "from-sklearn", "pipeline.joblib", "--trust-pickle", "--data", "people.csv")
    return Visit((*command, "--data-out", "encoded.csv", "--model", "model.onnx"), "encoded.csv")


VISITS: dict[str, Callable[[Path, pd.DataFrame], Visit]] = {
    "embeddings": embeddings,
    "rows for unknown values": unknown_rows,
    "marked gaps": marked_gaps,
    "one-hot data": one_hot_data,
    "unusual pipeline": unusual_pipeline,
}


def visit(name: str, folder: Path, show: bool) -> bool:
    """Run the commands, and return whether all of them succeed."""
    print(name)
    found = VISITS[name](folder, people(np.random.default_rng(0)))
    model = ("model.onnx", "--spec", "spec.toml", "--data", found.data)
    told = ("--protected", "sex", "--label", "granted", "--positive", "yes")
    commands = [
        ((*found.spec, *told), (0,)),
        (("spec", "check", "spec.toml", "--data", found.data, "--model", "model.onnx", *found.verify), (0,)),
        (("audit", *model), (0, 1)),
        (("repair", *model, "--out", "repaired"), (0,)),
        (("check", "repaired/certificate.json", "repaired/model.onnx", "--spec", "spec.toml"), (0,)),
    ]
    for number, (arguments, expected) in enumerate(commands):
        done = subprocess.run(
            [sys.executable, "-m", "fairmend", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        print(f"  $ fairmend {' '.join(arguments)}   exit {done.returncode}", flush=True)
        if show or done.returncode not in expected:
            print(done.stdout + done.stderr)
        if done.returncode not in expected:
            return False
        if number == 0:
            _edit(folder / "spec.toml", found.edits)
            print(f"  {len(found.edits)} lines of the spec edited by hand")
    print("  " + done.stdout.splitlines()[0])
    return True


def _edit(path: Path, edits: tuple[tuple[str, str], ...]) -> None:
    text = path.read_text(encoding="utf-8")
    for before, after in edits:
        text = text.replace(before, after, 1)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visit", nargs="*", default=list(VISITS), choices=list(VISITS))
    parser.add_argument("--show", action="store_true", help="show the output of the commands")
    options = parser.parse_args()
    os.environ["COLUMNS"] = "110"
    good = []
    for name in options.visit:
        with tempfile.TemporaryDirectory() as folder:
            good.append(visit(name, Path(folder), options.show))
    print(f"{sum(good)} of {len(good)} from CSV and model file to VALID")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
