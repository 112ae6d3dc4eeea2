"""Blind a network to features: fold fixed values of their columns into the first bias, and set their weights to zero.

The output then does not depend on these columns, for every input. The weights alone show it: there is nothing to
search, to solve or to sample. The price is what the network learnt from these columns only. The values that are folded
in decide how much of the rest stays, and the calibration set selects them. A layer that stores no bias cannot take them
in: it computes as if the columns held 0.

A network must ignore the protected features. It may ignore others that vary as well: a claim for everyone about a
tolerance is a claim that the feature does not count at all, because neighbours of neighbours reach every value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from fairmend.base.arrays import FloatArray, Floats
from fairmend.base.errors import FairmendError
from fairmend.network import Affine, Network
from fairmend.network.folding import DerivedBias
from fairmend.network.graph import reached_columns
from fairmend.network.input_columns import fix_columns
from fairmend.prove.kernel_bounds import kernel_model
from fairmend.repairing.measures import measure_of
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend_check.kernel.blindness import dependent_columns

_MOST_REFERENCES, _MOST_COMBINATIONS = 1024, 8192
"""With more combinations of values than the first, evenly spaced values of each number are tried; if there
are still more than the second, because of categories, a fixed random choice of them."""


_LEAST_GAP = 1e-5
"""The least gap between two people's outputs in which a threshold may lie, in units of the usual output: some hundred
roundings of float32."""

_LEAST_SINGULAR = 1e-3
"""Directions of the features whose singular value is a smaller share of the largest one do not help to shift all rows
alike: they would need large weights."""


def columns_of(spec: Spec, features: Sequence[Feature]) -> list[int]:
    """Return the network's input columns that hold these features."""
    return [column for feature in features for column in range(*spec.columns(feature.name).indices(spec.width))]


def is_blind(network: Network, columns: list[int]) -> bool:
    """Return whether the output cannot depend on these columns: weights that are exactly 0 cut them off."""
    return not network.read_columns[columns].any()


def ignored_features(network: Network, spec: Spec) -> tuple[str, ...]:
    """Return the features that the network ignores, of those that vary; none unless all protected ones are among them.

    Only then is there a claim for everyone: the output does not depend on these features. The kernel has the last word:
    beyond a weight of 0, the sign of a zero may still decide.
    """
    ignored = [feature for feature in spec.varying if is_blind(network, columns_of(spec, [feature]))]
    if ignored:
        depends, _ = dependent_columns(kernel_model(network), [*range(spec.width)], np.zeros(spec.width))
        ignored = [feature for feature in ignored if not depends[columns_of(spec, [feature])].any()]
    if not all(feature in ignored for feature in spec.protected):
        return ()
    return tuple(feature.name for feature in ignored)


def zero_columns(X: FloatArray, columns: list[int]) -> FloatArray:
    """Return X with zeros in these columns: training on it leaves weights that are zero at zero."""
    zeroed = X.copy()
    zeroed[:, columns] = 0
    return zeroed


def match_rate(network: Network, X: FloatArray, rate: float) -> Network:
    """Shift the outputs so that a share ``rate`` of the rows is predicted to be class 1, for two classes.

    A network that lost a feature is less sure of its decisions, and predicts the rarer class less often than the
    original did. The threshold comes to lie in a gap between people, as near to the rate as there is one: where many
    have the same output, none of them may be left at the threshold, where rounding decides. With more than two classes,
    the network stays as it is.

    The head's bias shifts all outputs by the same. A head that stores none shifts them by a change of its weights that
    is about the same for all rows.
    """
    if network.outputs > 2:
        return network
    logits = network.centre(network.logits(X)).astype(np.float64)
    leads = logits if logits.ndim == 1 else logits[:, 1] - logits[:, 0]
    positive = round(rate * len(leads))
    if not 0 < positive < len(leads):
        return network
    weight, bias = network.head.weight.astype(np.float64), network.head.bias.astype(np.float64)
    derived = network.head.derived_bias
    if derived is None:
        shift = even_shift(leads, positive)
        bias[-1] -= shift
    else:
        change, moved = _even_direction(network, X, derived)
        shift = _uneven_shift(leads, moved, positive)
        weight[-1] -= shift * change
    if shift == 0:
        return network
    head = Affine(weight.astype(network.dtype), bias.astype(network.dtype))
    return network.with_affines([*network.affines[:-1], head])


def even_shift(leads: Floats, positive: int) -> float:
    """Return what to take from all leads so that about ``positive`` of them stay at least 0; 0 if all are alike."""
    leads = np.sort(leads)[::-1]
    wide = np.flatnonzero(leads[:-1] - leads[1:] > _least_gap(leads))
    if len(wide) == 0:
        return 0.0
    last_positive = wide[np.argmin(np.abs(wide + 1 - positive))]
    return float(leads[last_positive : last_positive + 2].mean())


def _uneven_shift(leads: Floats, moved: Floats, positive: int) -> float:
    """Return how many times ``moved (rows,)`` to take from the leads, as `even_shift` does; 0 if no number is better.

    A row changes sides at its lead divided by what it is moved by.
    """
    falls, rises = (np.sort(leads[side] / moved[side]) for side in (moved > 0, moved < 0))
    turns = np.sort(np.concatenate([falls, rises]))
    wide = np.flatnonzero(np.diff(turns) > _least_gap(leads))
    shifts = np.append(0.0, (turns[wide] + turns[wide + 1]) / 2)
    still = np.count_nonzero((moved == 0) & (leads >= 0))
    counts = len(falls) - np.searchsorted(falls, shifts) + np.searchsorted(rises, shifts, side="right") + still
    missing = np.abs(counts - positive)
    best = np.flatnonzero(missing == missing.min())
    return float(shifts[best[np.argmin(np.abs(shifts[best]))]])


def _least_gap(leads: Floats) -> float:
    return _LEAST_GAP * float(np.sqrt(np.mean(np.square(leads))))


def _even_direction(network: Network, X: FloatArray, derived: DerivedBias) -> tuple[Floats, Floats]:
    """Return a change of weights ``(dimension,)`` that moves an output by about 1 at each row, and by how much it does.

    Features that depend on columns which the network ignores keep their weights.
    """
    features = network.features(X).astype(np.float64) + derived.shift
    reached = reached_columns(network.nodes)[network.nodes[-1].sources[0]]
    used = ~reached[:, ~network.read_columns].any(axis=1)
    change = np.zeros(features.shape[1])
    change[used] = np.linalg.lstsq(features[:, used], np.ones(len(features)), rcond=_LEAST_SINGULAR)[0]
    return change, np.asarray(features[:, used] @ change[used])


def blind_at_best_reference(
    network: Network, spec: Spec, features: Sequence[Feature], X_cal: FloatArray, y_cal: np.ndarray
) -> Network:
    """Fold in the reference with the best balanced accuracy (R²) on the calibration set, then the fewest changes."""
    columns = columns_of(spec, features)
    folds = all(affine.derived_bias is None for affine in network.affines)
    best: tuple[float, float] | None = None
    chosen = None
    for reference in reference_values(spec, features, X_cal):
        replaced = X_cal.copy()
        replaced[:, columns] = reference
        blind = network if folds else fix_columns(network, columns, reference)
        score = _kept(network, blind, spec, replaced, X_cal, y_cal)
        if best is None or score > best:
            best, chosen = score, reference
    if chosen is None:
        raise FairmendError("there is no feature to blind the network to")
    return fix_columns(network, columns, chosen)


def _kept(
    network: Network, blind: Network, spec: Spec, replaced: FloatArray, X_cal: FloatArray, y_cal: np.ndarray
) -> tuple[float, float]:
    """Return how well a network predicts with replaced values, and how much of the original's predictions it keeps."""
    measure = measure_of(spec)
    predicted, before = measure.predict(blind, replaced), measure.predict(network, X_cal)
    return measure.fit(y_cal, predicted), measure.accuracy(before, predicted)


def reference_values(spec: Spec, features: Sequence[Feature], X_cal: FloatArray) -> FloatArray:
    """Return candidate values of the columns of features, ``(references, columns)``: the mean, then possible values."""
    most = max(2, int(_MOST_REFERENCES ** (1 / len(features))))
    values = [_possible_values(feature, most) for feature in features]
    if math.prod(map(len, values)) <= _MOST_COMBINATIONS:
        chosen = np.array(list(product(*values)))
    else:
        rng = np.random.default_rng(0)
        chosen = np.stack([rng.choice(each, _MOST_REFERENCES) for each in values], axis=1)
    columns = [feature.encode(chosen[:, k]) for k, feature in enumerate(features)]
    return np.concatenate([mean_reference(columns_of(spec, features), X_cal)[None], np.hstack(columns)]).astype(
        X_cal.dtype
    )


def mean_reference(columns: list[int], X_cal: FloatArray) -> FloatArray:
    """Return the mean of each of these columns on the calibration set."""
    return np.asarray(X_cal[:, columns].mean(axis=0))


def _possible_values(feature: Feature, most: int) -> Floats:
    """Return possible values of a feature: all codes of a one-hot feature, else at most ``most``, evenly spaced."""
    lo, hi = feature.bounds
    if feature.one_hot:
        return np.arange(hi + 1, dtype=np.float64)
    if feature.kind != "continuous":
        most = min(most, int(hi - lo) + 1)
    values = np.linspace(lo, hi, most)
    return values if feature.kind == "continuous" else np.unique(np.round(values))
