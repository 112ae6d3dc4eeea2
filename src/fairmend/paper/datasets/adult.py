"""Adult: census data of 1994 (UCI). The label is an income above 50,000 dollars."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd

from fairmend.paper.datasets._common import Dataset, assemble, bins, codes, read_table, whole_numbers
from fairmend.paper.datasets._raw_file import RawFile, find_file

SOURCE = "the UCI Machine Learning Repository, data set 'Adult' (https://archive.ics.uci.edu/dataset/2/adult)"
FILES = (  # joined in this order
    RawFile(
        name="adult.test",
        url="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.test",
        sha256=("a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",),
        source=SOURCE,
    ),
    RawFile(
        name="adult.data",
        url="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.data",
        sha256=("5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",),
        source=SOURCE,
    ),
)
TEST_SIZE, SEED = 0.15, 42

RAW = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)

# Of the rows without a `?`; a category's code is its place here, in sorted order.
CATEGORIES = {
    "workclass": "Federal-gov Local-gov Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
    "education": (
        "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters "
        "Preschool Prof-school Some-college"
    ),
    "marital-status": (
        "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed"
    ),
    "occupation": (
        "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
        "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
        "Transport-moving"
    ),
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "native-country": (
        "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany "
        "Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica "
        "Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico "
        "Scotland South Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia"
    ),
}

# The highest amounts in the data: 20 bins of equal width lie below them.
HIGHEST = {"capital-gain": 99999, "capital-loss": 4356}

BOUNDS: dict[str, tuple[float, float]] = {
    "age": (10, 100),
    "workclass": (0, 6),
    "education": (0, 15),
    "education-num": (1, 16),
    "marital-status": (0, 6),
    "occupation": (0, 13),
    "relationship": (0, 5),
    "race": (0, 4),
    "sex": (0, 1),
    "capital-gain": (0, 19),
    "capital-loss": (0, 19),
    "hours-per-week": (1, 100),
    "native-country": (0, 40),
}


def load(data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Read and encode the raw files; 38,438 training rows and 6,784 test rows."""
    paths = [find_file(file, data_dir, download) for file in FILES]
    # The test file opens with a line that starts with `|`, and its labels end in a full stop.
    tables = [read_table(path, RAW.split(), header=None, comment="|", skipinitialspace=True) for path in paths]
    table = pd.concat(tables, ignore_index=True)
    table = table[~(table == "?").any(axis=1)].reset_index(drop=True)
    table["income"] = table["income"].str.rstrip(".")
    path = paths[0].parent  # of which file a row came is no longer known
    encoded = {}
    for column in BOUNDS:
        if column in CATEGORIES:
            encoded[column] = codes(table, column, CATEGORIES[column].split(), path)
            continue
        encoded[column] = whole_numbers(table, column, path)
        if column in HIGHEST:
            encoded[column] = bins(encoded[column], np.linspace(0, HIGHEST[column], 21)[1:-1])
    label = codes(table, "income", ["<=50K", ">50K"], path) == 1
    return assemble("adult", encoded, label, BOUNDS, test_size=TEST_SIZE, seed=SEED)
