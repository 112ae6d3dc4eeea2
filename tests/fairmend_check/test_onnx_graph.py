"""Chains of ONNX nodes: read as fairmend reads them and as ONNX Runtime runs them, or refused."""

import numpy as np
import pytest

from fairmend.network import load_network
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend_check import onnx_chain
from fairmend_check.errors import CheckError
from fairmend_check.model import weights_digest
from fairmend_check.read_model import read_model
from support.onnx_files import A, W, X, node, runtime, save

GEMM, LAST = node("Gemm", "x w b", "p"), node("Gemm", "q v c")
REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}
NORM = {
    "g": np.float32([1, -2, 3]),
    "s": np.float32([0, 1, 2]),
    "m": np.float32([5, 0, -1]),
    "r": np.float32([1, 2, 4]),
}
ROW = {"k": np.float32([0.5, -1, 2, 4])}
CHAINS = {
    "batch norm": ([GEMM, node("BatchNormalization", "p g s m r", "q", epsilon=0.5), LAST], NORM),
    "scaled input": ([node("Sub", "x k", "t"), node("Div", "t k", "u"), node("Gemm", "u w b", "q"), LAST], ROW),
    "constant first": ([node("Mul", "k x", "t"), node("Add", "k t", "u"), node("Gemm", "u w b", "q"), LAST], ROW),
    "one number": ([node("Mul", "x h", "t"), node("Gemm", "t w b", "q"), LAST], {"h": np.float32([0.5])}),
    "alpha and beta": ([node("Gemm", "x w b", "q", alpha=0.5, beta=-2.0), LAST], {}),
    "a bias that is one number": ([node("MatMul", "x w", "p"), node("Add", "p h", "q"), LAST], {"h": np.float32(2)}),
    "slopes that are all equal": ([GEMM, node("PRelu", "p h", "q"), LAST], {"h": np.full(3, 0.25, np.float32)}),
    "dropout": ([GEMM, node("Dropout", "p", "q"), LAST], {}),
    "a transposed constant": ([node("Transpose", "n", "o", perm=[1, 0]), node("Gemm", "x o b", "q"), LAST], {"n": W}),
    "a shape that stays": ([GEMM, node("Reshape", "p n", "q"), LAST], {"n": np.array([0, -1])}),
}
SINGLE = {
    "squeeze": ([GEMM, node("Gemm", "p v c", "q"), node("Squeeze", "q n")], {"n": np.array([-1])}),
    "reshape": ([GEMM, node("Gemm", "p v c", "q"), node("Reshape", "q n")], {"n": np.array([-1])}),
}


@pytest.mark.parametrize("name", [*CHAINS, *SINGLE])
def test_a_chain_is_read_as_fairmend_reads_it_and_as_onnx_runtime_runs_it(name, tmp_path):
    nodes, constants = (CHAINS | SINGLE)[name]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, rank1=name in SINGLE, **A, **REST, **constants)
    model, network = read_model(path)[0], load_network(path)
    assert weights_digest(model) == digest_of_network(network)
    assert [fold is not None for fold in model.folds] == [affine.fold is not None for affine in network.affines]
    assert np.allclose(runtime(path, X).reshape(-1), network.logits(X), rtol=1e-5, atol=1e-5)


REFUSED = {
    "training_mode = 1": ([GEMM, node("BatchNormalization", "p g s m r", "q", training_mode=1), LAST], NORM),
    "3 numbers of each kind": ([GEMM, node("BatchNormalization", "p g s k r", "q"), LAST], NORM | ROW),
    "divides by 0": ([node("Div", "x k", "t"), node("Gemm", "t w b", "q"), LAST], {"k": np.zeros(4, np.float32)}),
    "of shape \\(3, 4\\) is combined": ([node("Mul", "x k", "t"), node("Gemm", "t w b", "q"), LAST], {"k": W}),
    "is float64, unlike the input": ([node("Mul", "x k", "t"), GEMM, LAST], {"k": np.ones(4)}),
    "several slopes": ([GEMM, node("PRelu", "p b", "q"), LAST], {}),
    "node Squeeze is over another": ([GEMM, node("Squeeze", "p n", "q"), LAST], {"n": np.array([0])}),
    "node Squeeze changes the shape": ([GEMM, node("Squeeze", "p n", "q"), LAST], {"n": np.array([1])}),
    "node Reshape changes": ([GEMM, node("Reshape", "p n", "q", allowzero=1), LAST], {"n": np.array([0, -1])}),
    "reads 3 of 4 values": ([node("Gemm", "x v c", "q"), LAST], {}),
    "after the columns are gone": (
        [GEMM, node("Gemm", "p v c", "q"), node("Reshape", "q n", "t"), node("Tanh", "t")],
        {"n": np.array([-1])},
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_other_chains_are_refused(reason, tmp_path):
    nodes, constants = REFUSED[reason]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST, **constants)
    with pytest.raises(CheckError, match=reason):
        read_model(path)


def test_many_nodes_that_share_their_constants_are_refused(tmp_path, monkeypatch):
    """A file of 4 MB could become 80 GB of weights."""
    monkeypatch.setattr(onnx_chain, "_MAX_NUMBERS", 100)
    nodes = [node("MatMul", f"{'x' if i == 0 else f'h{i}'} e", "y" if i == 5 else f"h{i + 1}") for i in range(6)]
    path = save(tmp_path / "m.onnx", nodes, outputs=4, e=np.eye(4, dtype=np.float32))
    with pytest.raises(CheckError, match="use more than 100 numbers"):
        read_model(path)
