"""COMPAS: risk scores of defendants in Broward County, as ProPublica published and FairML prepared them.

The label is the score itself: 1 where COMPAS says the risk of recidivism is medium or high.
"""

from __future__ import annotations

import os

import numpy as np

from fairmend.paper.datasets._common import Dataset, assemble, codes, read_table, whole_numbers
from fairmend.paper.datasets._raw_file import RawFile, find_file

FILE = RawFile(
    name="propublica_data_for_fairml.csv",
    url="https://raw.githubusercontent.com/adebayoj/fairml/master/doc/example_notebooks/propublica_data_for_fairml.csv",
    sha256=(
        "f94fcf01be68ab00a886ee4c0a42539b4d6159d347d6b6344f89c79219ebc17d",  # lines end in CR LF, the last in nothing
        "efc28b32b72462af9a07236bfe04b2a9ac07971fad35f87704b2b92bbfe6cf06",  # the same lines, each ending in LF
    ),
    source=(
        "ProPublica's 'Machine Bias' data as prepared for FairML "
        "(https://github.com/adebayoj/fairml, folder doc/example_notebooks)"
    ),
)
TEST_SIZE, SEED = 0.2, 2025

RACES = ("African_American", "Asian", "Hispanic", "Native_American", "Other")  # none of them: white

BOUNDS: dict[str, tuple[float, float]] = {
    "Two_yr_Recidivism": (0, 1),
    "Number_of_Priors": (0, 38),
    "Age": (0, 1),  # 0 below 25
    "Race": (0, 1),  # 0 white
    "Female": (0, 1),
    "Misdemeanor": (0, 1),
}


def load(data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Read and encode the raw file; 4,937 training rows and 1,235 test rows."""
    path = find_file(FILE, data_dir, download)
    flags = ("Two_yr_Recidivism", "score_factor", "Age_Below_TwentyFive", *RACES, "Female", "Misdemeanor")
    table = read_table(path, ["Number_of_Priors", *flags])
    encoded = {flag: codes(table, flag, ["0", "1"], path) for flag in flags}
    encoded["Number_of_Priors"] = whole_numbers(table, "Number_of_Priors", path)
    encoded["Age"] = 1 - encoded["Age_Below_TwentyFive"]
    encoded["Race"] = np.max([encoded[race] for race in RACES], axis=0)
    label = encoded["score_factor"] == 1
    return assemble("compas", encoded, label, BOUNDS, test_size=TEST_SIZE, seed=SEED)
