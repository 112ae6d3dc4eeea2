"""Write neighbourhoods as verification problems in the VNN-COMP format, for a second opinion from other verifiers.

A problem is a network (ONNX, logits as outputs Y) and a property (VNN-LIB) that states the *counterexample*: a
counterfactual gets another prediction than the input itself. So unsat means fair. sat means unfair, with two exceptions
that the format cannot express, and that `Problem` names as a tie or as relaxed features:

- VNN-LIB has no strict inequality. A prediction is positive if the logit is at least 0, and with N logits the lowest
  index wins a tie. If the other prediction needs *less than* (or *more than*), the property includes the tie, and a sat
  on the tie shows nothing.
- At a threshold other than 1/2, the logit is compared with the log-odds of the threshold, an irrational number. The
  property has the next float64 number on the side that adds counterexamples. Of two logits, the exported network has
  one output: the second minus the first.
- Whole numbers and categories are listed as a disjunction of boxes, up to a number of boxes. Beyond that number,
  features are relaxed to intervals, largest first, and a sat need not be a possible person.

Both only add counterexamples: unsat always means fair.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend._version import __version__
from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.files import to_json, write_atomically
from fairmend.base.text import printable
from fairmend.models import ModelSource, require_network
from fairmend.network import DEFAULT_THRESHOLD, Activation, Affine, Network, Node
from fairmend.network.decision import enclose_log_odds
from fairmend.prove.fit import network_of_spec, require_fit
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import list_combinations, one_hot_ends
from fairmend.spec.products import ReachableValues

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike


MOST_BOXES = 1000
MODEL, INSTANCES, MANIFEST = "model.onnx", "instances.csv", "manifest.json"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Problem:
    """One property file, and what sat and unsat mean for it.

    Attributes
    ----------
    file : the name of the file
    row : the number of the input
    answer : the class that the network predicts for the input
    boxes : the number of boxes that the neighbourhood is written as
    relaxed : the features whose values were relaxed to an interval, so that a sat may be no possible person
    tie_is_sat : whether a tie, which does not change the prediction, satisfies the property
    """

    file: str
    row: int
    answer: int
    boxes: int
    relaxed: tuple[str, ...]
    tie_is_sat: bool

    @property
    def exact(self) -> bool:
        """Whether sat always means unfair."""
        return not self.relaxed and not self.tie_is_sat

    def as_dict(self) -> dict[str, Any]:
        """Return the problem as plain data."""
        return {
            "file": self.file,
            "row": self.row,
            "answer": self.answer,
            "boxes": self.boxes,
            "relaxed": list(self.relaxed),
            "tie_is_sat": self.tie_is_sat,
            "unsat": "fair",
            "sat": _meaning_of_sat(self.relaxed, self.tie_is_sat),
        }


@dataclass(frozen=True, repr=False)
class VnnlibExport:
    """The problems that were written, and their folder."""

    folder: Path
    problems: tuple[Problem, ...]

    def __repr__(self) -> str:
        """Return the number of problems, and how many are relaxed."""
        relaxed = sum(bool(problem.relaxed) for problem in self.problems)
        return f"VnnlibExport({len(self.problems)} problems in {printable(self.folder)}, {relaxed} of them relaxed)"


def export_vnnlib(
    net: ModelSource,
    spec: Spec,
    X: pd.DataFrame | ArrayLike,
    out: str | PathLike[str],
    *,
    rows: Sequence[int] | None = None,
    timeout: int = 300,
    most_boxes: int = MOST_BOXES,
) -> VnnlibExport:
    """Write a folder of problems, one for each input: does a counterfactual get another prediction?

    The folder holds model.onnx, one .vnnlib file per input, instances.csv (model, property, seconds, as in VNN-COMP)
    and manifest.json, which states for each property what sat and unsat mean.

    Parameters
    ----------
    net : the network, or anything that `load_network` reads
    spec : the features; they define which people are similar
    X : the inputs, encoded or as a DataFrame
    out : the folder to write
    rows : the numbers of the inputs, used in file names; 0, 1, … by default
    timeout : seconds per problem, for instances.csv
    most_boxes : the largest number of boxes in a property before features are relaxed to intervals
    """
    network = network_of_spec(require_network(net, "the export to VNN-LIB"), spec)
    spec.require_class_claim("the export to VNN-LIB")
    require_fit(network, spec)
    if most_boxes < 1 or timeout < 1:
        raise FairmendError(f"most_boxes and timeout must be at least 1, got {most_boxes} and {timeout}")
    inputs = spec.as_inputs(X, network.dtype)
    numbers = list(range(len(inputs))) if rows is None else [int(row) for row in rows]
    if len(numbers) != len(inputs) or len(set(numbers)) != len(numbers):
        raise FairmendError(f"rows must hold {len(inputs)} different numbers, one for each input")
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FairmendError(f"{folder}: cannot create the folder: {error.strerror or error}") from error
    exported = _with_one_output(network) if network.threshold != DEFAULT_THRESHOLD else network
    write_atomically(folder / MODEL, _model_bytes(exported))
    digits = len(str(max(numbers)))
    problems = []
    for row, x, answer in zip(numbers, inputs, network.predict(inputs).tolist(), strict=True):
        problem, text = _problem(exported, spec, x, answer, row, f"row-{row:0{digits}d}.vnnlib", most_boxes)
        write_atomically(folder / problem.file, text.encode("utf-8"))
        problems.append(problem)
        _logger.debug("%s: %d boxes, relaxed: %s", problem.file, problem.boxes, ", ".join(problem.relaxed) or "none")
    names = {"fairmend": __version__, "model": MODEL, "threshold": network.threshold}
    manifest = {**names, "problems": [problem.as_dict() for problem in problems]}
    write_atomically(folder / MANIFEST, f"{to_json(manifest)}\n".encode())
    # Written last, so that every file it names exists.
    lines = "".join(f"{MODEL},{problem.file},{timeout}\n" for problem in problems)
    write_atomically(folder / INSTANCES, lines.encode("utf-8"))
    export = VnnlibExport(folder, tuple(problems))
    _logger.info("%r", export)
    return export


def _model_bytes(net: Network) -> bytes:
    """Return the network in the form that verifiers need: batch size 1, logits as outputs."""
    import onnx

    from fairmend.network.formats.onnx.write import to_bytes

    model = onnx.load_from_string(to_bytes(Network.from_nodes(net.nodes)))
    for value in (*model.graph.input, *model.graph.output):
        batch = value.type.tensor_type.shape.dim[0]
        batch.Clear()
        batch.dim_value = 1
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _with_one_output(net: Network) -> Network:
    """Return the network whose output is the lead of class 1: the logit, or the second of two minus the first."""
    if net.outputs == 1:
        return net
    last = Affine(np.array([[-1, 1]], net.dtype), np.zeros(1, net.dtype))
    nodes = [*net.nodes, *([Node(Activation("identity"), (len(net.nodes) - 1,))] if net.is_chain else [])]
    nodes.append(Node(last, (len(nodes) - 1,), _unused_name(net.names)))
    return Network.from_nodes(nodes, threshold=net.threshold)


def _unused_name(names: Sequence[str]) -> str:
    return next(name for name in ("lead", *(f"lead.{i}" for i in range(len(names)))) if name not in names)


def _problem(
    net: Network, spec: Spec, x: FloatArray, answer: int, row: int, file: str, most_boxes: int
) -> tuple[Problem, str]:
    lower, upper, relaxed = region_boxes(spec, x, most_boxes)
    conditions, tie_is_sat = _other_predictions(answer, net)
    problem = Problem(file, row, answer, len(lower), relaxed, tie_is_sat)
    return problem, "\n".join(_lines(net, spec, problem, lower, upper, conditions)) + "\n"


def region_boxes(spec: Spec, x: FloatArray, most: int) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return boxes (boxes, width) whose union contains the neighbourhood of x (width,), and the relaxed features.

    If no feature is relaxed, the union is exact: whole numbers and categories are points.
    """
    products = spec.products(x[None])
    count = len(products.owner)
    if count > most:  # only links and bands make several products
        return *spec.hull(x[None], x.dtype), tuple(feature.name for feature in spec.varying)
    rows = np.arange(count, dtype=np.int64)[:, None]
    parts = [_product_boxes([each.take(row) for each in products.values], x, most // count) for row in rows]
    relaxed = {name for _, _, names in parts for name in names}
    return (
        np.concatenate([lower for lower, _, _ in parts]),
        np.concatenate([upper for _, upper, _ in parts]),
        tuple(feature.name for feature in spec.features if feature.name in relaxed),
    )


def _product_boxes(values: list[ReachableValues], x: FloatArray, most: int) -> tuple[FloatArray, FloatArray, set[str]]:
    """Return boxes (boxes, width) around one product of the neighbourhood of x (width,), and the relaxed features."""
    sizes = {each.feature.name: int(each.counts[0]) for each in values if each.feature.kind != "continuous"}
    relaxed: set[str] = set()
    # One-hot groups last: most of the box around their points is no possible person.
    features = [each.feature for each in values if each.feature.name in sizes]
    for feature in sorted(features, key=lambda f: (f.one_hot, -sizes[f.name])):
        if math.prod(sizes.values()) <= most:
            break
        relaxed.add(feature.name)
        del sizes[feature.name]
    lower = list_combinations([each for each in values if each.feature.name in sizes], x)
    upper = lower.copy()
    for each in values:
        if each.feature.name not in sizes:
            lower[:, each.columns], upper[:, each.columns] = one_hot_ends(each) if each.feature.one_hot else each.ends()
    return lower, upper, relaxed


def _other_predictions(answer: int, net: Network) -> tuple[list[str], bool]:
    """Return the conditions on the outputs, each of which means another prediction, and whether a tie satisfies one."""
    outputs = net.outputs
    if net.threshold != DEFAULT_THRESHOLD:
        below, above = enclose_log_odds(net.threshold)
        return [f"(>= Y_0 {_number(below)})" if answer == 0 else f"(<= Y_0 {_number(above)})"], True
    if outputs == 1:
        return (["(>= Y_0 0.0)"], False) if answer == 0 else (["(<= Y_0 0.0)"], True)
    others = [other for other in range(outputs) if other != answer]
    # The lowest index wins a tie, so a class of higher index needs a larger logit.
    return [f"(>= Y_{other} Y_{answer})" for other in others], answer < outputs - 1


def _lines(
    net: Network, spec: Spec, problem: Problem, lower: FloatArray, upper: FloatArray, conditions: list[str]
) -> Iterator[str]:
    yield _comment(f"Does a counterfactual of row {problem.row} get a prediction other than class {problem.answer}?")
    yield _comment(f"unsat: no, proven. sat: {_meaning_of_sat(problem.relaxed, problem.tie_is_sat)}.")
    yield _comment(f"{len(lower)} boxes, written by fairmend {__version__}.")
    yield ""
    for column, name in enumerate(spec.column_names):
        yield _comment(f"X_{column}: {name}")
        yield f"(declare-const X_{column} Real)"
    for output in range(net.outputs):
        yield f"(declare-const Y_{output} Real)"
    yield ""
    first, last = lower.min(axis=0), upper.max(axis=0)
    for column in range(net.inputs):
        yield f"(assert (>= X_{column} {_number(first[column])}))"
        yield f"(assert (<= X_{column} {_number(last[column])}))"
    yield ""
    narrower = np.flatnonzero((lower > first).any(axis=0) | (upper < last).any(axis=0)).tolist()
    clauses = [
        [
            *(f"(>= X_{k} {_number(low[k])}) (<= X_{k} {_number(high[k])})" for k in narrower),
            condition,
        ]
        for low, high in zip(lower, upper, strict=True)
        for condition in conditions
    ]
    if len(clauses) == 1:
        yield f"(assert {clauses[0][0]})"
        return
    yield "(assert (or"
    for clause in clauses:
        yield f"  (and {' '.join(clause)})"
    yield "))"


def _meaning_of_sat(relaxed: Sequence[str], tie_is_sat: bool) -> str:
    exceptions = []
    if relaxed:
        exceptions.append(f"the point is no possible person ({', '.join(relaxed)} relaxed to intervals)")
    if tie_is_sat:
        exceptions.append("the point lies on a tie, which does not change the prediction")
    return f"unfair, unless {' or '.join(exceptions)}" if exceptions else "unfair"


def _comment(text: str) -> str:
    """Return a comment on one line: text after a line break in a name would become part of the property."""
    return f"; {printable(' '.join(text.split()))}"


def _number(value: Any) -> str:
    """Return the exact value as a decimal without exponent, because some parsers do not read exponents."""
    return np.format_float_positional(np.float64(value) + 0.0, unique=True, trim="0")
