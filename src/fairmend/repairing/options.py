"""The options of a repair: which method takes which, and the values that they accept.

A method refuses the options that it does not use. An option that is silently ignored would let you believe that it took
effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from fairmend.base.device import is_device_name
from fairmend.base.errors import FairmendError
from fairmend.bounds.linear import METHODS as BOUNDS
from fairmend.repairing.head.solve import choose_search
from fairmend.spec import Spec

KEEP = 0.02
"""Two points: about twice the error with which a loss is known from 500 calibration rows, so a smaller limit would
reject candidates that lose nothing."""

GUARANTEES = ("everyone", "listed", "any")
PREFERENCES = ("accuracy", "decisions")


@dataclass(frozen=True)
class Policy:
    """What `auto` may give up, and what it must not.

    A guarantee is worth something, and so is the model. The default policy takes the strongest guarantee that keeps the
    model: of the candidates whose accuracy and balanced accuracy are at most ``keep`` below the original network's,
    those with the strongest guarantee, and of these the one that keeps the most. A weaker guarantee is taken only if no
    candidate with a stronger one keeps the model; if none at all does, the guarantee that loses the least is taken.
    How far a candidate is below the original is estimated from labels and unlabelled rows together
    (`repairing.choice.FallEstimate`), because 500 labels alone cannot tell a loss of 1 point from one of 3.
    A candidate *surely* keeps the model if the losses are within ``keep`` by one standard error of the estimate. Where
    some do and others do not, only those that do are compared: a strong guarantee is no reason to risk the model.

    Attributes
    ----------
    keep : the most that accuracy and balanced accuracy may fall below the original network's; with
        ``prefer="decisions"``, the most that the agreement with its decisions may fall below 1
    guarantee : "everyone" takes only candidates that are proven for everyone, tolerances and links included. "listed"
        accepts a proof for the repair inputs, and gives no weight to more. "any" takes the strongest guarantee
        among the candidates that keep the model
    prefer : "accuracy" keeps accuracy and balanced accuracy on labelled rows, "decisions" the decisions of the
        original network. `fairmend.repair` takes the latter where all labels are equal and the caller gave neither
    keep_required : whether to raise an error if no proven candidate stays within ``keep``; without it, `auto` takes
        the guarantee that loses the least and warns. True if the caller gave ``keep``
    """

    keep: float = KEEP
    guarantee: str = "any"
    prefer: str = "accuracy"
    keep_required: bool = False

    @classmethod
    def from_options(cls, keep: float | None = None, guarantee: str | None = None, prefer: str | None = None) -> Policy:
        """Return the policy with the defaults for what is None."""
        return cls(KEEP if keep is None else keep, guarantee or "any", prefer or "accuracy", keep is not None)


FEATURES = ("linear", "box", "points")
REFERENCES = ("mean", "best")


@dataclass(frozen=True)
class HeadOptions:
    """How step 2 runs, see `repair_head`, and what its result must cover."""

    features: str = "linear"
    margin: float = 1e-6
    delta_limit: float = math.inf
    solver: str = "highs"
    search: str | None = None
    time_limit: float | None = None
    gap: float = 0.0
    cover_inference: bool = True

    def __post_init__(self) -> None:
        """Refuse values that step 2 would refuse, before step 1 has run."""
        check_values(**{field.name: getattr(self, field.name) for field in fields(self)})
        choose_search(self.solver, self.search)


@dataclass(frozen=True)
class Method:
    """What a method does, and the options that it takes."""

    summary: str
    options: tuple[str, ...]


_HEAD = tuple(field.name for field in fields(HeadOptions))
_TRAINING = ("steps", "learning_rate", "fairness_weight", "label_weight", "bounds", "batch_size", "patience")

METHODS: dict[str, Method] = {
    "auto": Method(
        "run several recipes and select the strongest guarantee that keeps the model",
        ("keep", "guarantee", "prefer", "X_unlabelled", "device", *_HEAD),
    ),
    "prof": Method(
        "the paper's method: calibrate the features, bound them symbolically, change the head as little as possible",
        (*_TRAINING, "device", *_HEAD),
    ),
    "prof-concrete": Method(
        "the paper's naive variant, on concrete bounds",
        (*_TRAINING, "device", *(name for name in _HEAD if name != "features")),
    ),
    "blind": Method(
        "fold the protected columns into the first bias, then train towards the original network's predictions",
        ("reference", "X_unlabelled", *_TRAINING, "device", *_HEAD),
    ),
    # The baselines have no step 2; `features` selects how their result is checked afterwards.
    "flip": Method(
        "fine-tune on copies with other protected values; proves nothing",
        ("steps", "learning_rate", "batch_size", "features"),
    ),
    "grft": Method(
        "fine-tune on the difference within unequal pairs (Quan et al. 2025); proves nothing",
        ("steps", "learning_rate", "fairness_weight", "batch_size", "pairs", "features"),
    ),
    "care": Method(
        "change the neurons that cause unfairness with a particle swarm (Sun et al. 2022); proves nothing",
        ("steps", "fairness_weight", "features"),
    ),
}

_ONLY_WITH_TOLERANCES = {"blind": ("fairness_weight", "bounds", *_HEAD)}
"""Options that a method uses only where a feature has a tolerance: without one, blindness alone is the proof, the
features have no width to tighten, and step 2 does not run."""


def has_tolerances(spec: Spec) -> bool:
    """Return whether similar people may differ in a feature that is not protected."""
    return any(not feature.protected for feature in spec.varying)


def methods_with(option: str) -> list[str]:
    """Return the methods that take an option, in the order of `METHODS`."""
    return [name for name, method in METHODS.items() if option in method.options]


def check_applicable(method: str, options: Mapping[str, Any], tolerances: bool) -> None:
    """Raise FairmendError if there is no such method, or if it does not use one of the options.

    ``options`` are those that the caller gave; ``tolerances`` tells whether the spec has any.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise FairmendError(f"unknown method {method!r}; use one of {', '.join(METHODS)}")
    for name in options:
        others = [other for other in methods_with(name) if other != method]
        if name not in METHODS[method].options:
            if method == "auto" and name in ("reference", *_TRAINING):
                why = "chooses its own"
            elif method == "prof-concrete" and name == "features":
                why = 'always uses "box"'
            else:
                why = "does not use it"
        elif not tolerances and name in _ONLY_WITH_TOLERANCES.get(method, ()):
            why = "uses it only where a feature of the spec has a tolerance, and here none has"
        else:
            continue
        raise FairmendError(f"{name}: method {method} {why}; use method {_either(others)}")


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def check_values(**options: Any) -> None:
    """Raise FairmendError if an option has a value that it does not accept. None means "not given"."""
    for name, value in options.items():
        if value is not None and name in _ACCEPTED:
            accepts, expected = _ACCEPTED[name]
            if not accepts(value):
                raise FairmendError(f"{name} is {value!r}; give {expected}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _whole(least: int) -> tuple[Callable[[Any], bool], str]:
    def accepts(value: Any) -> bool:
        return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least

    return accepts, f"a whole number of {least} or more"


def _one_of(choices: tuple[str, ...]) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: isinstance(value, str) and value in choices), _either([f'"{choice}"' for choice in choices])


_ACCEPTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "steps": _whole(0),
    "batch_size": _whole(1),
    "patience": _whole(0),
    "learning_rate": (lambda value: _is_number(value) and 0 < value < math.inf, "a finite number above 0"),
    "fairness_weight": (lambda value: _is_number(value) and 0 <= value < math.inf, "a finite number of 0 or more"),
    "label_weight": (lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
    "reference": _one_of(REFERENCES),
    "bounds": _one_of(BOUNDS),
    "device": (is_device_name, '"auto", "cpu", "cuda", or "cuda:1" for the second GPU'),
    "features": _one_of(FEATURES),
    "margin": (
        lambda value: _is_number(value) and 0 < value < math.inf,
        "a finite number above 0: a margin of 0 would count ties as fair",
    ),
    "delta_limit": (lambda value: _is_number(value) and value > 0, "a number above 0, or leave it out for no limit"),
    "time_limit": (lambda value: _is_number(value) and value >= 0, "seconds, or leave it out for no limit"),
    "gap": (lambda value: _is_number(value) and 0 <= value < math.inf, "a relative gap of 0 or more"),
    "keep": (lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
    "guarantee": _one_of(GUARANTEES),
    "prefer": _one_of(PREFERENCES),
    "cover_inference": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
}
