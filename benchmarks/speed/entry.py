"""What the first nodes of a repaired model cost in ONNX Runtime: one Where, beside every other way to cut columns.

    python benchmarks/speed/entry.py [--turns 51]

Each form replaces 2 of 13 columns by constants, whatever they hold, before a model that is as small as models are: a
linear one, and a forest of 100 trees. All give the same bits, for NaN, infinities and −0 as well, or they are not
forms. For each there are the microseconds of processor time that it adds, in one thread: the least of the turns, in
which all forms take turns in any order.

*Any node* is one that cuts nothing: Abs, whose output is new memory, and Reshape, which only passes its input on. So
nothing that a graph can do to a row costs less than the cheaper of the two. A product with 0 is no form, because 0 · x
may be NaN or −0. *Several* is for averages over members: the rows of 8 members, by a Where for each and a Concat, and
by one Where with an axis of members, which `average` writes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestRegressor

WIDTH, CUT, MEMBERS = 13, (3, 8), 8
PEOPLE = (1, 100, 2000)
SPOILT = (np.nan, np.inf, -np.inf, -0.0, 1e30)
Node = tuple[str, Sequence[str], str, dict[str, int]]
Form = tuple[list[Node], dict[str, np.ndarray]]
"""Nodes from x to y, and constants."""

KEPT = [column for column in range(WIDTH) if column not in CUT]
MASK = np.isin(np.arange(WIDTH), CUT)[None]
REFERENCE = np.where(MASK, np.float32(7), np.float32(0))
OF_MEMBERS = np.where(MASK, np.arange(MEMBERS, dtype=np.float32)[:, None], np.float32(0))
ROWS: list[Node] = [("Shape", ["x"], "rows", {"start": 0, "end": 1}), ("Concat", ["rows", "two"], "size", {"axis": 0})]
PLACES = [WIDTH + CUT.index(column) if column in CUT else column for column in range(WIDTH)]
TWO = {"two": np.array([len(CUT)]), "values": REFERENCE[:, CUT]}
FORMS: dict[str, Form] = {
    "Where, as written": ([("Where", ["mask", "reference", "x"], "y", {})], {"mask": MASK, "reference": REFERENCE}),
    "Where, the other way round": (
        [("Where", ["mask", "x", "reference"], "y", {})],
        {"mask": ~MASK, "reference": REFERENCE},
    ),
    "Where, constants of one axis": (
        [("Where", ["mask", "reference", "x"], "y", {})],
        {"mask": MASK[0], "reference": REFERENCE[0]},
    ),
    "ScatterElements": (
        [
            *ROWS,
            ("Expand", ["places", "size"], "at", {}),
            ("Expand", ["values", "size"], "new", {}),
            ("ScatterElements", ["x", "at", "new"], "y", {"axis": 1}),
        ],
        {"places": np.array([CUT]), **TWO},
    ),
    "Concat and Gather": (
        [
            *ROWS,
            ("Expand", ["values", "size"], "new", {}),
            ("Concat", ["x", "new"], "all", {"axis": 1}),
            ("Gather", ["all", "places"], "y", {"axis": 1}),
        ],
        {"places": np.array(PLACES), **TWO},
    ),
}
OTHERS: dict[str, Form] = {
    "any node: Abs": ([("Abs", ["x"], "y", {})], {}),
    "any node: Reshape": ([("Reshape", ["x", "shape"], "y", {})], {"shape": np.array([0, WIDTH])}),
}
SEVERAL: dict[str, Form] = {
    "several: a Where for each member, Concat": (
        [
            *[("Where", ["mask", f"reference_{k}", "x"], f"member_{k}", {}) for k in range(MEMBERS)],
            ("Concat", [f"member_{k}" for k in range(MEMBERS)], "y", {"axis": 0}),
        ],
        {"mask": MASK, **{f"reference_{k}": OF_MEMBERS[[k]] for k in range(MEMBERS)}},
    ),
    "several: one Where, Reshape": (
        [("Where", ["mask", "reference", "x"], "members", {}), ("Reshape", ["members", "shape"], "y", {})],
        {"mask": MASK, "reference": OF_MEMBERS[:, None], "shape": np.array([-1, WIDTH])},
    ),
}


def session(form: Form, model: onnx.ModelProto | None) -> onnxruntime.InferenceSession:
    """Return a session of a form, followed by a model if there is one."""
    nodes = [helper.make_node(kind, list(read), [written], **given) for kind, read, written, given in form[0]]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in form[1].items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    if model is not None:
        source = "y" if nodes else "x"
        for node in model.graph.node:
            reads = [source if name == model.graph.input[0].name else name for name in node.input]
            copy = onnx.NodeProto.FromString(node.SerializeToString())
            copy.input[:] = reads
            nodes.append(copy)
        constants += model.graph.initializer
        outputs = list(model.graph.output)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph(nodes, "entry", [given], outputs, constants)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    content = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def require_same_bits() -> None:
    """Raise an error if a form does not cut, or if members are not those of the other way to make them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(len(SPOILT), WIDTH)).astype(np.float32)
    expected = np.where(MASK, REFERENCE, X)
    X[:, CUT] = np.array(SPOILT, np.float32)[:, None]
    for name, form in FORMS.items():
        found = session(form, None).run(None, {"x": X})[0]
        if found.tobytes() != expected.tobytes():
            raise AssertionError(f"{name} does not cut")
    together = [session(form, None).run(None, {"x": X})[0].tobytes() for form in SEVERAL.values()]
    if len({*together}) > 1:
        raise AssertionError("two ways to make the rows of members differ")


def models() -> dict[str, onnx.ModelProto]:
    """Return a linear model, and a forest of 100 trees, that read x and give a score."""
    from skl2onnx import to_onnx  # type: ignore[import-untyped]

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, WIDTH)).astype(np.float32)
    forest = to_onnx(RandomForestRegressor(100, max_depth=8, random_state=0).fit(X, X[:, 0] * X[:, 1]), X[:1])
    linear = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["score"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(X[:WIDTH, :1], "weight")],
    )
    return {"linear": helper.make_model(linear), "forest": forest}


def microseconds(sessions: Sequence[onnxruntime.InferenceSession], people: int, turns: int) -> list[float]:
    """Return the least processor time of each session for a batch, in microseconds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(people, WIDTH)).astype(np.float32)
    runs = max(3, 500 // people)
    taken: list[list[float]] = [[] for _ in sessions]
    for _ in range(turns):
        for which in rng.permutation(len(sessions)):
            started = time.process_time()
            for _ in range(runs):
                sessions[which].run(None, {"x": X})
            taken[which].append((time.process_time() - started) / runs * 1e6)
    return [min(each) for each in taken]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=51)
    turns = parser.parse_args().turns
    require_same_bits()
    printed = Table(title=f"microseconds that a form adds, ONNX Runtime {onnxruntime.__version__}")
    printed.add_column("form")
    nothing: Form = ([], {})
    forms = {**OTHERS, **FORMS, **SEVERAL}
    columns: list[list[str]] = []
    for model, people in [*((each, 1) for each in models().items()), *((("copies", None), size) for size in PEOPLE)]:
        name, graph = model
        printed.add_column(f"{name}, {people:,}", justify="right")
        if graph is None:  # nothing follows, so what is timed beside the form is the call
            base: Form = ([("Identity", ["x"], "y", {})], {})
            sessions = [session(form, None) for form in (base, *forms.values())]
        else:
            sessions = [session(form, graph) for form in (nothing, *{**OTHERS, **FORMS}.values())]
        alone, *taken = microseconds(sessions, people, turns)
        shown = [f"{each - alone:.2f}" + (f" ({each / alone:.2f})" if graph is not None else "") for each in taken]
        columns.append(shown + [""] * (len(forms) - len(shown)))
    for row, name in enumerate(forms):
        printed.add_row(name, *(column[row] for column in columns))
    Console(width=max(Console().width, 120)).print(printed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
