"""ONNX files that a lenient reader takes for another network than the runtimes do.

Each shows the reader a network that ignores its first input. What ONNX Runtime, or the reference implementation of
ONNX, computes does not.
"""

from dataclasses import dataclass

import numpy as np

from support.onnx_wire import BYTES, VARINT, Parts, attribute, field, node, tensor, value_info, varint

DOUBLE = 11
TRANSPOSED = attribute("transB", field(3, 1), kind=2)
SHOWN = {"w": [[0, 1], [0, -1]], "b": [0, 0], "v": [[1, -1]], "c": [-0.1]}  # relu between w and v
RUN = {"w": [[3, 1], [-2, -1]], "b": [0, 0], "v": [[1, -1]], "c": [-0.1]}


@dataclass(frozen=True)
class Forgery:
    """A file, why the checker refuses it, which runtime computes something else, and the slope that is shown."""

    content: bytes
    reason: str
    runtime: str = "onnxruntime"
    slope: float | None = None


def floats(values: object) -> bytes:
    return np.array(values, "<f4").tobytes()


def doubles(values: object) -> bytes:
    return np.array(values, "<f8").tobytes()


def honest(**tensors: object) -> Parts:
    """Return the parts of a model that everyone reads in the same way."""
    return Parts(
        nodes=[
            node("Gemm", "x w b", "a", TRANSPOSED),
            node("Relu", "a", "h"),
            node("Gemm", "h v c", "y", TRANSPOSED),
        ],
        tensors=[raw(name, values) for name, values in {**SHOWN, **tensors}.items()],
        inputs=[value_info("x", 2)],
        outputs=[value_info("y", 1)],
    )


def raw(name: str, values: object) -> bytes:
    return tensor(name, list(np.shape(values)), field(9, floats(values)))


def with_first(*attributes: bytes) -> bytes:
    """Return the model with other attributes of its first Gemm, which ignores the first input only with transB."""
    parts = honest()
    parts.nodes[0] = node("Gemm", "x w b", "a", *attributes)
    return parts.content()


def second_data_type() -> bytes:
    """Double precision for the runtime, and after it the same field as bytes, which says float."""
    parts = honest()
    parts.tensors = [
        b"".join(
            [
                *(field(1, length) for length in np.shape(SHOWN[name])),
                field(2, DOUBLE),
                field(2, varint(1), BYTES),
                field(4, floats(SHOWN[name])),
                field(8, name),
                field(10, doubles(RUN[name])),
            ]
        )
        for name in SHOWN
    ]
    parts.inputs, parts.outputs = [value_info("x", 2, DOUBLE)], [value_info("y", 1, DOUBLE)]
    return parts.content()


def leaky(*alpha: bytes) -> bytes:
    parts = honest()
    parts.nodes[1] = node("LeakyRelu", "a", "h", attribute("alpha", *alpha, kind=1))
    return parts.content()


def local_function() -> bytes:
    """A function named Gemm in ONNX's own domain, with a matrix of its own."""
    matrix = attribute("value", field(5, raw("m", np.transpose(RUN["w"]))), kind=4)
    body = field(7, node("Constant", "", "m", matrix)) + field(7, node("MatMul", "X m", "Y"))
    names = field(1, "Gemm") + b"".join(field(4, name) for name in "XWB") + field(5, "Y")
    parts = honest(w=np.transpose(SHOWN["w"]))
    parts.nodes[0] = node("Gemm", "x w b", "a", extra=field(7, "ai.onnx"))
    parts.opsets += field(8, field(1, "ai.onnx") + field(2, 17))
    parts.end = field(25, names + body + field(9, field(1, "") + field(2, 17)) + field(10, "ai.onnx"))
    return parts.content()


FORGERIES = {
    "the type of the weights a second time, as bytes": Forgery(second_data_type(), "wire type 2"),
    "transB a second time, as packed numbers": Forgery(
        with_first(attribute("transB", field(3, 0), field(3, varint(1), BYTES), kind=2)),
        "wire type 2",
    ),
    "transB only as bytes": Forgery(with_first(attribute("transB", field(3, varint(1), BYTES), kind=2)), "wire type 2"),
    "alpha a second time, as bytes": Forgery(
        leaky(field(2, 0.5), field(2, floats([0.01]), BYTES)), "wire type 2", slope=0.01
    ),
    "alpha a second time, as a number, with a whole number": Forgery(
        leaky(field(2, 0.5), field(2, 0, VARINT), field(3, 0)), "wire type 0", runtime="reference", slope=0.0
    ),
    "transB with the type of a float": Forgery(
        with_first(attribute("transB", field(3, 1), kind=1)),
        "the attribute 'transB'",
        runtime="reference",
    ),
    "a function in the domain ai.onnx": Forgery(local_function(), "ModelProto has functions", runtime="reference"),
}
