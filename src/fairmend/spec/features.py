"""Feature and Label: what one column of the user's data means, and how the network reads it.

A *value* is what the user's data holds (34, "female"); its *encoding* is what the network reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairmend.base.arrays import FloatArray
from fairmend.base.text import as_text
from fairmend.spec.validation import (
    scale_parameters,
    validate_classes,
    validate_feature,
    validate_label,
    validate_threshold,
)

_Number = TypeVar("_Number", bound=np.floating[Any])

_SCALING_ERROR = 4 * float(np.finfo(np.float32).eps)  # of scaling in float32, relative to the operands
_TINY = float(np.finfo(np.float32).tiny)  # below it, rounding errors are no longer relative


@dataclass(frozen=True, repr=False)
class Feature:
    """One input feature: its values, their encoding, and how far similar people may differ in it.

    A feature is validated when it is created.

    Attributes
    ----------
    name : the column in your data
    kind : "continuous", "integer" or "categorical"
    range : the lowest and highest value; numeric kinds only
    categories : the values as text, in the order of their codes; categorical only
    encoding : "ordinal" (one column) or "one-hot" (one column per category; categorical only)
    scale : {"mean", "std"} or {"min", "max"}; the network reads (v - mean) / std or (v - min) / (max - min)
    protected : similar people may have any value of this feature
    tolerance : similar people may differ by up to this amount, in the feature's own units
    dropped : the category without a column of its own: all its columns are 0; one-hot only
    missing : the value that replaces a missing one; without it, missing values are an error
    indicates : the column whose missing values this feature marks: 1 where it is missing, 0 elsewhere
    input : the name of the model's input that reads this feature, for a model with several inputs
    names : what people call the values, such as {1: "male", 2: "female"}; not for continuous features
    """

    name: str
    kind: str
    range: tuple[float, float] | None = None
    categories: tuple[str, ...] | None = None
    encoding: str = "ordinal"
    scale: Mapping[str, float] | None = field(default=None, hash=False)
    protected: bool = False
    tolerance: float = 0.0
    dropped: str | None = None
    missing: float | str | None = None
    indicates: str | None = None
    input: str | None = None
    names: Mapping[str, str] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        """Validate every field, and store numbers, tuples and categories in their canonical form."""
        for key, value in validate_feature(self).items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        """Show the fields that differ from their defaults."""
        shown = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Feature({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def show(self, value: Any) -> Any:
        """Return what people call a value of the user's data: its name, if it has one, or the value itself."""
        return value if self.names is None else self.names.get(as_text(value), value)

    @property
    def one_hot(self) -> bool:
        """Whether the feature has one column per category (except a dropped one)."""
        return self.encoding == "one-hot"

    @property
    def width(self) -> int:
        """The number of columns that the network reads for this feature."""
        return len(self.categories or ()) - (self.dropped is not None) if self.one_hot else 1

    @property
    def corners(self) -> NDArray[np.float64]:
        """The one-hot columns of each category: (categories, columns)."""
        return self.one_hot_columns(np.arange(len(self.categories or ())), np.float64)

    def one_hot_columns(self, codes: NDArray[np.int64], dtype: DTypeLike) -> NDArray[Any]:
        """Return the one-hot columns (rows, width) of categories with these codes (rows,)."""
        columns = np.zeros((len(codes), self.width), dtype)
        place, mark = self.one_hot_marks
        flat = columns.reshape(-1)  # an index into it is faster than one into rows and columns
        flat[np.arange(0, flat.size, self.width) + place[codes]] = mark[codes]
        return columns

    @property
    def one_hot_marks(self) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        """Which one-hot column each category sets, and to what: 1; a dropped category sets the first to 0."""
        codes = np.arange(len(self.categories or ()), dtype=np.int64)
        if self.dropped is None:
            return codes, np.ones(len(codes), dtype=np.int8)
        dropped = (self.categories or ()).index(self.dropped)
        return np.where(codes == dropped, 0, codes - (codes > dropped)), (codes != dropped).astype(np.int8)

    def by_category(self, columns: NDArray[_Number], of_dropped: float) -> NDArray[_Number]:
        """Return one-hot columns (rows, width) as (rows, categories), with ``of_dropped`` for the dropped category."""
        if self.dropped is None:
            return columns
        place = (self.categories or ()).index(self.dropped)
        return np.insert(columns, place, columns.dtype.type(of_dropped), axis=1)

    def category_of(self, columns: FloatArray) -> NDArray[np.int64]:
        """Return the code of the category (rows,) nearest to one-hot columns (rows, width)."""
        return np.asarray(self.by_category(columns, 0.5).argmax(axis=1), dtype=np.int64)

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest value; for a categorical feature, the lowest and highest code."""
        return self.range if self.range is not None else (0, len(self.categories or ()) - 1)

    @property
    def extent(self) -> str:
        """The values in a few words: "17 to 90" or "(3 categories)"."""
        if self.categories:
            return f"({len(self.categories)} categories)"
        return "{:.10g} to {:.10g}".format(*self.bounds)

    @property
    def reach(self) -> float:
        """How far a neighbour's value may lie from the input's own, before the range limits it."""
        if self.protected:
            return math.inf
        return math.floor(self.tolerance) if self.kind == "integer" else self.tolerance

    @property
    def varies(self) -> bool:
        """Whether neighbours can differ in this feature."""
        return self.reach > 0 and self.bounds[0] < self.bounds[1]

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the encoding of values (or codes); monotone, also in floating point."""
        offset, factor = scale_parameters(self.scale)
        return (values - offset) / factor

    def unscaled(self, x: FloatArray) -> NDArray[np.float64]:
        """Return the values (or codes) of encoded x, without rounding or clipping."""
        offset, factor = scale_parameters(self.scale)
        with np.errstate(over="ignore"):  # infinity is out of range, which the caller reports
            return x.astype(np.float64) * factor + offset

    def nearest(self, x: FloatArray) -> NDArray[np.float64]:
        """Return the possible values (or codes) nearest to those of encoded x."""
        values = np.clip(self.unscaled(x), *self.bounds)
        return values if self.kind == "continuous" else np.rint(values)

    def slack(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far, in the feature's own units, values may be off if they were scaled in float32."""
        offset, factor = scale_parameters(self.scale)
        return 2 * _SCALING_ERROR * (np.abs(values) + abs(offset)) + _TINY * factor


@dataclass(frozen=True)
class Label:
    """The column that holds the outcome, and its positive value or its classes; without them, a number to predict.

    ``classes`` are the values of the label in the order of the network's outputs, if it has more than two.
    ``threshold`` is the probability of the positive class from which a person gets the positive prediction.
    ``score`` names a column with the scores that the model itself gave: the probability of the positive class, or for
    a number to predict the output. Commands compare the network with it before they rely on the spec.
    """

    column: str
    positive: str | None = None
    threshold: float = 0.5
    score: str | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate every field, and store values of the label as text and the threshold as a float."""
        object.__setattr__(self, "classes", validate_classes(self))
        object.__setattr__(self, "positive", validate_label(self))
        object.__setattr__(self, "threshold", validate_threshold(self))

    @property
    def is_number(self) -> bool:
        """Whether the outcome is a number to predict."""
        return self.positive is None and not self.classes

    def name_class(self, number: int) -> str:
        """Return what a class of the network means: B, or "yes" and "not yes" of two classes."""
        if self.classes:
            return self.classes[number] if number < len(self.classes) else f"class {number}"
        if self.positive is None or number > 1:
            return f"class {number}"
        return self.positive if number else f"not {self.positive}"

    def name_negative(self, values: Iterable[object]) -> str:
        """Return what class 0 of two means: the other of the two values in the data, or "not yes" without just one."""
        others = {as_text(value) for value in values} - {self.positive}
        return others.pop() if len(others) == 1 else self.name_class(0)
