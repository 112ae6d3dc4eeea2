"""Raw files: the user's folder before the cache, the cache before the network, and nothing kept unchecked."""

import io
import sys
import zipfile
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import requests

from fairmend.base.errors import FairmendError
from fairmend.paper import datasets
from fairmend.paper.raw_files import assemble
from support.raw_rows import BANK_HEADER, GERMAN, TINY

FILES = [*datasets.ADULT_FILES, datasets.COMPAS_FILE, datasets.GERMAN_FILE, datasets.BANK_FILE]


class Served:
    """What `requests.get` gives for some bytes."""

    def __init__(self, content):
        self.content, self.headers = content, {"content-length": str(len(content))}

    def raise_for_status(self):
        pass

    def iter_content(self, chunk_size):
        return iter([self.content])


@pytest.fixture
def asked(monkeypatch):
    """The addresses asked for; nothing answers."""
    addresses = []

    def refuse(url, **options):
        addresses.append(url)
        raise requests.ConnectionError("no route to the host")

    monkeypatch.setattr(requests, "get", refuse)
    return addresses


@pytest.fixture
def cache(tmp_path, monkeypatch, asked):
    """An empty cache, no folder of the user's, and no network."""
    folder = tmp_path / "deep" / "cache"
    monkeypatch.setenv("FAIRMEND_CACHE", str(folder))
    monkeypatch.delenv("FAIRMEND_DATA", raising=False)
    return folder


def pin(monkeypatch, name):
    """Make the hand-made files of a dataset its published ones."""
    texts = TINY[name][0]

    def pinned(file):
        return replace(file, sha256=(sha256(texts[file.name].encode()).hexdigest(),))

    if name == "adult":
        monkeypatch.setattr(datasets, "ADULT_FILES", tuple(map(pinned, datasets.ADULT_FILES)))
    else:
        constant = f"{name.upper()}_FILE"
        monkeypatch.setattr(datasets, constant, pinned(getattr(datasets, constant)))


def serve(monkeypatch, content):
    monkeypatch.setattr(requests, "get", lambda url, **options: Served(content))


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "-") + ".csv", text)
    return buffer.getvalue()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", datasets.NAMES)
def test_files_in_the_cache_are_read_without_the_network(name, cache, asked, monkeypatch):
    pin(monkeypatch, name)
    cache.mkdir(parents=True)
    for file, text in TINY[name][0].items():
        (cache / file).write_bytes(text.encode())
    assert len(datasets.load(name).X_train) == len(datasets.load(name, download=False).X_train) == 1
    assert asked == []


def test_a_folder_of_the_users_comes_before_the_cache_and_is_the_only_place(cache, asked, tmp_path, monkeypatch):
    pin(monkeypatch, "german")
    cache.mkdir(parents=True)
    (cache / "german.data").write_bytes(GERMAN.encode())
    own, variable = tmp_path / "own", tmp_path / "variable"
    for folder, rows in ((own, 3), (variable, 4)):
        folder.mkdir()
        (folder / "german.data").write_bytes((GERMAN.splitlines()[0] + "\n").encode() * rows)

    def rows(*arguments):
        dataset = datasets.load("german", *arguments)
        return len(dataset.X_train) + len(dataset.X_test)

    assert rows() == 2
    monkeypatch.setenv("FAIRMEND_DATA", str(variable))
    assert rows() == 4
    assert rows(own) == 3
    (own / "german.data").unlink()
    with pytest.raises(FairmendError, match=r"'german\.data' is not in .*own"):
        datasets.load("german", own)
    assert asked == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_offline_the_message_says_where_to_get_the_file_and_where_to_put_it(file, cache, asked, monkeypatch):
    name = next(name for name, (texts, _) in TINY.items() if file.name in texts)
    if name == "adult":
        monkeypatch.setattr(datasets, "ADULT_FILES", (file,))
    for download, start in ((True, "could not be downloaded: no route to the host"), (False, "is not on this machine")):
        with pytest.raises(FairmendError) as caught:
            datasets.load(name, download=download)
        message = str(caught.value)
        assert message.startswith(f"{file.name!r} {start}. Get it from {file.source}, at {file.url}, and put it into ")
        assert str(cache) in message
        assert "--data-dir (data_dir in Python)" in message
        assert "FAIRMEND_DATA" in message
    assert asked == [file.url]
    assert names(cache) == []


def test_a_download_is_checked_kept_and_not_repeated(cache, monkeypatch, capfd):
    pin(monkeypatch, "german")
    serve(monkeypatch, GERMAN.encode())
    first = datasets.load("german")
    assert names(cache) == ["german.data"]
    assert capfd.readouterr() == ("", "")  # no terminal, no bar
    serve(monkeypatch, b"")
    assert datasets.load("german").X_train.tolist() == first.X_train.tolist()


def test_a_download_into_a_terminal_shows_a_bar(cache, monkeypatch, capfd):
    pin(monkeypatch, "german")
    serve(monkeypatch, GERMAN.encode())
    monkeypatch.setenv("FORCE_COLOR", "1")
    datasets.load("german")
    printed, shown = capfd.readouterr()
    assert printed == ""
    assert "german.data" in shown


def test_a_file_within_an_archive_is_taken_out_and_checked(cache, monkeypatch):
    pin(monkeypatch, "bank")
    text = TINY["bank"][0]["bank-full.csv"]
    serve(monkeypatch, zipped(bank="other", bank_full=text))
    assert len(datasets.load("bank").X_train) == 1
    assert names(cache) == ["bank-full.csv"]
    assert (cache / "bank-full.csv").read_bytes() == text.encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped(bank_full="age;job\n"), "'bank-full.csv' is not the published file: its SHA-256 is .*, not d1513"),
        (zipped(bank="age;job\n"), "'bank-full.csv' could not be downloaded: .*no item named 'bank-full.csv'"),
        (b"<html>moved</html>", "'bank-full.csv' could not be downloaded: File is not a zip file"),
    ],
    ids=["another file", "no such file", "no archive"],  # an archive contains the time
)
def test_an_archive_with_something_else_in_it_is_refused_and_not_kept(content, message, cache, monkeypatch):
    serve(monkeypatch, content)
    with pytest.raises(FairmendError, match=message):
        datasets.load("bank")
    assert names(cache) == []


def test_a_download_with_another_checksum_is_refused_and_not_kept(cache, monkeypatch):
    serve(monkeypatch, GERMAN.encode())
    found = sha256(GERMAN.encode()).hexdigest()
    with pytest.raises(FairmendError, match=rf"sent for 'german\.data' .*SHA-256 is {found}, not b21f3d81.*not kept"):
        datasets.load("german")
    assert names(cache) == []


def test_a_changed_file_in_the_cache_is_refused_by_name(cache, asked):
    cache.mkdir(parents=True)
    (cache / "german.data").write_bytes(GERMAN.encode())
    with pytest.raises(FairmendError, match=r"german\.data: is not the published file: its SHA-256 is .* Delete it"):
        datasets.load("german")
    assert asked == []


def test_the_cache_is_the_systems_unless_said_otherwise(monkeypatch):
    monkeypatch.delenv("FAIRMEND_CACHE", raising=False)
    from fairmend.paper.raw_files import cache_folder

    assert "fairmend" in cache_folder().parts


def test_the_pinned_checksums_are_those_of_the_reference_files(shared):
    for file in FILES:
        content = (shared / "data" / file.name).read_bytes()
        lines = b"".join(line + b"\n" for line in content.splitlines())
        assert file.sha256[0] == sha256(content).hexdigest()
        assert all(other == sha256(lines).hexdigest() for other in file.sha256[1:])


def test_the_real_files_load_from_the_cache(shared, monkeypatch, asked):
    monkeypatch.setenv("FAIRMEND_CACHE", str(shared / "data"))
    monkeypatch.delenv("FAIRMEND_DATA", raising=False)
    assert len(datasets.load("compas").X_train) == 4937
    assert asked == []


def test_a_download_without_pooch_names_the_extra(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(
        FairmendError, match=r"needs the package pooch of the extra bench\. Run pip install 'fairmend\["
    ):
        datasets.load("german")
    monkeypatch.delenv("FAIRMEND_CACHE")
    with pytest.raises(FairmendError, match="--data-dir"):
        datasets.load("german", download=False)


def test_files_in_a_folder_need_no_pooch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    (tmp_path / "german.data").write_bytes(GERMAN.encode())
    assert len(datasets.load("german", tmp_path).X_train) == 1


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
    for table in (datasets.ADULT_CATEGORIES, datasets.BANK_CATEGORIES, datasets.GERMAN_CATEGORIES):
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
