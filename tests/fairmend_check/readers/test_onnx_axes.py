"""Values of any axes in ONNX graphs: what is read computes what ONNX Runtime computes, and mixed rows are refused."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from fairmend import FairmendError, load_network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.errors import CheckError
from fairmend_check.kernel.blindness import dependent_columns
from fairmend_check.kernel.bounds import point_bounds
from fairmend_check.kernel.model import network_digest
from fairmend_check.readers.axes import Rows, reshaped
from fairmend_check.readers.read_onnx import read_onnx
from fairmend_check.run.enclosure import enclose_outputs

COLUMNS = 12


class Builder:
    """A graph that grows node by node from x (rows, 12); ``shape`` is that of the last value, rows as None."""

    def __init__(self, rng):
        self.rng, self.nodes, self.constants = rng, [], []
        self.name, self.shape = "x", (None, COLUMNS)

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind, *inputs, shape, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        self.name, self.shape = out, shape
        return out

    def rows(self):
        return self.shape.index(None)

    def reshape(self):
        at = self.rows()
        rest = math.prod(self.shape[at + 1 :])
        split = [k for k in range(1, rest + 1) if rest % k == 0]
        first = int(self.rng.choice(split))
        shape = (*self.shape[:at], None, *([first, rest // first] if self.rng.random() < 0.7 else [rest]))
        target = self.constant(np.array([-1 if size is None else size for size in shape], np.int64))
        self.node("Reshape", self.name, target, shape=shape)

    def merged(self):
        """Merge the axes around the rows with them, do something, and part them again."""
        before = self.shape
        last = before[-1]
        if before[-1] is None or len(before) == 1:
            return
        self.node("Reshape", self.name, self.constant(np.array([-1, last], np.int64)), shape=(None, last))
        weight = self.rng.normal(size=(last, last)).astype(np.float32)
        self.node("Gemm", self.name, self.constant(weight), shape=(None, last))
        target = self.constant(np.array([-1 if size is None else size for size in before], np.int64))
        self.node("Reshape", self.name, target, shape=before)

    def transpose(self):
        order = self.rng.permutation(len(self.shape)).tolist()
        self.node("Transpose", self.name, perm=order, shape=tuple(self.shape[axis] for axis in order))

    def axis(self):
        return int(self.rng.choice([axis for axis, size in enumerate(self.shape) if size is not None]))

    def gather(self):
        if len(self.shape) < 3:
            return
        axis = self.axis()
        place = int(self.rng.integers(-self.shape[axis], self.shape[axis]))
        index = self.constant(np.array(place, np.int64))
        self.node("Gather", self.name, index, axis=axis, shape=self.shape[:axis] + self.shape[axis + 1 :])

    def slice(self):
        axis = self.axis()
        size = self.shape[axis]
        start = int(self.rng.integers(0, size))
        lists = [self.constant(np.array([number], np.int64)) for number in (start, size + 3, axis - len(self.shape), 1)]
        self.node("Slice", self.name, *lists, shape=(*self.shape[:axis], size - start, *self.shape[axis + 1 :]))

    def unsqueeze(self):
        axis = int(self.rng.integers(0, len(self.shape) + 1))
        where = self.constant(np.array([axis], np.int64))
        self.node("Unsqueeze", self.name, where, shape=(*self.shape[:axis], 1, *self.shape[axis:]))

    def double(self):
        axis = self.axis()
        shape = (*self.shape[:axis], 2 * self.shape[axis], *self.shape[axis + 1 :])
        if math.prod(size or 1 for size in shape) <= 96:
            self.node("Concat", self.name, self.name, axis=axis, shape=shape)

    def gated(self):
        constant = self.rng.normal(size=[1 if size is None else size for size in self.shape]).astype(np.float32)
        shape, name = self.shape, self.name
        other = self.node("Mul", name, self.constant(constant), shape=shape)
        self.node("Mul", name, self.node("Sigmoid", other, shape=shape), shape=shape)

    def means(self):
        axis = self.axis()
        shape, name = self.shape, self.name
        kept = tuple(1 if other == axis else size for other, size in enumerate(shape))
        mean = self.node("ReduceMean", name, axes=[axis], keepdims=1, shape=kept)
        self.node("Sub" if self.rng.random() < 0.5 else "Mul", name, mean, shape=shape)

    def measure(self):
        axis = self.axis()
        kind = str(self.rng.choice(["L1", "L2", "LogSumExp", "SumSquare"]))
        shape = tuple(1 if other == axis else size for other, size in enumerate(self.shape))
        name = self.name
        if kind == "L2":  # a root, not of 0
            above = self.node("Softplus", name, shape=self.shape)
            name = self.node("Add", above, self.constant(np.float32(1)), shape=self.shape)
        self.node(f"Reduce{kind}", name, axes=[axis], keepdims=1, shape=shape)

    def power(self):
        exponent = self.constant(np.full([1] * int(self.rng.integers(1, len(self.shape) + 1)), 3, np.float32))
        self.node("Pow", self.node("Tanh", self.name, shape=self.shape), exponent, shape=self.shape)

    def tile(self):
        axis = self.axis()
        shape = (*self.shape[:axis], 2 * self.shape[axis], *self.shape[axis + 1 :])
        if math.prod(size or 1 for size in shape) <= 96:
            times = self.constant(np.array([2 if other == axis else 1 for other in range(len(shape))], np.int64))
            self.node("Tile", self.name, times, shape=shape)

    def gather_nd(self):
        at = self.rows()
        if not at:
            return
        places = np.stack([self.rng.integers(-size, size, size=3) for size in self.shape[:at]], axis=-1)
        self.node("GatherND", self.name, self.constant(places), shape=(3, *self.shape[at:]))

    def one_of_two(self):
        condition = self.constant(self.rng.random([1 if size is None else size for size in self.shape]) < 0.5)
        shape, name = self.shape, self.name
        self.node("Where", condition, name, self.node("Neg", name, shape=shape), shape=shape)

    def triangle(self):
        if None in self.shape[-2:]:
            return
        below = self.constant(np.array(0, np.int64))
        ones = self.constant(np.ones(self.shape[-2:], np.float32))
        zero, least = self.constant(np.float32(0)), self.constant(np.finfo(np.float32).min)
        shape, name = self.shape, self.name
        part = self.node("Equal", self.node("Trilu", ones, below, shape=(), upper=0), zero, shape=())
        masked = self.node("Add", name, self.node("Where", part, least, zero, shape=()), shape=shape)
        self.node("Softmax", masked, axis=-1, shape=shape)

    def every_row(self):
        shape, name = self.shape, self.name
        sizes = self.node("Shape", name, shape=())
        value = numpy_helper.from_array(np.array([0.5], np.float32))
        self.node("Mul", self.node("ConstantOfShape", sizes, shape=shape, value=value), name, shape=shape)

    def softmax(self):
        self.node("Softmax", self.name, axis=self.axis(), shape=self.shape)

    def layer_norm(self):
        if self.shape[-1] is None:
            return
        gain = self.constant(self.rng.normal(size=self.shape[-1]).astype(np.float32))
        self.node("LayerNormalization", self.name, gain, axis=-1, epsilon=0.01, shape=self.shape)

    def matmul(self):
        if self.shape[-1] is None:
            return
        out = int(self.rng.integers(1, 4))
        weight = self.constant((self.rng.normal(size=(self.shape[-1], out)) * 0.5).astype(np.float32))
        self.node("MatMul", self.name, weight, shape=(*self.shape[:-1], out))

    def attention(self):
        """Multiply the last two axes with themselves, transposed."""
        if None in self.shape[-2:] or len(self.shape) < 3:
            return
        order = [*range(len(self.shape) - 2), len(self.shape) - 1, len(self.shape) - 2]
        shape, name = self.shape, self.name
        turned = self.node("Transpose", name, perm=order, shape=tuple(shape[axis] for axis in order))
        self.node("MatMul", name, turned, shape=(*shape[:-1], shape[-2]))

    def finish(self):
        """End with rows of numbers and a head."""
        at = self.rows()
        order = [at, *(axis for axis in range(len(self.shape)) if axis != at)]
        self.node("Transpose", self.name, perm=order, shape=tuple(self.shape[axis] for axis in order))
        width = math.prod(self.shape[1:])
        self.node("Reshape", self.name, self.constant(np.array([-1, width], np.int64)), shape=(None, width))
        head = (self.rng.normal(size=(width, 1)) / math.sqrt(width)).astype(np.float32)
        self.node("Gemm", self.name, self.constant(head), shape=(None, 1))
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", COLUMNS])],
            [helper.make_tensor_value_info(self.name, TensorProto.FLOAT, ["b", 1])],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


STEPS = ("reshape", "transpose", "gather", "slice", "unsqueeze", "double", "gated", "means", "softmax", "layer_norm")
STEPS += ("matmul", "attention", "merged", "reshape", "transpose", "measure", "power", "tile", "gather_nd")
STEPS += ("one_of_two", "triangle", "every_row")


def test_random_graphs_are_read_as_they_are_computed(tmp_path):
    read = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        builder = Builder(rng)
        for step in rng.choice(STEPS, size=7):
            getattr(builder, step)()
        content = builder.finish()
        X = rng.normal(size=(5, COLUMNS)).astype(np.float32)
        (found,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": X})
        model = read_onnx(content, tmp_path)
        low, high, _ = point_bounds(model, X.astype(np.float64))
        off = 1e-3 * (1 + np.abs(found))
        assert ((low <= found + off) & (found - off <= high)).all(), seed
        assert (high - low <= off).all(), seed
        (tmp_path / "m.onnx").write_bytes(content)
        assert network_digest(kernel_model(load_network(tmp_path / "m.onnx"))) == network_digest(model), seed
        read += 1
    assert read == 120


@pytest.mark.parametrize(
    ("dims", "shape", "wanted"),
    [
        ((Rows(), 6), [-1, 2, 3], (Rows(), 2, 3)),
        ((Rows(), 6), [Rows(), -1, 3], (Rows(), 2, 3)),
        ((Rows(), 2, 3), [-1, 3], (Rows(2), 3)),
        ((Rows(2), 3), [-1, 2, 3], (Rows(), 2, 3)),
        ((2, Rows(), 3), [-1, 3], (Rows(1, 2), 3)),
        ((Rows(1, 2), 3), [2, -1, 3], (2, Rows(), 3)),
        ((Rows(), 6), [-1], (Rows(6),)),
        ((Rows(), 6), [3, -1], None),
        ((Rows(), 6), [6, -1], None),
        ((2, Rows(), 3), [-1, 2, 3], None),
        ((Rows(), 6), [1, 6], None),
        ((Rows(), 6), [-1, 5], None),
        ((Rows(), 6), [-1, -1], None),
        ((Rows(), 6), [Rows(2), 6], None),
        ((Rows(), 6), [0, 6], None),
    ],
)
def test_a_reshape_keeps_rows_apart(dims, shape, wanted):
    if wanted is None:
        with pytest.raises(CheckError, match="changes the shape"):
            reshaped(dims, shape)
    else:
        assert reshaped(dims, shape) == wanted


def graph_of(nodes, constants, opset=17):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 1])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


HEAD = helper.make_node("Gemm", ["h", "w"], ["y"])
REFUSED = {
    "a matrix for each row": (
        [helper.make_node("Unsqueeze", ["x", "one"], ["u"]), helper.make_node("MatMul", ["u", "many"], ["m"])],
        {"many": np.ones((4, 4, 4), np.float32)},
    ),
    "is along axis 0": ([helper.make_node("Softmax", ["x"], ["m"], axis=0)], {}),
    "along axis 0, which": ([helper.make_node("ReduceMean", ["x"], ["m"], axes=[0])], {}),
    "chooses among the rows": ([helper.make_node("Slice", ["x", "one", "nine", "zero"], ["m"])], {}),
    "different rows": (
        [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["m"])],
        {},
    ),
    "does not say over which": (
        [helper.make_node("Unsqueeze", ["x", "one"], ["u"]), helper.make_node("Squeeze", ["u"], ["m"])],
        {},
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_mixes_rows_is_refused(reason, tmp_path):
    nodes, constants = REFUSED[reason]
    numbers = {"one": np.array([1]), "nine": np.array([9]), "zero": np.array([0]), "w": np.ones((4, 1), np.float32)}
    content = graph_of([*nodes, helper.make_node("Identity", ["m"], ["h"]), HEAD], {**numbers, **constants})
    with pytest.raises(CheckError, match=reason):
        read_onnx(content, tmp_path)


def test_before_version_13_a_softmax_is_over_all_axes_from_one_on(tmp_path):
    nodes = [
        helper.make_node("Reshape", ["x", "apart"], ["a"]),
        helper.make_node("Softmax", ["a"], ["s"], axis=1),
        helper.make_node("Reshape", ["s", "whole"], ["h"]),
        HEAD,
    ]
    numbers = {"apart": np.array([-1, 2, 2]), "whole": np.array([-1, 4]), "w": np.ones((4, 1), np.float32)}
    with pytest.raises(CheckError, match="not over the columns of a row"):
        read_onnx(graph_of(nodes, numbers, 12), tmp_path)


def saved(nodes, constants, dtype=np.float32, declared=()):
    """Return the bytes of a graph from x (rows, 12) to y, and a head after it."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = {**constants, "w": np.ones((COLUMNS, 1), dtype)}
    graph = helper.make_graph(
        [*nodes, helper.make_node("Gemm", ["y", "w"], ["out"])],
        "g",
        [helper.make_tensor_value_info("x", element, ["b", COLUMNS])],
        [helper.make_tensor_value_info("out", element, ["b", 1])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
        value_info=[helper.make_tensor_value_info(name, element, shape) for name, shape in declared],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.mark.parametrize("kind", ["Gather", "Where"])
def test_a_constant_that_a_node_chooses_keeps_its_digits(kind, tmp_path):
    """2.5 was once read as 2: a power of 2.5 as a square."""
    first = ["c", "i"] if kind == "Gather" else ["t", "c", "c"]
    nodes = [helper.make_node(kind, first, ["e"]), helper.make_node("Pow", ["x", "e"], ["y"])]
    for exponent in (2.0, 2.5):
        constants = {"c": np.array([exponent], np.float32), "i": np.array(0, np.int64), "t": np.array([True])}
        used = {name: constants[name] for name in dict.fromkeys(first)}
        if exponent == 2.0:
            assert [str(each) for each in read_onnx(saved(nodes, used), tmp_path).activations] == ["square"]
            continue
        with pytest.raises(CheckError, match=r"another exponent|whole numbers"):
            read_onnx(saved(nodes, used), tmp_path)


@pytest.mark.parametrize(
    ("dtype", "stash", "reads"), [("f4", 1, True), ("f4", 11, False), ("f8", 1, False), ("f8", 11, True)]
)
def test_mean_and_deviation_are_computed_in_the_type_of_the_model(dtype, stash, reads, tmp_path):
    """The standard computes them in float32 by default, in a float64 model as well."""
    nodes = [helper.make_node("LayerNormalization", ["x", "g"], ["y"], stash_type=stash)]
    content = saved(nodes, {"g": np.ones(COLUMNS, dtype)}, dtype)
    if reads:
        assert read_onnx(content, tmp_path).multiplies
    else:
        with pytest.raises(CheckError, match="stash_type"):
            read_onnx(content, tmp_path)


@pytest.mark.parametrize("inputs", [["x", "", "g"], ["x", "g", ""]])
def test_a_layer_normalisation_with_an_input_without_a_name_is_refused(inputs, tmp_path):
    """The shift would be read as the gain; without a shift, ONNX Runtime 1.31 crashes."""
    nodes = [helper.make_node("LayerNormalization", inputs, ["y"])]
    with pytest.raises(CheckError, match="must be a constant"):
        read_onnx(saved(nodes, {"g": np.ones(COLUMNS, np.float32)}), tmp_path)


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs.split(","), [output], **attributes)


def whole(**numbers):
    return {name: np.array(number, np.int64) for name, number in numbers.items()}


def is_read_as_it_runs(content, tmp_path, rows):
    """Return whether ONNX Runtime gives what the checker read, within its bounds."""
    x = np.random.default_rng(0).normal(size=(rows, COLUMNS)).astype(np.float32)
    low, high = enclose_outputs(read_onnx(content, tmp_path), x.astype(np.float64))
    given = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    assert (high - low).max() < 0.01
    return given.shape == low.shape and bool(((low <= given) & (given <= high)).all())


SOFTMAX = [node("Reshape", "x,shape", "r"), node("Softmax", "r", "s", axis=1)]
SOFTMAX += [node("Reshape", "s,back", "q"), node("Mul", "q,ramp", "y")]
BACK = {**whole(back=[-1, COLUMNS]), "ramp": np.arange(COLUMNS, dtype=np.float32)}


def test_a_list_of_sizes_is_cut_by_the_arguments_in_their_places(tmp_path):
    """The steps of a Slice without axes were once read as its axes: here it gives nothing, and was read as all."""
    sizes = [node("Slice", "three,zero,one,,minus", "part"), node("Concat", "minus,part,four", "shape", axis=0)]
    numbers = whole(three=[3], zero=[0], one=[1], minus=[-1], four=[4]) | BACK
    with pytest.raises(CheckError):
        read_onnx(saved([*sizes, *SOFTMAX], numbers), tmp_path)


def test_equal_sizes_of_merged_axes_are_equal_in_whatever_order(tmp_path):
    """Six times the rows, merged before or after them, were once two sizes, so that a Where chose the other shape."""
    sizes = [
        node("Reshape", "x,after", "a"),
        node("Shape", "a", "of_a"),
        node("Gather", "of_a,zero", "first"),
        node("Transpose", "x", "t", perm=[1, 0]),
        node("Reshape", "t,before", "b"),
        node("Shape", "b", "of_b"),
        node("Gather", "of_b,one", "second"),
        node("Equal", "first,second", "same"),
        node("Where", "same,three,four", "k"),
        node("Where", "same,four,three", "l"),
        node("Concat", "minus,k,l", "shape", axis=0),
    ]
    numbers = whole(after=[-1, 6], before=[6, -1], zero=[0], one=[1], three=[3], four=[4], minus=[-1]) | BACK
    assert is_read_as_it_runs(saved([*sizes, *SOFTMAX], numbers), tmp_path, 5)


@pytest.mark.parametrize(
    ("name", "shape"), [("t", [COLUMNS, 7]), ("t", [COLUMNS, "b"]), ("u", [7, COLUMNS]), ("e", [7, COLUMNS])]
)
def test_a_number_of_rows_that_no_input_has_is_not_declared(name, shape, tmp_path):
    """ONNX Runtime takes the declared number for what Shape gives: of 14 rows, it makes 7 of 24 columns."""
    nodes = [
        node("Mul", "x,root", "scaled"),
        node("Erf", "scaled", "e"),
        node("Add", "e,one", "more"),
        node("Mul", "x,more", "gate"),
        node("Mul", "gate,half", "u"),
        node("Transpose", "u", "t", perm=[1, 0]),
        node("Shape", "t", "of_t"),
        node("Gather", "of_t,second", "count"),
        node("Concat", "count,minus", "shape", axis=0),
        node("Reshape", "u,shape", "r"),
        node("Softmax", "r", "s", axis=1),
        node("Reshape", "s,back", "q"),
        node("Mul", "q,ramp", "y"),
    ]
    floats = {"root": np.sqrt(0.5), "one": 1.0, "half": 0.5}
    constants = {key: np.array(number, np.float32) for key, number in floats.items()}
    content = saved(nodes, constants | whole(second=[1], minus=[-1]) | BACK, declared=[(name, shape)])
    if "b" in shape:
        assert is_read_as_it_runs(content, tmp_path, 14)
        return
    with pytest.raises(CheckError, match="the type or shape of"):
        read_onnx(content, tmp_path)
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(FairmendError, match=rf"declares '{name}' for 7 rows"):
        load_network(tmp_path / "m.onnx")


def test_of_one_row_a_squeeze_without_axes_takes_the_axis_of_the_rows(tmp_path):
    """(4, 1) becomes (4,), and (1, 1) a number, which other axes then broadcast with; a function of it is still one."""
    ends = [node("Gemm", "x,one", "n"), node("Squeeze", "n", "a")]
    plain = [*ends, node("Tanh", "a", "b"), node("Reshape", "b,column", "c"), node("Mul", "c,wide", "y")]
    ones = {"one": np.ones((COLUMNS, 1), np.float32), "wide": np.ones((1, COLUMNS), np.float32)}
    assert is_read_as_it_runs(saved(plain, ones | whole(column=[-1, 1])), tmp_path, 1)
    nodes = [
        *ends,
        node("Unsqueeze", "a,zero", "u"),
        node("Transpose", "x", "t", perm=[1, 0]),
        node("Mul", "u,t", "m"),
        node("Transpose", "m", "y", perm=[1, 0]),
    ]
    content = saved(nodes, {"one": ones["one"]} | whole(zero=[0]))
    with pytest.raises(CheckError, match="does not say over which axes"):
        read_onnx(content, tmp_path)
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(FairmendError, match="does not say which axes it is over"):
        load_network(tmp_path / "m.onnx")


LEAST = np.finfo(np.float32).min


@pytest.mark.parametrize(("least", "grows"), [(-np.inf, "b"), (LEAST, "b"), (LEAST, "a")])
def test_what_a_mask_hides_counts_where_it_overflows(least, grows, tmp_path):
    """The file adds -infinity to exp(x), and makes NaN of infinity: the hidden number was once left out altogether.

    With the least number, it would hide no score that is larger by as much, or none if those that are seen are as low.
    """
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1),
        node("Exp", grows, "e"),
        *([node("Neg", "e", "f")] if grows == "a" else []),
        node("Concat", "a,e" if grows == "b" else "f,b", "c", axis=1),
        node("Reshape", "c,tokens", "r"),
        node("Add", "r,mask", "scores"),
        node("Softmax", "scores", "s", axis=-1),
        node("Reshape", "s,back", "q"),
        node("Mul", "q,ramp", "y"),
    ]
    mask = np.repeat([0, least], COLUMNS // 2).astype(np.float32)
    content = saved(nodes, {"mask": mask} | whole(tokens=[-1, 1, COLUMNS]) | BACK)
    model = read_onnx(content, tmp_path)
    assert is_read_as_it_runs(content, tmp_path, 4)
    for size, finite in ((1.0, True), (88.5 if least == LEAST else 100.0, False)):
        x = np.full((1, COLUMNS), size)
        low, high = enclose_outputs(model, x)
        assert np.isfinite([low, high]).all() == finite
        overflows = dependent_columns(model, [COLUMNS - 1], x[0])
        assert [part.any() for part in overflows] == [False, not finite]
    (tmp_path / "m.onnx").write_bytes(content)
    loaded = kernel_model(load_network(tmp_path / "m.onnx"))
    assert network_digest(loaded) == network_digest(model)


WIDENED = {
    "Sub": [node("Sub", "u,bins", "d")],
    "Sub from a constant": [node("Sub", "bins,u", "d")],
    "Add": [node("Add", "bins,u", "d")],
    "Div": [node("Div", "u,bins", "d")],
    "Div of a constant": [node("Exp", "u", "e"), node("Div", "bins,e", "d")],
    "Max": [node("Max", "u,bins", "d")],
    "Min of three": [node("Mul", "u,u", "e"), node("Min", "bins,e,u", "d")],
    "Max with 0": [node("Max", "zero,u", "e"), node("Max", "e,bins", "d")],
}


@pytest.mark.parametrize("case", WIDENED)
def test_constants_widen_values_and_are_compared_with_them(case, tmp_path):
    """As bins of piecewise-linear embeddings do, and clamp, maximum and minimum."""
    steps = [
        node("Unsqueeze", "x,last", "u"),
        *WIDENED[case],
        node("ReduceSum", "d,last", "s", keepdims=0),
        node("Tanh", "s", "y"),
    ]
    floats = {
        "bins": np.arange(1, 1 + COLUMNS * 3, dtype=np.float32).reshape(COLUMNS, 3) / 9,
        "zero": np.zeros((), np.float32),
    }
    used = {name for each in steps for name in each.input}
    content = saved(steps, {key: array for key, array in (floats | whole(last=[-1])).items() if key in used})
    assert is_read_as_it_runs(content, tmp_path, 5)
    (tmp_path / "m.onnx").write_bytes(content)
    assert network_digest(kernel_model(load_network(tmp_path / "m.onnx"))) == network_digest(
        read_onnx(content, tmp_path)
    )


def test_numbers_of_a_constant_are_not_added_up(tmp_path):
    """ONNX Runtime adds them up in an order of its own: of 2^27, 1 and -2^27, to 1 or to 0."""
    path, orders = tmp_path / "model.onnx", set()
    for equation, columns in (("bi,oik->bo", 2), ("bi,iok->bo", 2), ("bi,oi->bo", 1)):
        letters = equation.split("->")[0].split(",")[1]
        for places in ((2, 3, 0), (0, 1, 2), (3, 2, 1), (1, 2, 3)):
            numbers = np.zeros(4, np.float32)
            numbers[list(places)] = 2.0**27, 1, -(2.0**27)
            table = np.zeros((1, columns, 4), np.float32)
            table[0, 0] = numbers
            weights = np.einsum("oik->" + letters, table) if columns == 2 else table[:, 0]
            constants = [numpy_helper.from_array(np.ascontiguousarray(weights), "w")]
            constants.append(numpy_helper.from_array(np.ones((1, 1), np.float32), "head"))
            nodes = [helper.make_node("Einsum", ["x", "w"], ["h"], equation=equation)]
            nodes.append(helper.make_node("MatMul", ["h", "head"], ["y"]))
            x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", columns])
            y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])
            graph = helper.make_graph(nodes, "g", [x], [y], constants)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
            path.write_bytes(model.SerializeToString())
            with pytest.raises(CheckError, match="adds up numbers of its constant"):
                read_onnx(path.read_bytes(), tmp_path)
            with pytest.raises(FairmendError, match="adds up numbers of its constant"):
                load_network(path)
            rows = np.eye(2, columns, dtype=np.float32)[:1]
            found = onnxruntime.InferenceSession(path.read_bytes()).run(None, {"x": rows})[0]
            orders.add((equation, float(found[0, 0])))
    assert {number for _, number in orders} == {0.0, 1.0}


FUSED = {  # a runtime subtracts the largest number, scales what it squares, or adds up in another order
    "ReduceLogSumExp": (64, 1),
    "ReduceLogSum": (64, 1),
    "ReduceL1": (96, 2),
    "ReduceL2": (96, 2),
    "ReduceSumSquare": (96, 2),
}


@pytest.mark.parametrize("kind", FUSED)
@pytest.mark.parametrize("size", [1e-3, 1.0, 20.0])
def test_reductions_in_one_kernel_are_within_the_bounds_of_their_steps(kind, size, tmp_path):
    count, width = FUSED[kind]
    rng = np.random.default_rng(0)
    weight = (rng.normal(size=(COLUMNS, count * width)) / 4).astype(np.float32)
    nodes = [
        node("MatMul", "x,spread", "h"),
        *([node("Mul", "h,h", "p")] if kind == "ReduceLogSum" else [node("Add", "h,apart", "p")]),
        node("Reshape", "p,tokens", "t"),
        helper.make_node(kind, ["t"], ["r"], axes=[1], keepdims=0),
        node("MatMul", "r,wide", "y"),
    ]
    constants = {"spread": weight, "wide": np.ones((width, COLUMNS), np.float32)}
    constants |= {} if kind == "ReduceLogSum" else {"apart": np.float32(-size)}
    content = saved(nodes, constants | whole(tokens=[-1, count, width]))
    x = (rng.normal(size=(200, COLUMNS)) * size).astype(np.float32)
    low, high = enclose_outputs(read_onnx(content, tmp_path), x.astype(np.float64))
    given = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    assert ((low <= given) & (given <= high)).all()
    assert np.isfinite(low).all()
    assert (high - low).max() < 1e-3 * (1 + np.abs(given).max())


@pytest.mark.parametrize("between", [[], [node("Tanh", "t", "u")]])
def test_a_product_with_a_vector_is_refused(between, tmp_path):
    """ONNX Runtime 1.31 merges a Transpose before it into the product, and multiplies along another axis."""
    nodes = [
        node("Reshape", "x,tokens", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        *between,
        node("MatMul", "u,q" if between else "t,q", "p"),
        node("MatMul", "p,wide", "y"),
    ]
    floats = {"q": np.float32([1, 2, -1]), "wide": np.ones((4, COLUMNS), np.float32)}
    content = saved(nodes, floats | whole(tokens=[-1, 3, 4]))
    with pytest.raises(CheckError, match="multiplies by a vector"):
        read_onnx(content, tmp_path)
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(FairmendError, match=r"\(MatMul\) multiplies by a vector"):
        load_network(tmp_path / "m.onnx")
