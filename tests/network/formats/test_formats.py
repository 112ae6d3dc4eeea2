"""What holds for every format: round trips, refusals of bad files, and saves that are whole or not at all."""

import contextlib
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fairmend.base.errors import FairmendError
from fairmend.network import Network, load_network
from fairmend.network.formats.suffixes import MODULES
from support.examples import examples
from support.strategies import networks, random_network

NAMED = (".pth", ".safetensors", ".onnx")  # these keep any name of a layer
KERAS = (".h5", ".keras")
SUFFIXES = (*NAMED, *KERAS)  # .nnet holds ReLU only: see test_nnet.py
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")


shared_folder = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("suffix", NAMED)
@examples(60, parent=shared_folder)
@given(network=networks())
def test_what_is_saved_loads_back_bit_equal(network, suffix, tmp_path):
    loads_back_bit_equal(network, tmp_path / f"model{suffix}")


@pytest.mark.parametrize("suffix", KERAS)
@examples(12, parent=shared_folder)  # an HDF5 file is read by a process of its own
@given(network=networks())
def test_what_is_saved_for_keras_loads_back_bit_equal(network, suffix, tmp_path):
    loads_back_bit_equal(network.astype(np.float32), tmp_path / f"model{suffix}")  # Keras rounds the inputs of others


def loads_back_bit_equal(network, path):
    network.save(path)
    back = load_network(path, activation="sigmoid")  # the file knows better
    assert (back.affines, back.activations, back.closing) == (network.affines, network.activations, network.closing)
    assert back == network or path.suffix not in NAMED
    X = np.random.default_rng(0).normal(size=(50, network.inputs))
    assert back.logits(X).tobytes() == network.logits(X).tobytes()
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("suffix", NAMED)
def test_names_and_order_survive_more_than_ten_layers(suffix, tmp_path):
    plain = random_network(np.random.default_rng(0), 4, [4] * 11, 4, "tanh")
    names = [f"z{i}" if i % 2 else f"a.{i}.fc" for i in range(12)]
    network = Network(plain.affines, plain.activations, "softmax", names)
    network.save(str(tmp_path / f"m{suffix.upper()}"))
    assert load_network(str(tmp_path / f"m{suffix.upper()}")) == network


@pytest.mark.parametrize("suffix", NAMED)
def test_a_single_layer_without_a_name_round_trips(suffix, tmp_path):
    network = Network(random_network(np.random.default_rng(0), 3, []).affines, [], names=[""])
    network.save(tmp_path / f"m{suffix}")
    assert load_network(tmp_path / f"m{suffix}") == network


NOT_A_MODEL = r"not a readable|holds a pickled object|ends in the middle of a line|instead of 4|not a \.nnet file"


@pytest.mark.parametrize("suffix", MODULES)
def test_bad_files_are_refused_with_the_reason(suffix, tmp_path):
    path = tmp_path / f"model{suffix}"
    with pytest.raises(FairmendError, match="no such file"):
        load_network(path)
    path.mkdir()
    with pytest.raises(FairmendError, match="is a folder"):
        load_network(path)
    path.rmdir()
    path.write_bytes(b"")
    with pytest.raises(FairmendError, match="is empty"):
        load_network(path)
    for content in (
        b"\x00" * 100,
        b"hello, I am text\n" * 20,
        b"\x80\x02}q\x00.",
        b"PK\x03\x04broken",
        b"\x08",
    ):
        path.write_bytes(content)
        with pytest.raises(FairmendError, match=NOT_A_MODEL):
            load_network(path)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".nnet"])
def test_truncated_and_flipped_files_never_raise_anything_else(suffix, tmp_path):
    path = tmp_path / f"model{suffix}"
    random_network(np.random.default_rng(0), 3, [4], 2).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    cuts, flips = (8, 16) if suffix == ".h5" else (40, 150)  # an HDF5 file is read by a process of its own
    for cut in rng.integers(1, len(whole), cuts):
        path.write_bytes(whole[:cut])
        with pytest.raises(FairmendError):
            load_network(path)
    for position in rng.integers(0, len(whole), flips):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 255]) + whole[position + 1 :])
        with contextlib.suppress(FairmendError):
            assert isinstance(load_network(path), Network)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".nnet"])
def test_a_failing_save_leaves_the_old_file_and_nothing_else(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"model{suffix}"
    random_network(np.random.default_rng(0), 3, [4]).save(path)
    before = path.read_bytes()

    def fail(*_args):
        raise OSError(28, "No space left on device")

    for step in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fail)
            with pytest.raises(FairmendError, match=r"cannot write: No space left"):
                random_network(np.random.default_rng(1), 3, [4]).save(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == [path.name]


def test_saving_where_nothing_can_be_saved_is_refused(tmp_path):
    network = random_network(np.random.default_rng(0), 1, [])
    with pytest.raises(FairmendError, match="cannot write: No such file"):
        network.save(tmp_path / "nowhere" / "m.onnx")
    (tmp_path / "d.onnx").mkdir()
    with pytest.raises(FairmendError, match="is a folder"):
        network.save(tmp_path / "d.onnx")


def test_a_link_is_written_through(tmp_path):
    network = random_network(np.random.default_rng(0), 1, [])
    (tmp_path / "link.pth").symlink_to(tmp_path / "real.pth")
    network.save(tmp_path / "link.pth")
    assert (tmp_path / "link.pth").is_symlink()
    assert load_network(tmp_path / "real.pth") == network
