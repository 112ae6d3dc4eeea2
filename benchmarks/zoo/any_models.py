"""Models of other libraries, which fairmend only runs: does each build, the same each time, and treat people unequally?

    python benchmarks/zoo/any_models.py --list            # their names
    python benchmarks/zoo/any_models.py                   # build and check all, some minutes
    python benchmarks/zoo/any_models.py --only rtdl       # those with this in library, form or name
    python benchmarks/zoo/any_models.py --markdown        # how many of each library and form

A model is trained for seconds on 1,000 rows and given as its owner has it: a module, an estimator, a callable or an
ONNX file. It is built if a second model, made in the same way, has the same scores bit for bit, they are finite, and
another value of a protected feature changes the score of somebody; how many of 200 people, and how many of their
decisions, is printed. Everything is seeded; nothing is downloaded. The libraries are in
`benchmarks/zoo/run_only/requirements.txt`; one that is not installed is skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")  # the only one that reads text
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.zoo.run_only.models import OTHER_ROWS, Model, declare_vision_operators
from benchmarks.zoo.run_only.people import TRAINING_ROWS, counterparts, load_frame

FAMILIES = (
    "rtdl_models",
    "tabnet_models",
    "widedeep_models",
    "pytorch_tabular_models",
    "deepctr_models",
    "fastai_models",
    "keras_models",
    "skorch_models",
    "estimators",
)
JUDGED = 200


@dataclass
class Outcome:
    """What became of a model: why it was not built, or how many people it treats unequally."""

    model: Model
    problem: str = ""
    seconds: float = 0.0
    scores_change: int = 0
    decisions_change: int = 0


def main() -> int:
    options = _arguments()
    logging.disable(logging.WARNING)
    models = [model for model in all_models() if options.only.lower() in _describe(model).lower()]
    outcomes = []
    for model in models:
        if options.list:
            print(_describe(model))
            continue
        outcomes.append(check_model(model, options.traceback))
        _show(outcomes[-1])
    if options.markdown:
        print(_markdown(outcomes))
    built = sum(not outcome.problem for outcome in outcomes)
    print(f"{len(models)} models" if options.list else f"built {built} of {len(outcomes)}")
    return 0 if options.list or built == len(outcomes) else 1


def all_models() -> Iterator[Model]:
    """Yield the models of all libraries that are installed."""
    declare_vision_operators()
    for family in FAMILIES:
        yield from import_module(f"benchmarks.zoo.run_only.{family}").cases()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models with this text in library, form or name")
    parser.add_argument("--list", action="store_true", help="print the names and build nothing")
    parser.add_argument("--markdown", action="store_true", help="print how many of each library and form are built")
    parser.add_argument("--traceback", action="store_true", help="print where a build fails")
    return parser.parse_args()


def _describe(model: Model) -> str:
    protected = " and ".join(model.protected)
    return f"{model.library:16} {model.form:18} {model.name:34} {model.reading.name:18} {model.output:13} {protected}"


def check_model(model: Model, show_traceback: bool = False) -> Outcome:
    """Build a model twice and run it on the people and their counterparts."""
    outcome = Outcome(model)
    started = time.perf_counter()
    with warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        try:
            _require(model, outcome)
        except Exception as error:  # every failure is shown, and the next model is built
            outcome.problem = f"{type(error).__name__}: {error}".splitlines()[0][:160]
            if show_traceback:
                outcome.problem = traceback.format_exc()
    outcome.seconds = time.perf_counter() - started
    return outcome


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drop what libraries print, from C++ too."""
    sys.stdout.flush()
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    with open(os.devnull, "w") as nowhere:
        for stream in kept:
            os.dup2(nowhere.fileno(), stream)
    try:
        yield
    finally:
        sys.stdout.flush()
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)


def _require(model: Model, outcome: Outcome) -> None:
    frame, y = load_frame()
    training, people = frame[:TRAINING_ROWS], frame[-JUDGED:].reset_index(drop=True)
    X = model.reading.rows(people)
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        made, again = (
            model.build(model.reading.rows(training), y[:TRAINING_ROWS], Path(folder)) for folder in (first, second)
        )
        scores = model.scores(made, X)
        if scores.shape != (JUDGED,) or not np.isfinite(scores).all():
            raise AssertionError(f"scores of shape {scores.shape}, {np.isfinite(scores).sum()} of them finite")
        for what, others in (("run again", model.scores(made, X)), ("built again", model.scores(again, X))):
            if others.tobytes() != scores.tobytes():
                raise AssertionError(f"{(others != scores).sum()} of {JUDGED} scores differ when it is {what}")
        if not model.fails_alone:
            batches = [X[row : row + 1] for row in range(4)] + [X[row : row + 7] for row in range(4, JUDGED, 7)]
            others = np.concatenate([model.scores(made, batch) for batch in batches])
            if np.allclose(others, scores, rtol=1e-4, atol=1e-4) == (model.refused == OTHER_ROWS):
                raise AssertionError(f"scores in other batches differ by up to {abs(others - scores).max():.2g}")
        decisions = model.accepts(scores)
        if not model.refused and (decisions.all() or not decisions.any()):
            raise AssertionError("everybody gets the same decision")
        of_others = [model.scores(made, model.reading.rows(rows)) for rows in counterparts(people, model.protected)]
        outcome.scores_change = int((np.ptp(of_others, axis=0) > 0).sum())
        accepted = np.stack([model.accepts(scores) for scores in of_others])
        outcome.decisions_change = int((accepted.any(axis=0) != accepted.all(axis=0)).sum())
        if not outcome.scores_change:
            raise AssertionError(f"{' and '.join(model.protected)} changes nobody's score")


def _show(outcome: Outcome) -> None:
    end = outcome.problem or f"{outcome.scores_change:3} scores and {outcome.decisions_change:3} decisions change"
    start = "FAILED" if outcome.problem else "built"
    print(f"{start:7} {_describe(outcome.model):120} {outcome.seconds:5.1f} s  {end}", flush=True)


def _markdown(outcomes: list[Outcome]) -> str:
    """Return how many models of each library and form are built."""
    made = Counter((o.model.library, o.model.form) for o in outcomes)
    built = Counter((o.model.library, o.model.form) for o in outcomes if not o.problem)
    forms = list(dict.fromkeys(o.model.form for o in outcomes))
    lines = [f"| library | {' | '.join(forms)} |", f"|---|{'---|' * len(forms)}"]
    for library in dict.fromkeys(o.model.library for o in outcomes):
        counts = [(built[library, form], made[library, form]) for form in forms]
        lines.append(f"| {library} | {' | '.join(f'{b} of {m}' if m else '–' for b, m in counts)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
