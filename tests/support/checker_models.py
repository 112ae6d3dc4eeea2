"""Random models for the checker's arithmetic, and their outputs in exact rationals."""

from fractions import Fraction
from itertools import pairwise

import numpy as np

from fairmend.network import Network
from fairmend_check.kernel.model import Activation, Input, Model, Node, common_dtype, dense_layer, make_graph

ACTIVATIONS = [
    Activation("relu"),
    Activation("leaky_relu", 0.01),
    Activation("leaky_relu", 2.5),
    Activation("tanh"),
    Activation("sigmoid"),
    Activation("identity"),
]


PIECEWISE = [activation for activation in ACTIVATIONS if activation.name not in ("tanh", "sigmoid")]


def make_model(layers, activations) -> Model:
    """The chain of these affine layers (weight, bias or None), with an activation after each but the last."""
    dtype = common_dtype([array for pair in layers for array in pair])
    nodes = [Node(Input(layers[0][0].shape[-1]))]
    for number, pair in enumerate(layers):
        nodes.append(Node(dense_layer("layer", *pair), (len(nodes) - 1,)))
        nodes += [Node(each, (len(nodes) - 1,)) for each in activations[number : number + 1]]
    return make_graph(nodes, dtype)


def checked_model(network: Network) -> Model:
    """A chain as the checker has it."""
    activations = [Activation(each.name, float(each.slope), tuple(each.parameters)) for each in network.activations]
    return make_model([(affine.weight, affine.bias) for affine in network.affines], activations)


def random_model(rng, widths, activation, dtype=np.float64, scale=1.0):
    layers = [
        ((rng.normal(size=(after, before)) * scale).astype(dtype), rng.normal(size=after).astype(dtype))
        for before, after in pairwise(widths)
    ]
    return make_model(layers, [activation] * (len(layers) - 1))


def exact_outputs(model, x):
    """The outputs at one point, in exact rationals; piecewise linear activations only."""
    h = [Fraction(float(value)) for value in x]
    for number, layer in enumerate(model.layers):
        h = [
            sum((Fraction(float(w)) * v for w, v in zip(row, h, strict=True)), Fraction(float(b)))
            for row, b in zip(layer.weight, layer.bias, strict=True)
        ]
        if number < len(model.activations):
            kind = model.activations[number]
            slope = Fraction({"relu": 0.0, "identity": 1.0}.get(kind.name, kind.slope))
            h = [v if v >= 0 else slope * v for v in h]
    return h
