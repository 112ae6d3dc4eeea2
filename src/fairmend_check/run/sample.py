"""People on whom a model is run: those of a certificate, their neighbours, and other people of its spec."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairmend_check.errors import NotConfirmedError
from fairmend_check.kernel.certificate import Certificate
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.neighbourhood import Product, batches, count_boxes, encode_one_hot, neighbourhoods
from fairmend_check.kernel.rounding import Array
from fairmend_check.kernel.spec import Feature, Spec

PEOPLE = 512  # of the spec, half of them in corners and half anywhere
MAX_INPUTS = 256  # of a certificate
_NEIGHBOURS = 2  # of each of them
MAX_POINTS = 4096  # of finite neighbourhoods of all of them


def people_of_spec(spec: Spec, dtype: str, count: int, rng: np.random.Generator) -> Array:
    """Return encoded rows (count, width): in the first half all numbers are at an end of their range."""
    return np.concatenate([_column(feature, dtype, count, rng) for feature in spec.features], axis=1)


def values_between(feature: Feature, low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Return a random value of a feature from each low to high."""
    if feature.whole:
        return np.minimum(np.floor(low + rng.random(len(low)) * (high - low + 1)), high)
    return np.clip(low + rng.random(len(low)) * (high - low), low, high)


def values_as_is(count: int, rng: np.random.Generator) -> Array:
    """Return random numbers of many sizes, for a column of which no range is known."""
    return np.asarray(rng.normal(size=count) * 10.0 ** rng.integers(-2, 4, count))


def _column(feature: Feature, dtype: str, count: int, rng: np.random.Generator) -> Array:
    if feature.as_is:
        return values_as_is(count, rng).astype(dtype).astype(np.float64)[:, None]
    low, high = np.full(count, float(feature.low)), np.full(count, float(feature.high))
    within = values_between(feature, low, high, rng)
    if feature.one_hot:
        return encode_one_hot(feature, within.astype(np.int64))
    ends = np.where(rng.random(count) < 0.5, low, high)
    values, (offset, factor) = np.where(np.arange(count) < count // 2, ends, within), feature.affine
    most = float(np.finfo(dtype).max)  # of a feature that does not vary, the proof needs no ends
    with np.errstate(over="ignore"):
        return np.clip((values - offset) / factor, -most, most).astype(dtype).astype(np.float64)[:, None]


def people_of_certificate(claimed: Certificate, model: Model, rng: np.random.Generator) -> Array:
    """Return people of the inputs of a certificate, and of its spec, as encoded rows (people, width)."""
    listed = ListedPeople(claimed.spec, model.dtype, rng)
    for inputs in claimed.read_inputs(model):
        listed.add(inputs)
    return listed.and_others(PEOPLE)


def neighbours(around: Sequence[Product], count: int, rng: np.random.Generator) -> Array:
    """Return random members of a neighbourhood (count, width); the axes of half of them are at an end."""
    found = np.empty((count, len(around[0].x)))
    for row in range(count):
        each = around[int(rng.integers(len(around)))]
        found[row] = each.x
        for axis in each.axes:
            corner = rng.random() < 0.5
            if not axis.feature.whole:
                at = rng.integers(2) if corner else rng.random()
                value = np.array(axis.low + at * (axis.high - axis.low)).astype(axis.kind)
                found[row, axis.column] = np.clip(value, axis.low, axis.high)
                continue
            number = np.array([(axis.count - 1) * rng.integers(2) if corner else rng.integers(axis.count)])
            if axis.feature.one_hot:
                columns = slice(axis.column, axis.column + axis.feature.width)
                found[row, columns] = encode_one_hot(axis.feature, number + int(axis.lowest))[0]
            else:
                found[row, axis.column] = axis.encoded(number)[0]
    return found


class ListedPeople:
    """People of the inputs of a certificate, collected block by block; beyond the limits they are chosen at random.

    They are all members of small finite neighbourhoods, and of others the input and two neighbours.
    """

    def __init__(self, spec: Spec, dtype: str, rng: np.random.Generator) -> None:
        self._spec, self._dtype, self._rng = spec, dtype, rng
        self._inputs = np.empty((0, spec.width))
        self._keys = np.empty(0)  # those with the smallest ones are kept

    def add(self, inputs: Array) -> None:
        """Add a block of inputs (inputs, width)."""
        keys = np.concatenate([self._keys, self._rng.random(len(inputs))])
        kept = np.sort(np.argsort(keys)[:MAX_INPUTS])
        self._keys, self._inputs = keys[kept], np.concatenate([self._inputs, inputs])[kept]

    def and_others(self, count: int) -> Array:
        """Return the people as encoded rows (people, width), and other people of the spec."""
        return np.concatenate([self._rows(), people_of_spec(self._spec, self._dtype, count, self._rng)])

    def _rows(self) -> Array:
        found, most = [self._inputs], MAX_POINTS // max(1, len(self._inputs))
        for products in neighbourhoods(self._spec, self._inputs, self._dtype):
            if isinstance(products, NotConfirmedError):
                raise products
            finite = all(axis.feature.whole for each in products for axis in each.axes)
            if finite and count_boxes(products, each_whole=True) <= most:
                found += [lower for _, lower, _ in batches([(0, products, True)], most)]
            else:
                found.append(neighbours(products, _NEIGHBOURS, self._rng))
        return np.concatenate(found)
