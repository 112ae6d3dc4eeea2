"""Hypothesis strategies for specs, and for inputs that fit them."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from fairmend.spec import Feature, Label, Spec

unhurried = settings(deadline=None)  # examples may be slow on a busy machine

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda s: s.strip() not in ("", "nan")
)
numbers = st.floats(-1e4, 1e4, width=32)


@st.composite
def scales(draw):
    if draw(st.booleans()):
        return {"mean": draw(numbers), "std": draw(st.floats(0.01, 100))}
    low = draw(numbers)
    return {"min": low, "max": low + draw(st.floats(0.1, 1000))}


@st.composite
def features(draw, name, kinds, protected):
    kind = draw(st.sampled_from(kinds))
    scale = draw(st.none() | scales())
    if kind == "categorical":
        categories = tuple(draw(st.lists(words, min_size=2, max_size=4, unique_by=str.strip)))
        encoding = draw(st.sampled_from(["ordinal", "one-hot"]))
        scale = None if encoding == "one-hot" else scale
        dropped = draw(st.none() | st.sampled_from(categories)) if encoding == "one-hot" else None
        missing = draw(st.none() | st.sampled_from(categories))
        return Feature(
            name,
            kind,
            categories=categories,
            encoding=encoding,
            scale=scale,
            protected=protected,
            dropped=dropped,
            missing=missing,
        )
    tolerance = 0.0 if protected else draw(st.sampled_from([0.0, 0.3, 1.0, 2.5]))
    if kind == "integer":
        low = draw(st.integers(-50, 50))
        extent = (low, low + draw(st.integers(1, 6)))
    else:
        low = draw(numbers)
        extent = (low, low + draw(st.floats(0.5, 100)))
    missing = draw(st.none() | st.sampled_from(extent))
    return Feature(name, kind, range=extent, scale=scale, protected=protected, tolerance=tolerance, missing=missing)


@st.composite
def specs(draw, finite=False):
    """Draw specs of one to four features; finite ones have only integer and categorical features."""
    kinds = ["integer", "categorical"] + ([] if finite else ["continuous"])
    names = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    first = draw(st.integers(0, len(names) - 1))
    made = [draw(features(name, kinds, i == first or draw(st.booleans()))) for i, name in enumerate(names)]
    label = draw(st.none() | st.builds(Label, column=words.filter(lambda w: w not in names), positive=words))
    return Spec(made, label)


@st.composite
def specs_and_inputs(draw, finite=False, rows=4):
    """Draw a spec and a few inputs X (rows, width) that fit it."""
    spec = draw(specs(finite=finite))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return spec, spec.sample_inputs(draw(st.integers(1, rows)), rng, dtype)
