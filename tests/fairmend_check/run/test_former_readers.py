"""Files that once got a false VALID: the reader refuses them, and with that taken out, the run takes VALID away."""

import numpy as np
import pytest

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.readers.read_model import read_model
from fairmend_check.run.compare import installed_runtimes, run_model
from support.former_readers import FINDINGS, FORMER, former_reader

pytestmark = pytest.mark.runs_models

# The others need ONNX Runtime 1.18 to 1.29, or Keras on TensorFlow or JAX: see benchmarks/readers/second_attack.py.
CAUGHT_HERE = ("h5-frozen-sequential-with-its-last-layer-unfrozen.h5", "onnx-number-that-is-0-in-float32.onnx")


@pytest.mark.parametrize("name", FORMER)
def test_the_reader_refuses_them(name):
    with pytest.raises(CheckError):
        read_model(FINDINGS / name)
    with former_reader(name):
        read_model(FINDINGS / name)


@pytest.mark.parametrize("name", CAUGHT_HERE)
def test_without_the_refusal_the_run_catches_them(name):
    path = FINDINGS / name
    with former_reader(name):
        model, _ = read_model(path)
    rows = np.random.default_rng(0).uniform(-1, 1, (50, model.inputs)).astype(model.dtype).astype(np.float64)
    with pytest.raises(NotConfirmedError, match="does not compute the network that was checked"):
        run_model(path, model, rows, installed_runtimes(path.suffix)[-1])
