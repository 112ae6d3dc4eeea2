"""What every operation of a network must say of itself: its mathematics, all in one class.

An operation reads the values of earlier nodes, each an array (boxes, width) or an interval of such arrays, and says

- how many numbers it gives (`width`), an interval of them (`interval`), and their values at points (`at_points`);
- how a linear form of them is one of what it reads (`substitute`), for linear bounds;
- what floating-point inference rounds in it, and how roundings before it change it (`carried`, `terms`,
  `own_rounding`, `derivatives`, `scaled`), for the error of inference;
- which columns reach it, and how large it can be (`reached`, `bound`), for what a model does not depend on.

Every bound is rigorous: docs/certificate.md has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError
from fairmend_check.kernel.rounding import TINY, Array, Precision, U, ball, gamma, up

Interval = tuple[Array, Array]
Derivatives = tuple[Array, Array, Array]  # lower and upper ends, and sums of sizes: each (boxes, forms, width)
Bools = NDArray[np.bool_]
Asking = Callable[[list[Interval], Array], list[Interval]]  # of intervals, and how far what is computed is off

_SHORT = 2.0**-500  # above the length of a vector of up to 2^20 numbers whose squares underflow
PER_UNIT = 200  # what an input or output of an operation costs, in multiplications


@dataclass(frozen=True, eq=False)
class Extent:
    """The intervals of a node: as middles and radii, and how large its numbers can be."""

    low: Array
    high: Array

    @cached_property
    def ball(self) -> tuple[Array, Array]:
        """Middles and radii."""
        return ball(self.low, self.high)

    @cached_property
    def size(self) -> Array:
        """How large the numbers can be."""
        return magnitude(self.low, self.high)

    @cached_property
    def underflow(self) -> Array:
        """What underflow can lose in the products with all of them."""
        return TINY * (1 + total(self.size))


@dataclass(eq=False)
class Form:
    """Linear forms of nodes: coefficients (boxes, forms, width) of each, plus const, less slip (boxes, forms).

    Coefficients are rounded to the nearest double. ``slip`` collects what this rounding can change, given the size of
    the values that they multiply. Nobody changes an array of coefficients once it is in a form: several nodes may share
    one, as the parts of a sum do. `bend` writes only into arrays that its caller has made for it.

    With ``mirrored``, coefficients stand for as many forms more, behind them: those that have the negatives of their
    coefficients and constants. `bend` and `unfold` write them out.
    """

    coefficients: dict[int, Array]
    const: Array | float = 0.0
    slip: Array | float = 0.0
    mirrored: bool = False

    def add(self, node: int, coefficients: Array, extent: Extent) -> None:
        """Add coefficients of a node whose values are in these intervals."""
        if node in self.coefficients:
            coefficients = self.coefficients[node] + coefficients
            self.slip = self.slip + (2 * U * dot(np.abs(coefficients), extent.size) + extent.underflow)
        self.coefficients[node] = coefficients

    def add_constant(self, added: Array, lost: Array) -> None:
        """Add numbers that are off by as much as is ``lost``."""
        self.const = self.const + added
        self.slip = self.slip + (lost + 2 * U * (np.abs(self.const) + np.abs(added)))

    def unfold(self, coefficients: Array) -> Array:
        """Write mirrored forms out, if there are some, and return these coefficients with their negatives."""
        if not self.mirrored:
            return coefficients
        self.coefficients = {node: mirrored(part) for node, part in self.coefficients.items()}
        self.const, self.slip, self.mirrored = mirrored(self.const), mirrored(self.slip, sign=1), False
        return mirrored(coefficients)

    def bend(self, odd: tuple[Array, Array], even: tuple[Array, Array], lost: Array) -> Array:
        """Add a constant, and return coefficients: those of forms c, where an operation is not straight.

        ``odd`` and ``even`` are coefficients (boxes, forms, width) and constants (boxes, forms). Both are added for c;
        for -c, ``odd`` has the other sign. ``lost`` is how far the constants are off.
        """
        (turning, constant), (lasting, added) = odd, even
        if not self.bend_constants(constant, added, lost):
            turning += lasting  # in place: a new array takes more time than what is computed in it
            return turning
        boxes, forms, width = turning.shape
        found = np.empty((boxes, 2 * forms, width))
        np.add(lasting, turning, out=found[:, :forms])
        np.subtract(lasting, turning, out=found[:, forms:])
        return found

    def bend_constants(self, odd: Array, even: Array, lost: Array) -> bool:
        """Add the constants of `bend`, and return whether there are now those of the negatives behind them."""
        if not self.mirrored:
            self.add_constant(odd + even, lost)
            return False
        self.unfold(odd)
        self.add_constant(np.concatenate([odd + even, even - odd], axis=1), np.concatenate([lost, lost], axis=1))
        return True


@dataclass(frozen=True, eq=False)
class Lines:
    """A function over boxes: slopes and intercepts below and above, and how large its input can be."""

    slope_below: Array
    slope_above: Array
    below: Array
    above: Array
    magnitude: Array

    @cached_property
    def halves(self) -> tuple[Array, ...]:
        """Half the sums and half the differences of slopes and of intercepts, the sizes of these, and what is lost."""
        slopes, ends = (self.slope_below, self.slope_above), (self.below, self.above)
        halves = [part for low, high in (slopes, ends) for part in (0.5 * low + 0.5 * high, 0.5 * low - 0.5 * high)]
        return *halves, magnitude(*ends), 16 * U * (magnitude(*slopes) * self.magnitude)

    @cached_property
    def parallel(self) -> bool:
        """Whether both lines are parallel everywhere."""
        return np.array_equal(self.slope_below, self.slope_above)

    @staticmethod
    def joined(parts: Sequence[Lines]) -> Lines:
        """Return the lines of all boxes, from those of some each."""
        if len(parts) == 1:
            return parts[0]
        each = zip(*((p.slope_below, p.slope_above, p.below, p.above, p.magnitude) for p in parts), strict=True)
        return Lines(*map(np.concatenate, each))


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of sums: how many additions, and the sums of all positive and of all negative terms.

    ``unit`` is how far each addition is off, as the nodes that add up count it. Arrays are (boxes, width), or broadcast
    to that. A number that is no sum has no additions.
    """

    additions: Array
    above: Array
    below: Array
    unit: Array

    def where(self, chosen: Bools) -> Terms:
        """Return the terms of some numbers (width,), and of the others none."""
        parts = self.additions, self.above, self.below, self.unit
        return Terms(*(np.where(chosen, part, 0.0) for part in parts))


@dataclass(frozen=True, eq=False)
class Read:
    """The interval low..high that a node reads, and what it may lose by reading a subnormal number as 0.

    What a single reader loses is counted with the node that it reads. Of several readers, each may lose it by itself.
    ``terms`` are those of the node that is read, and ``scaled`` is by how much the scalings that it ends with multiply
    or divide, at most.
    """

    low: Array
    high: Array
    flushed: Array
    terms: Terms | None = None
    scaled: float = 1.0

    @property
    def parts(self) -> Terms:
        """The terms (boxes, width), at least as large as what is computed of them; a number that is no sum is one."""
        above, below = np.maximum(self.high, 0.0), np.maximum(-self.low, 0.0)
        none = np.zeros_like(above)
        if self.terms is None:
            return Terms(none, above, below, none)
        whole = self.terms.where(none == 0)
        return replace(whole, above=np.maximum(whole.above, above), below=np.maximum(whole.below, below))


@dataclass(frozen=True, eq=False)
class Rounding:
    """A node in inference (boxes, width): what it rounds itself, given its computed inputs, and all of its error.

    ``low`` and ``high`` enclose both what is exact and what is computed; ``slopes`` are those of an operation that is
    not linear, ``terms`` those that a program may add up together with other parts of a sum. ``scaled`` is by how much
    the scalings that the node ends with, those of a function that is several nodes among them, multiply or divide, at
    most.
    """

    own: Array
    error: Array
    low: Array
    high: Array
    slopes: Any = None
    terms: Terms | None = None
    scaled: float = 1.0


class Operation:
    """An operation of a network; `docs/extending.md` shows how to add one, `docs/kernel.md` has a table of all this."""

    arithmetic = False  # whether it adds or multiplies: its bounds are worth tracing backward
    mirrors = False  # whether `substitute` takes forms that are mirrored; if not, it is given them written out
    bends = False  # whether forms that are mirrored are not any more, behind it
    rearranges = False  # whether it gives columns of what it reads as they are
    reads = 1  # how many nodes it reads, if it is one of `KINDS`

    def width(self, widths: Sequence[int]) -> int:
        """Return how many numbers it gives, from those of the nodes that it reads; refuse what does not fit."""
        raise NotImplementedError

    def interval(self, reads: Sequence[Interval]) -> Interval:
        """Enclose its values, from the intervals of what it reads."""
        raise NotImplementedError

    def at_points(self, reads: Sequence[Array], sizes: Sequence[Array]) -> tuple[Array, Array]:
        """Return its values at points (points, width), and how far they are off from exact ones at most (1, width).

        What it reads is not larger than ``sizes`` (1, width) at any of the points.
        """
        low, high = self.interval([(read, read) for read in reads])
        apart = (high - low).max(axis=0, keepdims=True)
        return low, np.where(apart == 0, 0.0, up(apart))

    def relaxed(self, reads: Sequence[Interval]) -> Any:
        """Return what `substitute` needs to know of these intervals, once for all forms: here, how many there are."""
        return len(reads)

    def substitute(self, coefficients: Array, relaxed: Any, form: Form) -> list[Array]:
        """Return forms of what it reads below forms of its values, a list of coefficients; add constants to the form.

        ``relaxed`` is what `relaxed` gave for the intervals of what it reads. An operation that ``mirrors`` makes of
        the negative of a form the negative of what it makes of the form, or uses `Form.bend`.
        """
        raise NotImplementedError

    def slopes(self, reads: Sequence[Interval]) -> Any:
        """Enclose its derivatives over the intervals of what it reads, where it is not linear, for other methods."""
        return None

    def carried(self, slopes: Any, errors: Sequence[Array]) -> Array:
        """Return how far it is off if the nodes that it reads are off by these errors, within these slopes."""
        raise NotImplementedError

    def terms(self, reads: Sequence[Read], kind: Precision) -> Terms | None:
        """Return the terms of its sums, those of sums that it passes on among them; None if it has none."""
        return None

    def own_rounding(
        self, terms: Terms | None, reads: Sequence[Read], kind: Precision, scaled: float
    ) -> tuple[Array, Array]:
        """Return how far a computed value is from the exact one with the same inputs, and the largest on the way.

        The largest on the way must fit into the format, and is 0 only for a number that is surely 0. ``scaled`` is by
        how much the scalings right before it multiply or divide, at most.
        """
        size = self.carried(None, [np.maximum(read.high, -read.low) for read in reads])
        return np.zeros_like(size), size

    def derivatives(self, derivatives: Derivatives, widths: Sequence[int], slopes: Any) -> list[Derivatives]:
        """Enclose derivatives by each node that it reads, from those by itself, given its `slopes`."""
        raise NotImplementedError

    def stretch(self, side: int, slopes: Any) -> Array | float:
        """Bound by how much longer derivatives by the node that it reads are, as vectors, than those by itself.

        ``side`` is the place of that node among those that it reads. For each box, or for all.
        """
        raise NotImplementedError

    def scaled(self, before: float) -> tuple[float, float]:
        """Return by how much it scales, with the scalings right before it, and by how much it does at its end."""
        return before, 1.0

    def entering(self, size: Array) -> Array:
        """Bound the numbers that it multiplies by weights, from those that it reads."""
        return size

    def reached(self, reached: Sequence[Bools]) -> Bools:
        """Return which of its values depend on which column, bool (width, columns)."""
        raise NotImplementedError

    def signed(self, reached: Sequence[Bools]) -> Bools:
        """Return which of its values depend on which column in the sign of a zero: here, those that a column reaches.

        A product with 0 is 0 or -0. These are equal, but 1 / 0 and 1 / -0 are not.
        """
        return self.reached(reached)

    def bound(self, sizes: Sequence[Array], largest: float) -> Array:
        """Bound the sizes of its values, with room for rounding."""
        raise NotImplementedError

    def weigh(self, weights: Array, widths: Sequence[int]) -> list[Array]:
        """Return how much each number that it reads weighs: only a measure of where to halve a box."""
        return [weights] * len(widths)

    def words(self, read: Sequence[str]) -> str:
        """Return what it computes of values with these names, for the condition of a claim about a state dict."""
        raise NotImplementedError

    def work(self, width: int) -> int:
        """Return the multiplications for one row."""
        return PER_UNIT * width

    @property
    def stored(self) -> list[Array]:
        """The arrays of the file that it uses, for the digest of the weights."""
        return []


class Nonlinear(Operation):
    """An operation whose derivatives depend on what it reads: an elementwise function, a product, a softmax.

    It says how much its values change over intervals (`slopes`), and what programs round in it (`rounding`).
    """

    ending = 1.0  # by how much it divides in the last of several steps, where programs write it so

    def asked(self, reads: Sequence[Interval]) -> Array | None:
        """Return linear forms of the node that it reads (boxes or 1, forms, width) whose ranges make its bounds closer.

        ``reads`` has the ranges of those that it asked for before, behind what it reads, and so has what `interval`,
        `relaxed` and `slopes` are given where linear bounds are known. None: it asks for no more.
        """
        return None

    def rounding(self, reads: Sequence[Interval], kind: Precision, scaled: float) -> Array:
        """Return how far a computed value is from the exact one with the same inputs; inf where a step may overflow.

        ``scaled`` is by how much the scalings right before it multiply or divide, at most: programs may scale later.
        """
        raise NotImplementedError

    def in_inference(
        self, reads: Sequence[Read], errors: Sequence[Array], kind: Precision, ask: Asking | None = None
    ) -> Rounding:
        """Return what inference computes, from intervals of what it reads and how far that is off.

        ``ask`` adds the ranges of the forms that it asks for.
        """
        ends, scaled = [(read.low, read.high) for read in reads], math.prod(read.scaled for read in reads)
        ends = ends if ask is None else ask(ends, errors[0] + reads[0].flushed)
        (low, high), slopes, own = self.interval(ends), self.slopes(ends), self.rounding(ends, kind, scaled)
        outward = 1 + 4 * gamma(4)
        if any(read.flushed.any() for read in reads):
            own = own + self.carried(slopes, [read.flushed for read in reads]) * outward
        # Exact and computed value both lie between low and high, but for the operation's own rounding.
        error = (np.minimum(self.carried(slopes, errors), up(high - low)) + own) * outward
        return Rounding(own, error, low - own, high + own, slopes, self.terms(reads, kind), self.ends(ends, scaled))

    def ends(self, reads: Sequence[Interval], scaled: float) -> float:
        """Return by how much the scalings that it ends with multiply or divide, at most."""
        return self.ending


def one_source(widths: Sequence[int], wanted: int | None = None, name: str = "node") -> int:
    """Return the width of the one node that an operation reads; refuse others than the wanted one."""
    if len(widths) != 1:
        raise CheckError(f"a node of the model reads {len(widths)} others, which is not what it can do")
    if wanted is not None and widths[0] != wanted:
        raise CheckError(f"a {name} of the model reads {wanted} of {widths[0]} values")
    return widths[0]


def dot(coefficients: Array, values: Array) -> Array:
    """Return the products of forms (boxes, forms, width) and values (boxes, width): (boxes, forms).

    Forms that all boxes share may be given once (1, forms, width).
    """
    if len(coefficients) == 1:
        return np.asarray(values @ coefficients[0].T)
    return np.asarray((coefficients @ values[:, :, None])[:, :, 0])


def once(coefficients: Array) -> Array:
    """Return coefficients that all boxes share (boxes, forms, width) once (1, forms, width), and others as they are."""
    return coefficients if coefficients.strides[0] else coefficients[:1]


def mirrored(forms: Array | float, sign: int = -1) -> Array:
    """Return numbers of forms (boxes, forms, ...), and behind them their negatives; with 1 as the sign, the same."""
    if not isinstance(forms, np.ndarray):
        return np.asarray(forms, np.float64)  # still 0
    both = np.concatenate([once(forms), sign * once(forms)], axis=1)
    return both if len(both) == len(forms) else np.broadcast_to(both, (len(forms), *both.shape[1:]))


def stacked(*parts: Array) -> Array:
    """Return arrays of one shape as one, with a new axis in front, faster than `np.stack`."""
    return np.concatenate([part[None] for part in parts])


def total(values: Array) -> Array:
    """Return the sums of values (boxes, width): (boxes, 1)."""
    return np.asarray(values.sum(axis=1, keepdims=True))


def magnitude(low: Array, high: Array) -> Array:
    """Return how large values in low..high can be."""
    return np.maximum(np.abs(low), np.abs(high))


def length(vectors: Array) -> Array:
    """Return upper bounds of the lengths of vectors, along the last axis."""
    squares: Array = np.einsum("...i,...i->...", vectors, vectors)
    return np.sqrt(squares) * (1 + gamma(vectors.shape[-1] + 8)) + _SHORT


def lost_in_products(coefficients: Array, size: Array) -> Array:
    """Return what forms of values of this size can lose by rounding, (boxes, forms)."""
    return np.asarray(gamma(coefficients.shape[2] + 4) * dot(np.abs(coefficients), size))


def finite(slopes: Array) -> Array:
    """Return the slopes, and 0 where intervals without ends have none: any slope is sound, but NaN is no slope."""
    return np.where(np.isfinite(slopes), slopes, 0.0)
