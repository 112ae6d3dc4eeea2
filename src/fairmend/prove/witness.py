"""Witnesses: pairs of similar people that the network treats unequally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.base.arrays import FloatArray
from fairmend.base.text import printable
from fairmend.network import Network
from fairmend.spec import Spec


@dataclass(frozen=True, eq=False)
class Witness:
    """An input x (width,) and a counterfactual, both encoded, with the different classes that the network predicted.

    Both classes are those of exact arithmetic as well. It is a ``tie`` if a score is within the rounding error of
    inference: another library, or another order of summation, may then predict one class for both.

    If the spec claims scores, x and other are the two people in the neighbourhood of the input whose ``scores`` differ
    by more than delta, in exact arithmetic as well; of a network with several outputs, those of ``output``. It is a
    ``tie`` if inference may round the difference to delta or less.

    ``classes`` is the number of the network's classes, by which the two classes are named.
    """

    x: FloatArray
    other: FloatArray
    answer: int | None
    other_answer: int | None
    tie: bool = False
    scores: tuple[float, float] | None = None
    output: int | None = None
    classes: int = 2

    def describe(self, spec: Spec, negative: str | None = None) -> str:
        """Return how the two differ, in the user's own values, and the class or score of each.

        ``negative`` is what class 0 of two means, if the data shows it.
        """
        tie = " (a tie: within the rounding error of inference)" if self.tie else ""
        if self.scores is not None:
            what = "score" if self.output is None else f"score {self.output}"
            scores = f"{what} {self.scores[1]:.5g} instead of {self.scores[0]:.5g}"
            return f"{spec.describe_pair(self.x, self.other)}: {scores}{tie}"
        answers = [answer for answer in (self.answer, self.other_answer) if answer is not None]
        own, other = (
            printable(spec.name_class(answer, self.classes) if answer or negative is None else negative)
            for answer in answers
        )
        return f"{spec.describe_pair(self.x, self.other)}: {other} instead of {own}{tie}"

    def as_dict(self, spec: Spec, negative: str | None = None) -> dict[str, Any]:
        """Return both as plain data, in the user's own values."""
        x, other = (spec.decode(row[None]).iloc[0].to_dict() for row in (self.x, self.other))
        return {
            "x": x,
            "other": other,
            "answer": self.answer,
            "other_answer": self.other_answer,
            "scores": None if self.scores is None else list(self.scores),
            "output": self.output,
            "tie": self.tie,
            "words": self.describe(spec, negative),
        }


def keep_ignored_features(net: Network, spec: Spec, X: FloatArray, other: FloatArray) -> FloatArray:
    """Return the counterfactuals ``other (k, width)`` with X's own values in every feature that the network ignores.

    The network ignores a feature if no weight lets it through to the output, so the scores stay the same.
    Otherwise a witness could show a change of a feature that the network provably does not depend on. Features of links
    stay as they are, because they change together.
    """
    used = net.read_columns
    ignored = np.zeros(spec.width, dtype=np.bool_)
    tied = {name for link in spec.links for name in (*link.when, *link.then)}
    for feature in spec.features:
        columns = spec.columns(feature.name)
        ignored[columns] = feature.name not in tied and not used[columns].any()
    return np.where(ignored, X, other)
