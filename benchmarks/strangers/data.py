"""Four tables of people that nobody here tuned for, each with what real files have: codes, money, ids, missing values,
unicode, sorted rows. They come from known generators and a seed, and all decisions in them are biased.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

ROWS = 4000


@dataclass(frozen=True, eq=False)
class Stranger:
    """A table, and what its owner knows about it.

    ``options`` are the options that a user gives to `spec init` beside the model and its scores; ``edits`` are the
    lines that a user then adds to the spec by hand, by the table of the spec that they go to.
    """

    name: str
    frame: pd.DataFrame
    label: str
    protected: tuple[str, ...]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    options: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    positive: str | None = None

    @property
    def classes(self) -> list[str]:
        """The label values in the order in which frameworks number them: sorted, the positive one last of two."""
        values = sorted(self.frame[self.label].astype(str).unique())
        return values if self.positive is None else [*(v for v in values if v != self.positive), self.positive]


def credit(rng: np.random.Generator) -> Stranger:
    """Credit cards: codes for sex and marriage, money, missing incomes, ids, rows sorted by the outcome."""
    sex, marriage = rng.integers(1, 3, ROWS), rng.integers(1, 4, ROWS)
    limit = (rng.lognormal(11, 0.6, ROWS) / 10_000).round() * 10_000
    income = rng.lognormal(10.3, 0.5, ROWS).round(2)
    late = rng.integers(-1, 6, ROWS)
    odds = 0.5 * late - 1.2 * np.log(limit / 60_000) - 0.8 * np.log(income / 30_000) + 0.9 * (sex == 1) - 1
    frame = pd.DataFrame(
        {
            "customer": [f"C-{number}" for number in rng.permutation(ROWS) + 10_000],
            "limit": limit.astype(np.int64),
            "sex": sex,
            "marriage": marriage,
            "age": np.clip(rng.normal(36, 9, ROWS).round(), 21, 75).astype(np.int64),
            "months_late": late,
            "income": np.where(rng.random(ROWS) < 0.06, np.nan, income),
            "default": np.where(odds + rng.logistic(0, 0.6, ROWS) > 0, "yes", "no"),
        }
    ).sort_values(["default", "sex"], ignore_index=True)
    return Stranger(
        "credit", frame, "default", ("sex",), ("limit", "age", "months_late", "income"), ("sex", "marriage"),
        ("--drop", "customer", "--categorical", "sex,marriage"),
        (("table", 'id = "customer"'), ("feature sex", 'names = {1 = "male", 2 = "female"}')), "yes",
    )  # fmt: skip


def exams(rng: np.random.Generator) -> Stranger:
    """Exams with the grades A to F: many classes, unicode, two protected features."""
    gender, origin = rng.choice(["female", "male", "non-binary"], ROWS, p=[0.49, 0.49, 0.02]), rng.choice(3, ROWS)
    school = rng.choice(["Île-de-France", "Łódź", "São Paulo", "Zürich"], ROWS)
    hours = rng.integers(0, 21, ROWS)
    ability = 0.12 * hours + rng.normal(size=ROWS) + 0.6 * (origin == 0) - 0.3 * (gender == "male")
    grade = np.digitize(-ability, np.quantile(-ability, [0.15, 0.4, 0.65, 0.85]))
    frame = pd.DataFrame(
        {
            "gender": gender,
            "origin": np.array(["here", "near", "far"])[origin],
            "school": school,
            "hours": hours,
            "absences": rng.poisson(4, ROWS),
            "grade": np.array(["A", "B", "C", "D", "F"])[grade],
        }
    )
    return Stranger(
        "exams", frame, "grade", ("gender", "origin"), ("hours", "absences"), ("gender", "origin", "school")
    )


def staff(rng: np.random.Generator) -> Stranger:
    """Staff who stay or leave, in German: "ja" and "nein", an age that is protected, money with decimals."""
    age = np.clip(rng.normal(40, 11, ROWS).round(), 18, 66).astype(np.int64)
    pay = (rng.lognormal(8, 0.35, ROWS) + 12 * (age - 18)).round(2)
    overtime = rng.choice(["ja", "nein"], ROWS, p=[0.3, 0.7])
    odds = 1.2 * (overtime == "ja") - 0.05 * (age - 40) - 1.5 * np.log(pay / 3200) - 0.8
    frame = pd.DataFrame(
        {
            "Alter": age,
            "Monatslohn": pay,
            "Überstunden": overtime,
            "Abteilung": rng.choice(["Büro", "Verkauf", "Werk"], ROWS),
            "Zufriedenheit": rng.integers(1, 5, ROWS),
            "gekündigt": np.where(odds + rng.logistic(0, 0.5, ROWS) > 0, "ja", "nein"),
        }
    )
    return Stranger(
        "staff", frame, "gekündigt", ("Alter",), ("Alter", "Monatslohn", "Zufriedenheit"), ("Überstunden", "Abteilung"),
        positive="ja",
    )  # fmt: skip


def insurance(rng: np.random.Generator) -> Stranger:
    """Insurance: continuous measures, a missing category, and a protected sex beside a region that stands for it."""
    sex = rng.choice(["f", "m"], ROWS)
    bmi = np.clip(rng.normal(28, 5, ROWS), 15, 50).round(1)
    smoker = rng.choice(["no", "yes"], ROWS, p=[0.8, 0.2])
    region = np.where(rng.random(ROWS) < 0.6, np.where(sex == "f", "north", "south"), "east").astype(object)
    region[rng.random(ROWS) < 0.04] = None
    odds = 2 * (smoker == "yes") + 0.12 * (bmi - 28) + 0.7 * (sex == "m") - 0.7
    frame = pd.DataFrame(
        {
            "sex": sex,
            "bmi": bmi,
            "children": rng.poisson(1, ROWS),
            "smoker": smoker,
            "region": region,
            "surcharge": np.where(odds + rng.logistic(0, 0.6, ROWS) > 0, 1, 0),
        }
    )
    return Stranger(
        "insurance", frame, "surcharge", ("sex",), ("bmi", "children"), ("sex", "smoker", "region"), positive="1"
    )


MAKERS: dict[str, Callable[[np.random.Generator], Stranger]] = {
    "credit": credit,
    "exams": exams,
    "staff": staff,
    "insurance": insurance,
}


def make_stranger(name: str) -> Stranger:
    """Return a table by name; the same every time."""
    return MAKERS[name](np.random.default_rng([len(name), *name.encode()]))
