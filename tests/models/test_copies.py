"""Copies in a lower precision: repaired, they are proven; of a repaired file, they are refused, and cannot leak."""

import numpy as np
import pytest

import fairmend
from fairmend.models.canonical import choose_map
from fairmend.models.repaired import RepairedModel
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certificate import certificate_of_classes
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


def require_equal_bits(path):
    """Raise an error if members of a class get other bits, or what the columns of sex and age hold changes any."""
    session = onnxruntime.InferenceSession(str(path))
    (name,) = (given.name for given in session.get_inputs())
    X, _ = people(500, seed=1)
    for rows in (X, X[:1], X[:7]):
        others = [counterparts(rows, seed) for seed in range(3)]
        for sex, age in ((np.nan, np.inf), (-np.inf, -0.0), (1e30, np.nan)):
            others.append(rows.copy())
            others[-1][:, 0], others[-1][:, 5] = sex, age
        own = session.run(None, {name: rows})[0]
        assert all(session.run(None, {name: other})[0].tobytes() == own.tobytes() for other in others)


@pytest.mark.parametrize("convert", [to_int8, to_float16])
def test_a_converted_model_is_repaired_for_everyone_bit_for_bit(convert, original, tmp_path):
    convert(original, tmp_path / "copy.onnx")
    _, certificate, model = repaired(tmp_path / "copy.onnx", tmp_path)
    checked = fairmend.check(certificate, model)
    assert checked.valid, checked.reasons
    require_equal_bits(model)


def test_a_copy_that_is_scaled_by_the_batch_is_refused(original, tmp_path):
    to_dynamic_int8(original, tmp_path / "copy.onnx")
    with pytest.raises(fairmend.FairmendError, match="scores people by who else is in the batch"):
        fairmend.load_model(tmp_path / "copy.onnx", outputs="logit").bind(SPEC)


@pytest.mark.parametrize("convert", [to_dynamic_int8, to_float16])
def test_a_copy_of_a_repaired_file_has_equal_bits_and_is_refused_with_the_way_out(convert, original, tmp_path):
    result, _, model = repaired(original, tmp_path)
    convert(model, tmp_path / "copy.onnx")
    require_refused(result.certificate, tmp_path / "copy.onnx")
    require_equal_bits(tmp_path / "copy.onnx")


def test_so_is_a_static_copy_of_a_repaired_file_that_reads_the_representative(original, tmp_path):
    base = fairmend.load_model(original, outputs="logit", spec=SPEC)
    model = RepairedModel(base, choose_map(SPEC, people(600)[0])).bind(SPEC)
    model.save(tmp_path / "model.onnx")
    to_int8(tmp_path / "model.onnx", tmp_path / "copy.onnx")
    certificate = certificate_of_classes(SPEC, model.exported[1].to_dict(), method="average")
    require_refused(certificate, tmp_path / "copy.onnx")
    require_equal_bits(tmp_path / "copy.onnx")


def require_refused(certificate, model):
    certificate.save(model.with_suffix(".json"), model)
    checked = fairmend.check(model.with_suffix(".json"), model)
    assert not checked.valid
    assert "convert the original instead, and repair what it gives" in checked.reasons[0]
