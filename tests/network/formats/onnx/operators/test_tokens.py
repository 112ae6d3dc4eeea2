"""Values of any axes: layers over tokens, attention, class tokens and normalisation, as ONNX Runtime computes them."""

import numpy as np
import onnx
import pytest
from onnx import helper

from fairmend import FairmendError, Feature, Spec, check, load_network
from fairmend.network import Affine
from fairmend.prove.certificate import certificate_of_fair
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.kernel.model import network_digest
from fairmend_check.readers.read_model import read_model
from support.onnx_files import X, node, runtime, save

RNG = np.random.default_rng(0)


def random(*shape):
    return (RNG.normal(size=shape) / 2).astype(np.float32)


T, D = 4, 6  # tokens, of so many numbers
TOKENS = [node("Unsqueeze", "x last", "x1"), node("Mul", "x1 w", "t0"), node("Add", "t0 b", "t")]  # (rows, 4, 6)
END = [node("ReduceMean", "r", "m", axes=[1], keepdims=0), node("Gemm", "m v c")]
CONSTANTS = {"last": np.array([-1]), "w": random(T, D), "b": random(T, D), "v": random(D, 1), "c": random(1)}
HEADS = [
    step
    for name in "qkv"
    for step in (
        node("MatMul", f"t w{name}", f"{name}0"), node("Add", f"{name}0 b{name}", f"{name}1"),
        node("Reshape", f"{name}1 heads", f"{name}2"),
        node("Transpose", f"{name}2", name, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
    )
]  # fmt: skip
ATTENTION = [
    *HEADS, node("MatMul", "q k", "a0"), node("Mul", "a0 third", "a1"), node("Softmax", "a1", "a", axis=-1),
    node("MatMul", "a v3", "o0"), node("Transpose", "o0", "o1", perm=[0, 2, 1, 3]), node("Reshape", "o1 flat", "o"),
    node("Add", "t o", "r"),
]  # fmt: skip
ATTENTION[11].output[0] = "v3"
HEAD = {f"w{name}": random(D, D) for name in "qkv"} | {f"b{name}": random(D) for name in "qkv"}
HEAD |= {"heads": np.array([0, -1, 2, 3]), "flat": np.array([0, 0, 6]), "third": np.float32(0.577)}
MASK = np.where(np.tri(T) * [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]], random(T, T), -np.inf)
MASK = MASK.astype(np.float32)
EPS, SQUARE = np.float32(1e-3), np.float32(2)
MEAN = [node("ReduceMean", "t", "e0", axes=[-1]), node("Sub", "t e0", "e")]
SPREAD = [node("ReduceMean", "s0", "s1", axes=[2]), node("Add", "s1 eps", "s2"), node("Sqrt", "s2", "s")]
GRAPHS = {
    "a layer over tokens": ([node("MatMul", "t u", "h"), node("Add", "h d", "r0"), node("Relu", "r0", "r")],
                            {"u": random(D, D), "d": random(D)}),
    "a layer of merged rows": ([node("Reshape", "t flat", "h"), node("Gemm", "h u d", "g"), node("Relu", "g", "g1"),
                                node("Reshape", "g1 deep", "r")],
                               {"flat": np.array([-1, D]), "deep": np.array([-1, T, D]), "u": random(D, D),
                                "d": random(D)}),
    "a layer of tokens before rows": ([node("Transpose", "t", "h", perm=[1, 0, 2]), node("Reshape", "h flat", "g"),
                                       node("MatMul", "g u", "g1"), node("Reshape", "g1 deep", "g2"),
                                       node("Transpose", "g2", "r", perm=[1, 0, 2])],
                                      {"flat": np.array([-1, D]), "deep": np.array([T, -1, D]), "u": random(D, D)}),
    "a matrix from the left": ([node("MatMul", "u t", "r")], {"u": random(T, T)}),
    "a matrix for each token": ([node("Unsqueeze", "t two", "h"), node("MatMul", "h u", "g"),
                                 node("Squeeze", "g two", "r")],
                                {"u": random(T, D, D), "two": np.array([2])}),
    "an einsum with a weight": ([node("Einsum", "t u", "r", equation="btd,tde->bte")], {"u": random(T, D, D)}),
    "an einsum of two": ([node("Einsum", "t t", "a", equation="bid,bjd->bij"), node("MatMul", "a t", "r")], {}),
    "attention": (ATTENTION, HEAD),
    "softmax by steps": ([node("ReduceMax", "t", "h", axes=[2]), node("Sub", "t h", "h1"), node("Exp", "h1", "e"),
                          node("ReduceSum", "e end", "s"), node("Div", "e s", "r")], {"end": np.array([2])}),
    "smallest": ([node("ReduceMin", "t", "h", axes=[1], keepdims=0), node("Unsqueeze", "h one", "r")],
                 {"one": np.array([1])}),
    "attention with a mask": ([*ATTENTION[:13], node("Mul", "a0 third", "a1"), node("Add", "a1 mask", "a2"),
                               node("Softmax", "a2", "a", axis=-1), *ATTENTION[15:]], HEAD | {"mask": MASK}),
    "attention with numbers filled in": ([*ATTENTION[:13], node("Where", "hidden far a0", "a2"),
                                          node("Softmax", "a2", "a", axis=-1), *ATTENTION[15:]],
                                         HEAD | {"hidden": np.isneginf(MASK), "far": np.float32(-np.inf)}),
    "numbers filled in": ([node("Where", "kept t two", "r")], {"kept": np.arange(D) != 2, "two": SQUARE}),
    "softmax along the tokens": ([node("Softmax", "t", "r", axis=1)], {}),
    "softmax of transposed tokens": ([node("Transpose", "t", "h", perm=[2, 0, 1]), node("Softmax", "h", "g", axis=0),
                                      node("Transpose", "g", "r", perm=[1, 2, 0])], {}),
    "a gate of tokens": ([node("ReduceSum", "t last", "g", keepdims=1), node("Sigmoid", "g", "s"),
                          node("Mul", "t s", "r")],
                         {}),
    "halves": ([helper.make_node("Split", ["t"], ["a", "g"], axis=2, num_outputs=2), node("Sigmoid", "g", "s"),
                node("Mul", "a s", "h"), node("Concat", "h g", "r", axis=-1)], {}),
    "every second token": ([node("Slice", "t lo hi ax st", "h"), node("Gather", "t i", "g", axis=1),
                            node("Concat", "g h", "r", axis=1)],
                           {"lo": np.array([0]), "hi": np.array([9]), "ax": np.array([1]), "st": np.array([2]),
                            "i": np.array([3, 0])}),
    "a class token": ([node("Shape", "t", "s0"), node("Slice", "s0 zero one", "n"),
                       node("Concat", "n rest", "s", axis=0),
                       node("Expand", "k s", "e"), node("Concat", "e t", "h", axis=1), node("Relu", "h", "r")],
                      {"k": random(D), "zero": np.array([0]), "one": np.array([1]), "rest": np.array([1, D])}),
    "stretched": ([node("ReduceMean", "t", "m0", axes=[1]), node("Shape", "t", "s"), node("Expand", "m0 s", "e"),
                   node("Sub", "t m0", "g"), node("Mul", "g e", "r")], {}),
    "layer normalisation": ([node("LayerNormalization", "t g d", "h", axis=-1), node("Relu", "h", "r")],
                            {"g": random(D), "d": random(D)}),
    "plain layer normalisation": ([node("LayerNormalization", "t g", "h", axis=1), node("Relu", "h", "r")],
                                  {"g": np.ones((T, D), np.float32)}),
    "layer normalisation by steps": ([*MEAN, node("Pow", "e two", "s0"), *SPREAD, node("Div", "e s", "r")],
                                     {"two": SQUARE, "eps": EPS}),
    "the length of tokens": ([node("ReduceL2", "t", "h", axes=[2]), node("Div", "t h", "r")], {}),
    "sums of absolutes": ([node("ReduceL1", "t", "h", axes=[-1, 1]), node("Mul", "t h", "r")], {}),
    "sums of squares": ([node("ReduceSumSquare", "t", "h", axes=[1], keepdims=0), node("Unsqueeze", "h one", "r")],
                        {"one": np.array([1])}),
    "logarithms of sums": ([node("Exp", "t", "e"), node("ReduceLogSum", "e", "h", axes=[2]), node("Sub", "t h", "r")],
                           {}),
    "logarithms of sums of exp": ([node("ReduceLogSumExp", "t", "h", axes=[1, 2]), node("Sub", "t h", "r")], {}),
    "cubes": ([node("Pow", "t three", "r")], {"three": np.full((T, D), 3, np.float32)}),
    "powers of one": ([node("Pow", "x1 ones", "h"), node("Mul", "h t", "r")], {"ones": np.ones((1, D), np.float32)}),
    "a whole exponent": ([node("Pow", "t two", "h"), node("Add", "h far", "g"), node("Pow", "g half", "r")],
                         {"two": np.array(2), "far": SQUARE, "half": np.float32([[-0.5]])}),
    "attention with a triangle of nodes": (
        [*ATTENTION[:13], node("Mul", "a0 third", "a1"), node("Shape", "v3", "s0"), node("Slice", "s0 two three", "s1"),
         node("Concat", "s1 s1", "s2", axis=0), node("Expand", "unit s2", "h0"),
         helper.make_node("Trilu", ["h0", "below"], ["h1"], upper=0), node("Equal", "h1 none", "h2"),
         node("Where", "h2 far none", "h"), node("Add", "a1 h", "a2"), node("Softmax", "a2", "a3", axis=-1),
         node("IsNaN", "a3", "a4"), node("Where", "a4 none a3", "a"), *ATTENTION[15:]],
        HEAD | {"two": np.array([2]), "three": np.array([3]), "unit": np.float32(1), "below": np.array(1),
                "none": np.float32(0), "far": np.finfo(np.float32).min}),
    "a triangle": ([node("Trilu", "ones", "h"), node("Not", "h", "g"), node("Where", "g t two", "r")],
                   {"ones": np.ones((T, D), np.bool_), "two": SQUARE}),
    "one of two": ([node("Neg", "t", "h"), node("Mul", "h h", "g"), node("Where", "side h g", "r")],
                   {"side": RNG.random((T, 1)) < 0.5}),
    "chosen tokens": ([node("Transpose", "t", "h", perm=[1, 0, 2]), node("GatherND", "h i", "g"),
                       node("Transpose", "g", "r", perm=[1, 0, 2])], {"i": np.array([[2], [-1], [0], [2]])}),
    "repeated tokens": ([node("Tile", "t k", "h"), node("Mul", "h h", "r")], {"k": np.array([1, 2, 1])}),
    "a constant for each row": ([node("Shape", "t", "s0"), node("ConstantOfShape", "s0", "h"), node("Sub", "h t", "g"),
                                 node("Expand", "k s0", "f"), node("Concat", "f g", "r", axis=1)],
                                {"k": SQUARE}),
    "a normalisation of channels": ([node("InstanceNormalization", "t g d", "h"), node("Relu", "h", "r")],
                                    {"g": random(T), "d": random(T)}),
    "a normalisation of groups": ([node("GroupNormalization", "t g d", "h", num_groups=2), node("Relu", "h", "r")],
                                  {"g": random(T), "d": random(T)}),
    "a product along an axis": ([node("ReduceProd", "t", "h", axes=[2], keepdims=1), node("Mul", "h t", "r")], {}),
    "three factors": ([node("Einsum", "t t x", "h", equation="btd,bsd,bs->bts"), node("Tanh", "h", "g"),
                       node("Einsum", "g t", "r", equation="bts,bsd->btd")], {}),
    "three factors and a constant": ([node("Einsum", "x k x", "h", equation="bi,ijd,bj->bd"),
                                      node("Unsqueeze", "h one", "g"), node("Add", "g t", "r")],
                                     {"k": random(T, T, D), "one": np.array([1])}),
    "squares by steps": ([node("Mul", "t t", "s0"), *SPREAD, node("Reciprocal", "s", "i"), node("Mul", "t i", "r")],
                         {"eps": EPS}),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_values_of_any_axes_are_what_onnx_runtime_computes(name, tmp_path):
    nodes, constants = GRAPHS[name]
    # From version 18 on, the axes of a ReduceMean are an input, and a Split may have the number of its parts.
    more = {"opset": 18, "first": np.array([1])} if name == "halves" else {}
    more = {"opset": 21, "first": np.array([1])} if "GroupNormalization" in (each.op_type for each in nodes) else more
    end = [node("ReduceMean", "r first", "m", keepdims=0), END[1]] if more else END
    path = save(tmp_path / "m.onnx", [*TOKENS, *nodes, *end], outputs=1, **CONSTANTS, **constants, **more)
    network = load_network(path)
    np.testing.assert_allclose(network.logits(X), runtime(path, X)[:, 0], atol=1e-5)
    network.save(tmp_path / "n.onnx", keep_form=False)
    again = load_network(tmp_path / "n.onnx")
    np.testing.assert_allclose(again.logits(X), network.logits(X), atol=1e-6)
    for read, file in ((network, path), (again, tmp_path / "n.onnx")):
        assert network_digest(kernel_model(read)) == network_digest(read_model(file)[0])


def test_normalisation_by_steps_is_one_operation(tmp_path):
    for name, centred in (("layer normalisation by steps", True), ("squares by steps", False)):
        nodes, constants = GRAPHS[name]
        network = load_network(save(tmp_path / "m.onnx", [*TOKENS, *nodes, *END], outputs=1, **CONSTANTS, **constants))
        (norm,) = [each.operation for each in network.nodes if each.operation.kind == "normalise"]
        assert (norm.group, norm.epsilon, norm.centred) == (D, float(EPS), centred)


REFUSED = {
    "a mask of data": ([*TOKENS, node("Greater", "t b", "h"), node("Where", "h t b", "r"), *END], "Greater|Where"),
    "a mask of everything": ([*TOKENS, node("Add", "t far", "h"), node("Softmax", "h", "r", axis=1), *END],
                             "leaves out everything"),
    "masked numbers elsewhere": ([*TOKENS, node("Add", "t near", "h"), node("Tanh", "h", "r"), *END],
                                 "only a softmax may read"),
    "rows times rows": ([node("Transpose", "x", "y0"), node("MatMul", "x y0")], "other than row by row"),
    "a matrix over rows": ([node("Transpose", "x", "y0"), node("MatMul", "y0 w")], "not a matrix for all rows"),
    "a sum of rows": ([node("ReduceSum", "x zero")], r"\(ReduceSum\) is over axis 0 of \(rows, 4\)"),
    "a softmax of rows": ([*TOKENS, node("Softmax", "t", "r", axis=0), *END], r"axis 0 of \(rows, 4, 6\)"),
    "a logarithm inside": ([*TOKENS, node("LogSoftmax", "t", "r", axis=2), *END], "a logarithm inside the network"),
    "channels of a row": ([node("InstanceNormalization", "x g g")], r"normalises 0 groups of \(rows, 4\)"),
    "a product over rows": ([node("ReduceProd", "x", axes=[0])], r"\(ReduceProd\) is over axis 0 of \(rows, 4\)"),
    "a sum of two of three": ([*TOKENS, node("Einsum", "t t t", "r", equation="bti,bsi,btj->bt"), *END],
                              "no factor with all axes that are added up"),
    "a mean over rows": ([*TOKENS, node("LayerNormalization", "t g", "r", axis=0), *END], "from axis 0 on"),
    "a diagonal": ([*TOKENS, node("Einsum", "t t", "r", equation="bii,bij->bij"), *END], "takes a diagonal"),
    "some of the rows": ([*TOKENS, node("Slice", "t zero one zero", "r"), *END], "chooses among the rows"),
    "a row for each token": ([*TOKENS, node("Mul", "t k", "r"), *END], r"with a constant of shape \(3, 1, 1\)"),
    "a number for each row": ([*TOKENS, node("Shape", "t", "s"), node("Cast", "s", "r", to=1), *END],
                              "computes with 's', which holds the number of rows"),
    "tokens for rows": ([*TOKENS, node("Transpose", "t", "r", perm=[1, 0, 2]), *END], r"\(ReduceMean\) is over axis 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_mix_rows_is_refused(name, tmp_path):
    nodes, words = REFUSED[name]
    constants = {"zero": np.array([0]), "one": np.array([1]), "g": np.ones(D, np.float32), "k": random(3, 1, 1)}
    constants["far"] = np.where(np.arange(D) == 1, -np.inf, 0).astype(np.float32)
    constants["near"] = np.where(np.arange(T * D).reshape(T, D) == 1, -np.inf, 0).astype(np.float32)
    with pytest.raises(FairmendError, match=words):
        load_network(save(tmp_path / "m.onnx", nodes, outputs=1, **CONSTANTS, **constants))


def test_before_version_13_a_softmax_is_over_all_axes_from_one_on(tmp_path):
    old = [node("Unsqueeze", "x", "x1", axes=[-1]), *TOKENS[1:], node("Softmax", "t", "r", axis=2), *END]
    with pytest.raises(FairmendError, match="is over several axes"):
        load_network(save(tmp_path / "m.onnx", old, outputs=1, opset=11, **CONSTANTS))


def test_a_layer_over_too_many_tokens_is_refused_with_the_limit(tmp_path):
    nodes = [
        node("Reshape", "x deep", "t"),
        node("MatMul", "t u", "h"),
        node("Reshape", "h flat", "r"),
        node("Gemm", "r v"),
    ]
    constants = {"deep": np.array([0, -1, 1]), "u": np.ones((1, 2), np.float32), "flat": np.array([0, -1])}
    wide = {"v": np.ones((2 * 9000, 1), np.float32), "axes": ["n", 9000]}
    with pytest.raises(FairmendError, match=r"for 9000 groups of columns, which is a matrix of 162,000,000"):
        load_network(save(tmp_path / "m.onnx", nodes, outputs=1, **constants, **wide))


def test_a_layer_of_a_single_token_is_stored_as_it_is(tmp_path, caplog):
    nodes = [*TOKENS, node("ReduceMean", "t", "m", axes=[1]), node("MatMul", "m v", "h"), node("Add", "h c", "g"),
             node("Squeeze", "g one")]  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, outputs=1, one=np.array([1]), **CONSTANTS)
    network = load_network(path)
    *before, head = network.affines
    changed = network.with_affines([*before, Affine(head.weight + 1, head.bias + 1)])
    changed.save(tmp_path / "n.onnx")
    assert not caplog.text
    np.testing.assert_allclose(changed.logits(X), runtime(tmp_path / "n.onnx", X)[:, 0], atol=1e-5)


KEPT = ["a layer over tokens", "a layer of merged rows", "a layer of tokens before rows", "a class token", "attention"]


@pytest.mark.parametrize("name", KEPT)
def test_a_repair_writes_the_weights_of_tokens_back_to_their_one_place(name, tmp_path, caplog):
    nodes, constants = GRAPHS[name]
    path = save(tmp_path / "m.onnx", [*TOKENS, *nodes, *END], outputs=1, **CONSTANTS, **constants)
    network = load_network(path)
    rng = np.random.default_rng(0)
    changed = network.with_affines(
        [Affine(each.weight + rng.normal(size=each.weight.shape).astype(np.float32), each.bias + 1)
         for each in network.affines]
    )  # fmt: skip
    changed.save(tmp_path / "n.onnx")
    assert not caplog.text
    assert load_network(tmp_path / "n.onnx").nodes == changed.nodes != network.nodes
    before, after = ([each.op_type for each in onnx.load(file).graph.node] for file in (path, tmp_path / "n.onnx"))
    assert before == after
    np.testing.assert_allclose(changed.logits(X), runtime(tmp_path / "n.onnx", X)[:, 0], atol=1e-4)


def test_a_layer_that_no_constant_is_has_no_place_in_the_file(tmp_path, caplog):
    nodes, constants = GRAPHS["an einsum with a weight"]
    path = save(tmp_path / "m.onnx", [*TOKENS, *nodes, *END], outputs=1, **CONSTANTS, **constants)
    network = load_network(path)
    first, weighted, head = network.affines
    network.with_affines([first, weighted, Affine(head.weight + 1, head.bias)]).save(tmp_path / "n.onnx")
    assert not caplog.text
    changed = network.with_affines([first, Affine(weighted.weight + 1, weighted.bias), head])
    changed.save(tmp_path / "n.onnx")
    assert "has no place for each of its weights" in caplog.text
    np.testing.assert_allclose(load_network(tmp_path / "n.onnx").logits(X), changed.logits(X), atol=1e-4)


MEMBERS = {
    "einsum": [node("Einsum", "t heads", "o", equation="bkd,kdo->bko"), node("Add", "o each", "p")],
    "matrices": [node("Unsqueeze", "t two", "u"), node("MatMul", "u heads", "o"), node("Squeeze", "o two", "q"),
                 node("Add", "q each", "p")],
    "no bias": [node("Einsum", "t heads", "p", equation="bkd,kdo->bko")],
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_the_mean_of_members_with_heads_of_their_own_is_one_head(name, tmp_path):
    """As TabM ends: the file computes all heads at once, and what is proven of the file is proven of the network."""
    numbers = {"heads": random(T, D, 1), "each": random(T, 1), "two": np.array([2])}
    used = {each for step in MEMBERS[name] for each in step.input}
    numbers = {key: array for key, array in numbers.items() if key in used}
    nodes = [*TOKENS, *MEMBERS[name], node("ReduceMean", "p", "m", axes=[1], keepdims=0)]
    blind = CONSTANTS["w"] * (np.arange(T) > 0)[:, None].astype(np.float32)
    constants = {"last": CONSTANTS["last"], "w": blind, "b": CONSTANTS["b"]}
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **constants, **numbers)
    network = load_network(path)
    assert network.head.weight.shape == (1, T * D)
    np.testing.assert_allclose(network.logits(X), runtime(path, X)[:, 0], atol=1e-5)
    assert network_digest(kernel_model(network)) == network_digest(read_model(path)[0])
    spec = Spec([Feature(f"x{i}", "continuous", range=(-1, 1), protected=not i) for i in range(X.shape[1])])
    certificate, covered = certificate_of_fair(network, spec, np.clip(X, -1, 1))
    assert covered.any()
    certificate.save(tmp_path / "c.json", path)
    assert check(tmp_path / "c.json", path).valid
    other = network.with_affines([*network.affines[:-1], replaced(network.head)])
    other.save(tmp_path / "n.onnx")  # the file has no place for each part, and is written anew
    again = load_network(tmp_path / "n.onnx")
    np.testing.assert_allclose(again.logits(X), other.logits(X), atol=1e-6)
    assert network_digest(kernel_model(again)) == network_digest(read_model(tmp_path / "n.onnx")[0])


def replaced(head):
    return Affine(head.weight + np.float32(0.25), head.bias)


def test_a_mean_of_some_outputs_of_a_layer_is_read_without_a_head_of_its_own(tmp_path):
    nodes = [*TOKENS, *MEMBERS["no bias"], node("Gather", "p some", "g", axis=1),
             node("ReduceMean", "g", "m", axes=[1], keepdims=0)]  # fmt: skip
    constants = {key: CONSTANTS[key] for key in ("last", "w", "b")} | {"heads": random(T, D, 1)}
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **constants, some=np.array([0, 2]))
    network = load_network(path)
    assert network.head.is_fixed
    np.testing.assert_allclose(network.logits(X), runtime(path, X)[:, 0], atol=1e-5)
