"""A program that adds up everything in one go, and the error of inference that the kernel allows it.

Exporters write sums as layers, as sums of products, as additions and as averages, and move and scale numbers between
them. This program moves and scales the terms instead, and adds them up in one accumulator that starts from the largest
one, such as a skip. It computes a sum again for each node that reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.soundness.arithmetic import compute, evaluate
from benchmarks.soundness.cases import Case
from benchmarks.soundness.tally import Tally
from fairmend import Network
from fairmend.network import Affine, Columns, Concatenate, Product, Scale, Sum
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.inference_error import output_errors

ROWS = 8  # of a case that are compared
Terms = list[list[np.ndarray]]  # of each number of a node, the terms (rows,) of the sum that it is; one if it is none


def run_in_one_go(network: Network) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that computes the outputs (rows, outputs) of rows in the network's precision."""
    dtype, uses = network.dtype, _uses(network)

    def run(X: np.ndarray) -> np.ndarray:
        values: list[np.ndarray] = [X.astype(dtype)]
        terms: list[Terms] = [_single(values[0])]
        for place, node in enumerate(network.nodes[1:], start=1):
            before = [values[source] for source in node.sources]
            found = _terms(node.operation, before, [terms[source] for source in node.sources], dtype)
            if found is None:
                value = compute(node.operation, [each.astype(np.float64) for each in before]).astype(dtype)
                found = _single(value)
            else:
                value = np.stack([_added_up(each) for each in found], axis=1)
            if isinstance(node.operation, Sum):  # what several nodes read is computed by itself
                alone = _single(value)
                found = [each if once else own for each, own, once in zip(found, alone, uses[place] < 2, strict=True)]
            values.append(value)
            terms.append(found)
        return values[-1]

    return run


def _terms(operation: Any, before: list[np.ndarray], terms: list[Terms], dtype: Any) -> Terms | None:
    """Return the terms of each number of a node; None if it is no sum, and passes none on."""
    if isinstance(operation, Sum):
        return [[term for part in parts for term in part] for parts in zip(*terms, strict=True)]
    if isinstance(operation, Columns):
        return [terms[0][index] for index in operation.indices]
    if isinstance(operation, Concatenate):
        return [each for part in terms for each in part]
    if isinstance(operation, Scale):
        lines = zip(operation.factor.astype(dtype), operation.shift.astype(dtype), terms[0], strict=True)
        return [
            [*(factor * term for term in each), np.broadcast_to(shift, each[0].shape)] for factor, shift, each in lines
        ]
    if isinstance(operation, Affine):
        read = terms[0] if _averages(operation.weight) else _single(before[0])
        return [
            [
                np.full(len(before[0]), bias),
                *(w * term for w, each in zip(row, read, strict=True) if w for term in each),
            ]
            for row, bias in zip(operation.weight, operation.bias, strict=True)
        ]
    if isinstance(operation, Product) and operation.length > 1:
        left = before[0].reshape(len(before[0]), operation.groups, operation.rows, 1, operation.length)
        right = before[1].reshape(len(before[1]), operation.groups, 1, operation.columns, operation.length)
        products = (left * right).reshape(len(left), -1, operation.length)
        return [list(each) for each in products.transpose(1, 2, 0)]
    return None


def _single(values: np.ndarray) -> Terms:
    return [[column] for column in values.T]


def _averages(weight: np.ndarray) -> bool:
    return all(len(set(np.abs(row[row != 0]).tolist())) <= 1 for row in weight)


def _added_up(terms: list[np.ndarray]) -> np.ndarray:
    """Return the sum in the order of the terms, but for the largest one, which comes first."""
    first = int(np.argmax([np.abs(term).max() for term in terms]))
    total = terms[first]
    for place, term in enumerate(terms):
        total = total if place == first else total + term
    return np.asarray(total)


def _uses(network: Network) -> list[np.ndarray]:
    """Return how many nodes read each number of each node, directly or through nodes that only move it."""
    found = [np.zeros(width, np.int64) for width in network.widths]
    for node, own in zip(network.nodes[::-1], found[::-1], strict=True):
        start = 0
        for source in node.sources:
            width = network.widths[source]
            if isinstance(node.operation, Columns):
                np.add.at(found[source], list(node.operation.indices), own)
            else:
                found[source] += own[start : start + width] if isinstance(node.operation, Concatenate) else 1
            start += width
    return found


def compare_orders(case: Case, tally: Tally) -> None:
    """The program must be within the error of inference that the kernel allows, thorough or not."""
    model, x = kernel_model(case.network), case.X[:ROWS]
    points = x.astype(np.float64)
    exact, error, _ = evaluate(case.network.at_threshold(0.5), points)
    with np.errstate(all="ignore"):
        computed = run_in_one_go(case.network)(x).astype(np.float64)
        nodes, forms = interval_layers(model, points, points), np.eye(model.outputs)
        for thorough in (False, True):
            each = np.broadcast_to(forms, (len(points), *forms.shape))
            allowed = output_errors(model, points, points, nodes, each, thorough=thorough)
            tally.add("outputs in one accumulator within the error of inference", allowed.size)
            if (np.abs(computed - exact) > allowed + error).any():
                worst = float(np.nanmax(np.abs(computed - exact) / allowed))
                tally.fail(f"a program with one accumulator is off by {worst:.2f} times the error of inference")
