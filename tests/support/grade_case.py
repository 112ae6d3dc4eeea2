"""A case with many classes, codes and ids: a network that grades people from A to F, and a class for each grade."""

from pathlib import Path

import numpy as np
import pandas as pd

from fairmend.spec import Feature, Label, Spec
from support.cli_case import run, small_network, small_people, small_spec

GRADES = ("A", "B", "C", "D", "E", "F")


def grade_spec() -> Spec:
    age, _, income, loans = small_spec().features
    coded = Feature(
        "gender",
        "categorical",
        categories=("1", "2"),
        encoding="one-hot",
        protected=True,
        names={1: "male", 2: "female"},
    )
    return Spec([age, coded, income, loans], Label("grade", classes=GRADES), id_column="customer")


def graded_people(rows: int = 200) -> pd.DataFrame:
    people = small_people(rows).drop(columns=["good", "remark"])
    people["gender"] = people["gender"].map({"f": 1, "m": 2})
    grades = small_network(6, seed=8).predict(grade_spec().encode(people))
    noisy = np.where(np.random.default_rng(1).random(rows) < 0.2, np.arange(rows) % 6, grades)
    return people.assign(grade=np.array(GRADES)[noisy], customer=[f"C-{1000 + i}" for i in range(rows)])


class GradeCase:
    """A folder with model.onnx, spec.toml and people.csv."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.model, self.spec, self.data = folder / "model.onnx", folder / "spec.toml", folder / "people.csv"
        small_network(6, seed=8).save(self.model)
        grade_spec().save(self.spec)
        graded_people().to_csv(self.data, index=False)

    def run(self, command: str, *more: object):
        return run(command, self.model, "--spec", self.spec, "--data", self.data, *more)
