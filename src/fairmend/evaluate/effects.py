"""Who loses, and by how much: the mean effect of each value of a protected feature on score and decision.

Each person gets every value of the feature in turn, and what is linked to it changes along; everything else stays. The
effect of a value on a person is the score with it minus the person's mean score over the values, and the effect in a
table is the mean over people. So people are compared with themselves only: groups may differ in other features as much
as they like. Numbers are given a few quantiles of the data instead of all their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairmend.auditing.neighbours import draw_with_value
from fairmend.base.arrays import Bools, FloatArray, Floats
from fairmend.base.text import short
from fairmend.evaluate.document import FeatureEffects, MeanEffect, ValueEffect
from fairmend.evaluate.document_parts import favourable_class
from fairmend.evaluate.nearest_counterfactuals import pick_evenly
from fairmend.network import Model
from fairmend.network.model import scores_of
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.links import linked_names

_MOST_PEOPLE, _MOST_FEATURES, _MOST_VALUES = 5_000, 12, 12
_FEW = 8  # values of a number that are all shown
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
_WIDTH = 1.96  # standard errors on each side of a 95 % interval
_ROUNDING = 1e-6  # effects below are how programs round, not how a model treats people


def mean_effects(
    models: Sequence[Model], spec: Spec, X: FloatArray, answers: Sequence[str]
) -> list[list[FeatureEffects]]:
    """Return for each model the effects of the values of each protected feature, of at most twelve.

    They are means over the people X (rows, width), or over 5,000 of them, and are about the favourable one of the
    classes, which `answers` names. Of several classes of which none is favourable, they are about the one on which the
    values have the widest effect in the first model.
    """
    people = X[pick_evenly(len(X), _MOST_PEOPLE)]
    several = [feature for feature in spec.protected if feature.varies][:_MOST_FEATURES]
    found = [_effects(models, spec, feature, people, answers) for feature in several]
    return [[of_feature[number] for of_feature in found] for number in range(len(models))]


def _effects(
    models: Sequence[Model], spec: Spec, feature: Feature, X: FloatArray, answers: Sequence[str]
) -> list[FeatureEffects]:
    own = spec.values_of(feature, X)
    values, left_out = _chosen_values(feature, own)
    rng = np.random.default_rng(0)
    rows = [draw_with_value(spec, X, feature, value, rng) for value in values]
    logits = [[model.logits(each) for each in rows] for model in models]
    scores = [_scores(each, regression=spec.regression) for each in logits]
    number = None if spec.regression else favourable_class(spec, scores[0].shape[2])
    up_is_good = number is not None
    if number is None:
        number = _widest(scores[0] if spec.regression else scores[0][:, :, : len(answers)])
    answer = None if spec.regression else answers[number]
    sizes = [int((own == value).sum()) for value in values]
    return [
        _effects_of_model(
            spec,
            feature,
            dict(zip(values, sizes, strict=True)),
            left_out,
            answer,
            ("gains", "loses") if up_is_good else ("higher", "lower"),
            score[:, :, number],
            None if spec.regression else np.stack([model.decide(each) == number for each in of_model], axis=1),
        )
        for model, of_model, score in zip(models, logits, scores, strict=True)
    ]


def _scores(logits: Sequence[FloatArray], *, regression: bool) -> Floats:
    """Return the scores (people, values, outputs) of what a model gives for each value; of two classes, both."""
    scores = np.stack([scores_of(each, "output" if regression else "probability") for each in logits], axis=1)
    one = scores.shape[2] == 1 and not regression
    return np.concatenate([1 - scores, scores], axis=2) if one else scores


def _effects_of_model(
    spec: Spec,
    feature: Feature,
    sizes: Mapping[float, int],
    left_out: int,
    answer: str | None,
    up_and_down: tuple[str, str],
    scores: Floats,
    decisions: Bools | None,
) -> FeatureEffects:
    """Return the effects of the values, of which `sizes` of the people have each, on scores (people, values)."""
    on_score = _mean_effects(scores)
    on_decision = [None] * len(sizes) if decisions is None else _mean_effects(decisions.astype(np.float64))
    least = _ROUNDING * max(1.0, float(np.abs(scores).max(initial=0.0)))
    return FeatureEffects(
        short(feature.name),
        [short(name) for name in sorted(linked_names(link for link in spec.links if feature.name in link.when))],
        answer,
        len(scores),
        [
            ValueEffect(_shown(feature, value), size, score, decision, _direction(up_and_down, least, decision, score))
            for (value, size), score, decision in zip(sizes.items(), on_score, on_decision, strict=True)
        ],
        left_out,
    )


def _chosen_values(feature: Feature, own: Floats) -> tuple[list[float], int]:
    """Return the values to compare, in order, and how many categories are left out: the rarest of many."""
    if feature.categories:
        count = len(feature.categories)
        sizes = np.bincount(own.astype(np.int64), minlength=count)
        most = sorted(np.argsort(-sizes, kind="stable")[:_MOST_VALUES].tolist())
        return [float(code) for code in most], count - len(most)
    present = np.unique(own)
    if len(present) > _FEW:
        present = np.unique(np.quantile(own, _QUANTILES, method="inverted_cdf"))
    if len(present) == 1:
        present = np.unique([*present, *feature.bounds])  # people who are all the same say nothing about others
    return present.tolist(), 0


def _widest(scores: Floats) -> int:
    """Return the output whose mean over people (people, values, outputs) differs most between the values."""
    return int(np.ptp(scores.mean(axis=0), axis=0).argmax())


def _mean_effects(outcomes: Floats) -> list[MeanEffect]:
    """Return for each value what it adds to the mean of outcomes (people, values), with a 95 % interval."""
    effects = outcomes - outcomes[:, :1]  # exactly 0 if all are the same, which their mean may miss by rounding
    effects -= effects.mean(axis=1, keepdims=True)
    means = effects.mean(axis=0)
    errors = _WIDTH * effects.std(axis=0, ddof=min(1, len(effects) - 1)) / np.sqrt(len(effects))
    return [MeanEffect(float(mean), float(mean - e), float(mean + e)) for mean, e in zip(means, errors, strict=True)]


def _direction(up_and_down: tuple[str, str], least: float, *effects: MeanEffect | None) -> str:
    """Return the word for the first effect that is not below `least`, and whose interval excludes 0."""
    large = (effect for effect in effects if effect is not None and abs(effect.mean) >= least)
    clear = (effect for effect in large if effect.low > 0 or effect.high < 0)
    first = next(clear, None)
    return "neither" if first is None else up_and_down[0 if first.mean > 0 else 1]


def _shown(feature: Feature, value: float) -> str:
    if feature.categories:
        return short(str(feature.show(feature.categories[int(value)])))
    return f"{value:.6g}"
