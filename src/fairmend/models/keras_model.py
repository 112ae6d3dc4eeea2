"""Keras models in memory, run by Keras: layers that fairmend does not read, and preprocessing of text and numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.text import first_line, listed
from fairmend.models.ports import InputSignature, Port, ports_of
from fairmend.models.run_model import Runner
from fairmend.spec import Spec

_FUNCTION = "give a function: load_model(lambda X: model.predict(X, verbose=0))"
_OPSET, _OPSET_OF_TABLES = 17, 2  # of ONNX's operators, and of those that look up text
_EXAMPLES = 23  # rows from which an exporter learns what a model computes; not a number that tensors have anyway


class KerasRunner(Runner):
    """Runs a model of Keras 3 on the inputs that it declares, with training=False."""

    def __init__(self, model: Any) -> None:
        """Take a model, which is not changed."""
        keras = sys.modules.get("keras")  # a model can only exist once Keras is imported
        self.name = f"the Keras model {getattr(model, 'name', type(model).__name__)!r}"
        if keras is None or not isinstance(model, keras.Model):
            raise FairmendError(f"{type(model).__name__} is no model of Keras 3; {_FUNCTION}")
        if not getattr(model, "inputs", None):
            raise FairmendError(
                f"{self.name} declares no inputs; begin it with keras.Input((columns,)), or {_FUNCTION}"
            )
        if len(model.outputs) != 1:
            raise FairmendError(
                f"{self.name} has {len(model.outputs)} outputs; make a model of the one that decides: "
                f"keras.Model(model.inputs, model.outputs[0])"
            )
        self._model = model
        self._declared = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
        self._signature = tuple(_signature(self.name, each) for each in model.inputs)
        # float32 holds whole numbers up to 2^24 only.
        exact = any(each.type in ("float64", "int64", "int32") for each in self._signature)
        self.dtype = np.dtype(np.float64 if exact else np.float32)
        self.kind = "probability" if _closes_in_probabilities(keras, model.outputs[0]) else "logit"
        self.runtime = f"Keras {keras.__version__} with {keras.backend.backend()}"

    def digest(self) -> str:
        """Refuse: the file that Keras saves for a model holds the time."""
        raise FairmendError(f"{self.name} is in memory, where it may change under its name; leave out resume")

    def ports(self, spec: Spec) -> tuple[Port, ...]:
        """Return the inputs of the model."""
        return ports_of(self._signature, spec, self.name)

    def run(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> NDArray[Any]:
        """Return what the model gives for rows X."""
        found = self._scores(self._tensors(spec, ports, X))
        return np.asarray(import_module("keras").ops.convert_to_numpy(found))

    def exports(self, spec: Spec, ports: Sequence[Port]) -> Sequence[Callable[[Path], None]]:
        """Return ways to write the model to an ONNX file: with TensorFlow by tf2onnx, with PyTorch as its modules."""
        backend = import_module("keras").backend.backend()
        if backend == "tensorflow":
            return [self._export_by_tf2onnx]
        if backend != "torch":
            raise FairmendError(
                f"a certificate is about a file, and fairmend writes Keras models as ONNX files with TensorFlow or "
                f"PyTorch, not with {backend}: load {self.name} where KERAS_BACKEND is tensorflow or torch"
            )
        from fairmend.models.export_module import EXPORTERS, export_module

        X = spec.sample_inputs(_EXAMPLES, np.random.default_rng(0), self.dtype)
        tensors = self._tensors(spec, ports, X)
        return [partial(export_module, self._model, tensors, self._scores, exporter) for exporter in EXPORTERS]

    def _tensors(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> dict[str, Any]:
        convert = import_module("keras").ops.convert_to_tensor
        return {port.name: convert(port.values(spec, X), dtype=port.type) for port in ports}

    def _scores(self, tensors: Mapping[str, Any]) -> Any:
        """Return the output, a tensor, for what the inputs of these names hold."""
        tree = import_module("keras").tree
        given = tree.map_structure(lambda declared: tensors[declared.name], self._declared)
        return tree.flatten(self._model(given, training=False))[0]

    def _export_by_tf2onnx(self, path: Path) -> None:
        from fairmend.models.export_module import quiet

        try:
            tf2onnx, tensorflow = import_module("tf2onnx"), import_module("tensorflow")
        except ImportError as error:
            raise FairmendError(
                "a certificate is about a file, and Keras models with TensorFlow become ONNX files by tf2onnx: pip "
                "install tf2onnx"
            ) from error
        signature = import_module("keras").tree.map_structure(
            lambda declared: tensorflow.TensorSpec(declared.shape, declared.dtype, name=declared.name),
            self._declared,
        )
        tables = tf2onnx.utils.make_opsetid("ai.onnx.ml", _OPSET_OF_TABLES)
        try:
            with quiet():
                written, _ = tf2onnx.convert.from_keras(
                    self._model, input_signature=[signature], opset=_OPSET, extra_opset=[tables]
                )
        except Exception as error:  # a converter fails in its own ways
            raise FairmendError(f"tf2onnx cannot convert {self.name} to ONNX ({first_line(error)})") from error
        _require_known_operators(written, self.name)
        path.write_bytes(written.SerializeToString())


def _signature(name: str, declared: Any) -> InputSignature:
    """Return an input as the model declares it; refuse one that is no column and no matrix."""
    if len(declared.shape) not in (1, 2):
        raise FairmendError(
            f'{name}: input "{declared.name}" has the shape {declared.shape}; fairmend fills inputs of shape (rows, '
            f"columns) or (rows,)"
        )
    return InputSignature(
        declared.name, declared.dtype, len(declared.shape), declared.shape[1] if len(declared.shape) == 2 else 1
    )


def _closes_in_probabilities(keras: Any, output: Any) -> bool:
    """Return whether a sigmoid or softmax computes an output."""
    last = output._keras_history.operation
    while isinstance(last, keras.Model):
        last = last.outputs[0]._keras_history.operation
    activations = (keras.activations.sigmoid, keras.activations.softmax)
    return getattr(last, "activation", None) in activations or isinstance(last, keras.layers.Softmax)


def _require_known_operators(model: Any, name: str) -> None:
    """Refuse a file with operators of TensorFlow, which tf2onnx leaves where it knows no others."""
    from onnx import defs

    unknown = {node.op_type for node in model.graph.node if not node.domain and not defs.has(node.op_type)}
    if unknown:
        raise FairmendError(
            f"tf2onnx does not convert {listed(sorted(unknown))} of TensorFlow, which {name} computes. Do this step "
            "before the model, and repair the model that reads its result"
        )
