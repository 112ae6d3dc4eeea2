"""Small specs with bands, tolerances and links, and their classes by brute force: everyone, and who is similar."""

import itertools

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Spec


def random_band_feature(rng, name, kind):
    """Return a feature with random bands; kind is "integer", "ordinal", "one-hot" or "continuous"."""
    if kind in ("ordinal", "one-hot"):
        categories = tuple("abcde"[: rng.integers(3, 6)])
        count = int(rng.integers(2, len(categories)))
        band = np.concatenate([np.arange(count), rng.integers(count, size=len(categories) - count)])
        band = rng.permutation(band)
        groups = [[c for c, b in zip(categories, band, strict=True) if b == k] for k in range(count)]
        return Feature(name, "categorical", categories=categories, encoding=kind, bands=groups)
    low = int(rng.integers(-5, 5))
    if kind == "integer":
        span = int(rng.integers(2, 6))
        inner = rng.choice(np.arange(low + 1, low + span + 1), rng.integers(1, span), False)
        return Feature(name, kind, range=(low, low + span), bands=[low, *sorted(inner.tolist())])
    inner = np.unique(rng.uniform(low, low + 3, rng.integers(1, 4)))
    return Feature(name, kind, range=(low, low + 3), bands=[low, *inner.tolist()])


def random_small_spec(rng, linked=1):
    """Return a finite spec with protected features, links to so many features, perhaps a tolerance and bands."""
    encodings = ["ordinal", "one-hot"]
    features = [Feature("sex", "categorical", categories=("M", "F"), encoding=rng.choice(encodings), protected=True)]
    if rng.random() < 0.5:
        features.append(Feature("age", "integer", range=(0, int(rng.integers(1, 4))), protected=True))
    targets = []
    for i in range(linked):
        if rng.random() < 0.6:
            categories = tuple("pqrs"[: rng.integers(2, 5)])
            targets.append(Feature(f"l{i}", "categorical", categories=categories, encoding=rng.choice(encodings)))
        else:
            targets.append(Feature(f"l{i}", "integer", range=(0, int(rng.integers(1, 5)))))
    conditions = list(features)
    features += targets
    if rng.random() < 0.5:
        features.append(random_band_feature(rng, "band", rng.choice(["integer", *encodings])))
    if rng.random() < 0.3:
        features.append(Feature("near", "integer", range=(0, 2), tolerance=float(rng.choice([0.4, 1]))))
    features = [features[i] for i in rng.permutation(len(features))]
    links = []
    for _ in range(rng.integers(1, 4)):
        when = [conditions[i] for i in rng.choice(len(conditions), rng.integers(1, len(conditions) + 1), False)]
        then = [targets[i] for i in rng.choice(len(targets), rng.integers(1, len(targets) + 1), False)]
        link = {"when": {f.name: _condition(rng, f) for f in when}, "then": {f.name: _change(rng, f) for f in then}}
        try:
            Spec(features, links=[*links, link])
            links.append(link)
        except FairmendError:
            continue
    return Spec(features, links=links)


def _condition(rng, feature):
    if feature.categories:
        return str(rng.choice(feature.categories))
    return sorted(rng.integers(feature.range[0], feature.range[1] + 1, 2).tolist())


def _change(rng, feature):
    if feature.categories:
        named = rng.choice(feature.categories, rng.integers(1, len(feature.categories) + 1), False)
        sizes = rng.choice([1, 1, 1, 2], len(named))
        return {
            str(own): [str(c) for c in rng.choice(feature.categories, size, False)]
            for own, size in zip(named, sizes, strict=True)
        }
    if rng.random() < 0.3:
        return {"range": sorted(rng.integers(0, feature.range[1] + 1, 2).tolist())}
    return {"offset": sorted(rng.integers(-2, 3, 2).tolist())}


def everyone(spec):
    """Return all people of a finite spec, encoded (people, width), and their values or codes (people, features)."""
    ranges = [range(int(f.bounds[0]), int(f.bounds[1]) + 1) for f in spec.features]
    values = np.array(list(itertools.product(*ranges)), np.float64)
    X = np.zeros((len(values), spec.width), np.float32)
    for i, f in enumerate(spec.features):
        columns = f.one_hot_columns(values[:, i].astype(np.int64), np.float32) if f.one_hot else values[:, [i]]
        X[:, spec.columns(f.name)] = columns if f.one_hot else f.scaled(columns)
    return X, values


def components(spec, X):
    """Return the number of the set of people that chains connect (people,), from the points of neighbourhoods."""
    number = {row.tobytes(): i for i, row in enumerate(X)}
    label = np.arange(len(X))
    rows, points = zip(*spec.points(X), strict=True)
    pairs = zip(np.concatenate(rows), (number[p.tobytes()] for p in np.concatenate(points)), strict=True)
    for one, other in pairs:
        a, b = int(one), other
        while label[a] != a:
            a = label[a]
        while label[b] != b:
            b = label[b]
        label[max(a, b)] = min(a, b)
    for i in range(len(label)):
        label[i] = label[label[i]]
    return label


def computed(spec, classes, values):
    """Return the class of people with these values (people, features) as tuples."""
    names = [f.name for f in spec.features]
    own = {f.name: values[:, i].astype(int) for i, f in enumerate(spec.features)}
    parts = []
    for i, f in enumerate(spec.features):
        if f.name in classes.free:
            continue
        if f.name in classes.linked:
            linked = classes.linked[f.name]
            where = [
                np.array([next(k for k, cell in enumerate(of) if any(a <= v <= b for a, b in cell)) for v in own[name]])
                for name, of in zip(linked.when, linked.cells, strict=True)
            ]
            parts.append(linked.table[(*where, own[f.name] - int(f.bounds[0]))])
        elif f.name in classes.banded and f.categories:
            bands = classes.banded[f.name]
            parts.append(np.array([next(k for k, g in enumerate(bands) if v in g) for v in own[f.name]]))
        elif f.name in classes.banded:
            parts.append(np.searchsorted(classes.banded[f.name], values[:, i], side="right"))
        else:
            parts.append(values[:, i])
    assert len(names) == values.shape[1]
    return list(zip(*parts, strict=True)) if parts else [()] * len(values)
