"""The report's document of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmend._version import __version__
from fairmend.arrays import FloatArray
from fairmend.audit.neighbours import can_enumerate, find_unequal, sample_unequal
from fairmend.audit.result import AuditResult
from fairmend.evaluate.document import AUDIT, FORMAT, VERSION, Audit, Document, Origin, Ranges
from fairmend.evaluate.flips import evenly, find_twins
from fairmend.evaluate.group_gaps import group_features
from fairmend.evaluate.groups import GroupMetrics, protected_values
from fairmend.evaluate.pairs import pairs_of
from fairmend.evaluate.score_ranges import by_score, score_kind, spans
from fairmend.evaluate.shared import answer_words, similar
from fairmend.evaluate.utility import Utility
from fairmend.network import Network
from fairmend.spec import Spec
from fairmend.spec.sanity import spec_doubts
from fairmend.text import short

MOST_ROWS = 20_000
"""So many of the audited inputs are looked at once more, for who they are and what changes their answer."""

MOST_POINTS = 5_000_000
MOST_NUMBERS = 5_000_000
MOST_SPANS = 240
MOST_WORST = 20


@dataclass(frozen=True)
class Labels:
    """What the network is good for on the rows that have a label; empty where there are none."""

    rows: int = 0
    utility: Utility | None = None
    groups: tuple[GroupMetrics, ...] = ()


class FirstRows:
    """Keeps the first rows of a stream, as many as the report looks at, and the first piece as the user wrote it."""

    def __init__(self, spec: Spec) -> None:
        """Keep fewer rows where they are very wide."""
        self.most = max(1, min(MOST_ROWS, MOST_NUMBERS // spec.width))
        self.frame: pd.DataFrame | None = None
        self._kept: list[FloatArray] = []
        self._rows = 0

    def add(self, frame: pd.DataFrame, X: FloatArray) -> None:
        """Take in the next rows, which are X (rows, width) encoded."""
        if self.frame is None:
            self.frame = frame
        if self._rows < self.most:
            self._kept.append(X[: self.most - self._rows].copy())
            self._rows += len(self._kept[-1])

    def inputs(self) -> FloatArray:
        """Return the rows kept (rows, width)."""
        return np.concatenate(self._kept)


def audit_document(
    net: Network,
    spec: Spec,
    found: AuditResult,
    X: FloatArray,
    origin: Origin,
    *,
    title: str,
    labels: Labels,
    frame: pd.DataFrame | None = None,
    warnings: Sequence[str] = (),
) -> Document:
    """Return everything the report says; X (inputs, width) are the first of the audited inputs, as many as are kept."""
    X = X[: _rows_in_time(spec, X)]
    unequal = find_unequal(net, spec, X) if can_enumerate(spec) else sample_unequal(net, spec, X)
    rows = np.flatnonzero(unequal.rows)
    twins = find_twins(net, spec, X, rows, unequal.other[rows])
    utility = labels.utility
    return Document(
        FORMAT,
        VERSION,
        AUDIT,
        __version__,
        short(title),
        answer_words(spec, net, frame),
        origin,
        similar(spec, exact=found.exact),
        group_features(
            spec,
            protected_values(spec, X),
            [labels.groups] if labels.groups else [],
            [net.predict(X)],
            classes=net.outputs,
            unfair=unequal.rows,
        ),
        pairs_of(twins, spec, found.count, found.exact, net),
        twins.flips(),
        _ranges(net, spec, X, unequal.rows),
        [short(warning, 2_000) for warning in warnings],
        audit=Audit(
            found.count,
            found.total,
            found.idi_rate,
            found.exact,
            found.sampled,
            None if found.interval is None else list(found.interval),
            found.evaluations,
            found.seconds,
            len(X),
            labels.rows,
            None if utility is None else utility.accuracy,
            None if utility is None else utility.balanced_accuracy,
            None if utility is None else utility.positive_rate,
            None if utility is None else utility.auc,
            [short(pair.describe(), 600) for pair in found.pairs[:MOST_WORST]],
        ),
    )


def audit_warnings(net: Network, result: AuditResult, X: FloatArray, labels: Labels) -> list[str]:
    """Return the signs that the spec does not describe what the network was trained with.

    X (inputs, width) are the first of the audited people. Samples of the input space say nothing about the spec.
    """
    if result.sampled:
        return []
    return spec_doubts(net.predict(X), None if labels.utility is None else labels.utility.auc)


def _rows_in_time(spec: Spec, X: FloatArray) -> int:
    if not can_enumerate(spec):
        return min(len(X), MOST_ROWS // 10)
    largest = float(np.max(spec.neighbourhood_sizes(X[:1000])))
    return max(1, min(len(X), MOST_ROWS, int(MOST_POINTS // largest)))


def _ranges(net: Network, spec: Spec, X: FloatArray, unequal: npt.NDArray[np.bool_]) -> Ranges:
    some = evenly(len(X), MOST_SPANS)
    chosen = some[by_score(net, X[some])]
    found = spans(net, spec, X[chosen])
    return Ranges(score_kind(net), len(X), found.exact, found.as_list(net, unequal[chosen]), [])
