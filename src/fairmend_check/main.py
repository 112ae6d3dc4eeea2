"""The command line of the checker, and the one place that prints a verdict.

`fairmend check`, `python -m fairmend_check` and `fairmend-check.pyz` all end in `check_and_print`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from fairmend_check._version import __version__
from fairmend_check.check import check_files
from fairmend_check.errors import CannotAnswerError
from fairmend_check.evidence import ci
from fairmend_check.evidence.attestation import Attestation, as_text, read_attestation, statements, summary_path
from fairmend_check.evidence.files import CheckedFiles, digest_files, refuse_to_overwrite, write_together
from fairmend_check.kernel.statement import percent
from fairmend_check.readers.read_model import FORMATS
from fairmend_check.result import CheckResult, at_least, at_most, printable

NO_ANSWER, INTERRUPTED = 2, 130
EXIT_CODES = {"valid": 0, "invalid": 1, "unreadable": NO_ANSWER}

_RED, _GREEN, _PLAIN = "\x1b[31m\x1b[1m", "\x1b[32m\x1b[1m", "\x1b[0m"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not know every letter of a feature's name
    parsed = _parser().parse_args(arguments)
    if parsed.no_run and parsed.require_run:
        _parser().error("--no-run and --require-run exclude each other")
    if parsed.kernel_only == (parsed.model is not None):
        _parser().error("pass either the MODEL or --kernel-only")
    evidence = Evidence(parsed.attest, parsed.attest_failure, parsed.attestation, parsed.junit, parsed.summary)
    problem = evidence.problem(kernel_only=parsed.kernel_only)
    if problem:
        _parser().error(problem)
    try:
        result = check_and_print(
            parsed.certificate,
            None if parsed.kernel_only else parsed.model,
            parsed.spec,
            real=parsed.real,
            run=not parsed.no_run,
            require_run=parsed.require_run,
            json_output=parsed.json,
            evidence=evidence,
        )
    except CannotAnswerError as error:
        sys.stderr.write(f"Error: {printable(str(error))}\n")
        return NO_ANSWER
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; there is no verdict\n")
        return INTERRUPTED
    return EXIT_CODES[result.verdict]


@dataclass(frozen=True)
class Evidence:
    """What a check reads and writes beside its verdict.

    `attest` is where the attestation is written, of an INVALID certificate only with `attest_failure`. `attestation` is
    one that was written before: it must be about the same files, and say what this check finds. `junit` and `summary`
    are where the result is written for continuous integration.
    """

    attest: Path | None = None
    attest_failure: bool = False
    attestation: Path | None = None
    junit: Path | None = None
    summary: Path | None = None

    def problem(self, *, kernel_only: bool) -> str:
        """Return why these options do not fit together; empty if they do."""
        if kernel_only and (self.attest or self.attestation):
            return "an attestation is about a model file; leave out --kernel-only and pass MODEL"
        if self.attest_failure and self.attest is None:
            return "--attest-failure has no effect without --attest"
        return ""

    def outputs(self) -> dict[str, Path | None]:
        """Return the files to write, by the option that names them."""
        summary = None if self.attest is None else summary_path(self.attest)
        named = {"--attest": self.attest, "the summary of --attest": summary}
        return {**named, "--junit": self.junit, "--summary": self.summary}


def check_and_print(
    certificate: Path,
    model: Path | None,
    spec: Path | None = None,
    *,
    real: bool = False,
    run: bool = True,
    require_run: bool = False,
    json_output: bool = False,
    evidence: Evidence | None = None,
) -> CheckResult:
    """Check a certificate, print the verdict to stdout and return it; raise CannotAnswerError if there is none.

    The files of `evidence` are written before the verdict is printed; if one cannot be, none is, and there is no
    verdict.
    """
    asked = evidence or Evidence()
    for path in (certificate, model, spec, asked.attestation):
        if path is not None and not _exists(path):
            raise CannotAnswerError(f"{path}: no such file")
    inputs = {"CERTIFICATE": certificate, "MODEL": model, "--spec": spec, "--attestation": asked.attestation}
    refuse_to_overwrite(asked.outputs(), inputs)
    attested = None if asked.attestation is None else read_attestation(asked.attestation)
    files = digest_files(certificate, model, spec) if model is not None and asked != Evidence() else None
    if attested is not None and files is not None:
        attested.require_files(files)
    watched = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    progress = _show_progress if watched else None
    result = check_files(certificate, model, spec, real=real, run=run, require_run=require_run, progress=progress)
    if files is not None and model is not None and digest_files(certificate, model, spec) != files:
        raise CannotAnswerError(f"{model}, {certificate} or another file changed while it was checked; check it again")
    if attested is not None and files is None and result.readable:
        raise CannotAnswerError(
            f"{model}: the digests of the files cannot be computed, so {attested.path} says nothing"
        )
    headline, result = _compared(result, attested, certificate)
    notes = _leave(asked, result, certificate, model, files, real)
    if json_output:
        content = {**result.as_dict(), "certificate": str(certificate), "model": None if model is None else str(model)}
        lines = [json.dumps(content, indent=2).replace("\x7f", "\\u007f")]  # json escapes all others
    else:
        lines = [printable(line) for line in _lines(result, headline, model)]
        lines[0] = _coloured(lines[0], _GREEN if result.valid else _RED)
        lines += [printable(line) for line in _attested_lines(attested, result)]
    sys.stdout.write("\n".join(lines) + "\n")
    for note in notes:
        sys.stderr.write(f"{printable(note)}\n")
    return result


def _compared(result: CheckResult, attested: Attestation | None, certificate: Path) -> tuple[Path, CheckResult]:
    """Return what the verdict is about, and the verdict: INVALID if the attestation says something else than the check.

    An attestation of FAILED is not confirmed by VALID, nor the other way round; one of an INVALID check stays INVALID.
    """
    differences = [] if attested is None or not result.readable else attested.contradictions(result)
    if attested is None or not differences or not result.valid:
        return certificate, replace(result, reasons=(*result.reasons, *differences)) if differences else result
    return attested.path, replace(result, valid=False, reasons=tuple(differences))


def _leave(
    asked: Evidence,
    result: CheckResult,
    certificate: Path,
    model: Path | None,
    files: CheckedFiles | None,
    real: bool,
) -> list[str]:
    """Write the files that are asked for, all or none, and return what to say about them."""
    contents: dict[Path, str] = {}
    notes = []
    if asked.junit is not None:
        contents[asked.junit] = ci.junit(result, certificate, model)
    if asked.summary is not None:
        contents[asked.summary] = ci.summary(result, certificate, model, files)
    if asked.attest is not None and (result.valid or (asked.attest_failure and result.readable)):
        if files is None:
            raise CannotAnswerError(f"{model}: the files cannot be read twice, so that nothing can be attested")
        second = summary_path(asked.attest)
        test_result, summary = statements(result, files, real=real)
        contents |= {asked.attest: as_text(test_result), second: as_text(summary)}
        said = test_result["predicate"]["result"]
        notes.append(f"Attested as {said}, not signed: {asked.attest} (test result), {second} (verification summary)")
    elif asked.attest is not None:
        way = "; to attest that, pass --attest-failure" if result.readable else ""
        notes.append(f"No attestation was written, because the result is {result.verdict.upper()}{way}")
    write_together(contents)
    return notes


def _attested_lines(attested: Attestation | None, result: CheckResult) -> list[str]:
    """Return what is left to say about an attestation that was compared."""
    if attested is None or not result.readable:
        return []
    signature = "The signature of its envelope was not verified" if attested.signed else "It is not signed"
    lines = _wrapped(
        f"Attestation: {attested.path} is about these files, and attests {attested.verdict.upper()}, found by "
        f"fairmend-check {attested.checker}. {signature}."
    )
    here = {run.program for run in result.runs}
    others = [program for program in attested.programs if program not in here]
    if others:
        lines += _wrapped(f"It attests a run in {', '.join(others)}, which was not repeated here.")
    return lines


def _show_progress(done: int, total: int) -> None:
    """Show how many of many neighbourhoods or boxes are checked, on one line that is empty at the end."""
    text = f"Checked {done:,} of {total:,}"
    sys.stderr.write(f"\r{text if done < total else ' ' * len(text)}\r")
    sys.stderr.flush()


def _lines(result: CheckResult, certificate: Path, file: Path | None) -> list[str]:
    model = "the network that it contains" if file is None else file
    reasons = [line for why in result.reasons for line in _wrapped(f"  - {why}", "    ")]
    if result.verdict == "unreadable":
        return [f"UNREADABLE: {certificate} cannot be checked for {model}, so there is no verdict.", *reasons]
    if not result.valid:
        return [f"INVALID: {certificate} does not hold for {model}.", *reasons]
    lines = [f"VALID: {certificate} holds for {model}.", *_wrapped(f"Proven: {result.claim}")]
    if result.condition:
        lines += _wrapped(f"Condition: {result.condition}")
    if result.least_margin is not None:
        inference = "above" if result.covers_inference else "not above"
        lines += _wrapped(
            f"The least margin of {result.regions:,} neighbourhood{'' if result.regions == 1 else 's'} is "
            f"{at_least(result.least_margin)}, {inference} all rounding errors of inference."
        )
    if result.largest_difference is not None:
        included = "included" if result.covers_inference else "not included"
        where = "1 neighbourhood" if result.regions == 1 else f"{result.regions:,} neighbourhoods"
        lines += _wrapped(
            f"The largest difference of scores in {where} is {at_most(result.largest_difference)}, rounding errors of "
            f"inference {included}."
        )
    if result.fair is not None and result.unfair is not None:
        rest = "; the rest is undecided" if result.fair + result.unfair < 1 else ""
        lines += _wrapped(
            f"The checker counts {percent(result.fair)} treated equally and {percent(result.unfair)} unequally, in "
            f"{result.boxes:,} box{'' if result.boxes == 1 else 'es'}{rest}."
        )
    for run in result.runs:
        people = "1 person" if run.people == 1 else f"{run.people:,} people"
        lines += _wrapped(f"Run in {run.program}: {people}, {run.found}.")
    if result.not_run:
        missing = "It was not run elsewhere" if result.runs else "The model was not run"
        alone = "" if result.runs else " VALID rests on reading the file alone: no program confirmed it."
        lines += _wrapped(f"{missing}: {result.not_run}.{alone}")
    return [*lines, f"Checked in {result.seconds:.2f} s, independently of the code that wrote the certificate."]


def _wrapped(sentence: str, indent: str = "  ") -> list[str]:
    """Return the lines of a sentence: of the width of the terminal, or one line if the output is not a terminal."""
    if not sys.stdout.isatty():
        return [sentence]
    sentence = printable(sentence)
    wide = any(unicodedata.east_asian_width(letter) in "WF" for letter in sentence)
    width = max(20, shutil.get_terminal_size().columns // (2 if wide else 1))
    # Indented, so that a name in the sentence cannot begin a line and look like a verdict.
    return textwrap.wrap(
        sentence, width, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True, tabsize=1
    )


def _coloured(line: str, colour: str) -> str:
    """Return the line with its first word, the verdict, in colour if the terminal shows colours."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    verdict, colon, rest = line.partition(":")
    return line if plain else f"{colour}{verdict}{_PLAIN}{colon}{rest}"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # for example a name that is too long
        return False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fairmend-check",
        description="Check a fairmend certificate against a model file, without trusting either.",
        epilog="Exit codes: 0 the certificate is VALID, 1 it is INVALID, 2 there is no verdict (a file is missing or "
        "UNREADABLE).",
    )
    parser.add_argument("certificate", type=Path, metavar="CERTIFICATE", help="the certificate, .json")
    parser.add_argument("model", type=Path, metavar="MODEL", nargs="?", help=f"the model that it is about: {FORMATS}")
    parser.add_argument(
        "--kernel-only",
        action="store_true",
        help="check the claim about the network that the certificate contains, and read no model file",
    )
    parser.add_argument(
        "--spec", type=Path, metavar="SPEC", help="a spec, .toml; INVALID unless the certificate is about this spec"
    )
    parser.add_argument(
        "--real",
        action="store_true",
        help="also accept a claim about exact real arithmetic only, which does not cover inference",
    )
    parser.add_argument(
        "--no-run",
        action="store_true",
        help="do not run the model, even if ONNX Runtime or Keras is installed for it",
    )
    parser.add_argument(
        "--require-run", action="store_true", help="give no verdict unless the model was run within its bounds"
    )
    parser.add_argument(
        "--attest",
        type=Path,
        metavar="FILE",
        help="write the result as in-toto statements: a test result into FILE, a verification summary beside it",
    )
    parser.add_argument("--attest-failure", action="store_true", help="with --attest, also attest INVALID, as FAILED")
    parser.add_argument(
        "--attestation",
        type=Path,
        metavar="FILE",
        help="an attestation of an earlier check; no verdict unless it is about these files, INVALID unless it says "
        "what this check finds",
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the result as JUnit XML")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="write the result in Markdown")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    parser.add_argument("--version", action="version", version=f"fairmend-check {__version__}")
    return parser
