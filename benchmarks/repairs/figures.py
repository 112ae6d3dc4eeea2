"""Run `auto`, and judge what it took on rows that it did not see: also against the candidates that it did not take."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console
from scipy import stats

import fairmend
from fairmend import Network, RepairResult, Spec
from fairmend.base.metrics import accuracy, balanced_accuracy
from fairmend.repairing import selection
from fairmend.repairing.candidates import Candidate, JudgedCandidate, Jury
from fairmend.repairing.recipe import Recipe

SHORT = {
    "everyone": "everyone",
    "everyone, and the repair inputs with tolerance or links": "everyone + listed",
    "the repair inputs": "listed",
}
LABELS = ("always", "never")
LEAST_AGREEMENT = 60.0  # per cent, balanced over the original's classes: 50 is chance

Figures = dict[str, Any]
Limit = tuple[str, float, float]
"""What is limited, its value, and the most that it may be."""


@dataclass(frozen=True)
class AutoRun:
    """The result of `auto`, the network of each candidate that it proved, and the processor time that it took."""

    original: Network
    result: RepairResult
    proven: list[tuple[Candidate, Network]]
    seconds: float

    @property
    def chosen(self) -> Candidate:
        return next(candidate for candidate in self.result.candidates if candidate.chosen)

    def figures(self, X: np.ndarray, y: np.ndarray) -> Figures:
        """Return the figures on ``X (rows, inputs)`` with the classes ``y (rows,)``, in percent."""
        before, after = self.original.predict(X), self.result.network.predict(X)
        return {
            "accuracy": 100 * accuracy(y, after),
            "accuracy lost": 100 * (accuracy(y, before) - accuracy(y, after)),
            "balanced": 100 * balanced_accuracy(y, after),
            "fall": 100 * (balanced_accuracy(y, before) - balanced_accuracy(y, after)),
            "agreement": 100 * accuracy(before, after),
            "balanced agreement": 100 * balanced_accuracy(before, after),
            "lost class": len(np.unique(after)) < len(np.unique(before)),
            "recipe": self.chosen.recipe.name,
            "guarantee": SHORT[self.chosen.guarantee],
            "certificate": verdict(self.result),
            "seconds": self.seconds,
            **self._regret(X, y),
        }

    def _regret(self, X: np.ndarray, y: np.ndarray) -> Figures:
        """Return how many points of balanced accuracy the chosen candidate is behind the best proven one.

        "regret at this level" compares only with the candidates that have the same guarantee. "leads" and "leads at
        this level" say how far each is ahead of the chosen one.
        """
        scores = [(100 * balanced_accuracy(y, network.predict(X)), candidate) for candidate, network in self.proven]
        own = next(score for score, candidate in scores if candidate.chosen)
        _, best = max(scores, key=lambda pair: (pair[0], pair[1].chosen))
        leads = {candidate.recipe.name: score - own for score, candidate in scores}
        peers = {c.recipe.name: leads[c.recipe.name] for _, c in scores if c.guarantee == self.chosen.guarantee}
        return {
            "regret": max(leads.values()),
            "regret at this level": max(peers.values()),
            "best": best.recipe.name,
            "leads": leads,
            "leads at this level": peers,
        }


@contextmanager
def labels_used(labels: str | None) -> Iterator[None]:
    """Let distillation for everyone learn labels "always" or "never"; None leaves the decision to `auto`."""
    many = {"always": 0, "never": np.inf, None: selection.MANY_UNLABELLED}[labels]
    weight = 0.0 if labels == "never" else selection.LABEL_WEIGHT
    with mock.patch.multiple(selection, MANY_UNLABELLED=many, LABEL_WEIGHT=weight):
        yield


def run_auto(
    network: Network,
    spec: Spec,
    X_repair: np.ndarray,
    X_cal: np.ndarray,
    y_cal: np.ndarray,
    X_unlabelled: np.ndarray | None,
    seed: int = 0,
) -> AutoRun:
    started = time.process_time()
    with _recorded() as recorder:
        result = fairmend.repair(network, spec, X_repair, X_cal, y_cal, X_unlabelled=X_unlabelled, seed=seed)
    return AutoRun(network, result, recorder.proven(result), time.process_time() - started)


class _Recorder:
    """Stands for `Jury.judge`, and keeps the network that each recipe made from all calibration rows."""

    def __init__(self, judge: Callable[..., JudgedCandidate]) -> None:
        self._judge = judge
        self._networks: dict[Recipe, Network] = {}

    def judge(self, jury: Jury, recipe: Recipe, *rest: Any) -> JudgedCandidate:
        judged = self._judge(jury, recipe, *rest)
        self._networks[recipe] = judged.attempt.network
        return judged

    def proven(self, result: RepairResult) -> list[tuple[Candidate, Network]]:
        found = [(candidate, self._networks[candidate.recipe]) for candidate in result.candidates if candidate.proven]
        if not any(candidate.chosen and network == result.network for candidate, network in found):
            raise RuntimeError("the network that auto returned is none of those recorded")
        return found


@contextmanager
def _recorded() -> Iterator[_Recorder]:
    judge = Jury.judge
    recorder = _Recorder(judge)
    with mock.patch.object(Jury, "judge", lambda jury, *rest: recorder.judge(jury, *rest)):
        yield recorder


def verdict(result: RepairResult) -> str:
    """Return "valid" if the checker confirms the certificate for the saved network."""
    if result.certificate is None:
        return "none"
    with tempfile.TemporaryDirectory() as name:
        model, path = Path(name) / "model.onnx", Path(name) / "certificate.json"
        result.network.save(model)
        result.certificate.save(path, model)
        check = fairmend.check(path, model)
    return "valid" if check.valid else f"INVALID: {check.reasons[0]}"


def over_runs(runs: list[Figures]) -> Figures:
    """Return the means of the figures of several runs, and the most frequent words with their counts."""
    means = {key: mean(runs, key) for key, value in runs[0].items() if isinstance(value, (int, float))}
    words = {key: counted([r[key] for r in runs]) for key, value in runs[0].items() if isinstance(value, str)}
    return {
        **means,
        **words,
        "regret of each run": means["regret"],
        "regret": best_lead([r["leads"] for r in runs]),
        "regret at this level": best_lead([r["leads at this level"] for r in runs]),
        "levels": Counter(r["guarantee"] for r in runs),
        "collapsed": any(r["lost class"] for r in runs) or means["balanced agreement"] < LEAST_AGREEMENT,
        "least balanced agreement": min(r["balanced agreement"] for r in runs),
        "largest fall": max(r["fall"] for r in runs),
        "each accuracy lost": [r["accuracy lost"] for r in runs],
    }


def counted(words: list[str]) -> str:
    """Return the word if all are equal, or each with its count, the most frequent first."""
    counts = Counter(words).most_common()
    return words[0] if len(counts) == 1 else ", ".join(f"{count} × {word}" for word, count in counts)


def best_lead(leads: list[dict[str, float]]) -> float:
    """Return how far the best recipe is ahead in the mean of the runs; where it was not proven, it is not ahead."""
    recipes = {recipe for each in leads for recipe in each}
    return max(float(np.mean([each.get(recipe, 0.0) for each in leads])) for recipe in recipes)


def mean(group: list[Figures], key: str) -> float:
    return float(np.mean([r[key] for r in group]))


def interval(values: np.ndarray, form: str = ".2f") -> str:
    """Return the means of draws (draws, figures) and the half-widths of their 95 % intervals in words."""
    half = np.full(values.shape[1], np.nan)
    if len(values) > 1:
        half = stats.t.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return " / ".join(f"{mean:{form}} ± {by:.2f}" for mean, by in zip(values.mean(axis=0), half, strict=True))


def common_limits(group: list[Figures], most_regret: float, console: Console) -> list[Limit]:
    """Return the limits on regret, certificates and collapses of a group that is not empty."""
    console.print(f"mean regret against candidates with the same guarantee: {mean(group, 'regret at this level'):.3f}")
    return [
        ("mean regret (points of balanced accuracy behind the best proven candidate)", mean(group, "regret"),
         most_regret),
        ("certificates not valid", sum(r["certificate"] != "valid" for r in group), 0),
        ("settings in which networks collapsed", sum(r["collapsed"] for r in group), 0),
    ]  # fmt: skip


def within(limits: list[Limit], console: Console) -> bool:
    """Print each value with its limit; return whether all are within them."""
    for what, value, limit in limits:
        console.print(f"{what}: {value:.4g}, limit {limit:g}: {'ok' if value <= limit else 'EXCEEDED'}")
    return all(value <= limit for _, value, limit in limits)
