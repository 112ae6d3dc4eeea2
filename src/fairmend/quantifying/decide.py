"""What is proven about boxes of people, and where to split them next.

`fairmend_check.shares` says who exists, who is similar to whom, how many people a box holds, and whether they are
treated equally: all that counts as proven is proven by it. Here is only which pieces of protected values it gets, and
along which axis of a box a split is worth most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from fairmend.base.arrays import Bools, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.network import Network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import InputForms
from fairmend_check.kernel.functions import Activation
from fairmend_check.kernel.model import Dense, Model
from fairmend_check.kernel.operations.base import Nonlinear
from fairmend_check.kernel.spec import Spec as CheckedSpec
from fairmend_check.kernel.spec import read_spec
from fairmend_check.shares.linked_people import ALL, Cases
from fairmend_check.shares.listing import LISTED_INPUTS, count_inputs, list_people
from fairmend_check.shares.people import MAX_CELLS, Boxes, People, divide
from fairmend_check.shares.prover import Prover
from fairmend_check.shares.requirements import Bounded
from fairmend_check.shares.tally import Counts

CELLS = 2**16
"""The cells of a continuous feature."""

PRECISION = 32
"""To what part of what stays open in a box terms are rounded when its people are counted; see `Prover`."""

_FEW_VALUES, _RANGES = 8, 4  # pieces of protected values
_WORTH = 0.01  # of a box: fewer people who are treated equally are not counted, until it is halved
_BY_FORMS = 0.25  # of a box: fewer people whom its forms decide are listed faster than these are computed
_NOTICEABLE = 20  # the error of inference is computed again where it is more than this part of what is open
_NUMBERS = 2**22  # in the forms of the boxes that are decided at once


@dataclass(frozen=True, eq=False)
class Decided:
    """What is proven about boxes, and what to do next; all ``(n,)``.

    ``axis`` is where to split, or -1; ``error`` bounds the error of inference over the box.
    """

    counts: Counts
    axis: Ints
    error: Floats

    @staticmethod
    def nothing(axis: Ints, error: Floats) -> Decided:
        """Return that nothing is proven about boxes."""
        return Decided(Counts.none(len(axis)), axis, error)


class Decider:
    """Decides boxes of people for a network and a spec.

    There is a piece for each combination of protected values if they are few, else few ranges, or at most so many
    ``pieces``: bounds over more of them are tighter, but take more time than they are worth. Links divide them further.
    """

    def __init__(
        self,
        network: Network,
        spec: Spec,
        pieces: int | None = None,
        *,
        counting: bool = True,
        precision: float = PRECISION,
        worth: float = _WORTH,
    ) -> None:
        self.network, self.spec, self.counting, self.precision = network, spec, counting, precision
        self.model, checked = kernel_model(network), _checked_spec(spec)
        self.parts = _choose_parts(network, spec, pieces)
        try:
            self.people = People.of(checked, self.model.dtype, CELLS, self.parts)
            evaluate = partial(_logits, network)
            self.prover = Prover(self.model, checked, self.people, precision, math.inf, evaluate, worth)
        except CheckError as error:
            raise FairmendError(f"quantify cannot count these people: {error}") from error
        _require_rows(self.model, self.people)

    def finer(self, times: float) -> Decider:
        """Return a decider that counts people so many times as precisely, and however few they are."""
        pieces, precision = math.prod(self.parts), times * self.precision
        return Decider(self.network, self.spec, pieces, counting=self.counting, precision=precision, worth=0.0)

    def decide(self, boxes: Boxes, error: Floats) -> Decided:
        """Decide boxes, given bounds of the error of inference over each ``(n,)``."""
        step = max(1, _NUMBERS // self.prover.coefficients)
        starts = range(0, len(boxes), step)
        with np.errstate(all="ignore"):  # of what overflows, nothing is proven
            found = [self._decide_part(boxes.take(slice(k, k + step)), error[k : k + step]) for k in starts]
        parts = ((each.counts.fair, each.counts.unfair, each.counts.exact, each.axis, each.error) for each in found)
        fair, unfair, exact, axis, error = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Decided(Counts(fair, unfair, exact), axis, error)

    def list_people(self, boxes: Boxes, error: Floats, decided: Floats | None = None) -> Decided:
        """Decide boxes by listing everyone who is similar to someone in them; shares may be ``decided`` by forms."""
        error = np.minimum(error, self.prover.errors(boxes))
        found = Decided.nothing(np.full(len(boxes), -1), error)
        forms = None if decided is None else decided >= _BY_FORMS
        list_people(self.prover, boxes, found.counts, np.arange(len(boxes)), error, forms)
        return found

    def importance(self, boxes: Boxes) -> Floats:
        """Return how much each cell of each axis adds to what is open in boxes, roughly: ``(n, axes)``."""
        bounded = self.prover.bound(boxes, self.people.cases(len(boxes)), np.zeros(len(boxes)))
        return self._scores(bounded) / (boxes.last - boxes.first + 1)

    def _decide_part(self, boxes: Boxes, error: Floats) -> Decided:
        required = self.prover.requirement
        bounded = self.prover.bound(boxes, self.people.cases(len(boxes)), error)
        forms = required.forms(bounded)
        counts = self.prover.count(bounded, forms, np.full(len(boxes), self.counting))
        splits = self.people.divisible(boxes)
        axis = np.where(splits.any(axis=1), np.where(splits, self._scores(bounded), -1.0).argmax(axis=1), -1)
        found, rest = Decided(counts, axis, error.copy()), np.flatnonzero(np.maximum(*counts.shares(boxes)) < 1)
        if self.people.banded:  # a box within a band is not split further, so it is listed if it can be
            few = count_inputs(self.people, boxes.take(rest)) <= LISTED_INPUTS
            last, rest = rest[few & (axis[rest] == -1)], rest[~few | (axis[rest] != -1)]
            list_people(self.prover, boxes, found.counts, last, error)
        if len(rest):
            part = np.zeros(len(rest)) if forms is None else required.open_part(boxes.take(rest), forms.take(rest))
            self._tighten(boxes, found, rest[(_NOTICEABLE * error[rest] > part) | (axis[rest] == -1)])
        return found

    def _tighten(self, boxes: Boxes, found: Decided, rows: Ints) -> None:
        """Compute the error of inference of some boxes again, and decide single cells once more where it is smaller."""
        if not len(rows):
            return
        before = found.error[rows]
        found.error[rows] = np.minimum(before, self.prover.errors(boxes.take(rows)))
        again = rows[(found.axis[rows] == -1) & (found.error[rows] < 0.9 * before)]
        if len(again):
            last = self._decide_part(boxes.take(again), found.error[again])
            found.counts.put(again, last.counts)
            found.error[again] = last.error

    def _scores(self, bounded: Bounded) -> Floats:
        """Return how much each axis adds to the distance of the forms from what they bound, ``(n, axes)``."""
        people, required, (n, count) = self.people, self.prover.requirement, bounded.shape
        lower, upper = bounded.found.nodes[0]
        weight = np.abs(bounded.found.A).mean(axis=1)
        loose = _looseness(required.bounded, bounded.found, required.outputs) + 1e-9 * weight
        columns = (loose * (upper - lower)).reshape(n, count, -1).mean(axis=1) + 1e-300
        scores = np.full((n, len(people.axes)), 1e-300)
        for k, axis in enumerate(people.free):
            scores[:, k] = columns[:, axis.columns].sum(axis=1)
        return scores if people.links is None else scores + _link_looseness(people, bounded, weight)


def _logits(network: Network, X: Floats) -> Floats:
    return network.logits(X.astype(network.dtype)).astype(np.float64)


def _checked_spec(spec: Spec) -> CheckedSpec:
    """Return a spec as the checker reads it from a certificate."""
    for feature in spec.features:
        low, high = feature.bounds
        if feature.kind == "integer" and high - low >= MAX_CELLS:
            raise FairmendError(
                f'feature "{feature.name}" has {int(high - low) + 1:,} values; quantify takes at most {MAX_CELLS:,}. '
                'Set kind = "continuous" in the spec.'
            )
    try:
        return read_spec(spec.with_about(None).to_dict(), "the spec")
    except CheckError as error:
        raise FairmendError(f"quantify cannot take this spec: {error}") from error


def _require_rows(model: Model, people: People) -> None:
    """Raise an error if people have values that the model cannot look up: tables must have a row for every value."""
    for column, rows in model.tables:
        axes = (*people.free, *people.protected)
        axis = next(axis for axis in axes if axis.columns.start <= column < axis.columns.stop)
        fixed = axis.feature.whole or axis.cells == 1
        values = np.arange(2.0) if axis.one_hot else axis.lower(np.arange(min(axis.cells, rows + 1)))
        if not (fixed and np.all(values == np.rint(values)) and 0 <= values.min() <= values.max() < rows):
            raise FairmendError(
                f'feature "{axis.feature.name}": the network looks up its value in a table of {rows} rows. '
                f"Its encoded values must be whole numbers from 0 to {rows - 1}; correct the spec."
            )


def _choose_parts(network: Network, spec: Spec, pieces: int | None) -> list[int]:
    """Return into how many parts each protected feature is divided: one if the network does not read it."""
    named = {name for link in spec.links for name in link.when}
    values = []
    for feature in spec.protected:
        low, high = feature.bounds
        count = (CELLS if high > low else 1) if feature.kind == "continuous" else int(high - low) + 1
        reads = feature.name in named or bool(network.read_columns[spec.columns(feature.name)].any())
        values.append(count if reads else 1)
    return divide(values, pieces or (_FEW_VALUES if math.prod(values) <= _FEW_VALUES else _RANGES))


def _looseness(model: Model, found: InputForms, outputs: Floats) -> Floats:
    """Return how much a unit of width of each input column adds to the distance of forms of the outputs, roughly.

    Backward go how much the forms change with each number, and how much of the distance comes through it. This is only
    a measure of where to split a box ``(rows, inputs)``.
    """
    nodes, last = found.nodes, len(model.nodes) - 1
    rows = len(nodes[0][0])
    start = np.zeros((rows, 2, model.outputs))
    start[:, 0] = np.abs(outputs).mean(axis=0)
    left = {last: start}
    for number in range(last, 0, -1):
        if number not in left:
            continue
        node, own = model.nodes[number], left.pop(number)
        low, high = nodes[node.sources[0]]
        if isinstance(node.operation, Activation):
            lines = found.lines[number]
            middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, 0.0)
            gap = (lines.slope_above - lines.slope_below) * middle + lines.above - lines.below
            part = own * np.abs(lines.slope_above)[:, None]
            part[:, 1] += np.where(high > low, own[:, 0] * np.maximum(gap, 0.0) / (high - low), 0.0)
            parts = [part]
        elif isinstance(node.operation, Dense):
            parts = [own @ np.abs(node.operation.weight)]
        else:
            widths, slopes = [model.widths[source] for source in node.sources], None
            if isinstance(node.operation, Nonlinear):  # which is as loose as it is steep
                slopes = node.operation.slopes([nodes[source] for source in node.sources])
                own = np.stack([own[:, 0], own.sum(axis=1)], axis=1)
            with np.errstate(invalid="ignore", over="ignore"):  # of intervals without ends
                parts = [sizes for _, _, sizes in node.operation.derivatives((-own, own, own), widths, slopes)]
        if not parts:  # a look-up passes nothing on
            least, most = nodes[number]
            spread = (own[:, 0] * (most - least)).sum(axis=1, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):  # where there is no jump
                jump = np.where(high > low, spread / (high - low), 0.0)
            parts = [np.stack([np.zeros_like(jump), jump], axis=1)]
        for source, part in zip(node.sources, parts, strict=True):
            left[source] = left[source] + part if source in left else part
    loose = left[0][:, 1] if 0 in left else np.zeros((rows, model.inputs))
    return np.where(np.isfinite(loose), loose, 0.0)


def _link_looseness(people: People, bounded: Bounded, weight: Floats) -> Floats:
    """Return how much each axis adds to what links leave open ``(n, axes)``, roughly.

    ``weight (rows, inputs)`` is how much a column matters. A box is split along own values where that helps to tell
    which links apply, and along a linked number where its range cuts offsets off.
    """
    assert people.links is not None
    cases, (n, count) = bounded.cases, bounded.shape
    first, last = (np.repeat(end, count, axis=0) for end in (bounded.boxes.first, bounded.boxes.last))
    found = np.zeros(first.shape)
    for linked, outcomes in zip(people.links.axes, people.links.outcomes(first, last, cases), strict=True):
        axis, number = linked.axis, linked.number
        ends = axis.hull(np.zeros(1, np.int64), np.array([axis.cells - 1]))
        spread = weight[:, axis.columns] @ (ends[1] - ends[0])[0]
        for (link, effect), (_, applies) in zip(linked.effects, outcomes[1:], strict=True):
            for protected, own, _ in people.links.conditions[link]:
                found[:, own] += np.where(applies & _meets(cases, protected, first, last, own), spread, 0.0)
            if effect.kind == "offset":
                moved = [
                    np.subtract(linked.numbers(effect, value, value, np.full(len(value), ALL)), value)
                    for value in axis.value_ends(first[:, number], last[:, number])
                ]
                cut = np.abs(moved[0] - moved[1]).max(axis=0) / axis.feature.affine[1]
                found[:, number] += np.where(applies, weight[:, axis.column] * cut, 0.0)
    return np.asarray(found.reshape(n, count, -1).mean(axis=1))


def _meets(cases: Cases, protected: int, first: Ints, last: Ints, own: int) -> Bools:
    """Return where some protected values are people's own, and some are not."""
    low, high = cases.first[:, protected], cases.last[:, protected]
    mine, until = first[:, own], last[:, own]
    return np.asarray((low <= until + 1) & (mine <= high + 1) & ~((low <= mine) & (until <= high)))
