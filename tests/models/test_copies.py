"""Copies in a lower precision: repaired, they are proven; of a repaired file, they are refused."""

import numpy as np
import pytest

import fairmend
from fairmend.network import Activation, Affine, Network
from support.canonical_cases import SPEC, counterparts, people

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")


class _Rows(quantization.CalibrationDataReader):
    def __init__(self, source):
        name = onnxruntime.InferenceSession(str(source)).get_inputs()[0].name
        self.batches = iter([{name: people(200, seed=2)[0]}])

    def get_next(self):
        return next(self.batches, None)


def to_int8(source, target):
    quantization.quantize_static(str(source), str(target), _Rows(source))


def to_dynamic_int8(source, target):
    quantization.quantize_dynamic(str(source), str(target))


def to_float16(source, target):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(str(source)), keep_io_types=True), str(target))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A network, which is only run."""
    path = tmp_path_factory.mktemp("copies") / "original.onnx"
    rng = np.random.default_rng(0)
    sizes = [(16, 8), (16, 16), (1, 16)]
    layers = [Affine(rng.normal(size=size).astype(np.float32), np.zeros(size[0], np.float32)) for size in sizes]
    Network(layers, [Activation("relu")] * 2).save(path)
    return path


def repaired(path, folder):
    X, y = people(600)
    model = fairmend.load_model(path, outputs="logit")
    result = fairmend.repair(model, SPEC, X[:50], X[50:300], y[50:300], method="average")
    result.network.save(folder / "model.onnx")
    result.certificate.save(folder / "certificate.json", folder / "model.onnx")
    return result, folder / "certificate.json", folder / "model.onnx"


@pytest.mark.parametrize("convert", [to_int8, to_float16])
def test_a_converted_model_is_repaired_for_everyone_bit_for_bit(convert, original, tmp_path):
    convert(original, tmp_path / "copy.onnx")
    _, certificate, model = repaired(tmp_path / "copy.onnx", tmp_path)
    checked = fairmend.check(certificate, model)
    assert checked.valid, checked.reasons
    session = onnxruntime.InferenceSession(str(model))
    X, _ = people(500, seed=1)
    for rows in (X, X[:1], X[:7]):
        own = session.run(None, {session.get_inputs()[0].name: rows})[0]
        for seed in range(3):
            assert (
                session.run(None, {session.get_inputs()[0].name: counterparts(rows, seed)})[0].tobytes()
                == own.tobytes()
            )
        broken = rows.copy()
        broken[:, 0], broken[:, 5] = np.nan, np.inf  # sex and age are cut
        assert (
            session.run(None, {session.get_inputs()[0].name: broken})[0].tobytes()
            == session.run(None, {session.get_inputs()[0].name: rows})[0].tobytes()
        )


def test_a_copy_that_is_scaled_by_the_batch_is_refused(original, tmp_path):
    to_dynamic_int8(original, tmp_path / "copy.onnx")
    with pytest.raises(fairmend.FairmendError, match="scores people by who else is in the batch"):
        fairmend.load_model(tmp_path / "copy.onnx", outputs="logit").bind(SPEC)


@pytest.mark.parametrize("convert", [to_dynamic_int8, to_float16])
def test_a_copy_of_a_repaired_file_is_refused_with_the_way_out(convert, original, tmp_path):
    result, _, model = repaired(original, tmp_path)
    convert(model, tmp_path / "copy.onnx")
    result.certificate.save(tmp_path / "copy.json", tmp_path / "copy.onnx")
    checked = fairmend.check(tmp_path / "copy.json", tmp_path / "copy.onnx")
    assert not checked.valid
    assert "convert the original instead, and repair what it gives" in checked.reasons[0]
