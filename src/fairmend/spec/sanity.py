"""Signs that a spec does not say what a network was trained with: then every figure is about another network."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FEWEST_ROWS = 20
LOWEST_AUC = 0.4

ONE_ANSWER = (
    "the network gives all {rows:,} people one answer ({answer}): does the spec say what it was trained with (scale, "
    "encoding, order of the columns)? With a wrong one everybody looks equal"
)
AGAINST_LABELS = (
    "the scores run against the labels (AUC {auc:.3f}): are `positive`, the scale and the order of the columns in the "
    "spec what the network was trained with?"
)


def spec_doubts(answers: npt.NDArray[np.integer], auc: float | None = None) -> list[str]:
    """Return what makes one doubt the spec: the network's answers (people,), and how well it ranks, where known."""
    doubts = []
    if len(answers) >= FEWEST_ROWS and (answers == answers[0]).all():
        doubts.append(ONE_ANSWER.format(rows=len(answers), answer=int(answers[0])))
    if len(answers) >= FEWEST_ROWS and auc is not None and auc < LOWEST_AUC:
        doubts.append(AGAINST_LABELS.format(auc=auc))
    return doubts
