"""Proxies: how well the features of a model predict a column that it does not read, such as race, and which of them.

A model that ignores race can still treat people by it, if other features stand for it. A classifier (gradient boosting
on trees) learns the groups of the column from the features, and is judged by people that it did not see. What a feature
adds is how much the AUC falls if its values are shuffled among these people.
"""

from __future__ import annotations

import numpy as np

from fairmend.base.arrays import Bools, FloatArray, Floats, Ints
from fairmend.base.text import short
from fairmend.evaluate.document import ProxyFeature, ProxyTable
from fairmend.evaluate.groups import GroupColumn, grouped
from fairmend.evaluate.nearest_counterfactuals import pick_evenly
from fairmend.spec import Spec

_MOST_PEOPLE, _FOLDS, _FEWEST = 5_000, 3, 30
_MOST_FEATURES = 10
_TREES = 50


def proxy_table(spec: Spec, X: FloatArray, rows: Ints, column: GroupColumn) -> ProxyTable:
    """Return how well features predict the groups of a column; X (people, width) are these rows (people,) of the data.

    Groups with fewer than 30 of the people are left out.
    """
    feature, values = column
    _, codes, _ = grouped(feature, values)
    chosen = pick_evenly(len(X), _MOST_PEOPLE)
    people, groups = X[chosen], np.asarray(codes)[rows[chosen]].astype(np.int64)
    large = np.isin(groups, np.flatnonzero(np.bincount(groups) >= _FEWEST))
    people, groups = people[large], np.unique(groups[large], return_inverse=True)[1]
    count = int(groups.max(initial=-1)) + 1
    if count < 2:
        reason = f"fewer than two groups have at least {_FEWEST} of the people"
        return ProxyTable(short(feature.name), len(people), count, None, [], 0, reason)
    auc, drops = _judge(spec, people, groups)
    order = sorted(range(len(drops)), key=lambda number: -drops[number])
    shown = [ProxyFeature(short(spec.features[n].name), drops[n]) for n in order if drops[n] > 0][:_MOST_FEATURES]
    return ProxyTable(short(feature.name), len(people), count, auc, shown, len(drops) - len(shown), None)


def describe_proxy(proxy: ProxyTable) -> str:
    """Return how well the features predict the column, and what each adds, in a sentence or two."""
    if proxy.auc is None:
        return f"How well the features predict {proxy.column} is not known: {proxy.reason}."
    told = f"The features predict {proxy.column} with an AUC of {proxy.auc:.3f} (0.5 by chance)"
    most = ", ".join(f"{each.feature} {each.drop:.3f}" for each in proxy.features)
    return f"{told}. What each adds: {most}." if most else f"{told}."


def _judge(spec: Spec, X: FloatArray, groups: Ints) -> tuple[float, list[float]]:
    """Return the AUC on people that the classifier did not see, and how much each feature adds to it."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold

    aucs: list[float] = []
    drops: list[list[float]] = []
    rng = np.random.default_rng(0)
    for train, test in StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(X, groups):
        model = HistGradientBoostingClassifier(
            max_iter=_TREES, early_stopping=False, categorical_features=_categories(spec), random_state=0
        ).fit(X[train], groups[train])
        own = _auc(model.predict_proba(X[test]), groups[test])
        aucs.append(own)
        drops.append([])
        for feature in spec.features:
            shuffled = X[test].copy()
            columns = spec.columns(feature.name)
            shuffled[:, columns] = shuffled[rng.permutation(len(test)), columns]
            drops[-1].append(own - _auc(model.predict_proba(shuffled), groups[test]))
    return float(np.mean(aucs)), np.mean(drops, axis=0).tolist()


def _categories(spec: Spec) -> Bools:
    """Return which columns (width,) hold codes of categories; trees split many of them as numbers."""
    coded = np.zeros(spec.width, np.bool_)
    for feature in spec.features:
        few = feature.categories is not None and len(feature.categories) <= 100
        coded[spec.columns(feature.name)] = few and not feature.one_hot and not feature.scale
    return coded


def _auc(chances: Floats, groups: Ints) -> float:
    """Return the AUC of two groups, or the mean over groups of telling one from all others."""
    from sklearn.metrics import roc_auc_score

    if chances.shape[1] == 2:
        return float(roc_auc_score(groups, chances[:, 1]))
    return float(np.mean([roc_auc_score(groups == g, chances[:, g]) for g in range(chances.shape[1])]))
