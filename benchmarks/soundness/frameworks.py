"""Graphs as users have them: a PyTorch module, a Keras model, or a file; and what the frameworks compute."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np
import onnxruntime
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedByOnnxRuntime
from torch import nn

import fairmend
from fairmend import Network
from fairmend.network import Activation, Affine, Columns, Concatenate, Lookup, Normalise, Product, Scale, Softmax, Sum

KERAS_NAMES = {"hardswish": "hard_silu", "hardsigmoid": "hard_sigmoid"}
KERAS_CLIPS = {(0.0, 6.0): "relu6", (-1.0, 1.0): "hard_tanh"}
NOT_IN_DOUBLE = {"hardsigmoid", "selu", "hardswish", "gelu", "mish", "celu", "elu", "softsign", "softplus"}
ELEMENTARY = {"abs", "square", "exp", "sin", "cos", "log", "sqrt", "rsqrt", "reciprocal"}
Run = Callable[[np.ndarray], np.ndarray]  # logits (rows, outputs) of rows in the network's dtype


class Graph(nn.Module):
    """A module that computes a network node by node, with the layers of torch.nn."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.plan = [(node.operation, node.sources, f"step{place}") for place, node in enumerate(network.nodes)]
        self.widths = network.widths
        for operation, _, name in self.plan[1:]:
            layer = torch_layer(operation)
            if layer is not None:
                self.add_module(name, layer)
        self.to(getattr(torch, network.dtype.name)).eval()

    def forward(self, x: Any) -> Any:
        values = [x]
        for operation, sources, name in self.plan[1:]:
            before = [values[source] for source in sources]
            if isinstance(operation, Lookup):
                values.append(getattr(self, name)(before[0][:, 0].long()))
            elif isinstance(operation, Columns):
                values.append(before[0][:, list(operation.indices)])
            elif isinstance(operation, Concatenate):
                values.append(torch.cat(before, dim=1))
            elif isinstance(operation, Sum):
                total = before[0]
                for more in before[1:]:
                    total = total + more
                values.append(total)
            elif isinstance(operation, Product):
                values.append(torch_product(operation, *before))
            elif isinstance(operation, Softmax | Normalise):
                values.append(torch_group(operation, before[0], self.widths[sources[0]]))
            else:
                values.append(getattr(self, name)(before[0]))
        return values[-1]


def torch_product(product: Product, a: Any, b: Any) -> Any:
    """Return the product, as users write it: elementwise, or as one of matrices."""
    if product.rows == product.columns == product.length == 1:
        return a * b
    left, right = (part.reshape(-1, product.groups, rows, product.length) for part, rows in
                   ((a, product.rows), (b, product.columns)))  # fmt: skip
    return (left @ right.transpose(2, 3)).reshape(-1, product.groups * product.rows * product.columns)


def torch_group(operation: Any, x: Any, width: int) -> Any:
    """Return a softmax or a normalisation of groups of columns."""
    groups = x.reshape(-1, width // operation.group, operation.group)
    if isinstance(operation, Softmax):
        found = groups.softmax(-1)
    elif operation.centred:
        found = nn.functional.layer_norm(groups, (operation.group,), eps=operation.epsilon)
    else:
        found = nn.functional.rms_norm(groups, (operation.group,), eps=operation.epsilon)
    return found.reshape(-1, width)


class Elementary(nn.Module):
    """A function that is no layer of torch.nn."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = getattr(torch, name)

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Line(nn.Module):
    """A scaling that is no batch normalisation."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(scale.factor))
        self.register_buffer("shift", torch.tensor(scale.shift))

    def forward(self, x: Any) -> Any:
        return x * self.factor + self.shift


def torch_layer(operation: Any) -> nn.Module | None:
    """Return the layer of an operation that is one, with its numbers."""
    if isinstance(operation, Affine):
        layer: nn.Module = nn.Linear(*operation.weight.shape[::-1])
        return _with(layer, weight=operation.weight, bias=operation.bias)
    if isinstance(operation, Lookup):
        return _with(nn.Embedding(*operation.table.shape), weight=operation.table)
    if isinstance(operation, Scale):
        norm = operation.norms[0]
        if norm.variance is None or len(operation.norms) > 1:
            return Line(operation)
        layer = nn.BatchNorm1d(operation.units, eps=norm.epsilon)
        return _with(layer, running_mean=norm.mean, running_var=norm.variance, weight=norm.gain, bias=norm.shift)
    return torch_function(operation) if isinstance(operation, Activation) else None


def _with(layer: nn.Module, **numbers: Any) -> nn.Module:
    for name, array in numbers.items():
        tensor = torch.tensor(np.asarray(array))
        setattr(layer, name, tensor if name.startswith("running") else nn.Parameter(tensor))
    return layer


def torch_function(activation: Activation) -> nn.Module:
    first = activation.parameters[0] if activation.parameters else 0.0
    if activation.name == "prelu":
        return _with(nn.PReLU(len(activation.parameters)), weight=np.array(activation.parameters, np.float32))
    makers: dict[str, Callable[[], nn.Module]] = {
        "relu": nn.ReLU, "identity": nn.Identity, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "softsign": nn.Softsign,
        "hardsigmoid": nn.Hardsigmoid, "selu": nn.SELU, "silu": nn.SiLU, "mish": nn.Mish, "gelu": nn.GELU,
        "hardswish": nn.Hardswish,
        "leaky_relu": lambda: nn.LeakyReLU(activation.slope),
        "clip": lambda: nn.Hardtanh(*activation.parameters),
        "elu": lambda: nn.ELU(first),
        "celu": lambda: nn.CELU(first),
        "softplus": lambda: nn.Softplus(first),
        "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    }  # fmt: skip
    return makers[activation.name]() if activation.name in makers else Elementary(activation.name)


def run_torch(network: Network) -> Run:
    """Return a function that runs the nodes of a network in PyTorch: batch normalisation is a step of its own."""
    module = Graph(network)

    def run(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(module(torch.from_numpy(X)).numpy())

    return run


def run_file(path: Path) -> Run:
    """Return a function that runs an ONNX or Keras file in its own framework."""
    if path.suffix == ".onnx":
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except NotImplementedByOnnxRuntime:  # its optimiser makes QuickGelu of float64, without a kernel
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda X: np.asarray(session.run(None, {name: X})[0])
    import keras

    model = keras.models.load_model(path, compile=False)
    return lambda X: np.asarray(model.predict(list(X.T[:, :, None]), verbose=0, batch_size=4096))


def keras_model(network: Network) -> Any:
    """Return a functional model with one input for each column, or None if Keras has no layer for a function of it."""
    import keras

    inputs = [keras.Input((1,), name=f"x{column}") for column in range(network.inputs)]
    values: list[Any] = [inputs[0] if len(inputs) == 1 else keras.layers.Concatenate()(inputs)]
    for place, node in enumerate(network.nodes[1:], start=1):
        operation, before = node.operation, [values[source] for source in node.sources]
        if isinstance(operation, Columns):
            values.append(_keras_columns(network, place, before[0], inputs))
        elif isinstance(operation, Concatenate):
            values.append(keras.layers.Concatenate()(before))
        elif isinstance(operation, Sum):
            values.append(_keras_sum(before))
        else:
            found = keras_layer(operation, network.widths[place])
            if found is None:
                return None
            value = found[0](before[0])
            found[0].set_weights(found[1])
            values.append(keras.layers.Flatten()(value) if isinstance(operation, Lookup) else value)
    return keras.Model(inputs, values[-1])


def _keras_sum(parts: list[Any]) -> Any:
    """Return the sum in the order of the nodes; what is added to itself needs a layer for each time."""
    import keras

    total = parts[0]
    for part in parts[1:]:
        total = keras.layers.Add()([total, part])
    return total


def _keras_columns(network: Network, place: int, before: Any, inputs: list[Any]) -> Any:
    """Return columns: of the inputs themselves, or by a layer of zeros and ones."""
    import keras

    node = network.nodes[place]
    if node.sources[0] == 0:
        chosen = [inputs[index] for index in node.operation.indices]
        return chosen[0] if len(chosen) == 1 else keras.layers.Concatenate()(chosen)
    if network.widths[place] == network.widths[node.sources[0]] == 1:
        return before
    weight = np.eye(network.widths[node.sources[0]])[:, list(node.operation.indices)]
    layer = keras.layers.Dense(weight.shape[1])
    value = layer(before)
    layer.set_weights([weight, np.zeros(weight.shape[1])])
    return value


def keras_layer(operation: Any, width: int) -> tuple[Any, list[np.ndarray]] | None:
    """Return an affine layer, a look-up, a norm or a function, and its weights; None if Keras has none."""
    from keras import layers

    if isinstance(operation, Affine):
        return layers.Dense(width), [operation.weight.T, operation.bias]
    if isinstance(operation, Lookup):
        return layers.Embedding(*operation.table.shape), [operation.table]
    if isinstance(operation, Scale):
        norm = operation.norms[0]
        if norm.variance is None or norm.gain is None or norm.shift is None or len(operation.norms) > 1:
            return None
        return layers.BatchNormalization(epsilon=norm.epsilon), [norm.gain, norm.shift, norm.mean, norm.variance]
    if isinstance(operation, Product | Softmax | Normalise) or operation.name in ELEMENTARY:
        return None
    if operation.name == "prelu":
        return layers.PReLU(), [np.array(operation.parameters)]
    if operation.name == "leaky_relu":
        return layers.LeakyReLU(negative_slope=operation.slope), []
    if operation.name == "elu":
        return layers.ELU(alpha=operation.parameters[0]), []
    if operation.name == "clip" and operation.parameters in KERAS_CLIPS:
        return layers.Activation(KERAS_CLIPS[operation.parameters]), []
    if operation.name in ("identity", "gelu_tanh", "clip") or operation.parameters not in ((), (1.0,), (1 / 6, 0.5)):
        return None
    return layers.Activation(KERAS_NAMES.get(operation.name, operation.name)), []


# The width of a row is not written in a module that reshapes it, gives some of its columns alone, or multiplies it. A
# sine of large numbers makes other outputs of what is rounded otherwise.
_REFUSED_MODULES = ("do not say how many columns", "reshape()", "multiplies axes of", "other outputs than forward()")


def as_users_have_it(network: Network, kind: str, folder: Path) -> tuple[Network, Run] | None:
    """Return the network as it is read, and the run of the framework that it came from; None if that cannot hold it.

    ``kind`` is "module", "keras", or the suffix of a file that fairmend writes.
    """
    if kind == "module":
        try:
            found = fairmend.load_network(Graph(network)).at_threshold(network.threshold)
        except fairmend.FairmendError as error:
            if any(words in str(error) for words in _REFUSED_MODULES):
                return None
            raise
        # The width of a row is not written in a module that only picks some of its columns.
        return (found, run_torch(network)) if found.inputs == network.inputs else None
    if kind == "keras":
        model = keras_model(network) if network.dtype == np.float32 else None
        if model is None:
            return None
        path = folder / "original.keras"
        model.save(path)
        return fairmend.load_network(path).at_threshold(network.threshold), run_file(path)
    path = folder / f"original{kind}"
    if kind == ".onnx" and not fits_onnx(network):
        return None
    network.save(path)
    found = fairmend.load_network(path).at_threshold(network.threshold)
    return found, run_file(path) if kind == ".onnx" else run_torch(found)


def fits_onnx(network: Network) -> bool:
    """Whether ONNX has the functions of a network, and ONNX Runtime in its precision."""
    names = {each.name for each in network.activations}
    if any(each.name == "softplus" and each.parameters != (1.0,) for each in network.activations):
        return False
    return network.dtype == np.float32 or not names & NOT_IN_DOUBLE
