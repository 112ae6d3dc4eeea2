"""Elementwise functions as exporters write them in ONNX, between two layers, and near misses."""

import numpy as np

from fairmend.network import Activation, Affine, Input, Network, Node, Sum
from support.onnx_files import node

GEMM, LAST = node("Gemm", "x w b", "p"), node("Gemm", "q v c")
ONE, HALF, THREE = np.float32(1), np.float32(0.5), np.float32(3)
GELU = [node("Add", "e one", "f"), node("Mul", "p f", "g"), node("Mul", "g half", "q")]
CUBE = [node("Pow", "p three", "k"), node("Mul", "k small", "l"), node("Add", "p l", "m"), node("Mul", "m s", "n")]
# name: (the function, its nodes from p to q, their constants)
WRITTEN = {
    "silu": ("silu", [node("Sigmoid", "p", "g"), node("Mul", "p g", "q")], {}),
    "silu, other side": ("silu", [node("Sigmoid", "p", "g"), node("Mul", "g p", "q")], {}),
    "mish": ("mish", [node("Softplus", "p", "s"), node("Tanh", "s", "t"), node("Mul", "p t", "q")], {}),
    "hardswish": (
        "hardswish",
        [
            node("Add", "p three", "a"),
            node("Clip", "a zero six", "h"),
            node("Mul", "p h", "m"),
            node("Div", "m six", "q"),
        ],
        {"three": THREE, "zero": np.float32(0), "six": np.float32(6)},
    ),
    "gelu by division": (
        "gelu",
        [node("Div", "p r", "d"), node("Erf", "d", "e"), *GELU],
        {"r": np.float32(2**0.5), "one": ONE, "half": HALF},
    ),
    "gelu by product": (
        "gelu",
        [node("Mul", "p r", "d"), node("Erf", "d", "e"), *GELU],
        {"r": np.float32(0.5**0.5), "one": ONE, "half": HALF},
    ),
    "gelu_tanh": (
        "gelu_tanh",
        [*CUBE, node("Tanh", "n", "e"), *GELU],
        {"three": THREE, "small": np.float32(0.044715), "s": np.float32((2 / np.pi) ** 0.5), "one": ONE, "half": HALF},
    ),
    "softsign": ("softsign", [node("Abs", "p", "a"), node("Add", "a one", "d"), node("Div", "p d", "q")], {"one": ONE}),
    "softplus of PyTorch": (
        "softplus",
        [node("Softplus", "p", "s"), node("Greater", "p twenty", "g"), node("Where", "g p s", "q")],
        {"twenty": np.float32(20)},
    ),
}
NEAR_MISSES = {
    "gelu with another factor": (
        [node("Mul", "p r", "d"), node("Erf", "d", "e"), *GELU],
        {"r": np.float32(0.708), "one": ONE, "half": HALF},
    ),
    "gelu plus two": (
        [node("Mul", "p r", "d"), node("Erf", "d", "e"), *GELU],
        {"r": np.float32(0.5**0.5), "one": np.float32(2), "half": HALF},
    ),
    "softplus cut at 1": (
        [node("Softplus", "p", "s"), node("Greater", "p one", "g"), node("Where", "g p s", "q")],
        {"one": ONE},
    ),
    "gelu with a number of three axes, which becomes one of the result": (
        [node("Mul", "p r", "d"), node("Erf", "d", "e"), *GELU],
        {"r": np.float32(0.5**0.5), "one": ONE, "half": HALF.reshape(1, 1, 1)},
    ),
    "gelu with numbers whose product is right, but not on the way": (
        [
            node("Mul", "p r", "d"),
            node("Erf", "d", "e"),
            node("Add", "e one", "f"),
            node("Mul", "p s", "g"),
            node("Mul", "g t", "h"),
            node("Mul", "h u", "i"),
            node("Mul", "i f", "q"),
        ],
        {
            "r": np.float32(0.5**0.5),
            "one": ONE,
            "s": np.float32(2.0**-149),
            "t": np.float32(2.0**100),
            "u": np.float32(2.0**48),
        },
    ),
}
PRODUCTS = {  # functions of one value times another one
    "another gate": ([node("Sigmoid", "x2", "g"), node("Mul", "p g", "q")], {}),
    "softsign of another value": (
        [node("Abs", "x2", "a"), node("Add", "a one", "d"), node("Div", "p d", "q")],
        {"one": ONE},
    ),
}


def between_layers(nodes):
    """Return nodes of a whole network; x2 is another value of the same width."""
    other = [node("Gemm", "x w", "x2")] if any("x2" in each.input for each in nodes) else []
    return [GEMM, *other, *nodes, LAST]


def function_of_function(name: str) -> Network:
    """A graph in which a function is computed of itself: what enters it the second time is a product already."""
    rng = np.random.default_rng(0)
    first, head = (Affine(rng.normal(size=(3, 3)).astype(np.float32), np.zeros(3, np.float32)) for _ in range(2))
    nodes = [Node(Input(3)), Node(first, (0,), "first"), Node(Activation(name), (1,)), Node(Activation(name), (2,))]
    return Network.from_nodes([*nodes, Node(Sum(), (2, 3)), Node(head, (4,), "head")])
