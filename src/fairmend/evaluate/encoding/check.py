"""Whether data and a network fit a spec, and how well the network does with it: the logic of `fairmend spec check`."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.evaluate.document import UtilityFigures
from fairmend.evaluate.encoding.candidates import columns_of
from fairmend.evaluate.encoding.given import MatrixMatch, ScoreMatch, match_matrix, match_scores, read_score_column
from fairmend.evaluate.encoding.search import changes_that_verify
from fairmend.evaluate.labelled import LabelledFigures, labelled_figures
from fairmend.evaluate.split import read_labels
from fairmend.network import Model, Network
from fairmend.network.model import ScoredRows
from fairmend.prove.fit import why_no_codes
from fairmend.spec import Spec
from fairmend.spec.draft.draft import Draft, DraftFeature
from fairmend.spec.draft.guess import one_hot_groups
from fairmend.spec.draft.readings import Reading
from fairmend.spec.features import Feature
from fairmend.spec.out_of_range import spec_warnings
from fairmend.spec.read_values import Problem, find_problems

_MOST_CHANGES = 3  # named in a hint
_MOST_COUNTED = 10**300  # a median, which is a float, can still be computed


@dataclass(frozen=True)
class NeighbourhoodSizes:
    """The number of people in a neighbourhood: least, median and most over the rows of the data."""

    least: int
    median: float
    most: int


@dataclass(frozen=True, eq=False)
class SpecCheck:
    """The result of `check_spec`; parts that need data or a network that was not given are None or empty.

    inputs          the number of columns that the network reads
    width_mismatch  why the network does not fit; empty if it fits
    utility         how well the network predicts the labels in the data, if all three fit
    warnings        signs that the spec is wrong although everything fits
    scores          how the network compares with the scores that the model gave, if they are given
    matrix          how the encoding compares with the matrix that the model read, if it is given
    hint            which change of the spec would reproduce the scores, if one does
    """

    spec: Spec
    rows: int = 0
    problems: tuple[Problem, ...] = ()
    sizes: NeighbourhoodSizes | None = None
    inputs: int | None = None
    width_mismatch: str = ""
    utility: UtilityFigures | None = None
    warnings: tuple[str, ...] = ()
    scores: ScoreMatch | None = None
    matrix: MatrixMatch | None = None
    hint: str = ""

    @property
    def fits(self) -> bool:
        """Whether the data and the network fit the spec, and reproduce what the model gave."""
        matches = [match.verified for match in (self.scores, self.matrix) if match is not None]
        return not self.problems and not self.width_mismatch and all(matches)

    @property
    def verified(self) -> bool:
        """Whether the encoding was compared with what the model gave, and reproduces it."""
        return self.fits and (self.scores is not None or self.matrix is not None)


def check_spec(
    spec: Spec,
    frame: pd.DataFrame | None = None,
    net: Model | None = None,
    *,
    scores: Floats | None = None,
    matrix: Floats | None = None,
    misfit: str = "",
) -> SpecCheck:
    """Check data and a model against a spec; `misfit` is why a model that is only run does not fit.

    ``scores`` (rows, 1 or classes) are those that the model gave for the data; without them, the column that [label]
    names is used, if there is one. ``matrix`` (rows, columns) is the data as the model read it.
    """
    problems = () if frame is None else tuple(_find_problems(spec, frame))
    mismatch = misfit if net is None or net.inputs == spec.width else _explain_mismatch(spec, net.inputs)
    mismatch = mismatch or ("" if net is None else why_no_codes(net, spec))
    known, warnings = None, []
    if net is not None and frame is not None and not mismatch and not problems:
        people, found = ScoredRows.of(net, spec.as_inputs(frame, net.dtype)), LabelledFigures()
        if spec.label is not None and (net.outputs == 1 or not spec.regression):
            found = labelled_figures(spec, net, people.logits, read_labels(spec, net, frame, "the data"))
        known = found.utility
        if not spec.regression:
            auc = None if known is None else known.auc
            warnings = spec_warnings(people.classes, auc, spec.classes, by_chance=found.auc_by_chance)
    readable = frame is not None and not any(
        problem.feature in {feature.name for feature in spec.features} for problem in problems
    )
    if scores is None and frame is not None:
        scores = read_score_column(spec.label, frame)
    matched = compared = None
    hint = ""
    if frame is not None and readable and net is not None and not mismatch and scores is not None:
        matched = match_scores(net, spec.encode(frame, np.float64), scores, regression=spec.regression)
        if isinstance(net, Network) and not matched.verified and not matched.opposite:
            hint = _hint(spec, frame, net, scores)
    if frame is not None and readable and matrix is not None:
        compared = match_matrix(spec.encode(frame, np.float64), matrix, spec.column_names)
    return SpecCheck(
        spec,
        0 if frame is None else len(frame),
        problems,
        None if frame is None else _neighbourhood_sizes(spec, frame, problems),
        None if net is None else net.inputs,
        mismatch,
        known,
        tuple(warnings),
        matched,
        compared,
        hint,
    )


def _hint(spec: Spec, frame: pd.DataFrame, net: Network, scores: Floats) -> str:
    """Return which single change of the spec reproduces the scores; empty if none does."""
    state = tuple(Reading(feature, ("as in the spec",)) for feature in spec.features)
    draft = Draft(tuple(DraftFeature(feature) for feature in spec.features), None)
    found = changes_that_verify(state, columns_of(draft, frame), frame, net, scores, regression=spec.regression)
    return f"It would be verified with {' or with '.join(found[:_MOST_CHANGES])}." if found else ""


def _find_problems(spec: Spec, frame: pd.DataFrame) -> list[Problem]:
    found = [problem for feature in spec.features for problem in find_problems(feature, frame)]
    found += _protected_alone(spec, frame)
    label = spec.label
    if label is None:
        return found
    no_rows = np.zeros(0, np.int64)
    try:
        present = spec.labels(frame[frame[label.column].notna()] if label.column in frame.columns else frame)
    except FairmendError as error:
        return [*found, Problem(label.column, no_rows, str(error))]
    gaps = np.flatnonzero(frame[label.column].isna().to_numpy(bool))
    if gaps.size:
        found.append(Problem(label.column, gaps, "the label is missing; fill it in or drop the row"))
    if label.positive is not None and not present.any():
        found.append(Problem(label.column, no_rows, f'the label is never "{label.positive}"; check `positive`'))
    return found


def _protected_alone(spec: Spec, frame: pd.DataFrame) -> list[Problem]:
    """Return a problem for each one-hot column that is protected while another of its feature is read and is not."""
    protected, found = {feature.name for feature in spec.protected}, []
    for name, group in one_hot_groups(frame, [str(column) for column in frame.columns]).items():
        read = [feature.name for feature in spec.features if feature.name in group]
        alone = [column for column in read if column in protected]
        if alone and len(alone) < len(read):
            text = (
                f"cannot be protected alone: it is one of the one-hot columns {', '.join(group)}, of which one is 1 in "
                f"every row. Describe them as one protected feature with columns, as spec init --protected {name} does"
            )
            found.append(Problem(alone[0], np.zeros(0, np.int64), text))
    return found


def _neighbourhood_sizes(spec: Spec, frame: pd.DataFrame, problems: tuple[Problem, ...]) -> NeighbourhoodSizes | None:
    """Return the sizes over the rows that fit; None if neighbourhoods are infinite or astronomical, or no row fits."""
    names = {feature.name for feature in spec.features}
    if not spec.finite or any(problem.feature in names and problem.rows.size == 0 for problem in problems):
        return None
    bad = np.zeros(len(frame), dtype=bool)
    for problem in problems:
        bad[problem.rows] |= problem.feature in names
    if bad.all():
        return None
    sizes = [int(size) for size in spec.neighbourhood_sizes(frame[~bad])]
    if max(sizes) > _MOST_COUNTED:
        return None
    return NeighbourhoodSizes(min(sizes), median(sizes), max(sizes))


def _explain_mismatch(spec: Spec, inputs: int) -> str:
    options = [
        f'"{feature.name}" in {other} column{"" if other == 1 else "s"} instead of {feature.width}'
        for feature in spec.features
        for other in _other_widths(feature)
        if spec.width - feature.width + other == inputs
    ]
    hint = f" It would fit with {' or '.join(options)}." if options else ""
    return (
        f"the model reads {inputs} columns, but the spec describes {spec.width} ({', '.join(spec.column_names)}). List "
        f"exactly the columns that the model reads, each encoded as in training.{hint}"
    )


def _other_widths(feature: Feature) -> list[int]:
    count = len(feature.categories or ())
    return [other for other in {0, 1, count - 1, count} if other not in (feature.width, -1)] if count else [0]
