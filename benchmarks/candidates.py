"""What `auto` left on the table: the network of each recipe that it proved, to compare with the one that it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fairmend import Network, RepairResult
from fairmend.metrics import balanced_accuracy
from fairmend.repair import selection
from fairmend.repair.recipe import Recipe, RepairAttempt
from fairmend.repair.task import RepairTask

EVERYONE, EVERYONE_AND_LISTED, LISTED = (
    "everyone",
    "everyone, and the repair inputs with tolerance",
    "the repair inputs",
)


class Recorder:
    """Keeps the network that each recipe made from all calibration rows, not those of the folds."""

    def __init__(self, run: Callable[..., RepairAttempt]) -> None:
        self._run, self._rows = run, 0
        self._networks: dict[Recipe, Network] = {}

    def __call__(self, recipe: Recipe, task: RepairTask, *others: Any, **named: Any) -> RepairAttempt:
        attempt = self._run(recipe, task, *others, **named)
        self._rows = max(self._rows, len(task.y_cal))
        if len(task.y_cal) == self._rows:
            self._networks[recipe] = attempt.network
        return attempt

    def proven(self, result: RepairResult) -> list[tuple[selection.Candidate, Network]]:
        """Return the proven candidates of a result with their networks."""
        found = [(candidate, self._networks[candidate.recipe]) for candidate in result.candidates if candidate.proven]
        if not any(candidate.chosen and network == result.network for candidate, network in found):
            raise RuntimeError("the network that auto returned is none of those recorded")
        return found


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Record the candidates of the `fairmend.repair` inside."""
    run = selection.run_recipe
    recorder = Recorder(run)
    selection.run_recipe = recorder
    try:
        yield recorder
    finally:
        selection.run_recipe = run


def guarantee_of(result: RepairResult) -> str:
    return next(candidate.guarantee for candidate in result.candidates if candidate.chosen)


def regret(proven: list[tuple[selection.Candidate, Network]], X: np.ndarray, y: np.ndarray) -> dict[str, float | str]:
    """Return how many points of balanced accuracy the chosen candidate is behind the best proven one on these rows.

    "regret at this level" compares only with the candidates that have the same guarantee.
    """
    scores = [100 * balanced_accuracy(y, network.predict(X)) for _, network in proven]
    best = int(np.argmax(scores))
    chosen, own = next((c, score) for (c, _), score in zip(proven, scores, strict=True) if c.chosen)
    peers = [score for (c, _), score in zip(proven, scores, strict=True) if c.guarantee == chosen.guarantee]
    return {
        "regret": scores[best] - own,
        "regret at this level": max(peers) - own,
        "best": chosen.recipe.name if scores[best] == own else proven[best][0].recipe.name,
    }
