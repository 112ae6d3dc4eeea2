"""The options of a repair: which method takes which, and the values that they accept.

A method refuses the options that it does not use. An option that is silently ignored would let you believe that it took
effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fairmend.base.device import is_device_name
from fairmend.base.errors import FairmendError
from fairmend.milp import get_solver
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


T = TypeVar("T")

Pairs = tuple[ArrayLike, ArrayLike]

FEATURES = ("linear", "box", "points")
REFERENCES = ("mean", "best")
BOUNDS = ("linear", "interval")
SEARCHES = ("branch", "milp")


@dataclass(frozen=True)
class TrainingOptions:
    """How a method other than "auto" trains; leave an option out to get the method's default.

    Attributes
    ----------
    steps : training steps, 200 by default; for "care", iterations of the swarm, 100 by default
    learning_rate : the learning rate of training, 0.001 by default. Not for "care"
    fairness_weight : weight of the fairness loss, 1 by default; for "care", its share of the objective from 0 to 1,
        0.5 by default. Not for "flip", nor for "blind" with a spec without tolerances
    label_weight : the share of the task loss that comes from labels. The rest comes from the original network's
        predictions. 1 by default, 0 for "blind". Not for baselines
    reference : for "blind", the protected values that are folded in: "mean" (the default), or "best" on the
        calibration set
    bounds : the bounds that calibration tightens, "linear" (the default) or "interval". Not for baselines, nor for
        "blind" with a spec without tolerances
    batch_size : calibration rows in a training step; all of them by default. Not for "care"
    patience : stop training after this many steps without a lower loss and keep the best; never by default. Not for
        baselines
    pairs : for "grft", two arrays (pairs, width) of people to treat equally; searched for by default
    """

    steps: int | None = None
    learning_rate: float | None = None
    fairness_weight: float | None = None
    label_weight: float | None = None
    reference: str | None = None
    bounds: str | None = None
    batch_size: int | None = None
    patience: int | None = None
    pairs: Pairs | None = field(default=None, compare=False)

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def _default(value: T) -> T:
    """Return a field that has this value where the option was left out, which `HeadOptions.given` tells."""
    left_out: T = field(default=None, metadata={"default": value})  # type: ignore[assignment]
    return left_out


@dataclass(frozen=True)
class HeadOptions:
    """How step 2 runs, and what its result must cover; leave an option out to get its default.

    Baselines have no step 2, nor has "blind" with a spec without tolerances.

    Attributes
    ----------
    features : the feature set: "linear" (the default), "box" or "points" (exact, for finite neighbourhoods only; the
        default in networks that multiply, if neighbourhoods hold few people). For a baseline, how its result is
        checked. "prof-concrete" always uses "box"
    margin : how far every neighbourhood stays from the threshold, 1e-6 by default. It grows where the proof needs it.
        For a claim about scores, how far below delta their differences stay
    delta_limit : the largest change of one parameter of the head; unlimited by default
    solver, search : "highs" (the default), "scip" or "gurobi", and "branch" (the default for "highs") or "milp". For a
        claim about scores, step 2 is a linear program, which needs neither
    gap : stop at this relative gap, with the best change so far; 0 by default
    cover_inference : make the margins exceed the rounding error of inference in the network's own precision, so that
        the proof covers the deployed network and not only real arithmetic. True by default
    """

    features: str = _default("linear")
    margin: float = _default(1e-6)
    delta_limit: float = _default(math.inf)
    solver: str = _default("highs")
    search: str | None = None
    gap: float = _default(0.0)
    cover_inference: bool = _default(True)
    given: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note which options were given, and give the others their defaults."""
        named = [each for each in fields(self) if each.init]
        given = {each.name: value for each in named if (value := getattr(self, each.name)) is not None}
        object.__setattr__(self, "given", given)
        for each in named:
            if each.name not in given:
                object.__setattr__(self, each.name, each.metadata.get("default"))

    def check(self) -> None:
        """Raise FairmendError for values that step 2 would refuse, before step 1 has run."""
        check_values(**self.given)
        choose_search(self.solver, self.search)


def choose_search(solver: str, search: str | None) -> str:
    """Return the search to use. Raise FairmendError for an unknown solver or search, or if they do not fit."""
    get_solver(solver)
    chosen = search or ("branch" if solver == "highs" else "milp")
    if chosen not in SEARCHES or (chosen == "branch" and solver != "highs"):
        raise FairmendError(
            f"search {chosen!r} does not work with solver {solver!r}; use 'branch' with 'highs' or 'milp' with any"
        )
    return chosen


_TRAINING = tuple(each.name for each in fields(TrainingOptions))
_HEAD = tuple(each.name for each in fields(HeadOptions) if each.init)


def group_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their names, as the command line has them, as arguments of `fairmend.repair`."""
    training = {name: value for name, value in options.items() if name in _TRAINING}
    head = {name: value for name, value in options.items() if name in _HEAD}
    plain = {name: value for name, value in options.items() if name not in (*training, *head)}
    return {**plain, "training": TrainingOptions(**training), "head": HeadOptions(**head)}


@dataclass(frozen=True)
class Method:
    """What a method does, and the options that it takes."""

    summary: str
    options: tuple[str, ...]


_CALIBRATION = tuple(name for name in _TRAINING if name not in ("reference", "pairs"))
_STEP_2 = (*_HEAD, "time_limit")

METHODS: dict[str, Method] = {
    "auto": Method(
        "run several recipes and select the strongest guarantee that keeps the model",
        (
            "keep",
            "guarantee",
            "prefer",
            "keep_form",
            "candidate",
            "keep_candidates",
            "X_unlabelled",
            "device",
            *_STEP_2,
        ),
    ),
    "prof": Method(
        "the paper's method: calibrate the features, bound them symbolically, change the head as little as possible",
        (*_CALIBRATION, "device", *_STEP_2),
    ),
    "prof-concrete": Method(
        "the paper's naive variant, on concrete bounds",
        (*_CALIBRATION, "device", *(name for name in _STEP_2 if name != "features")),
    ),
    "blind": Method(
        "fold the protected columns into the first bias, then train towards the original network's predictions",
        ("reference", "X_unlabelled", *_CALIBRATION, "device", *_STEP_2),
    ),
    "average": Method(
        "let the model read classes of similar people, and average its scores over the members; for any model",
        ("X_unlabelled",),
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

RUN_METHODS = ("auto", "average")
"""The methods for a model that is only run."""

_ONLY_WITH_TOLERANCES = {"blind": ("fairness_weight", "bounds", *_STEP_2)}
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
            if method == "auto" and name in ("reference", *_CALIBRATION):
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
    "candidate": _whole(1),
    "prefer": _one_of(PREFERENCES),
    "cover_inference": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
}
