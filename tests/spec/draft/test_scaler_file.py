"""Scales come from a fitted scaler saved with skops, or from its parameters as JSON; nothing else is opened."""

import json

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from fairmend.spec.draft.scaler_file import read_scales
from fairmend.spec.validation import scale_parameters
from support.encoding_cases import NUMBERS, column_transformers, strangers
from support.spec_cases import refused

PEOPLE = strangers()
RAW = PEOPLE[NUMBERS].fillna(40)


def written(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), MinMaxScaler((-1, 1)), RobustScaler()])
@pytest.mark.parametrize("named", [True, False])
def test_a_scaler_is_read_with_skops(tmp_path, scaler, named):
    io = pytest.importorskip("skops.io")
    fitted = scaler.fit(RAW if named else RAW.to_numpy())
    io.dump(fitted, tmp_path / "scaler.skops")
    scales, _ = read_scales(tmp_path / "scaler.skops", NUMBERS)
    for name, expected in zip(NUMBERS, fitted.transform(RAW if named else RAW.to_numpy()).T, strict=True):
        offset, factor = scale_parameters(scales[name])
        np.testing.assert_allclose((RAW[name] - offset) / factor, expected)


def test_a_column_transformer_gives_the_scales_of_its_numbers(tmp_path):
    io = pytest.importorskip("skops.io")
    io.dump(column_transformers()["standard"].fit(PEOPLE), tmp_path / "all.skops")
    scales, _ = read_scales(tmp_path / "all.skops", NUMBERS)
    assert scales.keys() == {"Alter", "Guthaben", "Stufe"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"Alter": {"mean": 40, "std": 10}}, {"Alter": {"mean": 40, "std": 10}}),
        ({"Alter": {"min": 18, "max": 80}}, {"Alter": {"min": 18, "max": 80}}),
        ({"mean_": [40, 5], "scale_": [10, 2]}, {"Alter": {"mean": 40, "std": 10}, "Guthaben": {"mean": 5, "std": 2}}),
        ({"columns": ["b"], "center_": [4], "scale_": [2]}, {"b": {"mean": 4, "std": 2}}),
        ({"feature_names_in_": ["b"], "data_min_": [4], "data_max_": [6]}, {"b": {"min": 4, "max": 6}}),
        ({"columns": ["b"], "min_": [-2], "scale_": [0.5]}, {"b": {"mean": 4, "std": 2}}),
    ],
)
def test_parameters_are_read_from_json(tmp_path, content, expected):
    assert read_scales(written(tmp_path / "scaler.json", content), NUMBERS) == (expected, [])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["not valid JSON"]),
        ({}, ["has no scales"]),
        ([1], ["has no scales"]),
        ({"mean_": [1], "scale_": [2]}, ["scales of 1 columns, but there are 2 names", '"columns"']),
        ({"mean_": [1, 2], "scale_": [2]}, ["lists of the same length"]),
        ({"mean_": [1, 2]}, ["no scale that fairmend knows", "mean_ and scale_"]),
        ({"mean_": [1, 2], "scale_": [1, 0]}, ["must be above 0"]),
        ({"mean_": [1, "x"], "scale_": [1, 1]}, ["mean_ must be a finite number"]),
    ],
)
def test_what_is_no_scaler_is_refused(tmp_path, content, words):
    with refused("scaler.json", *words):
        read_scales(written(tmp_path / "scaler.json", content), NUMBERS)


def test_a_pickle_is_not_opened(tmp_path):
    with refused("scaler.pkl", "Pass a .skops or .json file"):
        read_scales(tmp_path / "scaler.pkl", NUMBERS)
    with refused("scaler.json", "cannot read"):
        read_scales(tmp_path / "scaler.json", NUMBERS)
