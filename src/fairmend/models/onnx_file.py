"""ONNX files, run by ONNX Runtime: any graph, several inputs, strings, whole numbers, labels and probabilities."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import FloatArray, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, first_line, listed
from fairmend.models.known_values import has_whole_categories
from fairmend.models.ports import InputSignature, Port, ports_of
from fairmend.models.run_model import Runner
from fairmend.spec import Spec
from fairmend.spec.features import Feature

_ELEMENTS = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(string)": "string",
    "tensor(bool)": "bool",
}
_SCORES = ("tensor(float)", "tensor(double)", "tensor(float16)")
_LABELS = ("tensor(int64)", "tensor(int32)", "tensor(string)")
_PASSING = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Cast", "Clip", "ZipMap")
_PROBABILITIES = ("Sigmoid", "Softmax", "HardSigmoid", "Normalizer")
_NUMBERS = ("TreeEnsembleRegressor", "LinearRegressor", "SVMRegressor")


class OnnxRunner(Runner):
    """Runs an ONNX file in this process, on the CPU."""

    def __init__(self, path: Path, output: str | None = None) -> None:
        """Open the file, and find the output that holds the scores."""
        self.name, self._path = path.name, path
        graph = _graph(path)
        self._open()
        self._signature = tuple(self._input(each) for each in self._session.get_inputs())
        self._fixed = next((s.shape[0] for s in self._session.get_inputs() if s.shape and _is_count(s.shape[0])), None)
        # float32 holds whole numbers up to 2^24 only.
        exact = any(each.type in ("float64", "int64", "int32") for each in self._signature)
        self.dtype = np.dtype(np.float64 if exact else np.float32)
        self._padded, self._numbers = _padded_texts(graph), _encoded_numbers(graph)
        chosen = self._choose_output(output)
        self._output: str = chosen.name
        self.labels = _labels(graph, self._output)
        self.kind = self._kind(graph, chosen.type)
        labels = [each.name for each in self._session.get_outputs() if each.type in _LABELS]
        self._label = labels[0] if len(labels) == 1 else None
        self.ties_are_first = self._label is not None

    @property
    def named_columns(self) -> tuple[InputSignature, ...]:
        """The inputs, if there are several of one column each."""
        single = len(self._signature) > 1 and all(each.rank == 1 or each.width == 1 for each in self._signature)
        return self._signature if single else ()

    @property
    def width(self) -> int | None:
        """The columns of all inputs together; None if one of them leaves it open."""
        widths = [1 if each.rank == 1 else each.width for each in self._signature]
        return None if None in widths else sum(width for width in widths if width is not None)

    @property
    def batch_size(self) -> int | None:
        """The number of rows that the file takes at a time; None if that is open."""
        return self._fixed

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def output(self) -> str:
        """The name of the output with the scores."""
        return self._output

    @property
    def output_rank(self) -> int:
        """The number of dimensions of the scores."""
        return next(len(each.shape) for each in self._session.get_outputs() if each.name == self._output)

    @property
    def label_output(self) -> tuple[str, str] | None:
        """The name of the output with predicted labels, and "string" or "int64"; None if there is none."""
        found = [(each.name, each.type) for each in self._session.get_outputs() if each.type in _LABELS]
        return (found[0][0], "string" if "string" in found[0][1] else "int64") if found else None

    def _open(self) -> None:
        try:
            runtime = import_module("onnxruntime")
        except ImportError as error:
            raise FairmendError("ONNX Runtime is not installed: pip install 'fairmend[onnxruntime]'") from error
        self.runtime = f"ONNX Runtime {runtime.__version__}"
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        try:
            self._session: Any = runtime.InferenceSession(str(self._path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise FairmendError(f"{self.runtime} does not load {self.name} ({first_line(error)})") from error

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the session: another process opens the file again."""
        return {name: value for name, value in self.__dict__.items() if name != "_session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the file again."""
        self.__dict__.update(state)
        self._open()

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxRunner:
        """Share the session."""
        return self

    def digest(self) -> str:
        """Return the sha256 of the file."""
        return hashlib.sha256(self._path.read_bytes()).hexdigest()

    def predictions(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> Ints | None:
        """Return the label that the file gives beside the scores."""
        if self._label is None or self._fixed or not self.labels:
            return None
        (given,) = self._session.run([self._label], {port.name: port.values(spec, X) for port in ports})
        said = [as_text(each) for each in np.asarray(given).reshape(-1).tolist()]
        known = len(said) == len(X) and set(said) <= set(self.labels)
        return np.array([self.labels.index(each) for each in said], dtype=np.int64) if known else None

    def ports(self, spec: Spec) -> tuple[Port, ...]:
        """Return the inputs of the graph; refuse categories that its encoders know as others than they would get."""
        ports = ports_of(self._signature, spec, self.name)
        for feature in (spec.feature(name) for port in ports if port.type != "string" for name in port.features):
            self._require_codes(feature)
        for feature in (spec.feature(name) for port in ports if port.type == "string" for name in port.features):
            padded = [self._padded[each] for each in feature.categories or () if each in self._padded]
            if padded:
                raise FairmendError(
                    f'{self.name}: reads {padded[0]!r} in "{feature.name}", and texts of a spec have no spaces around '
                    "them: to the file, these people have an unknown category. Fit the model on texts without them"
                )
        return ports

    def _require_codes(self, feature: Feature) -> None:
        """Refuse a feature whose categories are numbers that an encoder knows, where the file would get their codes."""
        if not feature.categories or feature.one_hot or not has_whole_categories(feature):
            return
        numbers = {int(each) for each in feature.categories}
        codes = np.arange(len(feature.categories), dtype=np.float64)
        given = set(feature.encode(codes)[:, 0].tolist())
        if given != numbers and any(numbers <= known and given != known for known in self._numbers):
            raise FairmendError(
                f'{self.name}: an encoder knows {listed(sorted(feature.categories))} in "{feature.name}", and gets '
                'their codes, from 0 on. Make it kind = "integer" in the spec, export the column as text, or give the '
                "pipeline itself"
            )

    def run(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> NDArray[Any]:
        """Return the output with the scores."""
        size = self._fixed or len(X)
        parts = [self._run(spec, ports, X[start : start + size]) for start in range(0, len(X), size)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _run(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> NDArray[Any]:
        rows = len(X)
        if self._fixed and rows < self._fixed:  # the last batch of a file with batches of one size
            X = np.concatenate([X, np.repeat(X[:1], self._fixed - rows, axis=0)])
        fed = {port.name: port.values(spec, X) for port in ports}
        (found,) = self._session.run([self._output], fed)
        scores = _from_maps(found, self.labels) if isinstance(found, list) else np.asarray(found)
        while scores.ndim > 2 and scores.shape[-1] == 1:
            scores = scores[..., 0]
        return scores[:rows] if scores.ndim and len(scores) == len(X) else scores  # another length is refused

    def _input(self, value: Any) -> InputSignature:
        kind = _ELEMENTS.get(value.type)
        if kind is None or len(value.shape) not in (1, 2):
            raise FairmendError(
                f'{self.name}: input "{value.name}" is {value.type} of shape {value.shape}; fairmend fills inputs of '
                f"float32, float64, whole numbers, text or truth values, of shape (rows, columns) or (rows,)"
            )
        width = value.shape[1] if len(value.shape) == 2 else 1
        return InputSignature(value.name, kind, len(value.shape), width if _is_count(width) else None)

    def _choose_output(self, name: str | None) -> Any:
        """Return the output of this name, or the one that holds scores."""
        outputs = self._session.get_outputs()
        names = [each.name for each in outputs]
        if name is not None:
            if name not in names:
                raise FairmendError(f'{self.name}: has no output "{name}"; it has {listed(names)}')
            return outputs[names.index(name)]
        found = [each for each in outputs if each.type.startswith("seq(map(")]
        found = found or [each for each in outputs if each.type in _SCORES and len(each.shape) > 0]
        if len(found) != 1:
            held = "several outputs that may hold scores" if found else "no output that holds scores"
            raise FairmendError(f"{self.name}: has {held}: {listed(names)}; pass output= with the name of one of them")
        return found[0]

    def _kind(self, graph: Any, held: str) -> str:
        """Return what the scores are: probabilities beside a label, or after a closing sigmoid or softmax."""
        if held.startswith("seq("):
            return "probability"
        last = _producer(graph, self._output)
        if last is not None and last.op_type in _NUMBERS:
            return "number"
        beside_label = any(each.type in _LABELS for each in self._session.get_outputs())
        return "probability" if beside_label or (last is not None and last.op_type in _PROBABILITIES) else "logit"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value > 0


def _graph(path: Path) -> Any:
    import onnx

    try:
        return onnx.load(str(path), load_external_data=False).graph
    except Exception as error:  # of protobuf, which has many
        raise FairmendError(f"{path.name} is no ONNX file ({first_line(error)})") from error


def _encoded_numbers(graph: Any) -> list[set[int]]:
    """Return the whole numbers that each encoder of a graph knows."""
    names = ("cats_int64s", "keys_int64s")
    return [set(each.ints) for node in graph.node for each in node.attribute if each.name in names]


def _padded_texts(graph: Any) -> dict[str, str]:
    """Return the texts of a graph that have spaces around them, by what is left without these."""
    from onnx import numpy_helper

    held = [text for node in graph.node for each in node.attribute for text in (each.s, *each.strings)]
    tensors = [*graph.initializer, *(each.t for node in graph.node for each in node.attribute if each.HasField("t"))]
    for tensor in tensors:
        if tensor.data_type == tensor.STRING:
            held += numpy_helper.to_array(tensor).reshape(-1).tolist()
    texts = [each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in held]
    return {as_text(text): text for text in texts if as_text(text) not in ("", text) and as_text(text) not in texts}


def named_classes(path: Path) -> tuple[str, ...]:
    """Return what an ONNX file calls its classes, in the order of its scores; nothing if it does not say."""
    graph = _graph(path)
    found = {labels for each in graph.output if (labels := _labels(graph, each.name))}
    return found.pop() if len(found) == 1 else ()


def _producer(graph: Any, name: str) -> Any:
    """Return the node that computes a value, past nodes that only reshape it."""
    made = {output: node for node in graph.node for output in node.output}
    node = made.get(name)
    while node is not None and node.op_type in _PASSING:
        node = made.get(node.input[0])
    return node


def _labels(graph: Any, output: str) -> tuple[str, ...]:
    """Return what the graph calls its classes: the keys of a ZipMap, or the labels of a classifier."""
    made = {name: node for node in graph.node for name in node.output}
    zipped = made.get(output)
    nodes = [zipped] if zipped is not None and zipped.op_type == "ZipMap" else list(graph.node)
    found = [each for each in (_class_labels(node) for node in nodes) if each]
    return found[0] if len(set(found)) == 1 else _looked_up_labels(graph)


def _looked_up_labels(graph: Any) -> tuple[str, ...]:
    """Return the labels that a graph looks up by the number of the predicted class, as skl2onnx and fairmend do."""
    from onnx import TensorProto, numpy_helper

    kinds = (TensorProto.INT64, TensorProto.INT32, TensorProto.STRING)
    constants = {each.name: each for each in graph.initializer if each.data_type in kinds}
    looked_up = (_producer(graph, each.name) for each in graph.output)
    for node in looked_up:
        if node is not None and node.op_type in ("ArrayFeatureExtractor", "Gather") and node.input[0] in constants:
            held = numpy_helper.to_array(constants[node.input[0]]).reshape(-1)
            return tuple(each.decode() if isinstance(each, bytes) else as_text(each) for each in held.tolist())
    return ()


def _class_labels(node: Any) -> tuple[str, ...]:
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels"):
            return tuple(text.decode() for text in attribute.strings) or tuple(as_text(n) for n in attribute.ints)
    return ()


def _from_maps(found: Sequence[Mapping[Any, float]], labels: Sequence[str]) -> NDArray[Any]:
    """Return maps from labels to probabilities as (rows, classes), in the order of the graph's labels.

    ONNX Runtime gives them in the order of the alphabet, or of numbers.
    """
    keys = {as_text(key): key for key in found[0]}
    order = [keys[label] for label in labels] if set(labels) == set(keys) else list(keys.values())
    return np.array([[each[key] for key in order] for each in found], dtype=np.float32)
