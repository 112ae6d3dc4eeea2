"""Whether a certificate holds for a model file: every rule of docs/certificate.md, from the files to the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from os import PathLike
from pathlib import Path

import numpy as np

from fairmend_check.errors import CannotAnswerError, CheckError, NotConfirmedError
from fairmend_check.kernel.blindness import dependent_columns
from fairmend_check.kernel.certificate import Certificate, ClaimedShares, ClassCertificate, read_certificate
from fairmend_check.kernel.claim import ScoreClaim
from fairmend_check.kernel.classes import why_not_constant
from fairmend_check.kernel.description import WHERE, contained_tensors, described_model
from fairmend_check.kernel.model import Model, network_digest, weights_digest
from fairmend_check.kernel.neighbourhood import encode
from fairmend_check.kernel.regions import Cover, point_work, prove, prove_scores
from fairmend_check.kernel.rescaling import require_scores
from fairmend_check.kernel.rounding import Array, Precision
from fairmend_check.kernel.spec import Spec, first_difference
from fairmend_check.kernel.statement import describe_claim, describe_condition, describe_encoding
from fairmend_check.readers.onnx_edges import check_structure
from fairmend_check.readers.read_model import read_model
from fairmend_check.result import CheckResult
from fairmend_check.run.compare import (
    PEOPLE,
    ListedPeople,
    ModelRun,
    NotRunError,
    Runtime,
    installed_runtimes,
    run_classes,
    run_model,
    why_not_run,
)
from fairmend_check.shares.people import People
from fairmend_check.shares.prove import prove_shares, read_leaves, read_shares
from fairmend_check.spec_toml import read_spec_file

MAX_REASONS = 20
MAX_CLASSES = 100  # of shares: the bounds of a box need memory for all pairs of them
MAX_RUN_WORK = 4 * 10**9  # multiplications for the bounds of people on whom a model is run: about a second
_LEAST_RUN = 64
_ROOM = 1024.0  # how many times larger than in the spec a value may be that the global claim is not about
NOT_READ = (
    "your model is the network that the certificate contains. No model file was read, so that is not checked; pass the "
    "file to check it."
)
REAL_ONLY = (
    "the certificate is about exact real arithmetic only, and rounding may change a prediction in inference; to accept "
    "that claim, pass --real (in Python real=True)"
)


def check(
    certificate: str | PathLike[str],
    model: str | PathLike[str] | None,
    spec: str | PathLike[str] | None = None,
    *,
    real: bool = False,
    run: bool = True,
    require_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> CheckResult:
    """Check a certificate against a model file, and against a spec file if you pass one.

    Returns a result whatever the files hold. It is VALID, INVALID if the claim does not hold for the model, or
    UNREADABLE if one of the files cannot be read or checked: `CheckResult.verdict` says which, and the reasons say why.

    Parameters
    ----------
    certificate : the certificate, a .json file
    model : the model that the certificate is about: .onnx, .safetensors, .pth, .pt, .ckpt, .pt2, .h5, .keras or .nnet;
        None to check the claim about the network that the certificate contains, and not whether a file holds it
    spec : a spec, a .toml file; the certificate is not valid if it is about another spec
    real : also accept a claim about exact real arithmetic only, which does not cover inference
    run : also run the model where its runtime is installed, in a process of its own, and compare its outputs with their
        bounds; this can only take VALID away
    require_run : give no verdict unless the model was run
    progress : called with the number of regions that are checked and that of all, after each block of a certificate;
        of a certificate of shares, with numbers of boxes
    """
    try:
        return check_files(certificate, model, spec, real=real, run=run, require_run=require_run, progress=progress)
    except CannotAnswerError as error:
        return CheckResult(False, (str(error),), "", 0, None, None, 0.0, readable=False)


def check_files(
    certificate: str | PathLike[str],
    model: str | PathLike[str] | None,
    spec: str | PathLike[str] | None = None,
    *,
    real: bool = False,
    run: bool = True,
    require_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> CheckResult:
    """Do as `check` does, but raise CannotAnswerError if this Python cannot compare the spec."""
    started = time.perf_counter()
    found = _Findings(progress=progress)
    try:
        file = None if model is None else Path(model)
        suffix = "" if file is None else file.suffix.lower()
        found.runtimes = installed_runtimes(suffix) if file is not None and (run or require_run) else []
        run_in = _check(found, Path(certificate), file, None if spec is None else Path(spec), real)
        if not found.reasons:
            if file is None:
                found.not_run = "no model file was passed"
            elif not found.runtimes:
                asked = run or require_run
                found.not_run = why_not_run(suffix) if asked else "--no-run was passed (in Python run=False)"
            if run_in is not None:
                _run(found, run_in)
            if require_run and not found.runs:
                raise CheckError(f"nothing was run: {found.not_run}")
    except CannotAnswerError:
        raise
    except NotConfirmedError as error:
        found.reasons.append(str(error))
    except CheckError as error:
        found.unreadable(str(error))
    except MemoryError:
        found.unreadable("the certificate or the model needs more memory than this machine has")
    except Exception as error:  # a checker that fails has confirmed nothing
        found.unreadable(f"the check failed ({type(error).__name__}: {str(error)[:200]})")
    same = {each.name: getattr(found, each.name) for each in fields(CheckResult) if hasattr(found, each.name)}
    same |= {"reasons": tuple(_shorten(found.reasons)), "runs": tuple(found.runs)}
    valid, seconds = found.readable and not found.reasons, time.perf_counter() - started
    return CheckResult(valid=valid, seconds=seconds, model_read=model is not None, **same)


@dataclass
class _Findings:
    """What the check has found so far, under the names of the result."""

    reasons: list[str] = field(default_factory=list)
    claim: str = ""
    condition: str = ""
    regions: int = 0
    covers_inference: bool | None = None
    least_margin: float | None = None
    largest_difference: float | None = None
    fair: float | None = None
    unfair: float | None = None
    boxes: int = 0
    largest: tuple[float, float] | None = None  # differences of scores so far, in inference and as claimed
    runtimes: list[Runtime] = field(default_factory=list)
    listed: ListedPeople | None = None
    runs: list[ModelRun] = field(default_factory=list)
    not_run: str = ""
    readable: bool = True
    progress: Callable[[int, int], None] | None = None

    def unreadable(self, reason: str) -> None:
        """Note that there is no verdict, and why: this reason comes first."""
        self.reasons.insert(0, reason)
        self.readable = False


RunIn = Callable[[Runtime], ModelRun]  # runs the model in a program


def _check(found: _Findings, certificate: Path, model: Path | None, spec: Path | None, real: bool) -> RunIn | None:
    """Check all claims, and return how to run the model, if there is one and a program for it."""
    claimed = read_certificate(certificate)
    found.claim = describe_claim(claimed)
    if spec is not None:
        theirs = read_spec_file(spec)
        difference = first_difference(claimed.spec, theirs)
        if difference is None:
            claimed = _in_words_of(claimed, theirs)
            found.claim = describe_claim(claimed)
        else:
            found.reasons.append(f"spec {spec.name}: not the spec of the certificate: {difference}")
    if isinstance(claimed, ClassCertificate):
        return _check_classes(found, claimed, model)
    found.regions = claimed.count
    network = contained_model(claimed) if model is None else matching_model(claimed, model)
    found.condition = describe_condition(claimed, network)
    if model is None:
        found.condition = f"{NOT_READ} {found.condition[:1].upper()}{found.condition[1:]}".strip()
    if found.runtimes:
        rng = np.random.default_rng(int(claimed.weights_sha256, 16))  # the same files are run on the same people
        found.listed = ListedPeople(claimed.spec, network.dtype, rng)
    if claimed.arithmetic not in ("real", network.dtype):
        raise NotConfirmedError(
            f"certificate.arithmetic is {claimed.arithmetic}, but the model computes in {network.dtype}: the claim "
            "does not cover its inference"
        )
    if claimed.arithmetic == "real" and not real:
        found.reasons.append(REAL_ONLY)
    _require_rows(claimed, network)
    if claimed.blind:
        found.reasons += _global_reasons(claimed, network)
    _check_inputs(found, claimed, network)
    if claimed.shares is not None and not found.reasons:
        _check_shares(found, claimed.spec, claimed.shares, network)
    if model is None or found.listed is None or found.reasons:
        return None
    return partial(run_model, model, network, _rows_to_run(found.listed, network))


def _check_classes(found: _Findings, claimed: ClassCertificate, model: Path | None) -> RunIn | None:
    """Check that the output depends on a row only through its class: the entry by its data, the file by its edges."""
    if model is None:
        raise CheckError("the certificate contains no network: its claim is about the model file; pass that")
    found.reasons += why_not_constant(claimed.spec, claimed.entry)
    if check_structure(model, claimed.entry) != claimed.file_sha256:
        raise NotConfirmedError(f"model {model.name}: the certificate is about another file (file_sha256 differs)")
    found.covers_inference = True
    found.condition = describe_encoding(claimed.spec, claimed.entry)
    return partial(run_classes, model, claimed) if found.runtimes else None


def _rows_to_run(listed: ListedPeople, network: Model) -> Array:
    """Return people of the certificate and of its spec, fewer of them if the network is large."""
    rows = listed.and_others(PEOPLE)
    most = max(_LEAST_RUN, MAX_RUN_WORK // point_work(network))
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def _run(found: _Findings, run_in: RunIn) -> None:
    """Run the model in every program that is installed for it."""
    ran = [_run_or_refusal(run_in, runtime) for runtime in found.runtimes]
    found.runs = [each for each in ran if isinstance(each, ModelRun)]
    found.not_run = "; ".join(str(each) for each in ran if isinstance(each, NotRunError))


def _run_or_refusal(run_in: RunIn, runtime: Runtime) -> ModelRun | NotRunError:
    try:
        return run_in(runtime)
    except NotRunError as refusal:
        return refusal


def _check_inputs(found: _Findings, claimed: Certificate, network: Model) -> None:
    """Check some inputs after the others, and stop after some that do not hold; read the list even if it is empty."""
    found.covers_inference = None
    cover = Cover(network, claimed.spec)
    judge = _scores if isinstance(claimed.spec.claim, ScoreClaim) else _margins
    before, covers, done = len(found.reasons), True, 0
    for inputs in claimed.read_inputs(network):
        if not all(_are_rows(inputs[:, column], rows) for column, rows in network.tables):
            raise NotConfirmedError("an input holds a number that is no row of the table it is looked up in")
        block = judge(found, claimed, cover, inputs, done)
        if cover.reasons:
            found.reasons = [*found.reasons[:before], *cover.reasons]
            return
        covers, done = covers and block, done + len(inputs)
        if found.listed is not None:
            found.listed.add(inputs)
        if len(found.reasons) > before:
            break
        if found.progress is not None:
            found.progress(done, claimed.count)
    found.covers_inference = covers  # without inputs: what does not depend on a column does not in inference either
    if found.largest is not None:
        largest = found.largest[0 if covers else 1]
        found.largest_difference = largest if np.isfinite(largest) else None


def _check_shares(found: _Findings, spec: Spec, claim: ClaimedShares, network: Model) -> None:
    """Count the people who are treated equally, and unequally, and compare their shares with those that are claimed."""
    if network.outputs > MAX_CLASSES:
        raise CheckError(f"the model has {network.outputs} outputs; shares can be checked for {MAX_CLASSES} classes")
    proof = read_shares(claim.proof, spec)
    found.boxes = proof.leaves
    people = People.of(spec, network.dtype, proof.cells, proof.pieces)
    leaves = read_leaves([axis.cells for axis in people.axes], proof.nodes, proof.cuts, "certificate.shares")
    proven = prove_shares(network, spec, people, leaves, found.progress)
    found.fair, found.unfair = (_share(count, proven.cells) for count in (proven.fair, proven.unfair))
    for name, claimed, count in (("fair", claim.fair, proven.fair), ("unfair", claim.unfair, proven.unfair)):
        if Fraction(claimed) * proven.cells > count:
            found.reasons.append(
                f"certificate.shares.{name}: {claimed!r} of all people is claimed, but only "
                f"{_share(count, proven.cells)!r} can be confirmed"
            )


def _share(count: int, total: int) -> float:
    """Return the largest number that is not above count / total."""
    nearest = count / total
    return nearest if Fraction(nearest) * total <= count else math.nextafter(nearest, 0.0)


def _are_rows(numbers: Array, rows: int) -> bool:
    return bool(((numbers >= 0) & (numbers < rows) & (numbers == np.floor(numbers))).all())


def _margins(found: _Findings, claimed: Certificate, cover: Cover, inputs: Array, first: int) -> bool:
    """Note which margins cannot be confirmed, and return whether all exceed the errors of inference."""
    proven = prove(cover, inputs, first, np.inf if found.least_margin is None else found.least_margin)
    least = min(float(proven.margin.min()), np.inf if found.least_margin is None else found.least_margin)
    found.least_margin = least if np.isfinite(least) else None
    for row in np.flatnonzero(~(proven.margin > 0)):
        margin = proven.margin[row]
        confirmed = f"its margin may be {margin:.9g}" if np.isfinite(margin) else "its margin has no bound"
        found.reasons.append(
            f"input {first + row}: that similar people get one prediction is not confirmed; {confirmed}"
        )
    if claimed.arithmetic != "real":
        found.reasons += [
            f"input {first + row}: the margin does not exceed the rounding errors of {cover.model.dtype} inference"
            for row in np.flatnonzero(~proven.covers & (proven.margin > 0))
        ]
    return bool(proven.covers.all())


def _scores(found: _Findings, claimed: Certificate, cover: Cover, inputs: Array, first: int) -> bool:
    """Note which scores can differ by more than is claimed, and return whether none can in inference."""
    claim = claimed.spec.claim
    assert isinstance(claim, ScoreClaim)
    score = claim.score(cover.model.outputs, cover.model.slack)
    proven = prove_scores(cover, inputs, first, score, claim.delta)
    bounds = proven.low, proven.high, proven.error
    inference = score.difference(*bounds, Precision.of(cover.model.dtype))
    real = claimed.arithmetic == "real"
    differences = score.difference(*bounds, None) if real else inference
    before = found.largest or (-np.inf, -np.inf)
    found.largest = max(before[0], float(inference.max())), max(before[1], float(differences.max()))
    rounded = "" if real else f" with the rounding errors of {cover.model.dtype} inference"
    found.reasons += [
        f"input {first + row}: the scores can differ by {differences[row]:.9g}{rounded}, more than {claim.delta!r}"
        for row in np.flatnonzero(~(differences <= claim.delta))
    ]
    return bool((inference <= claim.delta).all())


def matching_model(claimed: Certificate, path: Path) -> Model:
    """Return the model in the file, if the certificate is about it."""
    contained = claimed.network["tensors"] is not None
    if contained:
        contained_model(claimed)  # refused unless it has the digests; what is proven is what the file holds
    network, file_sha256 = read_model(path, claimed.network)
    same_network, same_weights = (
        network_digest(network) == claimed.network_sha256,
        weights_digest(network) == claimed.weights_sha256,
    )
    # A file may store the same network in other arrays, such as with norms folded into its layers.
    if not same_weights and not (same_network and contained):
        raise NotConfirmedError(f"model {path.name}: the certificate is about other weights (weights_sha256 differs)")
    if claimed.file_sha256 not in (None, file_sha256):
        raise NotConfirmedError(f"model {path.name}: the certificate is about another file (file_sha256 differs)")
    if not same_network:
        raise NotConfirmedError(
            f"model {path.name}: the file holds another network than the certificate (network.sha256 differs)"
        )
    _require_same_sizes(claimed, network)
    return _with_scores(network, claimed.spec)


def _with_scores(network: Model, spec: Spec) -> Model:
    """Return a model with the scores that the spec describes; refuse one that gives others."""
    rescaling = require_scores(network.rescaling, network.closing, network.outputs, network.dtype, spec)
    return replace(network, rescaling=rescaling)


def contained_model(claimed: Certificate) -> Model:
    """Return the network that the certificate contains, if it is the one that its digests name."""
    if claimed.network["tensors"] is None:
        raise CheckError("the certificate has no tensors of its network, because they are large; pass the model file")
    tensors = contained_tensors(claimed.network["tensors"])
    network, used = described_model(claimed.network["steps"], tensors)
    left = [key for key in tensors if key not in used]
    if left:
        raise CheckError(f'{WHERE} has the tensor "{left[0][:40]}", which no step names')
    if network_digest(network) != claimed.network_sha256:
        raise NotConfirmedError("certificate.model.network is not the network of its sha256")
    if weights_digest(network) != claimed.weights_sha256:
        raise NotConfirmedError("certificate.model.network does not have the weights of weights_sha256")
    _require_same_sizes(claimed, network)
    return _with_scores(network, claimed.spec)


def _require_same_sizes(claimed: Certificate, network: Model) -> None:
    for what, here, there in (
        ("inputs", network.inputs, claimed.inputs),
        ("outputs", network.outputs, claimed.outputs),
        ("dtype", network.dtype, claimed.dtype),
    ):
        if here != there:
            raise NotConfirmedError(f"certificate.model.{what} is {there}, but the model has {here}")


def _in_words_of(claimed: Certificate | ClassCertificate, theirs: Spec) -> Certificate | ClassCertificate:
    """Return the certificate with values as a spec that means the same calls them: whoever passes it wrote that."""
    spec = replace(claimed.spec, features=theirs.features)
    if isinstance(claimed, ClassCertificate):
        return replace(claimed, spec=spec)
    return replace(claimed, spec=spec, blind=tuple(spec.places[feature.name] for feature, _ in claimed.blind))


def _global_reasons(claimed: Certificate, network: Model) -> list[str]:
    """Refuse a claim that the model does not depend on columns on which it may."""
    names = {start + column: feature.name for feature, start in claimed.blind for column in range(feature.width)}
    columns = list(names)
    depends, overflows = dependent_columns(network, columns, _input_sizes(claimed, network))
    unsafe = dict.fromkeys(names[columns[at]] for at in np.flatnonzero(overflows & ~depends))
    return [
        *(f"certificate.global: the model depends on column {columns[at]}" for at in np.flatnonzero(depends)),
        *(f'certificate.global: feature "{name[:40]}" may overflow before it is multiplied by 0' for name in unsafe),
    ]


def _input_sizes(claimed: Certificate, network: Model) -> Array:
    """Bound the values of each input: in the columns of the global claim by those of the spec, in others generously."""
    sizes: list[float] = []
    blind = {feature.name for feature, _ in claimed.blind}
    for feature, _ in claimed.spec.columns():
        ends = np.array([0.0, 1.0])
        if not feature.one_hot:
            ends = encode(feature, np.array([feature.low, feature.high]), np.dtype(network.dtype))
        room = 1.0 if feature.name in blind else _ROOM
        sizes += [room * float(np.abs(ends).max())] * feature.width
    return np.array(sizes)


def _require_rows(claimed: Certificate, network: Model) -> None:
    """Refuse features that are not the numbers of rows of the tables that they are looked up in."""
    owners = {start + column: feature for feature, start in claimed.spec.columns() for column in range(feature.width)}
    for column, rows in network.tables:
        feature = owners[column]
        offset, factor = feature.affine
        low, high = (0.0, 1.0) if feature.one_hot else (feature.low - offset, feature.high - offset)
        shifted = factor == 1 and float(offset).is_integer()  # then values are encoded exactly
        if not feature.whole or not shifted or not 0 <= low <= high < rows:
            raise NotConfirmedError(
                f'certificate.spec: feature "{feature.name[:40]}" is looked up in a table of {rows:,} rows; its values '
                f"must be encoded as whole numbers from 0 to {rows - 1:,}, shifted at most"
            )


def _shorten(reasons: list[str]) -> list[str]:
    more = len(reasons) - MAX_REASONS
    return reasons if more <= 0 else [*reasons[:MAX_REASONS], f"and {more:,} more reasons"]
