"""The four data sets of the paper: where each is published, and how its columns are encoded.

`train_biased` trains networks like those that the paper repairs: the same sizes and data, without regard to fairness.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.paper.raw_files import (
    Dataset,
    RawFile,
    assemble,
    bins,
    codes,
    encode_columns,
    find_file,
    grouped,
    read_table,
    whole_numbers,
)

__all__ = ["NAMES", "Dataset", "load", "train_biased"]

# Adult: census data of 1994 (UCI). The label is an income above 50,000 dollars.


ADULT_SOURCE = "the UCI Machine Learning Repository, data set 'Adult' (https://archive.ics.uci.edu/dataset/2/adult)"
ADULT_FILES = (  # joined in this order
    RawFile(
        name="adult.test",
        url="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.test",
        sha256=("a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",),
        source=ADULT_SOURCE,
    ),
    RawFile(
        name="adult.data",
        url="https://archive.ics.uci.edu/ml/machine-learning-databases/adult/adult.data",
        sha256=("5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",),
        source=ADULT_SOURCE,
    ),
)
ADULT_TEST_SIZE, ADULT_SEED = 0.15, 42

ADULT_RAW = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)

# Of the rows without a `?`; a category's code is its place here, in sorted order.
ADULT_CATEGORIES = {
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
ADULT_HIGHEST = {"capital-gain": 99999, "capital-loss": 4356}

ADULT_BOUNDS: dict[str, tuple[float, float]] = {
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


def load_adult(data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Read and encode the raw files; 38,438 training rows and 6,784 test rows."""
    paths = [find_file(file, data_dir, download) for file in ADULT_FILES]
    # The test file opens with a line that starts with `|`, and its labels end in a full stop.
    tables = [read_table(path, ADULT_RAW.split(), header=None, comment="|", skipinitialspace=True) for path in paths]
    table = pd.concat(tables, ignore_index=True)
    table = table[~(table == "?").any(axis=1)].reset_index(drop=True)
    table["income"] = table["income"].str.rstrip(".")
    path = paths[0].parent  # of which file a row came is no longer known
    encoded = encode_columns(table, ADULT_BOUNDS, path, categories=ADULT_CATEGORIES)
    for column, highest in ADULT_HIGHEST.items():
        encoded[column] = bins(encoded[column], np.linspace(0, highest, 21)[1:-1])
    label = codes(table, "income", ["<=50K", ">50K"], path) == 1
    return assemble("adult", encoded, label, ADULT_BOUNDS, test_size=ADULT_TEST_SIZE, seed=ADULT_SEED)


# COMPAS: risk scores of defendants in Broward County, as ProPublica published and FairML prepared them.
#
# The label is the score itself: 1 where COMPAS says the risk of recidivism is medium or high.


COMPAS_FILE = RawFile(
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
COMPAS_TEST_SIZE, COMPAS_SEED = 0.2, 2025

COMPAS_RACES = ("African_American", "Asian", "Hispanic", "Native_American", "Other")  # none of them: white

COMPAS_BOUNDS: dict[str, tuple[float, float]] = {
    "Two_yr_Recidivism": (0, 1),
    "Number_of_Priors": (0, 38),
    "Age": (0, 1),  # 0 below 25
    "Race": (0, 1),  # 0 white
    "Female": (0, 1),
    "Misdemeanor": (0, 1),
}


def load_compas(data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Read and encode the raw file; 4,937 training rows and 1,235 test rows."""
    path = find_file(COMPAS_FILE, data_dir, download)
    flags = ("Two_yr_Recidivism", "score_factor", "Age_Below_TwentyFive", *COMPAS_RACES, "Female", "Misdemeanor")
    table = read_table(path, ["Number_of_Priors", *flags])
    encoded = {flag: codes(table, flag, ["0", "1"], path) for flag in flags}
    encoded["Number_of_Priors"] = whole_numbers(table, "Number_of_Priors", path)
    encoded["Age"] = 1 - encoded["Age_Below_TwentyFive"]
    encoded["Race"] = np.max([encoded[race] for race in COMPAS_RACES], axis=0)
    label = encoded["score_factor"] == 1
    return assemble("compas", encoded, label, COMPAS_BOUNDS, test_size=COMPAS_TEST_SIZE, seed=COMPAS_SEED)


# German: credit applicants of a German bank (UCI). The label is a good credit risk.


GERMAN_FILE = RawFile(
    name="german.data",
    url="https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/german.data",
    sha256=("b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",),
    source=(
        "the UCI Machine Learning Repository, data set 'Statlog (German Credit Data)' "
        "(https://archive.ics.uci.edu/dataset/144/statlog+german+credit+data)"
    ),
)
GERMAN_TEST_SIZE, GERMAN_SEED = 0.3, 42
GERMAN_OLDER = 26  # age is 1 from here on

GERMAN_RAW = (
    "status month credit_history purpose credit_amount savings employment investment_as_income_percentage "
    "personal_status other_debtors residence_since property age installment_plans housing number_of_credits "
    "skill_level people_liable_for telephone foreign_worker credit"
)

# A code is the place among the sorted groups: A13 ("200+") is 0, A11 and A12 ("<200") are 1, A14 is 2.
GERMAN_GROUPS = {
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
GERMAN_SEX = {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"}

# A code is the place here, in sorted order.
GERMAN_CATEGORIES = {
    "purpose": "A40 A41 A410 A42 A43 A44 A45 A46 A48 A49",
    "other_debtors": "A101 A102 A103",
    "property": "A121 A122 A123 A124",
    "installment_plans": "A141 A142 A143",
    "housing": "A151 A152 A153",
    "skill_level": "A171 A172 A173 A174",
    "telephone": "A191 A192",
    "foreign_worker": "A201 A202",
}

GERMAN_BOUNDS: dict[str, tuple[float, float]] = {
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
GERMAN_WIDER: dict[str, tuple[float, float]] = {"property": (0, 3)}


def load_german(data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Read and encode the raw file; 700 training rows and 300 test rows."""
    path = find_file(GERMAN_FILE, data_dir, download)
    table = read_table(path, GERMAN_RAW.split(), header=None, sep=" ")
    read = [column for column in GERMAN_BOUNDS if column != "sex"]
    encoded = encode_columns(table, read, path, categories=GERMAN_CATEGORIES, groups=GERMAN_GROUPS)
    encoded["sex"] = grouped(table, "personal_status", GERMAN_SEX, path)
    encoded["age"] = (encoded["age"] >= GERMAN_OLDER).astype("float32")
    label = codes(table, "credit", ["1", "2"], path) == 0
    return assemble(
        "german", encoded, label, GERMAN_BOUNDS, wider=GERMAN_WIDER, test_size=GERMAN_TEST_SIZE, seed=GERMAN_SEED
    )


# Bank: marketing calls of a Portuguese bank (UCI). The label is a subscribed term deposit.


BANK_FILE = RawFile(
    name="bank-full.csv",
    url="https://archive.ics.uci.edu/ml/machine-learning-databases/00222/bank.zip",
    sha256=("d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",),
    source=(
        "the UCI Machine Learning Repository, data set 'Bank Marketing' "
        "(https://archive.ics.uci.edu/dataset/222/bank+marketing)"
    ),
    zipped=True,
)
BANK_TEST_SIZE, BANK_SEED = 0.2, 1234

# A code is the place here, in sorted order.
BANK_CATEGORIES = {
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
BANK_MODES = {"job": "blue-collar", "education": "secondary", "contact": "cellular", "poutcome": "failure"}

# A bin is counted from 1 and includes its upper edge. All edges but those of age, day and month are the
# data's quartiles: for pdays and previous all three are the value that says "never called before", so that
# only bins 1 and 4 occur. Those of month go by its code: a bin is three neighbours in the alphabet.
BANK_EDGES: dict[str, tuple[float, ...]] = {
    "age": (25, 45, 65),
    "balance": (72, 448, 1428),
    "day": (10, 20),
    "month": (2, 5, 8),
    "duration": (103, 180, 319),
    "campaign": (1, 2, 3),
    "pdays": (-1, -1, -1),
    "previous": (0, 0, 0),
}

BANK_BOUNDS: dict[str, tuple[float, float]] = {
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


def load_bank(data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Read and encode the raw file; 36,168 training rows and 9,043 test rows."""
    path = find_file(BANK_FILE, data_dir, download)
    table = read_table(path, [*BANK_BOUNDS, "y"], sep=";")
    for column, mode in BANK_MODES.items():
        table[column] = table[column].replace("unknown", mode)
    encoded = encode_columns(table, BANK_BOUNDS, path, categories=BANK_CATEGORIES)
    for column, edges in BANK_EDGES.items():
        encoded[column] = bins(encoded[column], edges) + 1
    label = codes(table, "y", ["no", "yes"], path) == 1
    return assemble("bank", encoded, label, BANK_BOUNDS, test_size=BANK_TEST_SIZE, seed=BANK_SEED)


# Widths of the hidden layers, as in the paper.
HIDDEN = {"adult": (16, 8), "compas": (16, 8), "german": (50,), "bank": (64, 16)}

_BATCH = 128
_LEARNING_RATE = 0.005


def train_biased(
    dataset: Dataset,
    seed: int = 0,
    *,
    hidden: Sequence[int] | None = None,
    epochs: int = 20,
    progress: Callable[[str, int, int], None] | None = None,
) -> Network:
    """Return a ReLU network with one logit, trained on the dataset's training rows with Adam.

    It is trained on standardised inputs; the standardisation is then folded into the first layer, so that the network
    reads the encoded rows. The learning rate falls linearly to 0, and the same seed gives the same network.

    hidden    widths of the hidden layers; by default those of the paper for this data set
    progress  called with "train", the epochs done and the number of epochs
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, linear

    from fairmend.base.threads import few_threads
    from fairmend.repairing.training import Adam

    widths = _widths(dataset, hidden, epochs)
    X = dataset.X_train.astype(np.float64)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1.0
    inputs = torch.from_numpy(((X - mean) / deviation).astype(np.float32))
    labels = torch.from_numpy(dataset.y_train.astype(np.float32))

    random = torch.Generator().manual_seed(seed)
    # PyTorch's own initialisation: weights and biases uniform within 1/√inputs of 0.
    layers = [
        (torch.rand((after, before + 1), generator=random) * 2 - 1) / before**0.5 for before, after in pairwise(widths)
    ]
    flat = torch.cat([layer.flatten() for layer in layers]).requires_grad_()
    sizes = [layer.numel() for layer in layers]

    def affines() -> list[tuple[torch.Tensor, torch.Tensor]]:
        parts = zip(flat.split(sizes), layers, strict=True)  # type: ignore[no-untyped-call]
        tables = [part.view(layer.shape) for part, layer in parts]
        return [(table[:, :-1], table[:, -1]) for table in tables]

    optimizer = Adam(flat, _LEARNING_RATE)
    steps = epochs * -(-len(inputs) // _BATCH)
    with few_threads(_BATCH * max(sizes)):
        for epoch in range(epochs):
            for rows in torch.randperm(len(inputs), generator=random).split(_BATCH):  # type: ignore[no-untyped-call]
                *extractor, head = affines()
                values = inputs[rows]
                for weight, bias in extractor:
                    values = linear(values, weight, bias).relu()
                logits = linear(values, *head)[:, 0]
                binary_cross_entropy_with_logits(logits, labels[rows]).backward()  # type: ignore[no-untyped-call]
                optimizer.learning_rate = _LEARNING_RATE * (1 - optimizer.steps / steps)
                optimizer.step()
            if progress is not None:
                progress("train", epoch + 1, epochs)

    trained = [[array.detach().numpy().astype(np.float64) for array in affine] for affine in affines()]
    scaled, shift = trained[0]
    trained[0] = [scaled / deviation, shift - scaled @ (mean / deviation)]
    return Network(
        [Affine(weight, bias).astype(np.float32) for weight, bias in trained],
        [Activation("relu")] * (len(trained) - 1),
    )


def _widths(dataset: Dataset, hidden: Sequence[int] | None, epochs: int) -> list[int]:
    """Return the widths from the inputs to the logit; raise `FairmendError` if they cannot be trained."""
    if hidden is None:
        if dataset.name not in HIDDEN:
            raise FairmendError(
                f"the paper has no network for dataset {dataset.name!r}: say the widths, as in hidden=(16, 8)"
            )
        hidden = HIDDEN[dataset.name]
    if any(width < 1 for width in hidden):
        raise FairmendError(f"hidden layers of widths {tuple(hidden)}: each must be at least 1")
    if epochs < 1:
        raise FairmendError(f"epochs is {epochs}; it must be at least 1")
    if not len(dataset.X_train):
        raise FairmendError(f"dataset {dataset.name!r} has no rows to train on")
    return [dataset.X_train.shape[1], *hidden, 1]


_LOADERS = {"adult": load_adult, "compas": load_compas, "german": load_german, "bank": load_bank}
NAMES = tuple(_LOADERS)


def load(name: str, data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Load a data set by name from the folder with its raw files, `data_dir` or the environment variable FAIRMEND_DATA.

    Without a folder, the files come from the cache (FAIRMEND_CACHE, or the system's folder for caches). Missing files
    are downloaded into the cache, unless `download` is False; this needs the extra "bench". Files in the cache must
    have their published checksums.
    """
    if name not in _LOADERS:
        raise FairmendError(f"unknown dataset {name!r}; there are {', '.join(NAMES)}")
    return _LOADERS[name](data_dir, download)
