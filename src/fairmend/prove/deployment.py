"""Whether what is deployed computes the network that a certificate is about: an endpoint, a pipeline, another copy.

A certificate is about a model file. `verify_deployment` calls what is served in its place, on people of the certificate
and on others of its spec, and compares the answers with what the network can give in its own precision. Another order
of columns, another scaling or a lower precision shows at once. What a certificate about classes is about has no bounds
that an answer could be compared with. But everyone has members of their class, who must get the same answer in the same
place of the same batch, bit for bit, whatever the model computes.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, first_line
from fairmend.network.formats.suffixes import MODULES
from fairmend.prove.certificate import Certificate
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    from fairmend_check.kernel.certificate import Certificate as Claimed
    from fairmend_check.kernel.certificate import ClassCertificate
    from fairmend_check.kernel.model import Model


def _class_people(
    claimed: ClassCertificate, spec: Spec, variants: Sequence[Sequence[NDArray[Any]]], takes: str
) -> tuple[list[Any], pd.DataFrame]:
    """Return people, and members of their classes in their places, as the deployed model takes them; and the people.

    `variants` have for each port what it holds: for people, for members of their classes, and in the second half for
    members with columns that no person has.
    """
    valid = variants[: len(variants) // 2]
    people = [spec.decode(_matrix(spec, claimed, held)) for held in valid]
    if takes == "encoded":
        return [_inputs(claimed, held) for held in variants], people[0]
    kept = _encoded_alike(spec, claimed, people, valid)
    if not len(kept):
        raise FairmendError("nobody is encoded as the certificate says, so that nothing can be compared")
    return [frame.iloc[kept].reset_index(drop=True) for frame in people], people[0].iloc[kept]


def _inputs(claimed: ClassCertificate, held: Sequence[NDArray[Any]]) -> Any:
    """Return what the file reads: an array, or with several inputs one by the name of each."""
    if len(held) == 1:
        return held[0]
    return {port.name: values for port, values in zip(claimed.entry.ports, held, strict=True)}


def _matrix(spec: Spec, claimed: ClassCertificate, held: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return what the ports hold as rows of the spec."""
    X = np.zeros((len(held[0]), spec.width))
    for port, values in zip(claimed.entry.ports, held, strict=True):
        columns = values.reshape(len(values), -1)
        for feature, start in zip(port.features, port.starts, strict=True):
            part = columns[:, start : start + feature.width]
            if port.type == "string":
                codes = {name: code for code, name in enumerate(feature.categories or ())}
                part = np.array([[codes[text]] for text in part[:, 0].tolist()])
            X[:, spec.columns(feature.name)] = part
    return X


def _encoded_alike(
    spec: Spec,
    claimed: ClassCertificate,
    people: Sequence[pd.DataFrame],
    variants: Sequence[Sequence[NDArray[Any]]],
) -> NDArray[np.int64]:
    """Return the people whom encoding their values again gives the numbers of the class, in all variants."""
    single = any(port.type == "float32" for port in claimed.entry.ports)
    kind = np.float32 if single else np.float64
    same = [
        (spec.encode(frame, kind) == _matrix(spec, claimed, held).astype(kind)).all(axis=1)
        for frame, held in zip(people, variants, strict=True)
    ]
    return np.flatnonzero(np.all(same, axis=0))


_TAKES = ("encoded", "people")
_GIVES = ("scores", "outputs", "probabilities", "classes")
_SHOWN = 10  # rows that differ


@dataclass(frozen=True, repr=False)
class DeploymentResult:
    """Whether a deployed model gives what the model of a certificate can give.

    Attributes
    ----------
    matches : whether every answer is within the bounds of the network; for a certificate about classes, whether
        everyone gets the answer that members of their class get in their place, bit for bit
    people : how many people were compared; people whose outputs have no finite bound are left out
    differing : how many of them got an answer outside its bounds, or another one than a member of their class
    decisions : how many got another class than every program that runs the network gives them, or than such a member
    largest_excess : how far an answer is outside its bounds, or from that of a member, at most; 0 if none is, and for
        classes
    rows : the first people that differ, with the answer and its bounds, or that of a member, as a data frame
    condition : what must be true of the program that runs the model file; empty if the file fixes it
    by_classes : whether the certificate is about classes
    """

    matches: bool
    people: int
    differing: int
    decisions: int
    largest_excess: float
    rows: pd.DataFrame
    condition: str = ""
    by_classes: bool = False

    def __repr__(self) -> str:
        """Return the result in a sentence."""
        excess = f", by up to {self.largest_excess:.3g}" if self.largest_excess else ""
        if self.by_classes and self.matches:
            return f"DeploymentResult(MATCHES: {self.people:,} people get the answers of members of their classes)"
        if self.by_classes:
            return (
                f"DeploymentResult(DIFFERS: {self.differing:,} of {self.people:,} people get another answer than a "
                f"member of their class{excess}; {self.decisions:,} decisions differ)"
            )
        if self.matches:
            return f"DeploymentResult(MATCHES: all answers for {self.people:,} people are within the network's bounds)"
        return (
            f"DeploymentResult(DIFFERS: {self.differing:,} of {self.people:,} answers are outside the network's "
            f"bounds{excess}; {self.decisions:,} decisions differ)"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        plain = {key: getattr(self, key) for key in self.__dataclass_fields__ if key != "rows"}
        return {**plain, "rows": json.loads(self.rows.to_json(orient="records"))}


def verify_deployment(
    predict: Callable[[Any], Any],
    certificate: str | PathLike[str] | Certificate,
    model: str | PathLike[str] | None = None,
    *,
    takes: str = "encoded",
    gives: str = "scores",
    batch_sizes: Sequence[int] = (1, 7, 1024),
    seed: int = 0,
) -> DeploymentResult:
    """Compare what is deployed with the network that a certificate is about.

    The people are those that `fairmend check` runs a model file on: of the certificate, their neighbours, and others of
    the spec. Nothing is proven by this; it can only show that the proof is about something else than what is deployed.
    With a certificate about classes, people and members of their classes are asked for, who must get the same answers.

    Parameters
    ----------
    predict : is called with a batch of people, and returns a score, or several, or a class for each of them
    certificate : the certificate, or its file
    model : the model file; by default the one in the folder of the certificate that the certificate names by its sha256
    takes : "encoded" if ``predict`` takes rows as the model reads them (an array, or of a file with several inputs one
        by the name of each), "people" if it takes a data frame with a column for each feature of the spec
    gives : "scores" if ``predict`` returns what the model file computes, "outputs" for the raw outputs,
        "probabilities" for their sigmoid or softmax (one column, or one for each class), "classes" for predictions
    batch_sizes : how many people to ask for at once; all people are asked for in batches of the last size
    seed : of the people that are chosen at random
    """
    from fairmend_check.kernel.certificate import ClassCertificate
    from fairmend_check.run.compare import people_of_certificate

    if takes not in _TAKES or gives not in _GIVES:
        raise FairmendError(
            f"takes={takes!r}, gives={gives!r}: takes must be {' or '.join(_TAKES)}, gives {', '.join(_GIVES)}"
        )
    if not batch_sizes or not all(isinstance(size, int) and size > 0 for size in batch_sizes):
        raise FairmendError(f"batch_sizes={batch_sizes!r}: pass one or more whole numbers above 0")
    with tempfile.TemporaryDirectory() as folder:  # for a certificate in memory, until its inputs are read
        claimed, network, spec = _read(certificate, model, Path(folder))
        if isinstance(claimed, ClassCertificate):
            return _compare_classes(predict, claimed, spec, takes, gives, batch_sizes, seed)
        assert network is not None
        rows = people_of_certificate(claimed, network, np.random.default_rng(seed)).astype(network.dtype)
        people: Any = rows
        if takes == "people":  # what the file must be given is the encoding of the very values that are asked for
            people = spec.decode(rows)
            rows = spec.encode(people, network.dtype)
        (answers,), numbers = _ask(predict, [people], len(rows), batch_sizes)
    return _compare(claimed, network, spec, rows.astype(np.float64), answers, numbers, gives)


def _compare_classes(
    predict: Callable[[Any], Any],
    claimed: ClassCertificate,
    spec: Spec,
    takes: str,
    gives: str,
    batch_sizes: Sequence[int],
    seed: int,
) -> DeploymentResult:
    """Return whether people get the answers of members of their classes."""
    from fairmend_check.kernel.statement import describe_encoding
    from fairmend_check.run.compare import class_members

    variants = class_members(claimed.spec, claimed.entry, np.random.default_rng(seed))
    given, people = _class_people(claimed, spec, variants, takes)
    (own, *members), numbers = _ask(predict, given, len(people), batch_sizes)
    other = np.stack([_bits(answers) != _bits(own) for answers in members])  # (members, answers)
    wrong = other.any(axis=0)
    first = np.flatnonzero(wrong)[np.unique(numbers[wrong], return_index=True)[1]]
    theirs = [members[int(other[:, place].argmax())][place] for place in first]
    decided, excess = set(numbers[wrong].tolist()) if gives == "classes" else set(), 0.0
    if gives != "classes" and wrong.any():
        scores = [_numbers(answers) for answers in (own, *members)]
        gaps = np.abs(np.stack(scores[1:]) - scores[0])
        excess = float(np.where(np.isnan(gaps), np.inf, gaps)[other].max())
        closing = "" if gives == "outputs" else "sigmoid"
        classes = [_decided(each, closing, claimed.spec.threshold) for each in scores]
        decided = {int(n) for each in classes[1:] for n in numbers[each != classes[0]]}
    shown = people.iloc[numbers[first[:_SHOWN]]].assign(
        deployed=[own[place].tolist() for place in first[:_SHOWN]],
        **{"for a member": [each.tolist() for each in theirs[:_SHOWN]]},
    )
    return DeploymentResult(
        matches=not wrong.any(),
        people=len(people),
        differing=len(first),
        decisions=len(decided),
        largest_excess=excess,
        rows=shown.reset_index(drop=True),
        condition=describe_encoding(claimed.spec, claimed.entry),
        by_classes=True,
    )


def _bits(answers: NDArray[Any]) -> NDArray[Any]:
    """Return answers (answers, columns) as one thing for each, which is equal if all of its bits are; NaN included."""
    if answers.dtype.kind in "OSU":
        return np.array(["\x1f".join(map(as_text, each)) for each in answers.tolist()])
    plain = np.ascontiguousarray(answers)
    return plain.view(np.dtype((np.void, plain.itemsize * plain.shape[1])))[:, 0]


def _numbers(answers: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return answers.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise FairmendError(f"predict returned values that are not numbers: {first_line(error)}") from error


def _read(
    certificate: str | PathLike[str] | Certificate, model: str | PathLike[str] | None, folder: Path
) -> tuple[Claimed | ClassCertificate, Model | None, Spec]:
    """Return the claim, the network that it is about (None for a claim about classes), and the spec."""
    from fairmend_check.check import matching_model
    from fairmend_check.errors import CheckError
    from fairmend_check.kernel.certificate import ClassCertificate, read_certificate

    path = folder / "certificate.json" if isinstance(certificate, Certificate) else Path(certificate)
    if isinstance(certificate, Certificate):
        if model is None:
            raise FairmendError("a certificate in memory needs its model: pass model=, the path of the model file")
        certificate.save(path, model)
    try:
        claimed = read_certificate(path)
        file = Path(model) if model is not None else _find_model(path, claimed.file_sha256)
        with path.open("rb") as lines:
            content = json.loads(lines.readline() + b"]}")  # the rest of the file lists inputs
        spec = Spec.from_dict(content["spec"])
        if isinstance(claimed, ClassCertificate):
            _require_class_model(claimed, file)
            return claimed, None, spec
        return claimed, matching_model(claimed, file), spec
    except (CheckError, OSError) as error:
        raise FairmendError(f"{path.name}: {error}") from error


def _require_class_model(claimed: ClassCertificate, file: Path) -> None:
    """Refuse a file for which the claim about classes does not hold: by its entry, its edges and its sha256."""
    from fairmend_check.kernel.classes import why_not_constant
    from fairmend_check.readers.onnx_edges import check_structure

    for reason in why_not_constant(claimed.spec, claimed.entry):
        raise FairmendError(f"the certificate does not hold: {reason}")
    if check_structure(file, claimed.entry) != claimed.file_sha256:
        raise FairmendError(f"{file.name}: the certificate is about another file (file_sha256 differs)")


def _find_model(certificate: Path, sha256: str | None) -> Path:
    """Return the file beside a certificate that it names by its sha256."""
    for path in sorted(certificate.absolute().parent.iterdir()):
        if path.suffix.lower() in MODULES and sha256 == hashlib.sha256(path.read_bytes()).hexdigest():
            return path
    raise FairmendError(f"{certificate}: its model file is not in the same folder. Pass its path as model=")


def _ask(
    predict: Callable[[Any], Any], given: Sequence[Any], count: int, batch_sizes: Sequence[int]
) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
    """Return the answers to each of the given people in batches (answers, columns), and the number of each person."""
    found: list[list[NDArray[Any]]] = [[] for _ in given]
    numbers = []
    for size in batch_sizes:
        for start in range(0, count if size == batch_sizes[-1] else min(count, 8 * size), size):
            end = min(start + size, count)
            for answers, people in zip(found, given, strict=True):
                part = _copied(people, start, end)
                answers.append(_answers(predict, part, end - start))
            numbers.append(np.arange(start, end))
    if len({answer.shape[1] for answers in found for answer in answers}) > 1:
        raise FairmendError("predict returned different numbers of columns for different people, or sizes of batches")
    return [np.concatenate(answers) for answers in found], np.concatenate(numbers)


def _copied(people: Any, start: int, end: int) -> Any:
    """Return some of the people: rows of an array or of a data frame, or of the arrays of several inputs."""
    if isinstance(people, dict):
        return {name: each[start:end].copy() for name, each in people.items()}
    return people[start:end].copy()


def _answers(predict: Callable[[Any], Any], part: Any, count: int) -> NDArray[Any]:
    """Return the answers to a batch of people (count, columns)."""
    try:
        answer = np.asarray(predict(part))
    except Exception as error:
        raise FairmendError(f"predict failed for {count} people: {first_line(error)}") from error
    if answer.ndim not in (1, 2) or len(answer) != count:
        raise FairmendError(
            f"predict returned an array of shape {answer.shape} for {count} people; it must return a row, or a number, "
            "for each of them"
        )
    return answer.reshape(count, -1)


def _compare(
    claimed: Claimed,
    network: Model,
    spec: Spec,
    rows: NDArray[np.float64],
    answers: NDArray[Any],
    numbers: NDArray[np.int64],
    gives: str,
) -> DeploymentResult:
    from fairmend_check.run.enclosure import certain_classes, close_outputs, enclose_outputs

    low, high = enclose_outputs(network, rows)
    bounded = np.asarray((np.isfinite(low) & np.isfinite(high)).all(axis=1))
    classes = certain_classes(network, low, high, claimed.spec.threshold)
    if gives == "classes":
        bounded = np.asarray(bounded & (classes >= 0))
        found = _class_numbers(answers, claimed, network)
        wrong = bounded[numbers] & (found != classes[numbers])
        columns = {"deployed": answers[:, 0], "expected": classes[numbers]}
        excess, decisions = 0.0, wrong
    else:
        closing = {"scores": network.closing, "outputs": ""}.get(gives, "softmax" if network.outputs > 1 else "sigmoid")
        rescaling = network.rescaling if gives == "scores" else None
        bounds = close_outputs(low, high, closing, network.dtype, answers.shape[1], rescaling)
        if bounds is None:
            raise FairmendError(
                f"predict returned {answers.shape[1]} columns of {gives}, which a network with {network.outputs} "
                f"output{'s' if network.outputs > 1 else ''} does not have. Pass gives= as your model answers"
            )
        scores = _numbers(answers)
        least, most = (ends[numbers] for ends in bounds)
        outside = np.maximum(np.maximum(least - scores, scores - most), 0.0)
        outside = np.where(bounded[numbers][:, None], np.where(np.isnan(scores), np.inf, outside), 0.0)
        wrong, excess = (outside > 0).any(axis=1), float(outside.max(initial=0.0))
        worst = outside.argmax(axis=1)
        each = np.arange(len(scores)), worst
        columns = {"output": worst, "deployed": scores[each], "at least": least[each], "at most": most[each]}
        if rescaling is not None:
            scores = (scores - rescaling.low) / rescaling.span
        decisions = wrong & (_decided(scores, closing, claimed.spec.threshold) != classes[numbers])
        decisions &= classes[numbers] >= 0
    if not bounded.any():
        raise FairmendError("no person has outputs with finite bounds, so that nothing can be compared")
    first = np.flatnonzero(wrong)[np.unique(numbers[wrong], return_index=True)[1]][:_SHOWN]
    people = spec.decode(rows[numbers[first]].astype(network.dtype))
    shown = people.assign(**{name: values[first] for name, values in columns.items()})
    return DeploymentResult(
        matches=not wrong.any(),
        people=int(bounded.sum()),
        differing=len(np.unique(numbers[wrong])),
        decisions=len(np.unique(numbers[decisions])),
        largest_excess=excess,
        rows=shown,
        condition=network.condition,
    )


def _decided(scores: NDArray[np.float64], closing: str, threshold: float) -> NDArray[np.int64]:
    """Return the class that scores (rows, columns) decide for."""
    if scores.shape[1] > 2 or (scores.shape[1] == 2 and threshold == 0.5):
        return np.asarray(scores.argmax(axis=1))
    if closing and not closing.endswith("log_softmax"):
        return np.asarray(scores[:, -1] >= threshold, np.int64)
    lead = scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores[:, 0]
    return np.asarray(lead >= np.log(threshold / (1 - threshold)), np.int64)


def _class_numbers(answers: NDArray[Any], claimed: Claimed, network: Model) -> NDArray[np.int64]:
    """Return the numbers of predicted classes, which may be numbers or the names in the spec."""
    if answers.shape[1] != 1:
        raise FairmendError(f"predict returned {answers.shape[1]} columns instead of a class for each person")
    texts = np.array([as_text(value) for value in answers[:, 0]])
    plain = {str(number): number for number in range(max(2, network.outputs))} | {"False": 0, "True": 1}
    plain |= {f"{number}.0": number for number in range(max(2, network.outputs))}
    label = claimed.spec.label
    if label is not None and label.positive is not None and (label.positive in texts or not set(texts) <= set(plain)):
        return np.asarray(texts == label.positive, np.int64)
    known = {name: number for number, name in enumerate(label.classes if label is not None else ())}
    known = known if set(texts) <= set(known) else plain
    strange = [str(text) for text in texts if text not in known]
    if strange:
        raise FairmendError(f"predict returned {strange[0]!r}, which is not a class of the network or of its spec")
    return np.array([known[text] for text in texts])
