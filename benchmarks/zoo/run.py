"""A zoo of networks, made and saved as their users do: which load, and are they repaired, proven and given back whole?

    python benchmarks/zoo/run.py                 # all, some minutes
    python benchmarks/zoo/run.py --only GELU     # those with this in their name
    python benchmarks/zoo/run.py --markdown      # the table of docs/formats.md

Each network of the classes A to E goes the whole way: it loads; it predicts what its framework predicts on 1,000 rows;
`repair(auto)` is proven; the certificate is VALID; the saved file loads in its framework, strictly, and predicts what
fairmend's network predicts; and nobody of 1,000 rows is treated unequally, by enumeration in the framework itself.
A model that is repaired by classes is saved as ONNX, and ONNX Runtime takes the place of its framework then.
Networks of other kinds must be refused by name, in one line. Everything is seeded; nothing is downloaded.
Networks of skorch, Lightning and tf2onnx are skipped where these are not installed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np

import fairmend

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.zoo.cases import Case, all_cases, by_classes
from benchmarks.zoo.data import People, load_people
from benchmarks.zoo.refused import refused_cases

KINDS = ("A", "B", "C", "D", "E")
STEPS = ("loads", "same predictions", "proven", "certificate", "saved", "same after", "unequal")


@dataclass
class Outcome:
    """How far a network came: the steps that it passed, and why it stopped."""

    case: Case
    passed: list[str] = field(default_factory=list)
    problem: str = ""
    seconds: float = 0.0
    unequal_before: int = 0


def main() -> int:
    options = _arguments()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    people = {scaled: load_people(scaled=scaled) for scaled in (False, True)}
    outcomes = []
    for case in all_cases():
        if options.only.lower() in f"{case.framework} {case.name}".lower():
            outcomes.append(_run(case, people[not case.raw], options.method))
            _show(outcomes[-1])
    refusals = [] if options.no_refused else list(_refuse(options.only))
    if options.markdown:
        print(_markdown(outcomes))
    return _summarise(outcomes, refusals)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run networks with this text in their name")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/formats.md")
    parser.add_argument("--method", default="auto", help="how to repair: auto (default), prof, blind")
    parser.add_argument("--no-refused", action="store_true", help="leave out those that must be refused")
    return parser.parse_args()


def _run(case: Case, people: People, method: str) -> Outcome:
    """Take one network the whole way."""
    outcome = Outcome(case)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for step in _steps(case, people, Path(folder), outcome, method):
                outcome.passed.append(step)
        except Exception as error:  # a zoo shows every failure and goes on
            outcome.problem = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    outcome.seconds = time.perf_counter() - started
    return outcome


def _steps(case: Case, people: People, folder: Path, outcome: Outcome, method: str) -> Iterator[str]:
    X = people.judged
    model = case.make(people, folder)
    example = {"example": X[:5]} if case.kind == "E" and case.framework == "PyTorch module" else {}
    network = fairmend.load_network(case.source(model), **example)
    yield "loads"
    _require_equal(network.predict(X), case.decide(model, X), "predictions")
    outcome.unequal_before = _unequal(case, model, people)
    yield "same predictions"
    X_cal, y_cal = people.calibration
    result = fairmend.repair(network, people.spec, people.repair, X_cal, y_cal, method=method)
    certificate = result.certificate
    everyone = certificate is not None and any(certificate.content[claim] is not None for claim in ("global", "entry"))
    if certificate is None or not (everyone or certificate.count >= len(people.repair)):
        raise AssertionError("not every neighbourhood is proven")
    yield "proven"
    if certificate.content["entry"] is not None:  # by classes: the original behind some nodes, as an ONNX file
        case = by_classes(case, probability=network.closing == "sigmoid")
    path = folder / f"repaired{case.suffix}"
    repaired = case.save(result.network, model, path)
    certificate.save(folder / "certificate.json", path)
    checked = fairmend.check(folder / "certificate.json", path)
    if not checked.valid:
        raise AssertionError(f"certificate: {checked.reasons}")
    yield "certificate"
    yield "saved"
    _require_equal(result.network.predict(X), case.decide(repaired, X), "predictions of the saved file")
    yield "same after"
    left = _unequal(case, repaired, people)
    if left and everyone:
        raise AssertionError(f"{left} of 1,000 are treated unequally")
    yield "unequal"


def _require_equal(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
    differ = int((ours != theirs).sum())
    if differ:
        raise AssertionError(f"{differ} of {len(ours)} {what} differ from the framework's")


def _unequal(case: Case, model: object, people: People) -> int:
    """Return how many of 1,000 rows get another prediction with another protected value, in the framework."""
    answers = [case.decide(model, rows) for rows in people.counterparts(people.judged)]
    return int((np.ptp(np.stack(answers), axis=0) > 0).sum())


def _refuse(only: str) -> Iterator[tuple[str, str, bool]]:
    """Yield what is refused: its name, the message, and whether that is one line with the name of what is not read."""
    for name, make, words in refused_cases():
        if only.lower() not in name.lower():
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fairmend.load_network(make(Path(folder)))
                message, right = "was read", False
            except fairmend.FairmendError as error:
                message = str(error)
                right = "\n" not in message and words.lower() in message.lower()
            except Exception as error:  # what is not a FairmendError is a failure
                message, right = f"{type(error).__name__}: {error}", False
        print(f"{'refused' if right else 'WRONG':9} {name:38} {message.splitlines()[0][:110]}", flush=True)
        yield name, message, right


def _show(outcome: Outcome) -> None:
    case = outcome.case
    whole = len(outcome.passed) == len(STEPS)
    end = f"{outcome.unequal_before:4} unequal before, 0 after" if whole else f"{outcome.passed[-1:]} {outcome.problem}"
    start = f"{'ok' if whole else 'FAILED':7} {case.kind} {case.framework:20} {case.name:26} {outcome.seconds:5.1f} s"
    print(f"{start}  {end}", flush=True)


def _markdown(outcomes: list[Outcome]) -> str:
    """Return how many networks of each framework and class came the whole way."""
    made = Counter((o.case.framework, o.case.kind) for o in outcomes)
    whole = Counter((o.case.framework, o.case.kind) for o in outcomes if len(o.passed) == len(STEPS))
    lines = [f"| framework | {' | '.join(KINDS)} |", f"|---|{'---|' * len(KINDS)}"]
    for framework in dict.fromkeys(o.case.framework for o in outcomes):
        counts = [(whole[framework, kind], made[framework, kind]) for kind in KINDS]
        cells = [f"{came} of {all_made}" if all_made else "–" for came, all_made in counts]
        lines.append(f"| {framework} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _summarise(outcomes: list[Outcome], refusals: list[tuple[str, str, bool]]) -> int:
    whole = sum(len(o.passed) == len(STEPS) for o in outcomes)
    for step in STEPS:
        print(f"{step:18} {sum(step in o.passed for o in outcomes):4} of {len(outcomes)}")
    right = sum(right for _, _, right in refusals)
    print(f"whole way          {whole:4} of {len(outcomes)};  refused by name {right} of {len(refusals)}")
    return 0 if whole == len(outcomes) and right == len(refusals) else 1


if __name__ == "__main__":
    sys.exit(main())
