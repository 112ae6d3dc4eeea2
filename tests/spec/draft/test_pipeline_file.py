"""Pipelines from files: .skops is read without running code, pickles only if the user trusts them."""

import pickle

import joblib
import pytest
from sklearn.preprocessing import StandardScaler

from fairmend.spec.draft.pipeline_file import read_pipeline
from support.pipeline_cases import people
from support.spec_cases import refused


@pytest.fixture
def scaler():
    return StandardScaler().fit(people()[["age", "income"]])


def test_a_skops_file_is_read(scaler, tmp_path):
    from skops import io

    io.dump(scaler, tmp_path / "scaler.skops")
    found, warnings = read_pipeline(tmp_path / "scaler.skops")
    assert found.mean_.tolist() == scaler.mean_.tolist()
    assert warnings == []


@pytest.mark.parametrize("name", ["scaler.joblib", "scaler.pkl", "scaler.pickle"])
def test_a_pickle_is_read_only_if_it_is_trusted(scaler, tmp_path, name):
    joblib.dump(scaler, tmp_path / name)
    with refused(name, "can run any code", "--trust-pickle"):
        read_pipeline(tmp_path / name)
    assert read_pipeline(tmp_path / name, trust_pickle=True)[0].mean_.tolist() == scaler.mean_.tolist()


def test_a_pickle_that_is_not_trusted_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "boom"), "w"))

    (tmp_path / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    with refused("--trust-pickle"):
        read_pipeline(tmp_path / "bomb.pkl")
    assert not (tmp_path / "boom").exists()


def test_other_files_are_refused(tmp_path):
    with refused("people.csv", "Pass a .skops"):
        read_pipeline(tmp_path / "people.csv")
    with refused("absent.skops: no such file"):
        read_pipeline(tmp_path / "absent.skops")
    (tmp_path / "folder.skops").mkdir()
    with refused("is a folder"):
        read_pipeline(tmp_path / "folder.skops")
    (tmp_path / "bad.skops").write_bytes(b"no archive")
    with refused("bad.skops: not a readable .skops file", "Save it again"):
        read_pipeline(tmp_path / "bad.skops")
