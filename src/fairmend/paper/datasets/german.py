"""German: credit applicants of a German bank (UCI). The label is a good credit risk."""

from __future__ import annotations

import os

from fairmend.paper.datasets._common import Dataset, assemble, codes, grouped, read_table, whole_numbers
from fairmend.paper.datasets._raw_file import RawFile, find_file

FILE = RawFile(
    name="german.data",
    url="https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/german.data",
    sha256=("b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",),
    source=(
        "the UCI Machine Learning Repository, data set 'Statlog (German Credit Data)' "
        "(https://archive.ics.uci.edu/dataset/144/statlog+german+credit+data)"
    ),
)
TEST_SIZE, SEED = 0.3, 42
OLDER = 26  # age is 1 from here on

RAW = (
    "status month credit_history purpose credit_amount savings employment investment_as_income_percentage "
    "personal_status other_debtors residence_since property age installment_plans housing number_of_credits "
    "skill_level people_liable_for telephone foreign_worker credit"
)

# A code is the place among the sorted groups: A13 ("200+") is 0, A11 and A12 ("<200") are 1, A14 is 2.
GROUPS = {
    "status": {"A11": "<200", "A12": "<200", "A13": "200+", "A14": "None"},
    "credit_history": {
        "A30": "None/Paid",
        "A31": "None/Paid",
        "A32": "None/Paid",
        "A33": "Delay",
        "A34": "Other",
    },
    "savings": {"A61": "<500", "A62": "<500", "A63": "500+", "A64": "500+", "A65": "Unknown/None"},
    "employment": {
        "A71": "Unemployed",
        "A72": "1-4 years",
        "A73": "1-4 years",
        "A74": "4+ years",
        "A75": "4+ years",
    },
}

# A95, a single woman, is in the documentation but in no row.
SEX = {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"}

# A code is the place here, in sorted order.
CATEGORIES = {
    "purpose": "A40 A41 A410 A42 A43 A44 A45 A46 A48 A49",
    "other_debtors": "A101 A102 A103",
    "property": "A121 A122 A123 A124",
    "installment_plans": "A141 A142 A143",
    "housing": "A151 A152 A153",
    "skill_level": "A171 A172 A173 A174",
    "telephone": "A191 A192",
    "foreign_worker": "A201 A202",
}

BOUNDS: dict[str, tuple[float, float]] = {
    "status": (0, 2),
    "month": (0, 80),
    "credit_history": (0, 2),
    "purpose": (0, 9),
    "credit_amount": (0, 20000),
    "savings": (0, 2),
    "employment": (0, 2),
    "investment_as_income_percentage": (1, 4),
    "other_debtors": (0, 2),
    "residence_since": (1, 4),
    "property": (0, 2),
    "age": (0, 1),
    "installment_plans": (0, 2),
    "housing": (0, 2),
    "number_of_credits": (1, 4),
    "skill_level": (0, 3),
    "people_liable_for": (1, 2),
    "telephone": (0, 1),
    "foreign_worker": (0, 1),
    "sex": (0, 1),
}

# The published bounds leave out A124, no property, which 154 people have.
WIDER: dict[str, tuple[float, float]] = {"property": (0, 3)}


def load(data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Read and encode the raw file; 700 training rows and 300 test rows."""
    path = find_file(FILE, data_dir, download)
    table = read_table(path, RAW.split(), header=None, sep=" ")
    encoded = {"sex": grouped(table, "personal_status", SEX, path)}
    for column in BOUNDS:
        if column in GROUPS:
            encoded[column] = grouped(table, column, GROUPS[column], path)
        elif column in CATEGORIES:
            encoded[column] = codes(table, column, CATEGORIES[column].split(), path)
        elif column != "sex":
            encoded[column] = whole_numbers(table, column, path)
    encoded["age"] = (encoded["age"] >= OLDER).astype("float32")
    label = codes(table, "credit", ["1", "2"], path) == 0
    return assemble("german", encoded, label, BOUNDS, wider=WIDER, test_size=TEST_SIZE, seed=SEED)
