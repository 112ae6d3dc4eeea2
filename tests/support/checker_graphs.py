"""Networks as models of the checker, their outputs to a hundred digits, and what a float32 program computes."""

import flint
import numpy as np

from fairmend.network import Activation, Network
from fairmend.network.description import stored_steps
from fairmend.network.operations import Affine, Columns, Concatenate, Lookup, Scale
from fairmend_check.kernel import model as checker
from fairmend_check.kernel.operations import affine, columns
from fairmend_check.readers.state_dict import model_of_tensors
from support.enclosures import DIGITS, EXACT, arb, sigmoid

FUNCTIONS = [
    Activation("relu"),
    Activation("leaky_relu", 0.25),
    Activation("leaky_relu", 1.5),
    "prelu",
    Activation("tanh"),
    Activation("sigmoid"),
    Activation("clip", parameters=(-0.5, 1.5)),
    Activation("hardsigmoid", parameters=(1 / 6, 0.5)),
    Activation("softsign"),
    Activation("elu", parameters=(1.0,)),
    Activation("celu", parameters=(0.5,)),
    Activation("selu"),
    Activation("softplus", parameters=(1.0,)),
    Activation("silu"),
    Activation("mish"),
    Activation("gelu"),
    Activation("gelu_tanh"),
    Activation("hardswish"),
]


def checker_model(network: Network) -> checker.Model:
    """The network as the checker builds it from the tensors and the steps of a certificate."""
    steps, tensors = stored_steps(network)
    return model_of_tensors(dict(tensors), {"steps": steps, "unused": []})


def function_values(activation, values):
    """An elementwise function of balls."""
    if activation.name == "prelu":
        return [z if z >= 0 else arb(slope) * z for slope, z in zip(activation.parameters, values, strict=True)]
    if activation.name in ("relu", "leaky_relu", "identity"):
        slope = arb({"relu": 0.0, "identity": 1.0}.get(activation.name, activation.slope))
        return [z if z >= 0 else slope * z for z in values]
    if activation.name in ("tanh", "sigmoid"):
        return [z.tanh() if activation.name == "tanh" else sigmoid(z) for z in values]
    return [EXACT[activation.name](z, *activation.parameters) for z in values]


def exact_outputs(model: checker.Model, x) -> list:
    """The outputs of a model at one point, to a hundred digits."""
    with flint.ctx.workprec(DIGITS):
        found = [[arb(value) for value in x]]
        for node in model.nodes[1:]:
            found.append(_exact(node.operation, [found[source] for source in node.sources]))
        return found[-1]


def _exact(operation, sources: list[list]) -> list:
    if isinstance(operation, affine.Dense):
        rows = zip(operation.weight, operation.bias, strict=True)
        return [sum((arb(w) * v for w, v in zip(row, sources[0], strict=True)), arb(b)) for row, b in rows]
    if isinstance(operation, affine.Scale):
        lines = zip(operation.factor, operation.shift, sources[0], strict=True)
        return [arb(factor) * value + arb(shift) for factor, shift, value in lines]
    if isinstance(operation, columns.Sum):
        return [sum(parts[1:], parts[0]) for parts in zip(*sources, strict=True)]
    if isinstance(operation, columns.Concatenate):
        return [value for part in sources for value in part]
    if isinstance(operation, columns.Columns):
        return [sources[0][index] for index in operation.indices]
    if isinstance(operation, columns.Lookup):
        return [arb(value) for value in operation.table[int(float(sources[0][0].mid()))]]
    return function_values(operation, sources[0])


def program_outputs(network: Network, X, rng, flush: bool = False) -> np.ndarray:
    """The outputs (rows, outputs) of a program with PyTorch's functions: sums in any order, norms step by step.

    Some affine layers in a sum start from its other parts, as a Gemm does, and not from 0. With ``flush`` every number
    that an operation reads or gives may be taken as 0 if it is subnormal: any reader may.
    """
    import torch

    def kept(value):
        if not flush or rng.random() < 0.5:
            return value
        return torch.where(value.abs() < torch.finfo(value.dtype).tiny, torch.zeros_like(value), value)

    def constant(array):
        return kept(torch.tensor(np.asarray(array, network.dtype)))

    def affine(operation, before, value):
        weight, bias = constant(operation.weight), constant(operation.bias)
        for column in rng.permutation(weight.shape[1]).tolist():
            value = kept(value + kept(before[:, column, None] * weight[:, column]))
        return value + bias

    found = [torch.from_numpy(np.asarray(X, network.dtype))]
    for node in network.nodes[1:]:
        operation, sources = node.operation, [kept(found[source]) for source in node.sources]
        if isinstance(operation, Affine):
            value = affine(operation, sources[0], torch.zeros(len(X), len(operation.bias), dtype=sources[0].dtype))
        elif isinstance(operation, Scale):
            value = sources[0]
            for norm in operation.norms:
                mean, variance, gain, shift = map(constant, (norm.mean, norm.variance, norm.gain, norm.shift))
                value = kept(kept((value - mean) / torch.sqrt(variance + norm.epsilon)) * gain) + shift
        elif isinstance(operation, Lookup):
            value = torch.tensor(operation.table)[sources[0][:, 0].long()]
        elif isinstance(operation, Columns):
            value = sources[0][:, list(operation.indices)]
        elif isinstance(operation, Concatenate):
            value = torch.cat(sources, dim=1)
        elif isinstance(operation, Activation):
            value = torch_function(operation, sources[0])
        else:
            last = network.nodes[node.sources[-1]]
            value = sum(sources[1:-1], sources[0])
            if isinstance(last.operation, Affine) and rng.random() < 0.5:
                value = affine(last.operation, found[last.sources[0]], value)
            else:
                value = value + sources[-1]
        found.append(kept(value))
    return found[-1].numpy()


def torch_function(activation: Activation, z):
    """An elementwise function as PyTorch computes it."""
    import torch
    from torch.nn import functional as F

    first = activation.parameters[0] if activation.parameters else 0.0
    return {
        "relu": F.relu,
        "leaky_relu": lambda z: F.leaky_relu(z, activation.slope),
        "prelu": lambda z: F.prelu(z, torch.tensor(activation.parameters, dtype=z.dtype)),
        "identity": lambda z: z,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "clip": lambda z: torch.clamp(z, *activation.parameters),
        "hardsigmoid": F.hardsigmoid,
        "softsign": F.softsign,
        "elu": lambda z: F.elu(z, first),
        "celu": lambda z: F.celu(z, first),
        "selu": F.selu,
        "softplus": lambda z: F.softplus(z, first),
        "silu": F.silu,
        "mish": F.mish,
        "gelu": F.gelu,
        "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
        "hardswish": F.hardswish,
    }[activation.name](z)
