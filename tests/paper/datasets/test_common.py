"""The reference arrays decide: an encoder is right when it reproduces them from the raw files."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.paper import datasets
from fairmend.paper.datasets import adult, bank, german
from fairmend.paper.datasets._common import assemble
from support.raw_rows import BANK_HEADER, GERMAN, TINY

PROTECTED = {"adult": {}, "bank": {}, "german": {}, "compas": {"sex": "Female", "race": "Race", "age": "Age"}}
TOLERANCE = {"A1": {"hours-per-week": 1}, "B1": {"duration": 1}, "G1": {"credit_amount": 100}}


def write(folder, name):
    for file, text in TINY[name][0].items():
        (folder / file).write_text(text, encoding="utf-8")


@pytest.fixture(params=datasets.NAMES)
def dataset(request, shared):
    return datasets.load(request.param, shared / "data")


def test_the_raw_files_give_exactly_the_reference_arrays(dataset, shared):
    with np.load(shared / "reference" / "processed" / f"{dataset.name}.npz") as reference:
        assert list(dataset.columns) == reference["columns"].tolist()
        for name in ("X_train", "y_train", "X_test", "y_test", "bounds"):
            found = getattr(dataset, name)
            assert found.dtype == reference[name].dtype
            np.testing.assert_array_equal(found, reference[name], strict=True)


def test_every_row_lies_within_the_spec(dataset):
    spec = dataset.spec(protected=[dataset.columns[0]])
    rows = np.concatenate([dataset.X_train, dataset.X_test])
    np.testing.assert_array_equal(spec.as_inputs(rows), rows)  # refuses what is out of range
    wider = (dataset.ranges != dataset.bounds).any(axis=1)
    assert [name for name, w in zip(dataset.columns, wider, strict=True) if w] == (
        ["property"] if dataset.name == "german" else []
    )


def test_the_specs_give_the_reference_neighbourhoods(shared):
    settings = sorted((shared / "reference" / "splits").glob("*.npz"))
    assert len(settings) == 22
    loaded = {name: datasets.load(name, shared / "data") for name in datasets.NAMES}
    for path in settings:
        name, protected, *tolerance = path.stem.split("-")
        dataset = loaded[name]
        spec = dataset.spec(
            [PROTECTED[name].get(word, word) for word in protected.split("+")],
            TOLERANCE[tolerance[0]] if tolerance else None,
        )
        with np.load(path) as split:
            X, lower, upper = split["X_r"], split["lower"], split["upper"]
        regions = spec.regions(X)
        if tolerance and name == "german":  # there the original cut property off at 2
            column = dataset.columns.index("property")
            lower[:, column] = upper[:, column] = X[:, column]
        np.testing.assert_array_equal(regions.lower, lower, err_msg=path.stem)
        np.testing.assert_array_equal(regions.upper, upper, err_msg=path.stem)


@pytest.mark.parametrize("name", datasets.NAMES)
def test_hand_made_rows_are_encoded_by_the_rules(name, tmp_path, monkeypatch):
    write(tmp_path, name)
    monkeypatch.setenv("FAIRMEND_DATA", str(tmp_path))
    dataset = datasets.load(name)
    rows = np.column_stack(
        [
            np.concatenate([dataset.X_train, dataset.X_test]),
            np.concatenate([dataset.y_train, dataset.y_test]),
        ]
    )
    assert sorted(rows.tolist()) == sorted(TINY[name][1])
    assert len(dataset.X_test) == 1
    assert repr(dataset).startswith(f"Dataset({name}: 1 rows to train")


@pytest.mark.parametrize(("rows", "size", "seed"), [(10, 0.15, 42), (101, 0.2, 2025), (1000, 0.3, 42)])
def test_the_split_is_that_of_scikit_learn(rows, size, seed):
    selection = pytest.importorskip("sklearn.model_selection")
    train, test = selection.train_test_split(np.arange(rows), test_size=size, random_state=seed)
    numbered = {"row": np.arange(rows, dtype=np.float32)}
    found = assemble("rows", numbered, np.ones(rows, bool), {"row": (0, rows)}, test_size=size, seed=seed)
    assert found.X_train[:, 0].tolist() == train.tolist()
    assert found.X_test[:, 0].tolist() == test.tolist()


def test_categories_are_coded_in_sorted_order():
    for table in (adult.CATEGORIES, bank.CATEGORIES, german.CATEGORIES):
        for names in table.values():
            assert names.split() == sorted(set(names.split()))


def test_a_spec_has_what_was_asked_of_it(tmp_path):
    write(tmp_path, "german")
    dataset = datasets.load("german", tmp_path)
    spec = dataset.spec(["sex", "age"], {"credit_amount": 100})
    features = {feature.name: feature for feature in spec.features}
    assert tuple(features) == dataset.columns
    assert [feature.name for feature in spec.protected] == ["age", "sex"]
    assert features["credit_amount"].tolerance == 100
    assert features["month"].tolerance == 0
    assert tuple(features["property"].range) == (0, 3)
    assert tuple(features["credit_amount"].range) == (0, 20000)
    assert {feature.kind for feature in spec.features} == {"integer"}
    assert dataset.spec("sex").protected == dataset.spec(["sex"]).protected
    with pytest.raises(FairmendError, match="no feature 'gender'; it has status"):
        dataset.spec(["gender"])
    with pytest.raises(FairmendError, match="no feature 'amount'"):
        dataset.spec(["sex"], {"amount": 1})


@pytest.mark.parametrize(
    ("name", "file", "place"),
    [
        ("adult", "adult.test", "UCI"),
        ("compas", "propublica_data_for_fairml.csv", "ProPublica"),
        ("german", "german.data", "UCI"),
        ("bank", "bank-full.csv", "UCI"),
    ],
)
def test_an_absent_file_is_named_with_where_to_get_it(name, file, place, tmp_path, monkeypatch):
    with pytest.raises(FairmendError, match=f"'{file}' is not in .*{place}.* put it there"):
        datasets.load(name, tmp_path)
    monkeypatch.setenv("FAIRMEND_DATA", str(tmp_path))
    with pytest.raises(FairmendError, match=f"'{file}' is not in .*{place}.* put it there"):
        datasets.load(name)


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(FairmendError, match="adult, compas, german, bank"):
        datasets.load("census")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GERMAN.replace("A410", "A47"), "row 0 has 'A47' for 'purpose'; expected one of A40"),
        (GERMAN.replace("A13", "A15"), "row 1 has 'A15' for 'status'; expected one of A11"),
        (GERMAN.replace(" 48 ", " x "), "row 1 has 'x' for 'month'; expected a whole number"),
        (GERMAN.replace(" 48 ", " 4.5 "), "row 1 has '4.5' for 'month'; expected a whole number"),
        (GERMAN.replace(" 48 ", " 99 "), "row 1 has 99 for 'month', which ranges from 0 to 80"),
        ("A11 6\n", "has 2 columns, not 21"),
        ("", "cannot be read as a table"),
    ],
)
def test_a_broken_file_is_named_with_the_cell(text, message, tmp_path):
    (tmp_path / "german.data").write_text(text, encoding="utf-8")
    with pytest.raises(FairmendError, match=message):
        datasets.load("german", tmp_path)


def test_a_file_without_its_columns_or_rows_is_refused(tmp_path):
    file = tmp_path / "bank-full.csv"
    file.write_text("age;job\n1;2\n", encoding="utf-8")
    with pytest.raises(FairmendError, match="no column 'marital'; it has age, job"):
        datasets.load("bank", tmp_path)
    file.write_text(BANK_HEADER, encoding="utf-8")
    with pytest.raises(FairmendError, match="has no rows"):
        datasets.load("bank", tmp_path)
    file.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(FairmendError, match="cannot be read"):
        datasets.load("bank", tmp_path)
