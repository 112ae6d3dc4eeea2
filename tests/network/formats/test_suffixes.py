"""Suffixes: each has a module that reads and writes; other files and folders are refused with the way out."""

import os

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.network.formats.suffixes import MODULES, format_module
from support.strategies import random_network

# Models in memory: what holds no network is refused with the way to get a network from it.


def test_objects_that_hold_no_network_are_refused_by_type():
    with pytest.raises(FairmendError, match=r"from dict; give the path .* nn\.Module"):
        load_network({})


def test_a_classifier_without_probabilities_is_a_network_of_one_layer_for_its_decisions():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = RidgeClassifier().fit(X, X[:, 0] > 0.3)
    with pytest.raises(FairmendError) as caught:
        load_network(model)
    written = str(caught.value).split("one layer: ")[1]
    network = eval(written, {"fairmend": fairmend, "numpy": np, "model": model})
    assert (network.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("suffix", MODULES)
def test_every_suffix_has_a_module_that_reads_and_writes(suffix, tmp_path):
    module = format_module(tmp_path / f"MODEL{suffix.upper()}", "read")
    assert callable(module.read)
    assert callable(module.to_bytes)
    assert module is format_module(tmp_path / f"m{suffix}", "write")


@pytest.mark.parametrize("name", ["model.txt", "model", "model.pkl"])
def test_unknown_suffixes_are_refused_by_name(name, tmp_path):
    network = random_network(np.random.default_rng(0), 1, [])
    for act in (lambda: load_network(tmp_path / name), lambda: network.save(tmp_path / name)):
        with pytest.raises(FairmendError, match=r"supported: .*\.onnx"):
            act()
    assert os.listdir(tmp_path) == []


def test_a_pickle_is_not_read_and_the_way_round_is_named(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(b"\x80\x04.")
    with pytest.raises(FairmendError, match=r'Pickles can run any code.*load_network\(joblib.load\("model.pkl"\)\)'):
        load_network(path)


def test_what_to_write_for_a_skops_file_is_what_reads_it(tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    skops.io.dump(LogisticRegression().fit([[0.0], [1.0], [2.0]], [0, 0, 1]), path)
    with pytest.raises(FairmendError) as caught:
        load_network(path)
    monkeypatch.chdir(tmp_path)
    exec(str(caught.value).split("In Python: ")[1], {"fairmend": fairmend, "skops": skops})
    assert load_network("model.onnx").inputs == 1


def test_a_saved_model_folder_is_named(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(FairmendError, match=r'TensorFlow SavedModel.*model\.save\("model\.keras"\).*tf2onnx') as caught:
        load_network(tmp_path)
    assert "suffix" not in str(caught.value)
    with pytest.raises(FairmendError, match=r'\.pb.*model\.save\("model\.keras"\)'):
        load_network(tmp_path / "saved_model.pb")


def test_the_model_in_another_folder_is_named(tmp_path):
    with pytest.raises(FairmendError, match=r"is a folder; give the model file in it$"):
        load_network(tmp_path)
    (tmp_path / "best.onnx").touch()
    with pytest.raises(FairmendError, match=r"give the model file in it, for example best\.onnx$"):
        load_network(tmp_path)
