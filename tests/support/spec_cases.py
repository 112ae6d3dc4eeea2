"""A spec with one feature of every kind, data that fits it, and the check of an error message."""

import re

import pandas as pd
import pytest

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Label, Spec

AGE = Feature("age", "integer", range=(17, 90), protected=True)
HOURS = Feature("hours", "integer", range=(1, 100), tolerance=1)
GAIN = Feature("gain", "continuous", range=(0, 0.1), scale={"mean": 0.05, "std": 0.02})
RACE = Feature("race", "categorical", categories=("White", "Black", "Other"), encoding="one-hot", protected=True)
SEX = Feature("sex", "categorical", categories=("female", "male"), scale={"min": 0, "max": 2})

# A one-hot feature without a column for "b", and a number that replaces missing values.
DROPPED_RACE = Feature(
    "race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True, dropped="b", missing="c"
)
AGE_WITH_MISSING = Feature("age", "integer", range=(18, 60), missing=30, scale={"min": 18, "max": 60})


def mixed_spec():
    return Spec(features=[AGE, HOURS, GAIN, RACE, SEX], label=Label(column="income", positive=">50K"))


def mixed_frame():
    return pd.DataFrame(
        {
            "income": [" >50K", "<=50K", "<=50K"],
            "race": ["Black", "White", " Other"],
            "age": [61, 34, 17],
            "hours": [40.0, 1, 100],
            "gain": [0.0, 0.05, 0.1],
            "sex": ["male", "female", "male"],
        }
    )


def dropped_spec():
    return Spec([DROPPED_RACE, AGE_WITH_MISSING])


def refused(*words):
    """Expect an error that names all these words, in this order."""
    return pytest.raises(FairmendError, match=".*".join(re.escape(word) for word in words))
