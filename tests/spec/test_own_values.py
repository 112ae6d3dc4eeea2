"""People are shown as they stand in the data; what is imputed is marked; other numbers are as short as they can be."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairmend.auditing.run import audit
from fairmend.spec import Feature, Spec
from fairmend.spec.own_values import OwnValues, shortest_values, user_values
from support.cli_case import Case, run, small_network, small_people, small_spec


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [{"mean": 5178.3, "std": 2912.7}, {"min": -3.0, "max": 10_000.0}, None])
def test_numbers_are_the_shortest_that_are_encoded_to_the_same(dtype, scale):
    feature = Feature("x", "continuous", range=(-3, 10_000), scale=scale)
    written = np.array([0, 34.7, -2.5, 1234.56, 10_000, 0.1, 7])
    x = feature.scaled(written).astype(dtype)
    found = shortest_values(feature, x[:, None])
    assert (feature.scaled(np.array(found)).astype(dtype) == x).all()
    assert all(len(f"{value:.17g}") <= 7 or value == w for value, w in zip(found, written, strict=True))
    assert found[:2] == [0, 34.7]


def test_a_number_that_no_short_one_means_stays():
    feature = Feature("x", "continuous", range=(0, 1))
    (found,) = shortest_values(feature, np.array([[1e-30]], np.float32))
    assert found == pytest.approx(1e-30, rel=1e-6)


def with_gaps(rows=200):
    """Return people of whom every third has no income, and a spec that imputes it."""
    people = small_people(rows)
    people.loc[::3, "income"] = np.nan
    spec = small_spec()
    features = [replace(f, missing=85.5) if f.name == "income" else f for f in spec.features]
    return people, Spec(features, spec.label)


def test_values_are_those_of_the_data_and_none_where_they_are_imputed():
    people, spec = with_gaps()
    X = spec.encode(people)
    own = OwnValues(spec, people, X.dtype)
    values = user_values(spec, X, own)
    assert values["income"] == people["income"].astype(object).where(people["income"].notna(), None).tolist()
    assert values["age"] == people["age"].tolist()
    moved = X.copy()
    moved[:, spec.columns("income")] += np.float32(0.25)
    assert None not in user_values(spec, moved, own)["income"]


def test_pairs_of_a_data_frame_are_its_rows():
    people, spec = with_gaps()
    result = audit(small_network(), spec, people)
    assert result.pairs
    for pair in result.pairs:
        row = people.iloc[pair.row]
        stated = {name: None if pd.isna(row[name]) else row[name] for name in pair.values}
        assert pair.values == stated
        assert pair.imputed == ({"income": 85.5} if pd.isna(row["income"]) else {})


def test_an_audit_of_a_file_shows_its_rows_in_json_csv_and_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = Case(tmp_path)
    people, spec = with_gaps()
    people.to_csv(case.data, index=False)
    spec.save(case.spec)
    done = run("audit", case.model, "--spec", case.spec, "--data", case.data, "--json", "--out", "pairs.csv")
    assert done.exit_code == 1, done.output
    read = pd.read_csv(case.data)
    pairs = json.loads(done.stdout)["pairs"]
    for pair in pairs:
        row = read.iloc[pair["row"] - 2]
        assert all(
            pd.isna(row[name]) if value is None else row[name] == value for name, value in pair["values"].items()
        )
        assert list(pair["imputed"]) == [name for name, value in pair["values"].items() if value is None]
    table = pd.read_csv("pairs.csv")
    names = [f.name for f in spec.features]
    pd.testing.assert_frame_equal(table[names], read.iloc[table["row"] - 2][names].reset_index(drop=True))
    assert (table["imputed"].astype(object).fillna("") == np.where(table["income"].isna(), "income = 85.5", "")).all()
    assert set(table["answer"]) == {"yes", "not yes"}
    shown = json.loads((tmp_path / "fairmend-audit" / "result.json").read_text())["page"]["pairs"]
    place = shown["columns"].index("income")
    for pair in shown["rows"]:
        income = read["income"].iloc[pair["row"] - 2]
        assert pair["values"][place] == ("85.5 (imputed)" if pd.isna(income) else f"{income:.6g}")


def test_the_rows_are_right_if_some_are_left_out_and_in_many_slices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = Case(tmp_path)
    people, spec = with_gaps()
    people.loc[5::7, "age"] = 120  # out of range
    case.data.unlink()
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(4):
        people.iloc[number * 50 : (number + 1) * 50].to_csv(parts / f"{number}.csv", index=False)
    options = ["--data", parts, "--json", "--no-report", "--out", "pairs.csv", "--out-of-range", "skip"]
    spec.save(case.spec)
    done = run("audit", case.model, "--spec", case.spec, *options)
    table, names = pd.read_csv("pairs.csv"), [f.name for f in spec.features]
    assert len(table)
    assert (table["row"] == 2 + people.index[table["row"] - 2]).all()
    expected = people.iloc[table["row"] - 2][names].reset_index(drop=True)
    pd.testing.assert_frame_equal(table[names], expected, check_dtype=False)
    for pair in json.loads(done.stdout)["pairs"]:
        row = people.iloc[pair["row"] - 2]
        assert all(
            pd.isna(row[name]) if value is None else row[name] == value for name, value in pair["values"].items()
        )
