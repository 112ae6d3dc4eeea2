"""The verdict in one sentence, and what it covers: what is proven or found, for whom, and what is not."""

from __future__ import annotations

from dataclasses import dataclass

from fairmend.evaluate.document import Audit, Document, Repair
from fairmend.text import count, listed, percent


@dataclass(frozen=True)
class Scope:
    """The top of the page: `mood` is "good", "bad" or "open"; the three parts are paragraphs."""

    mood: str
    tag: str
    verdict: str
    heads: tuple[str, str, str]
    what: tuple[str, ...]
    whom: tuple[str, ...]
    limits: tuple[str, ...]


def scope(document: Document) -> Scope:
    """Return what the report says first."""
    if document.repair is not None:
        return _of_repair(document, document.repair)
    assert document.audit is not None
    return _of_audit(document, document.audit)


def _of_repair(document: Document, repair: Repair) -> Scope:
    names, near = listed(document.similar.protected), _near(document)
    either = listed(document.similar.protected, "or")
    inputs = f"{count(repair.inputs)} repair inputs"
    all_proven = repair.proven == repair.inputs
    what: tuple[str, ...]
    whom: tuple[str, ...]
    also = f", nor on differences in {near}" if near else ""
    if repair.blind and repair.strict:
        tag, mood = "Proven for everyone", "good"
        verdict = f"The model’s output does not depend on {names}."
        what = (f"Change {names} in any way, and the score stays the same, bit for bit.",)
        whom = ("Everyone: every input there is, not only the people in the data.",)
    elif all_proven:
        tag, mood = f"Proven for {inputs}", "good"
        verdict = f"Each of the {inputs} gets one answer, whatever its {names}."
        what = (f"The answer to a repair input does not depend on {names}{also}.",)
        whom = (f"The {inputs}, and everybody who differs from one of them only in that.",)
        if repair.blind:
            tag = f"Proven for everyone; with tolerance, for {inputs}"
            verdict = f"The model’s output does not depend on {names}; nor do the answers to {inputs} on {near}."
            what = (
                f"Change {names} in any way, and the score stays the same.",
                f"Each of the {inputs} also keeps its answer when it differs in {near}.",
            )
            whom = ("The first: every input there is.", f"The second: the {inputs}.")
    else:
        tag, mood = "Not proven", "bad"
        left = repair.after.unfair_inputs
        least = "" if repair.after.unfair_inputs_exact else "at least "
        verdict = (
            f"{least}{count(left)} of the {inputs} still get another answer with another {either}."
            if left
            else f"The method {repair.method} gives no guarantee, but no repair input was seen to be treated unequally."
        )
        verdict = verdict[0].upper() + verdict[1:]
        what = (
            f"Of the {inputs}, {count(repair.proven)} happen to be proven: "
            f"their answer does not depend on {names}{also}.",
        )
        whom = ("Those repair inputs, and everybody who differs from one of them only in that.",)
    if repair.proven:
        what += (
            f"This holds for the saved weights, in exact arithmetic and in {repair.precision} inference."
            if repair.covers_inference
            else "This holds for the saved weights in exact arithmetic; rounding in inference is not covered.",
        )
    return Scope(
        mood, tag, verdict, ("What is proven", "For whom", "What is not"), what, whom, _limits(document, repair)
    )


def _limits(document: Document, repair: Repair) -> tuple[str, ...]:
    either = listed(document.similar.protected, "or")
    left, rows = repair.after, count(repair.data_rows)
    least = "" if left.unfair_rate_exact else "at least "
    limits = []
    if not (repair.blind and repair.strict):
        limits.append(
            f"Other people: of the {rows} in the data, {least}{count(left.unfair_rows)} ({percent(left.unfair_rate)}) "
            "are still treated unequally."
        )
    limits.append(f"Proxies: another column may stand in for {either}.")
    grown = [
        f.feature
        for f in document.groups
        if wider(f.parity_before, f.parity_after) or wider(f.odds_before, f.odds_after)
    ]
    gaps = f"gaps between groups of {listed(grown)} grew" if grown else "the gaps are below"
    limits.append(f"Groups: equal treatment is not equal outcomes; {gaps}.")
    limits.append("That the model is right: see what it still gets right, below.")
    return tuple(limits)


def _of_audit(document: Document, audit: Audit) -> Scope:
    either, near = listed(document.similar.protected, "or"), _near(document, "or")
    also = f", or {near}," if near else ""
    what = "samples of the input space" if audit.sampled else "people"
    least = "" if audit.exact else "at least "
    if audit.count:
        mood, tag = "bad", f"{least}{percent(audit.rate, 2)} treated unequally".capitalize()
        verdict = (
            f"{least}{count(audit.count)} of {count(audit.total)} {what} ({percent(audit.rate, 2)}) would get another "
            f"answer if only their {either}{also} were different."
        )
        verdict = verdict[0].upper() + verdict[1:]
    elif audit.exact:
        mood, tag = "good", "Nobody treated unequally"
        verdict = (
            f"None of the {count(audit.total)} {what} would get another answer if only their {either}{also} "
            "were different."
        )
    else:
        mood, tag = "open", "Nobody found"
        verdict = (
            f"None of the {count(audit.total)} {what} was found to get another answer with another {either}{also} "
            "but not every possibility could be tried."
        )
    looked = (
        f"For each of them, every value of {listed(document.similar.protected)}{_with(near)}: "
        f"{count(audit.evaluations)} scores."
        if audit.exact
        else f"For each of them, random values of {listed(document.similar.protected)}{_with(near)}: "
        f"{count(audit.evaluations)} scores. Whoever was not found may still be treated unequally."
    )
    if audit.sampled:
        whom = ["Uniform samples of all inputs that the spec allows, likely or not."]
        if audit.interval is not None:
            low, high = audit.interval
            whom.append(
                f"Of that whole space {percent(low, 2)} to {percent(high, 2)} are treated unequally (95 % interval)."
                if audit.exact
                else f"Of that whole space at least {percent(low, 2)} are treated unequally (95 % interval)."
            )
    else:
        whom = [f"The {count(audit.total)} people in the data, each as they are."]
    limits = (
        "An audit counts; it proves nothing about anybody else. fairmend certify and repair do.",
        f"Proxies: another column may stand in for {either}.",
        "Groups: unequal outcomes are another question; the gaps are below.",
    )
    return Scope(
        mood,
        tag,
        verdict,
        ("What was looked at", "Of whom", "What this does not say"),
        (looked,),
        tuple(whom),
        limits,
    )


def wider(before: float | None, after: float | None) -> bool:
    """Return whether a gap grew by more than half a percentage point."""
    return before is not None and after is not None and after - before > 0.005


def _near(document: Document, joint: str = "and") -> str:
    names = [f"{name} by up to {amount:g}" for name, amount in document.similar.tolerances.items()]
    return listed(names, joint) if names else ""


def _with(near: str) -> str:
    return f", with {near}" if near else ""
