"""Bank: marketing calls of a Portuguese bank (UCI). The label is a subscribed term deposit."""

from __future__ import annotations

import os

from fairmend.paper.datasets._common import Dataset, assemble, bins, codes, read_table, whole_numbers
from fairmend.paper.datasets._raw_file import RawFile, find_file

FILE = RawFile(
    name="bank-full.csv",
    url="https://archive.ics.uci.edu/ml/machine-learning-databases/00222/bank.zip",
    sha256=("d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",),
    source=(
        "the UCI Machine Learning Repository, data set 'Bank Marketing' "
        "(https://archive.ics.uci.edu/dataset/222/bank+marketing)"
    ),
    zipped=True,
)
TEST_SIZE, SEED = 0.2, 1234

# A code is the place here, in sorted order.
CATEGORIES = {
    "job": (
        "admin. blue-collar entrepreneur housemaid management retired self-employed services student "
        "technician unemployed"
    ),
    "marital": "divorced married single",
    "education": "primary secondary tertiary",
    "default": "no yes",
    "housing": "no yes",
    "loan": "no yes",
    "contact": "cellular telephone",
    "month": "apr aug dec feb jan jul jun mar may nov oct sep",
    "poutcome": "failure other success",
}

# What `unknown` is read as: the column's most frequent value.
MODES = {"job": "blue-collar", "education": "secondary", "contact": "cellular", "poutcome": "failure"}

# A bin is counted from 1 and includes its upper edge. All edges but those of age, day and month are the
# data's quartiles: for pdays and previous all three are the value that says "never called before", so that
# only bins 1 and 4 occur. Those of month go by its code: a bin is three neighbours in the alphabet.
EDGES: dict[str, tuple[float, ...]] = {
    "age": (25, 45, 65),
    "balance": (72, 448, 1428),
    "day": (10, 20),
    "month": (2, 5, 8),
    "duration": (103, 180, 319),
    "campaign": (1, 2, 3),
    "pdays": (-1, -1, -1),
    "previous": (0, 0, 0),
}

BOUNDS: dict[str, tuple[float, float]] = {
    "age": (1, 4),
    "job": (0, 10),
    "marital": (0, 2),
    "education": (0, 2),
    "default": (0, 1),
    "balance": (1, 4),
    "housing": (0, 1),
    "loan": (0, 1),
    "contact": (0, 1),
    "day": (1, 3),
    "month": (1, 4),
    "duration": (1, 4),
    "campaign": (1, 4),
    "pdays": (1, 4),
    "previous": (1, 4),
    "poutcome": (0, 2),
}


def load(data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Read and encode the raw file; 36,168 training rows and 9,043 test rows."""
    path = find_file(FILE, data_dir, download)
    table = read_table(path, [*BOUNDS, "y"], sep=";")
    for column, mode in MODES.items():
        table[column] = table[column].replace("unknown", mode)
    encoded = {}
    for column in BOUNDS:
        if column in CATEGORIES:
            encoded[column] = codes(table, column, CATEGORIES[column].split(), path)
        else:
            encoded[column] = whole_numbers(table, column, path)
        if column in EDGES:
            encoded[column] = bins(encoded[column], EDGES[column]) + 1
    label = codes(table, "y", ["no", "yes"], path) == 1
    return assemble("bank", encoded, label, BOUNDS, test_size=TEST_SIZE, seed=SEED)
