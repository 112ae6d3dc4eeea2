"""The result of a check for continuous integration: JUnit XML, and a summary in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

from fairmend_check._version import __version__
from fairmend_check.evidence.files import CheckedFiles
from fairmend_check.result import CheckResult, at_least, at_most, printable

_SPECIAL = r"([\\`*_{}\[\]|#~$!])"


def junit(result: CheckResult, certificate: Path, model: Path | None, now: datetime | None = None) -> str:
    """Return a test suite of two tests: that the certificate holds, and that the model was run within its bounds."""
    file = "the network in the certificate" if model is None else model.name
    suite = ElementTree.Element(
        "testsuite",
        name="fairmend check",
        tests="2",
        failures=str(int(result.verdict == "invalid")),
        errors=str(int(result.verdict == "unreadable")),
        skipped=str(int(not result.runs)),
        time=f"{result.seconds:.3f}",
        timestamp=(now or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%S"),
    )
    proof = _case(suite, f"{certificate.name} holds for {file}", f"{result.seconds:.3f}")
    if not result.valid:
        kind = "failure" if result.readable else "error"
        text = "\n".join(printable(reason) for reason in result.reasons)
        ElementTree.SubElement(
            proof, kind, message=printable(result.reasons[0]), type=result.verdict.upper()
        ).text = text
    else:
        ElementTree.SubElement(proof, "system-out").text = "\n".join(_said(result))
    run = _case(suite, f"{file} is run within the bounds of the proof", "0.000")
    if result.runs:
        programs = (f"{each.program}: {each.people} people, {each.found}" for each in result.runs)
        ElementTree.SubElement(run, "system-out").text = "\n".join(map(printable, programs))
    else:
        why = result.not_run or "there is no proof to compare with"
        ElementTree.SubElement(run, "skipped", message=printable(why))
    suites = ElementTree.Element("testsuites", name=f"fairmend-check {__version__}")
    suites.append(suite)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _case(suite: ElementTree.Element, name: str, time: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname="fairmend.check", name=printable(name), time=time)


def _said(result: CheckResult) -> Iterator[str]:
    yield printable(f"Proven: {result.claim}")
    if result.condition:
        yield printable(f"Condition: {result.condition}")


def summary(result: CheckResult, certificate: Path, model: Path | None, files: CheckedFiles | None) -> str:
    """Return the verdict in Markdown, as a step of a workflow shows it; nothing in a name is Markdown or HTML."""
    file = "the network in it" if model is None else model.name
    mark = {"valid": "✅", "invalid": "❌", "unreadable": "⚠️"}[result.verdict]
    lines = [f"### {mark} fairmend check: {result.verdict.upper()}", ""]
    if result.valid:
        lines += [
            f"{_escape(certificate.name)} holds for {_escape(file)}.",
            "",
            f"**Proven:** {_escape(result.claim)}",
            "",
        ]
    else:
        said = "does not hold" if result.readable else "cannot be checked"
        lines += [f"{_escape(certificate.name)} {said} for {_escape(file)}:", ""]
        lines += [*(f"- {_escape(reason)}" for reason in result.reasons), ""]
    lines += ["| | |", "| --- | --- |", *(f"| {name} | {_escape(text)} |" for name, text in _rows(result, files)), ""]
    return "\n".join(lines) + "\n"


def _rows(result: CheckResult, files: CheckedFiles | None) -> Iterator[tuple[str, str]]:
    if result.valid:
        if result.condition:
            yield "Condition", result.condition
        if result.least_margin is not None:
            yield "Least margin", at_least(result.least_margin)
        if result.largest_difference is not None:
            yield "Largest difference of scores", at_most(result.largest_difference)
        for run in result.runs:
            yield "Run in", f"{run.program}: {run.people:,} people, {run.found}"
        if not result.runs:
            yield "Not run", f"{result.not_run}. VALID rests on reading the file alone."
    if files is not None:
        for each in (files.model, *files.beside, files.certificate):
            yield "sha256", f"{each.name} {each.sha256}"
    yield "Checker", f"fairmend-check {__version__}"


def _escape(text: str) -> str:
    safe = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(_SPECIAL, r"\\\1", safe)
