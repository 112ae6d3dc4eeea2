"""The checker's readers as they were before four files that runtimes run as another network were refused.

Each entry takes one refusal out again, so that a test can show that the run of the model catches the same file.
"""

from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from fairmend_check.readers import read_keras
from fairmend_check.readers.keras_layers import is_true
from fairmend_check.readers.onnx_graph import OnnxGraph

FINDINGS = Path(__file__).parents[1] / "corpus" / "findings"


def _assign_by_flags(model, names, stored, both):
    """Order the weights of a nested model by its own flag and by those of its layers, as Keras saves them."""
    expected = sorted(_arrays_by_flags(model, (), True), key=lambda each: not each[1])
    for (path, _), name in zip(expected, names, strict=True):
        stored.setdefault(path, []).append(name)


def _arrays_by_flags(model, above, trainable):
    found, trainable = [], trainable and is_true(model, "trainable")
    for layer in model.model.layers:
        if layer.model is not None:
            found += _arrays_by_flags(layer, (*above, model.name), trainable)
        for variable in read_keras._variables(layer):
            learned = variable not in ("moving_mean", "moving_variance", "mean", "variance", "count")
            path = (*above, model.name, layer.name)
            found.append((path, trainable and learned and is_true(layer, "trainable")))
    return found


def _transpose_as_it_says(graph, node):
    if node.kind not in ("Identity", "Transpose") or node.inputs[0] not in graph.tensors:
        return False
    tensor = graph.tensors[node.inputs[0]]
    order = node.attributes.get("perm") or list(range(tensor.ndim))[::-1]
    graph.tensors[node.output] = tensor if node.kind == "Identity" else tensor.transpose(order)
    return True


_KERAS = (read_keras, "_assign_nested", _assign_by_flags)
FORMER = {
    "h5-frozen-sequential-with-its-last-layer-unfrozen.h5": _KERAS,
    "h5-adapted-normalization-in-a-nested-model.h5": _KERAS,
    "onnx-transpose-in-the-order-of-its-axes.onnx": (OnnxGraph, "pass_constant", _transpose_as_it_says),
    "onnx-number-that-is-0-in-float32.onnx": (OnnxGraph, "_added", OnnxGraph._row),
}


@contextmanager
def former_reader(name):
    """Read a finding as it was read before."""
    with mock.patch.object(*FORMER[name]):
        yield
