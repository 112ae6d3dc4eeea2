"""RunModel: a model whose scores can be computed, and nothing else is known.

A *runner* knows one kind of model: an ONNX file, a module, an estimator or a function. `RunModel` is the same for all.
Bound to a spec, it takes rows of the spec's matrix as a `Network` does, and gives logits, so that whatever counts or
compares scores takes either.

Of a probability p, the logit is log(p / (1 - p)), kept finite. Its last bits are set so that the one decision rule, by
logits, is that of probabilities: class 1 from p = threshold on, and of several classes the most probable.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, first_line
from fairmend.models.ports import InputSignature, Port
from fairmend.models.scored_again import ScoredRows
from fairmend.network import Network
from fairmend.network.decision import (
    DEFAULT_THRESHOLD,
    Decides,
    enclose_log_odds,
)
from fairmend.network.model import scores_of
from fairmend.network.rescaling import PROBABILITY
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("logit", "probability", "number")
"""What the outputs of a model are: logits, probabilities, or the number that a regression model predicts."""

_logger = logging.getLogger(__name__)

_PROBED = 128  # rows on which a model is tried before it is used
_FEW = 7  # rows of the small batches that some of them are run in again
_WATCHED = 4  # of them, rows that are run again with every batch
# Scores of the same row may differ in their last bits: threads add in another order, another batch rounds differently.
_SAME = {"float32": 1e-4, "float64": 1e-6}
_ROUNDED = 1e-5  # how far float32 may round a sum of probabilities below 0 or above 1: forests add up hundreds of them
_LOWEST = float(np.log(5e-324)) - 1  # of the probability 0
_HIGHEST = 38.0  # of the probability 1, whose neighbour has 36.7


class _PlainPickler(pickle.Pickler):
    """Writes the fields of records one by one: what is between them in memory is different in each process."""

    def reducer_override(self, value: Any) -> Any:
        """Return how to write a value that is not written as always."""
        if isinstance(value, np.ndarray) and value.dtype.names:  # such as the nodes of scikit-learn's trees
            return dict, ([(name, value[name].copy()) for name in value.dtype.names],)
        return NotImplemented


class Runner(ABC):
    """Runs one kind of model.

    Attributes
    ----------
    name : the model in messages: a file, or the name of a class or function
    runtime : what runs it, with its version: "ONNX Runtime 1.31.1"
    kind : what its outputs are, one of `KINDS`
    sure : whether that is known; "logit" is also what is taken for granted if nothing says otherwise
    dtype : of the rows that it is given
    batch : how many rows are run at once
    labels : what the model calls its classes, in the order of its outputs; empty if it does not say
    threshold : the probability of class 1 from which it predicts it itself, if that is a setting of it
    ties_are_first : whether it itself predicts the first of two classes where their scores are equal
    single : whether its scores are known to have single precision, whatever its rows have
    """

    name: str
    runtime: str
    kind: str
    sure: bool = False
    dtype: np.dtype[Any]
    batch: int = 8192
    labels: tuple[str, ...] = ()
    threshold: float | None = None
    ties_are_first: bool = False
    single: bool = False

    def digest(self) -> str:
        """Return a text that changes with what the model computes; refuse one that does not show it."""
        content = io.BytesIO()
        try:
            _PlainPickler(content).dump(self)
        except Exception as error:
            raise FairmendError(f"{self.name} cannot be pickled, so finished parts cannot be kept") from error
        return hashlib.sha256(content.getvalue()).hexdigest()

    @property
    def named_columns(self) -> tuple[InputSignature, ...]:
        """The columns that the model names, in its order; none if it reads a matrix without names."""
        return ()

    @property
    def width(self) -> int | None:
        """The number of columns that the model reads; None if it does not say."""
        return None

    def takes_people(self, spec: Spec) -> bool:
        """Return whether the model gets the user's own values, which its runner makes of the rows of a spec."""
        return False

    def with_data(self, spec: Spec, frames: Iterable[pd.DataFrame]) -> Runner:
        """Return the runner that gives a model the values as they are in data, if it gets the user's own values."""
        return self

    def require_values(self, spec: Spec, frame: pd.DataFrame) -> None:
        """Refuse data with values that a model which gets the user's own values would get as others."""
        return

    def closing_kind(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> str:
        """Return what the outputs are, if running rows X tells more than the model itself."""
        return self.kind

    @abstractmethod
    def ports(self, spec: Spec) -> tuple[Port, ...]:
        """Return the inputs of the model for a spec; refuse a spec that does not fit."""

    @abstractmethod
    def run(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> npt.NDArray[Any]:
        """Return what the model gives for rows X (rows, width): (rows,) or (rows, outputs)."""

    def compared(self, scores: Floats) -> Floats:
        """Return scores as they are compared with those of another run."""
        return scores

    def predictions(self, spec: Spec, ports: Sequence[Port], X: FloatArray) -> Ints | None:
        """Return the number of the class (rows,) that the model itself predicts for rows X; None if it does not say."""
        return None

    def exports(self, spec: Spec, ports: Sequence[Port]) -> Sequence[Callable[[Path], None]]:
        """Return ways to write the model to an ONNX file, the best first; refuse a model that no file can hold."""
        raise FairmendError(f"{self.name} is a Python function, which no file holds; repair the model that it calls")


class RunModel(Decides):
    """A model that is only run.

    It is bound to a spec, by `bind` or by the command that gets it, before it computes scores.

    Attributes
    ----------
    runner : what runs the model
    kind : what its outputs are: "logit", "probability" or "number"
    why_only_run : why it is not read as a network
    inside : the network at the end of a pipeline, if there is one
    spec, ports : the spec that it is bound to, and its inputs; None and () before that
    threshold : the probability of class 1 from which it is predicted
    outputs : the number of scores for each row; 1 for two classes, of which the second minus the first logit counts
    columns : the number of scores for each row as the model gives them
    single : whether it gave scores of single precision
    """

    kind: str
    outputs: int
    ports: tuple[Port, ...]
    threshold: float
    why_only_run: str

    def __init__(
        self, runner: Runner, why_only_run: str = "", outputs: str | None = None, inside: Network | None = None
    ) -> None:
        """Take a runner; `outputs` replaces what it takes its outputs for, and `inside` ends a pipeline."""
        if outputs is not None and outputs not in KINDS:
            raise FairmendError(f"outputs={outputs!r}: a model gives {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        self.runner, self.why_only_run = runner, why_only_run
        self.kind = outputs or runner.kind
        self._guessed = outputs is None and runner.kind == "logit" and not runner.sure
        self._asked = outputs is not None
        self.inside = inside
        self.spec: Spec | None = None
        self.ports = ()
        self.threshold = DEFAULT_THRESHOLD
        self.outputs = self.columns = 0
        self.closing = "none"
        self.single = runner.single
        self._watched: tuple[FloatArray, Floats] | None = None  # rows that run with every batch, and their scores
        self._scored: ScoredRows | None = None
        self._order: Ints | None = None  # of the classes, if the spec's is another
        self._flipped = False  # whether its one score is that of the spec's class 0

    def __repr__(self) -> str:
        """Show what runs the model, and what it gives."""
        bound = f", {self.inputs} columns" if self.spec is not None else ", not bound to a spec"
        return f"RunModel({self.runner.name}, run by {self.runtime}, gives {self.kind}{bound})"

    @property
    def runtime(self) -> str:
        """What runs the model: "ONNX Runtime 1.31.1"."""
        return self.runner.runtime

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of rows."""
        return self.runner.dtype

    @property
    def inputs(self) -> int:
        """The number of columns of the spec."""
        return self._bound.width

    @property
    def order(self) -> Ints | None:
        """The numbers of its outputs in the order of the spec's classes; None if that is their own."""
        return self._order

    @property
    def reversed(self) -> bool:
        """Whether the first of its two scores, or the only one against its sign, is that of the spec's class 1."""
        return self._flipped or (self._order is not None and len(self._order) == 2)

    @property
    def read_columns(self) -> Bools:
        """Which columns the scores can depend on, bool (inputs,): all, for all that is known."""
        return np.ones(self.inputs, dtype=np.bool_)

    @property
    def _bound(self) -> Spec:
        if self.spec is None:
            raise FairmendError(
                f"{self.runner.name}: which columns it reads is in the spec; call model.bind(spec) first"
            )
        return self.spec

    def bind(self, spec: Spec, frames: Iterable[pd.DataFrame] = ()) -> RunModel:
        """Return the model for rows of a spec, tried on some; refuse one that does not fit, or is no function of a row.

        It must give finite scores of one shape, the same in a second run and in another batch, and leave its input as
        it is. A few of these rows run with every later batch. All of them, and a sample of others, are scored again
        now and then, and at the end of a command, so that scores which change later are refused, too. A model that
        gets the user's own values gets them as they are in the ``frames``.
        """
        frames = list(frames)
        runner = self.runner.with_data(spec, frames) if frames else self.runner
        if self.spec is spec and runner is self.runner:
            return self
        if spec.score_range != PROBABILITY:
            raise FairmendError(
                f"{self.runner.name} is only run, and a score_range in [label] is for networks that fairmend reads "
                f"({self.why_only_run}). Remove it, and let the model give probabilities"
            )
        own = self.runner.threshold
        if own is not None and own != spec.threshold:
            raise FairmendError(
                f"{self.runner.name} decides at the threshold {own:g}, but the spec at {spec.threshold:g}. Set "
                f"threshold = {own:g} in [label], or give the classifier inside of it"
            )
        bound = copy(self)
        bound.runner, bound.spec, bound.ports, bound.threshold = runner, spec, runner.ports(spec), spec.threshold
        bound._watched = bound._scored = None
        bound._probe()
        return bound

    def require_values(self, frame: pd.DataFrame) -> None:
        """Refuse data with values that the model would get as others."""
        self.runner.require_values(self._bound, frame)

    def at_threshold(self, threshold: float) -> RunModel:
        """Return the model with another threshold."""
        changed = copy(self)
        changed.threshold = threshold
        return changed

    def digest(self) -> str:
        """Return a text that changes with what the model computes."""
        return f"{self.runner.digest()} {self.runtime} {self.kind} {self.threshold!r}"

    def logits(self, X: npt.ArrayLike) -> FloatArray:
        """Return the logits of X (rows, inputs), float64: (rows,) for one score, (rows, N) for several.

        Equal rows are run once. Of a model that predicts a number, they are its predictions.
        """
        rows = np.ascontiguousarray(X, dtype=self.dtype)
        if rows.ndim != 2 or rows.shape[1] != self.inputs:
            raise FairmendError(f"X has shape {rows.shape}; it must be (rows, {self.inputs})")
        different, place = _different_rows(rows)
        parts = [
            self._scores(self._run_and_keep(different[start : start + self.runner.batch]))
            for start in range(0, len(different), self.runner.batch)
        ]
        scores = np.concatenate(parts) if parts else np.zeros((0,) if self.outputs == 1 else (0, self.outputs))
        return np.asarray(scores[place])

    def probabilities_of(self, logits: FloatArray) -> FloatArray:
        """Return the probability of class 1 (rows,), or of every class (rows, N), of logits."""
        shares = scores_of(logits, "probability")
        return shares[:, 0] if self.outputs == 1 else shares

    def require_stable(self) -> None:
        """Score people again who were scored before; refuse a model that gives them other scores now."""
        if self._scored is None:
            return
        X, before = self._scored.shuffled()
        again = np.concatenate(
            [self._run(X[start : start + self.runner.batch]) for start in range(0, len(X), self.runner.batch)]
        )
        self._require_same(before, again, f"{self.runner.name} is not deterministic: scored again, the same people get")

    def _run_and_keep(self, X: FloatArray) -> Floats:
        """Return what the model gives for rows X, of which some are kept, and scored again now and then."""
        found = self._run(X)
        if self._scored is not None and self._scored.add(X, found):
            self.require_stable()
        return found

    def _run(self, X: FloatArray) -> Floats:
        """Return what the model gives for rows X, float64 (rows, outputs)."""
        name, rows = self.runner.name, len(X)
        if self._watched is not None:  # a single row is never alone, either: some models lose a dimension of it
            X = np.concatenate([X, self._watched[0]])
        try:
            given = self.runner.run(self._bound, self.ports, X)
        except FairmendError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's model raises
            raise FairmendError(
                f"{name} fails on {len(X)} rows: {type(error).__name__}: {first_line(error)}"
            ) from error
        found = as_scores(given, len(X), name)
        self.single |= np.asarray(given).dtype.itemsize < found.itemsize
        if not np.isfinite(found).all():
            row = int(np.argwhere(~np.isfinite(found))[0][0])
            values = self._bound.decode(X[row : row + 1]).iloc[0].to_dict()
            why = f". It is only run ({self.why_only_run})" if self.why_only_run else ""
            raise FairmendError(f"{name} gives {found[row].tolist()}, which is not finite, for {values}{why}")
        if self._watched is not None:
            self._require_same(
                self._watched[1], found[rows:], f"{name} is not deterministic: in a later run, the same people get"
            )
        return found[:rows]

    def logits_of(self, given: npt.ArrayLike) -> FloatArray:
        """Return what the model gave for some rows, (rows,) or (rows, outputs), as logits."""
        scores = np.asarray(given)
        return self._scores(as_scores(scores, len(scores), self.runner.name))

    def _scores(self, given: Floats) -> Floats:
        """Return what the model gave as logits."""
        if self.runner.ties_are_first and self.threshold == DEFAULT_THRESHOLD and self.kind != "number":
            given = _without_ties(given, self.kind)
        given = given if self._order is None else given[:, self._order]
        if self._flipped:
            given = 1 - given if self.kind == "probability" else -given
        if self.kind != "probability":
            return given if self.outputs > 1 else given[:, -1] - (given[:, 0] if given.shape[1] == 2 else 0.0)
        if given.min(initial=0.0) < -_ROUNDED or given.max(initial=1.0) > 1 + _ROUNDED:
            wrong = given.min() if given.min() < -_ROUNDED else given.max()
            raise FairmendError(
                f"{self.runner.name} gives {wrong:.6g}, which is no probability; if these are logits, or scores that "
                'decide at 0, pass outputs="logit" (--outputs)'
            )
        given = given.clip(0, 1)
        if given.shape[1] <= 2:
            return _logits_of_probabilities(given[:, -1], self.threshold)
        return _logits_of_classes(given)

    def _probe(self) -> None:
        """Try the model on random people, and find out how many outputs it has."""
        spec, name = self._bound, self.runner.name
        X = spec.sample_inputs(_PROBED, np.random.default_rng(0), self.dtype)
        kept = X.copy()
        first = self._run(X)
        if not np.array_equal(X, kept):
            raise FairmendError(f"{name} changes the rows that it is given; let it work on a copy")
        for what, found in (("a second run", self._run(kept)), ("reverse order", self._run(kept[::-1].copy())[::-1])):
            self._require_same(first, found, f"{name} is not deterministic: on the same people, {what} gives")
        few = np.concatenate([self._run(kept[start : start + _FEW]) for start in range(0, 3 * _FEW, _FEW)])
        self._require_same(
            first[: 3 * _FEW], few, f"{name} scores people by who else is in the batch: in another, they get"
        )
        self._watched = kept[:_WATCHED], first[:_WATCHED]
        self._scored = ScoredRows(kept, first)
        self._settle_outputs(first)
        self._scores(first)
        self._require_predictions(kept, first)
        _logger.info("%r: %s", self, self.why_only_run or "bound")

    def _require_predictions(self, X: FloatArray, given: Floats) -> None:
        """Refuse a model that predicts other classes than by its scores, unless these were asked for."""
        spec = self._bound
        if self._asked or self.kind == "number" or self.threshold not in (DEFAULT_THRESHOLD, self.runner.threshold):
            return
        said = self.runner.predictions(spec, self.ports, X)
        if said is None:
            return
        if self._order is not None:
            said = self._order.argsort()[said]
        said = 1 - said if self._flipped else said
        scores = self._scores(given)
        other = int((self.decide(scores) != said).sum())
        if other:
            raise FairmendError(
                f"{self.runner.name} predicts another class than by its scores for {other} of {len(X)} random people. "
                'If your program decides by its probabilities, pass outputs="probability" (--outputs); otherwise give '
                "a function that returns 1 for the class that it predicts, and 0 for the others"
            )

    def _settle_kind(self, scores: Floats) -> None:
        """Take scores of several classes that add up to 1 for probabilities; ask about others from 0 to 1."""
        if scores.shape[1] > 1 and np.allclose(scores.sum(axis=1), 1, atol=1e-4):
            self.kind = "probability"
            return
        raise FairmendError(
            f"{self.runner.name} gives scores from {scores.min():.3g} to {scores.max():.3g} for random people: pass "
            'outputs="probability" (--outputs) if they are probabilities, or outputs="logit" if they decide at 0'
        )

    def _require_same(self, first: Floats, found: Floats, what: str) -> None:
        if first.shape != found.shape:
            raise FairmendError(
                f"{self.runner.name} gives {found.shape[1]} scores for each person, and {first.shape[1]} in another run"
            )
        first, found = self.runner.compared(first), self.runner.compared(found)
        off, most = np.abs(first - found), _SAME["float32" if self.single else self.dtype.name]
        if (off > most * np.maximum(1.0, np.abs(first))).any():
            why = f". It is only run ({self.why_only_run})" if self.why_only_run else ""
            raise FairmendError(
                f"{what} scores that differ by up to {off.max():.3g}; such scores cannot be audited{why}"
            )

    def _settle_outputs(self, scores: Floats) -> None:
        """Set the number of scores and the order of classes from scores; refuse what the spec does not describe."""
        spec, name, given = self._bound, self.runner.name, scores.shape[1]
        if self._guessed:
            self.kind = self.runner.closing_kind(spec, self.ports, spec.sample_inputs(2, np.random.default_rng(0)))
        if self._guessed and self.kind == "logit" and not spec.regression and scores.min() >= 0 and scores.max() <= 1:
            self._settle_kind(scores)
        if self.kind == "logit" and spec.regression:
            self.kind = "number"
        if self.kind == "number" and not spec.regression:
            raise FairmendError(
                f'{name} predicts a number, but the spec is about classes. Set on = "output" in [claim], or pass '
                'outputs="probability" or outputs="logit" if the number is one'
            )
        if self.kind == "probability" and spec.regression:
            raise FairmendError(f'{name} gives probabilities, but the spec claims its output; set on = "probability"')
        self.outputs = 1 if given == 2 and not spec.regression else given
        self.columns = given
        self.closing = "none" if self.kind != "probability" else "sigmoid" if self.outputs == 1 else "softmax"
        labels = in_words_of(spec, self.runner.labels)
        self._order = order_of_classes(spec, labels, given)
        positive = None if spec.label is None else spec.label.positive
        self._flipped = given == 1 and len(labels) == 2 and positive == labels[0]
        spec.require_outputs(given if given > 1 else 2 if spec.classes else given, name)


def as_scores(given: Any, rows: int, name: str) -> Floats:
    """Return what a model gave as float64 (rows, outputs), not its own memory; refuse what is no score for each row."""
    if np.ma.is_masked(given):
        raise FairmendError(f"{name} gives masked values in place of scores")
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise FairmendError(f"{name} gives {type(given).__name__}, not an array of scores") from error
    if array.ndim not in (1, 2) or len(array) != rows or array.size == 0:
        raise FairmendError(
            f"{name} gives {type(given).__name__} of shape {array.shape} for {rows} rows; it must be ({rows},) or "
            f"({rows}, classes)"
        )
    if array.dtype.kind in "OSU":
        shown = as_text(array.reshape(-1)[0])
        raise FairmendError(f'{name} gives classes such as "{shown}", not scores; let it give probabilities')
    if array.dtype.kind in "biu":
        raise FairmendError(f"{name} gives whole numbers such as classes, not scores; let it give probabilities")
    if array.dtype.kind != "f":
        raise FairmendError(f"{name} gives {array.dtype}, not scores")
    return np.array(array[:, None] if array.ndim == 1 else array, dtype=np.float64)


def _without_ties(given: Floats, kind: str) -> Floats:
    """Return scores (rows, outputs) of two classes that are never equal: the first class wins where they were."""
    if given.shape[1] > 2:
        return given
    half = 0.5 if kind == "probability" else 0.0
    below = float(np.nextafter(half, -1))
    if given.shape[1] == 1:
        return np.where(given == half, below, given)
    first = given[:, :1] >= given[:, 1:]
    if kind == "probability":  # their sum may be rounded: the larger one decides, and not one half
        return np.where(first == [[True, False]], np.maximum(given, half), np.minimum(given, below))
    lower = np.nextafter(given, -np.inf)
    return np.where((given[:, :1] == given[:, 1:]) & [[False, True]], lower, given)


def _different_rows(X: FloatArray) -> tuple[FloatArray, Ints]:
    """Return the different rows of X, by their bits, and which of them each row is."""
    if len(X) < 2:
        return X, np.arange(len(X))
    _, first, place = np.unique(
        X.view(np.dtype((np.void, X.itemsize * X.shape[1])))[:, 0], return_index=True, return_inverse=True
    )
    return X[first], place.reshape(-1)


def _logits_of_probabilities(p: Floats, threshold: float) -> Floats:
    """Return the logits (rows,) of probabilities of class 1; they reach the log-odds where p reaches the threshold."""
    with np.errstate(divide="ignore", over="ignore"):
        logits = np.clip(np.log(p / (1 - p)), _LOWEST, _HIGHEST)
    least = enclose_log_odds(threshold)[1]
    below = np.minimum(logits, np.nextafter(least, -np.inf))
    return np.asarray(np.where(p >= threshold, np.maximum(logits, least), below))


def _logits_of_classes(p: Floats) -> Floats:
    """Return the logits (rows, N) of probabilities, the largest one where p has its largest."""
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(p), _LOWEST)
    each, best = np.arange(len(p)), p.argmax(axis=1)
    lost = logits.argmax(axis=1) != best
    logits[each[lost], best[lost]] = np.nextafter(logits[lost].max(axis=1), np.inf)
    return np.asarray(logits)


def in_words_of(spec: Spec, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a model's classes; 0 and 1 are truth values if the spec has these: converters write so."""
    said = spec.classes or (() if spec.label is None else (str(spec.label.positive),))
    return ("False", "True") if labels == ("0", "1") and set(said) & {"False", "True"} else labels


def order_of_classes(spec: Spec, labels: tuple[str, ...], outputs: int) -> Ints | None:
    """Return the model's outputs in the order of the spec's classes; None if that is their own, or not known."""
    if len(labels) != outputs or outputs < 2 or spec.label is None:
        return None
    labels = in_words_of(spec, labels)
    if spec.classes:
        wanted: tuple[str, ...] = spec.classes
        if set(wanted) != set(labels):
            return None
    elif outputs == 2 and spec.label.positive in labels:
        wanted = (*(label for label in labels if label != spec.label.positive), str(spec.label.positive))
    else:
        return None
    order = np.array([labels.index(name) for name in wanted], dtype=np.int64)
    return None if np.array_equal(order, np.arange(outputs)) else order
