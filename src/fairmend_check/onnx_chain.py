"""The chain of nodes in an ONNX graph, from its input on, as steps of a model.

Each node must read the value of the node before it, and constants. Values have the shape (rows, columns), or (rows,)
once a single output has lost its axis.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.assemble import Affine, Step
from fairmend_check.errors import CheckError
from fairmend_check.model import Activation
from fairmend_check.norms import Norm, batch_norm, scaling
from fairmend_check.onnx_decision import ELEMENTS
from fairmend_check.onnx_nodes import Node

Tensor = NDArray[Any]

_PASSING = ("Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze")
_SCALING = ("Add", "Sub", "Mul", "Div")
_COMMUTATIVE = ("Add", "Mul")
_MAX_NUMBERS = 2**28  # in all steps together: many nodes could share the same constants


class Chain:
    """The steps read so far, the constants, and the types of the values on the way."""

    def __init__(self, name: str, element: int, shape: list[int | str]) -> None:
        if len(shape) != 2 or not isinstance(shape[1], int):
            raise CheckError("the input must be declared as rows of a known number of columns")
        self.element, self.rows, self.columns = element, shape[0], shape[1]
        self.collapsed = False  # the axis of columns is gone
        self.steps: list[Step] = []
        self.tensors: dict[str, Tensor] = {}
        self.types: dict[str, tuple[int, list[int]]] = {}  # elements and columns of each value on the way
        self._numbers = 0
        self._advance(name)

    def append(self, node: Node) -> None:
        """Add what a node computes from the value before it, or from constants alone."""
        if node.kind in ("Identity", "Transpose") and node.inputs[0] in self.tensors:
            self._rename(node)
            return
        data = [name for name in node.inputs if name and name not in self.tensors]
        if data != [self.value] or (node.inputs[0] != self.value and node.kind not in _COMMUTATIVE):
            raise CheckError(f"node {node.kind} must read the value of the node before it, and constants")
        self._numbers += self.columns + sum(self.tensors[name].size for name in node.inputs if name in self.tensors)
        if self._numbers > _MAX_NUMBERS:
            raise CheckError(f"the nodes of the graph use more than {_MAX_NUMBERS:,} numbers")
        if node.kind in _PASSING:
            self._pass(node)
        elif self.collapsed and node.kind != "Sigmoid":
            raise CheckError(f"node {node.kind} cannot be checked after the columns are gone")
        elif node.kind in ("Gemm", "MatMul"):
            self._affine(node)
        elif node.kind in _SCALING:
            self._scaling(node)
        elif node.kind == "BatchNormalization":
            self.steps.append(self._batch_norm(node))
        elif node.kind == "Scaler":
            self.steps.append(self._scaler(node))
        elif node.kind in ("LeakyRelu", "PRelu", "Relu", "Sigmoid", "Softmax", "Tanh"):
            self.steps.append(self._activation(node))
        else:
            raise CheckError(f"node {node.kind} cannot be checked at this place")
        self._advance(node.output)

    def _advance(self, name: str) -> None:
        self.value = name
        self.types[name] = (self.element, [] if self.collapsed else [self.columns])

    def _rename(self, node: Node) -> None:
        """Pass on a constant, or transpose it, as exporters do with weights."""
        tensor = self.tensors[node.inputs[0]]
        if node.kind == "Transpose":
            order = node.attributes["perm"] or list(range(tensor.ndim))[::-1]
            if sorted(order) != list(range(tensor.ndim)):
                raise CheckError("node Transpose has axes that its constant does not have")
            tensor = tensor.transpose(order)
        self.tensors[node.output] = tensor

    def _constant(self, name: str) -> Tensor:
        """Return a constant of the type of the input."""
        tensor = self.tensors[name]
        if ELEMENTS.get(tensor.dtype.name) != self.element:
            raise CheckError(f"the constant {name[:40]!r} is {tensor.dtype.name}, unlike the input")
        return tensor

    def _row(self, name: str) -> Tensor:
        """Return a constant that is the same for every row: one number, or one for each column."""
        tensor = self._constant(name)
        if tensor.shape not in ((), *((*ones, n) for ones in ((), (1,)) for n in (1, self.columns))):
            raise CheckError(f"a constant of shape {tensor.shape} is combined with rows of {self.columns} numbers")
        return tensor.reshape(() if tensor.size == 1 and self.columns != 1 else tensor.size)

    def _affine(self, node: Node) -> None:
        weight = self._constant(node.inputs[1])
        if weight.ndim != 2:
            raise CheckError(f"node {node.kind} has a matrix of {weight.ndim} dimensions")
        if node.kind == "Gemm":
            node.expect("transA", 0)
            node.expect("transB", 0, 1)  # runtimes take every transB but 0 for 1
        weight = weight if node.kind == "Gemm" and node.attributes["transB"] else weight.T
        if weight.shape[1] != self.columns:
            raise CheckError(f"node {node.kind} reads {weight.shape[1]} of {self.columns} values")
        self.columns = len(weight)
        bias = self._row(node.inputs[2]) if len(node.inputs) == 3 and node.inputs[2] else None
        alpha, beta = (node.attributes[name] if node.kind == "Gemm" else 1.0 for name in ("alpha", "beta"))
        if alpha == beta == 1:
            self.steps.append(Affine(weight, self._wide(bias)))
        else:
            shift = None if bias is None else bias.astype(np.float64) * beta
            norm = scaling(0.0, alpha, shift)
            self.steps += [Affine(weight, None), replace(norm, reach=norm.reach * scaling(0.0, beta, None).reach)]

    def _wide(self, bias: Tensor | None) -> Tensor | None:
        return None if bias is None else np.broadcast_to(bias, (self.columns,))

    def _scaling(self, node: Node) -> None:
        """Read the bias of a matrix product, or a sum, difference, product or quotient of each column."""
        row = self._row(next(name for name in node.inputs if name != self.value))
        last = self.steps[-1] if self.steps else None
        if node.kind == "Add" and isinstance(last, Affine) and last.bias is None:
            self.steps[-1] = Affine(last.weight, self._wide(row))
            return
        value = row.astype(np.float64)
        if node.kind == "Div" and not value.all():
            raise CheckError("node Div divides by 0")
        gain = value if node.kind == "Mul" else 1 / value if node.kind == "Div" else 1.0
        shift = {"Add": value, "Sub": -value}.get(node.kind)
        self.steps.append(scaling(0.0, gain, shift))

    def _batch_norm(self, node: Node) -> Norm:
        node.expect("training_mode", 0)
        gain, shift, mean, variance = (self._constant(name) for name in node.inputs[1:])
        if any(part.shape != (self.columns,) for part in (gain, shift, mean, variance)):
            raise CheckError(f"node BatchNormalization does not have {self.columns} numbers of each kind")
        return batch_norm(mean, variance, gain, shift, node.attributes["epsilon"])

    def _scaler(self, node: Node) -> Norm:
        offset, scale = (np.array(node.attributes[name], np.float64) for name in ("offset", "scale"))
        if self.element != ELEMENTS["float32"] or any(part.size not in (1, self.columns) for part in (offset, scale)):
            raise CheckError("node Scaler does not give float32, or has another number of columns than its input")
        offset, scale = (part.reshape(()) if part.size == 1 else part for part in (offset, scale))
        return scaling(offset, scale, None)

    def _activation(self, node: Node) -> Activation:
        if node.kind == "LeakyRelu":
            return Activation("leaky_relu", node.attributes["alpha"])
        if node.kind == "PRelu":  # how a LeakyReLU in double precision is written: one number for all neurons
            slopes = self._row(node.inputs[1])
            if np.unique(slopes).size != 1:
                raise CheckError("node PRelu has several slopes, not one for all units")
            return Activation("leaky_relu", float(slopes.reshape(-1)[0]))
        if node.kind == "Softmax":
            node.expect("axis", -1, 1)
        return Activation(node.kind.lower())

    def _pass(self, node: Node) -> None:
        """Refuse a node that does more than pass on a value, or take the axis of columns from a single one."""
        if node.kind == "Cast":
            node.expect("to", self.element)
        elif node.kind == "Dropout":
            training = self.tensors[node.inputs[2]] if len(node.inputs) == 3 and node.inputs[2] else np.zeros(1)
            if training.any():
                raise CheckError("node Dropout is in training mode")
        elif node.kind == "Flatten":
            node.expect("axis", *(() if self.collapsed else (1, -1)))
        elif node.kind == "Reshape":
            self._reshape(node)
        elif node.kind == "Squeeze":
            axes = node.attributes["axes"] if len(node.inputs) == 1 else self._whole_numbers(node.inputs[1])
            if axes not in ([], [1], [-1]):
                raise CheckError("node Squeeze is over another axis than the last")
            self._collapse(node)

    def _reshape(self, node: Node) -> None:
        shape = self._whole_numbers(node.inputs[1])
        node.expect("allowzero", 0, 1)
        same = [[-1, self.columns]] + ([[0, self.columns], [0, -1]] if node.attributes["allowzero"] == 0 else [])
        if shape == [-1]:
            self._collapse(node)
        elif self.collapsed or shape not in same:
            raise CheckError("node Reshape changes the shape of a value, which cannot be checked")

    def _collapse(self, node: Node) -> None:
        if not self.steps or (self.columns != 1 and not self.collapsed):
            raise CheckError(f"node {node.kind} changes the shape of a value, which cannot be checked")
        self.collapsed = True

    def _whole_numbers(self, name: str) -> list[int]:
        tensor = self.tensors[name]
        if tensor.dtype != np.int64 or tensor.ndim > 1:
            raise CheckError(f"the constant {name[:40]!r} is not a list of whole numbers")
        return [int(number) for number in tensor.reshape(-1)]
