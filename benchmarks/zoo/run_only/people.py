"""The people whom these models score, those of the zoo with a race as well, and how libraries read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd

from benchmarks.zoo.data import JOBS, load_people
from fairmend import Feature, Spec

SEXES = ("female", "male")
RACES = ("asian", "black", "other", "white")
AGES = (18, 70)
CODES = ("sex", "race", "job")
NUMBERS = ("age", "hours", "income", "rating")
SIZES = (2, 4, 4)  # how many values each of CODES has
TRAINING_ROWS, REPAIR_ROWS, CALIBRATION_ROWS = 1000, 40, 500
FEATURES = {
    "sex": Feature("sex", "categorical", categories=SEXES),
    "race": Feature("race", "categorical", categories=RACES),
    "job": Feature("job", "categorical", categories=JOBS),
    "age": Feature("age", "integer", range=AGES),
    "hours": Feature("hours", "integer", range=(0, 60)),
    "income": Feature("income", "continuous", range=(0, 10)),
    "rating": Feature("rating", "continuous", range=(0, 1)),
}


@cache
def load_frame() -> tuple[pd.DataFrame, np.ndarray]:
    """Return people as their owner stores them, categories as text, and who was accepted: by sex, race and age too."""
    zoo = load_people(scaled=False)
    sex, job, age, hours, income, rating = zoo.X.astype(np.float64).round(3).T
    rng = np.random.default_rng(27)
    race = rng.choice(4, len(zoo.y), p=(0.2, 0.3, 0.1, 0.4))
    refused = rng.random(len(zoo.y)) < 0.35 * (race != 3) + 0.35 * (age > 50)
    frame = pd.DataFrame(
        {
            "sex": np.array(SEXES, dtype=object)[sex.astype(int)],
            "race": np.array(RACES, dtype=object)[race],
            "job": np.array(JOBS, dtype=object)[job.astype(int)],
            "age": age.astype(np.int64),
            "hours": hours.astype(np.int64),
            "income": income,
            "rating": rating,
        }
    )
    return frame, np.where(refused, 0, zoo.y)


def counterparts(frame: pd.DataFrame, protected: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield the people with every combination of values of the protected features."""
    values = {"sex": SEXES, "race": RACES, "age": range(AGES[0], AGES[1] + 1)}
    for combination in product(*(values[name] for name in protected)):
        yield frame.assign(**dict(zip(protected, combination, strict=True)))


@dataclass(frozen=True)
class Reading:
    """How a model reads people: a data frame as it is, or one matrix with the columns of all of its inputs in order.

    ``inputs`` has the features of each input by its name; an input of codes alone is a tensor of whole numbers.
    """

    name: str
    raw: bool = False
    one_hot: bool = False
    scaled: bool = True
    inputs: Mapping[str, tuple[str, ...]] | None = None

    def spec(self, protected: Sequence[str] = ("sex",)) -> Spec:
        """Return the spec of the columns that the model reads."""
        inputs = self.inputs or {"": tuple(FEATURES)}
        features = []
        for given, names in inputs.items():
            for name in names:
                encoding = "one-hot" if self.one_hot and name in CODES else "ordinal"
                scale = _scale(name) if self.scaled and not self.raw and name in NUMBERS else None
                feature = replace(FEATURES[name], encoding=encoding, scale=scale, protected=name in protected)
                features.append(replace(feature, input=given) if given else feature)
        return Spec(features)

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame | np.ndarray:
        """Return people as fairmend gets them for this model."""
        return frame if self.raw else self.spec().encode(frame).astype(np.float32)

    def arguments(self, X: np.ndarray) -> list[np.ndarray]:
        """Return the matrix as the tensors that the model takes."""
        if self.inputs is None:
            return [np.ascontiguousarray(X)]
        parts = np.split(X, np.cumsum([len(names) for names in self.inputs.values()])[:-1], axis=1)
        whole = [set(names) <= set(CODES) for names in self.inputs.values()]
        return [
            np.ascontiguousarray(part, dtype=np.int64 if codes else np.float32)
            for part, codes in zip(parts, whole, strict=True)
        ]


@cache
def _scale(name: str) -> dict[str, float]:
    values = load_frame()[0][name]
    return {"mean": round(float(values.mean()), 3), "std": round(float(values.std()), 3)}


RAW = Reading("raw table", raw=True)
PLAIN = Reading("codes", scaled=False)
CODED = Reading("codes, scaled")
ONE_HOT = Reading("one-hot, scaled", one_hot=True)


def two_inputs(numbers: str, codes: str, *, codes_first: bool = False) -> Reading:
    """Return the reading of a model with an input of numbers and one of codes, which have these names."""
    parts = [(numbers, NUMBERS), (codes, CODES)]
    return Reading("numbers and codes", inputs=dict(parts[::-1] if codes_first else parts))
