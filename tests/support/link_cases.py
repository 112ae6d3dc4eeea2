"""Specs with links, and the neighbourhoods they define, listed one by one from the words of the documentation."""

import itertools

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network
from fairmend.spec import Feature, Spec

SEX = Feature("sex", "categorical", categories=("Male", "Female"), encoding="one-hot", protected=True)
RELATIONSHIP = Feature("relationship", "categorical", categories=("Husband", "Own child", "Wife"), encoding="one-hot")
AGE = Feature("age", "integer", range=(20, 26), protected=True, scale={"mean": 23.0, "std": 2.0})
YEARS = Feature("years", "integer", range=(0, 6), scale={"min": 0.0, "max": 6.0})
HOURS = Feature("hours", "integer", range=(0, 4), tolerance=1)

WIFE = {"when": {"sex": "Female"}, "then": {"relationship": {"Husband": "Wife"}}}
HUSBAND = {"when": {"sex": "Male"}, "then": {"relationship": {"Wife": "Husband"}}}
BEGINNER = {"when": {"age": [20, 22]}, "then": {"years": {"offset": [-3, -2]}}}


def family_spec(*more, links=()):
    """Return a spec in which the relationship goes with the sex, and the years of work with the age."""
    return Spec([SEX, RELATIONSHIP, AGE, YEARS, *more], links=[WIFE, HUSBAND, BEGINNER, *links])


def small_network(width, seed=0, hidden=6):
    """Return a random network of one hidden layer whose logit is often near 0."""
    rng = np.random.default_rng(seed)
    layers = [
        Affine(rng.normal(size=(hidden, width)).astype(np.float32), rng.normal(size=hidden).astype(np.float32)),
        Affine(rng.normal(size=(1, hidden)).astype(np.float32), rng.normal(size=1).astype(np.float32) / 4),
    ]
    return Network(layers, [Activation("relu")])


def listed_values(spec, x):
    """Return every counterfactual of a person with values x, as tuples of values; all features are finite."""
    own = dict(zip([f.name for f in spec.features], x, strict=True))
    found = set()
    free = [f for f in spec.features if f.protected or f.tolerance]
    for values in itertools.product(*(_reach(f, own[f.name]) for f in free)):
        other = {**own, **dict(zip([f.name for f in free], values, strict=True))}
        options = {name: [value] for name, value in other.items()}
        for link in spec.links:
            matches = all(_matches(other[name], condition) for name, condition in link.when.items())
            if matches and any(other[name] != own[name] for name in link.when):
                for name, change in link.then.items():
                    options[name] = _replaced(next(f for f in spec.features if f.name == name), own[name], change)
        found |= set(itertools.product(*(options[f.name] for f in spec.features)))
    return found


def _reach(feature, own):
    if feature.categories:
        return feature.categories
    low, high = feature.range
    return [v for v in range(low, high + 1) if feature.protected or abs(v - own) <= feature.tolerance]


def _matches(value, condition):
    if isinstance(value, str):
        return value == condition or (isinstance(condition, list) and value in condition)
    low, high = condition if isinstance(condition, list) else (condition, condition)
    return low <= value <= high


def _replaced(feature, own, change):
    if feature.categories:
        new = change.get(own, own)
        return new if isinstance(new, list) else [new]
    if "range" in change:
        return list(range(change["range"][0], change["range"][1] + 1))
    ends = change["offset"] if isinstance(change["offset"], list) else [change["offset"]] * 2
    low, high = feature.range
    return sorted({min(max(own + d, low), high) for d in range(ends[0], ends[1] + 1)})


def values_of(spec, X):
    """Return the values of inputs X as tuples."""
    frame = spec.decode(X)
    return list(zip(*(frame[f.name].tolist() for f in spec.features), strict=True))


@st.composite
def _some(draw, feature):
    """Draw a condition on a protected feature."""
    if feature.categories:
        chosen = draw(st.lists(st.sampled_from(feature.categories), min_size=1, unique=True))
        return chosen[0] if len(chosen) == 1 else chosen
    low = draw(st.integers(*feature.range))
    return draw(st.sampled_from([low, [low, draw(st.integers(low, feature.range[1]))]]))


@st.composite
def _change(draw, feature):
    if feature.categories:
        chosen = st.lists(st.sampled_from(feature.categories), min_size=1, unique=True)
        return draw(st.dictionaries(st.sampled_from(feature.categories), chosen, min_size=1))
    low, more = draw(st.integers(*feature.range)), draw(st.integers(0, 3))
    if draw(st.booleans()):
        return {"range": [low, min(low + more, feature.range[1])]}
    offset = draw(st.integers(-4, 4))
    return {"offset": [offset, offset + more]}


@st.composite
def linked_specs_and_inputs(draw):
    """Draw a spec with one to three links that are not refused, and a few inputs that fit it."""
    encoding = st.sampled_from(["one-hot", "ordinal"])
    race = Feature("race", "categorical", categories=tuple("abcd"), encoding=draw(encoding), protected=True)
    age = Feature("age", "integer", range=(0, 4), protected=True, scale=draw(st.sampled_from([None, AGE.scale])))
    job = Feature("job", "categorical", categories=tuple("pqrs"), encoding=draw(encoding))
    years = Feature("years", "integer", range=(0, 5), scale=draw(st.sampled_from([None, YEARS.scale])))
    features = [race, job, age, years] + ([HOURS] if draw(st.booleans()) else [])
    links = []
    for _ in range(draw(st.integers(1, 3))):
        when = draw(st.lists(st.sampled_from([race, age]), min_size=1, unique=True))
        then = draw(st.lists(st.sampled_from([job, years]), min_size=1, unique=True))
        link = {"when": {f.name: draw(_some(f)) for f in when}, "then": {f.name: draw(_change(f)) for f in then}}
        try:
            Spec(features, links=[*links, link])
            links.append(link)
        except FairmendError:  # ambiguous with an earlier one, or without effect
            continue
    spec = Spec(features, links=links)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return spec, spec.sample_inputs(3, rng, draw(st.sampled_from([np.float32, np.float64])))


def expected_unequal(net, spec, X):
    """Return whether someone similar to each of X gets another prediction, from the definition (rows,)."""
    unequal = []
    for own, answer in zip(values_of(spec, X), net.predict(X), strict=True):
        people = pd.DataFrame(list(listed_values(spec, own)), columns=[f.name for f in spec.features])
        unequal.append(bool((net.predict(spec.encode(people, X.dtype)) != answer).any()))
    return np.array(unequal)


def family_case(rows=30, seed=1):
    """Return a spec with links, a network and people, some of whom it treats unequally."""
    spec = family_spec()
    return spec, small_network(spec.width, seed), spec.sample_inputs(rows, np.random.default_rng(0))
