"""Links in the value space: the values of linked features that go with other values of protected ones."""

from __future__ import annotations

import numpy as np

from fairmend.searching.value_space import Values
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.links import Link, ends_of, matching_runs


def follow_links(spec: Spec, V: Values, others: Values, share: Values) -> Values:
    """Return others (rows, features), counterfactuals of V with other protected values, with linked features set.

    Where a link allows several values, ``share (rows, linked features)``, from 0 to 1, selects one of them.
    """
    places = {feature.name: i for i, feature in enumerate(spec.features)}
    linked = [feature.name for feature in spec.linked]
    followed = others.copy()
    for link in spec.links:
        rows = np.flatnonzero(_applies(spec, link, places, V, others))
        for name in link.then:
            i = places[name]
            followed[rows, i] = _replace(spec.features[i], link, V[rows, i], share[rows, linked.index(name)])
    return followed


def _applies(spec: Spec, link: Link, places: dict[str, int], V: Values, others: Values) -> np.ndarray:
    """Return to which counterfactuals a link applies (rows,)."""
    applies, differs = np.ones(len(V), np.bool_), np.zeros(len(V), np.bool_)
    for name in link.when:
        theirs = others[:, places[name]]
        matches = np.zeros(len(V), np.bool_)
        for low, high in matching_runs(link, spec.features[places[name]]):
            matches |= (low <= theirs) & (theirs <= high)
        applies &= matches
        differs |= theirs != V[:, places[name]]
    return applies & differs


def _replace(feature: Feature, link: Link, own: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return what a link makes of own values (rows,)."""
    change = link.then[feature.name]
    if feature.categories:
        replaced = own.copy()
        for category, new in change.items():
            codes = np.array([feature.categories.index(name) for name in ([new] if isinstance(new, str) else new)])
            rows = np.flatnonzero(own == feature.categories.index(category))
            replaced[rows] = codes[np.minimum((share[rows] * len(codes)).astype(np.int64), len(codes) - 1)]
        return replaced
    low, high = ends_of(change["range"] if "range" in change else change["offset"])
    if feature.kind == "continuous":
        chosen = low + share * (high - low)
    else:
        chosen = low + np.minimum(np.floor(share * (high - low + 1)), high - low)
    return np.asarray(np.clip(chosen if "range" in change else own + chosen, *feature.bounds))
