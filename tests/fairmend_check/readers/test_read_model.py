"""Model files of every format: the weights that fairmend saved, bit by bit, and no damaged file is valid."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given

import fairmend
from fairmend.prove.certificate import identify
from fairmend.prove.certificate import weights_digest as their_digest
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers.read_model import FORMATS, read_model
from support.checker_cases import SUFFIXES, answer, case
from support.examples import examples
from support.strategies import networks


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks())
def test_every_format_gives_the_same_weights(network, tmp_path):
    plain = all(activation.name == "relu" for activation in network.activations)
    keras = ["h5", "keras"] if network.dtype == np.float32 else []  # fairmend writes no others
    for suffix in ("onnx", "pth", "safetensors", *keras, *(["nnet"] if plain else [])):
        network.save(tmp_path / f"model.{suffix}")
        model, _ = read_model(tmp_path / f"model.{suffix}", identify(network)["network"])
        assert weights_digest(model) == their_digest(network)
        for own, affine in zip(model.layers, network.affines, strict=True):
            assert np.array_equal(own.weight, affine.weight)
            assert np.array_equal(own.bias, affine.bias)


@pytest.mark.parametrize("suffix", ["onnx", "pth", "safetensors", "h5", "keras", "nnet"])
def test_damaged_model_files(suffix, tmp_path):
    certificate, model = case().save(tmp_path, suffix)
    whole = model.read_bytes()
    rng = np.random.default_rng(3)
    other = tmp_path / f"damaged.{suffix}"
    for length in rng.integers(0, len(whole), 40):
        other.write_bytes(whole[:length])
        answer(certificate, other)
    for _ in range(300):
        changed = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        other.write_bytes(bytes(changed))
        report = fairmend.check(certificate, other)  # valid only where the byte means nothing
        assert not any("the check failed" in reason for reason in report.reasons), report.reasons


def test_the_formats_that_are_named_are_those_that_are_read(tmp_path):
    named = FORMATS.replace(" or ", ", ").split(", ")
    other = ["ckpt", "pt2"]  # which fairmend writes only to such a file
    assert sorted(named) == sorted(f".{suffix}" for suffix in (*SUFFIXES, *other))
    (tmp_path / "model.pkl").write_bytes(b"")
    with pytest.raises(CheckError, match=r"model model\.pkl: this format cannot be checked\. Save the model as \.onnx"):
        read_model(tmp_path / "model.pkl")
