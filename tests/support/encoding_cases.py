"""A table with money, codes, unicode names and missing values, encodings of it, and a network that reads them."""

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, RobustScaler, StandardScaler

from fairmend.network import Network
from support.strategies import random_network

ROWS = 240
NUMBERS, TEXTS = ["Alter", "Guthaben"], ["Geschlecht", "Größe"]


def strangers(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "Kunde": np.arange(7000, 7000 + rows),
            "Alter": rng.integers(18, 80, rows).astype(float),
            "Geschlecht": rng.choice(["Frau", "Mann"], rows),
            "Guthaben": rng.integers(0, 90_000, rows),
            "Größe": rng.choice(["klein", "mittel", "groß"], rows, p=[0.5, 0.3, 0.2]).astype(object),
            "Stufe": rng.integers(1, 5, rows),
            "Ausfall": rng.choice(["ja", "nein"], rows),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "Alter"] = np.nan
    frame.loc[rng.random(rows) < 0.1, "Größe"] = np.nan
    return frame


def column_transformers():
    """Return common pipelines by name."""

    def fill(how, *more, **options):
        return make_pipeline(SimpleImputer(strategy=how, **options), *more)

    return {
        "standard": ColumnTransformer(
            [
                ("numbers", fill("median", StandardScaler()), [*NUMBERS, "Stufe"]),
                ("texts", OneHotEncoder(), TEXTS),
            ]
        ),
        "categories first": ColumnTransformer(
            [
                ("texts", OneHotEncoder(drop="first"), TEXTS),
                ("numbers", fill("mean", MinMaxScaler()), [*NUMBERS, "Stufe"]),
            ]
        ),
        "indicators": ColumnTransformer(
            [
                ("numbers", fill("median", StandardScaler(), add_indicator=True), [*NUMBERS, "Stufe"]),
                ("texts", fill("most_frequent", OneHotEncoder(drop="if_binary")), TEXTS),
            ]
        ),
        "codes": ColumnTransformer(
            [
                ("numbers", fill("mean", RobustScaler()), NUMBERS),
                ("texts", OrdinalEncoder(encoded_missing_value=-1), TEXTS),
                ("codes", OneHotEncoder(), ["Stufe"]),
            ]
        ),
    }


def ordered(order):
    """Return a pipeline that reads the columns in this order."""
    fill = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return ColumnTransformer([(name, OneHotEncoder() if name in TEXTS else fill, [name]) for name in order])


def matrix_of(transformer, frame, rows=None):
    """Return the encoded rows, with the transformer fitted on the first `rows`."""
    X = transformer.fit(frame.iloc[:rows]).transform(frame)
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


def network_for(X, seed=0) -> Network:
    return random_network(np.random.default_rng(seed), X.shape[1], [10])


def scores_for(net, X):
    """Return the scores that the model gives, as a column."""
    return net.probabilities(X.astype(np.float32)).astype(np.float64)[:, None]
