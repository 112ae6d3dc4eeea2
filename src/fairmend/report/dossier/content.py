"""What a dossier says, as data: every sentence and table with its mark. All figures are those of the result document.

Nothing is called proven but the claim that the checker confirmed for the files of the dossier, in the checker's own
words, and what the data of the certificate name: result.json alone proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fairmend.base.text import capitalized, count, exact_number, listed, number, percent, ratio
from fairmend.evaluate.document import (
    REGRESSION_ERRORS,
    UTILITY_NAMES,
    AuditDocument,
    CheckDocument,
    OutcomeTable,
    QuantifyDocument,
    RepairDocument,
    Selection,
    SelectionRates,
)
from fairmend.evaluate.proxies import describe_proxy
from fairmend.evaluate.summary import below_four_fifths
from fairmend.report.dossier.rules import AI_ACT, BASES, CREDIT, HIRING, INSURANCE, Excerpt
from fairmend.report.report import PagedDocument

PROVEN, RECOMPUTABLE, NOT_CLAIMED = "proven", "recomputable", "not claimed"

MARKS = {
    PROVEN: "The checker confirmed it for the files in this folder when the dossier was written, and confirms it again "
    "with the command under “Check it yourself”.",
    RECOMPUTABLE: "It is in result.json in this folder, or follows from the files here. Where people were counted, you "
    "also need the data, which are not in this folder, because they are about people; their sha256 is under “Files”.",
    NOT_CLAIMED: "Nothing in this folder shows it. The sentence says what is missing, or what somebody states without "
    "a proof.",
}


@dataclass(frozen=True)
class Statement:
    """A sentence, or a few of the same kind, with their mark."""

    mark: str
    text: str


@dataclass(frozen=True)
class Table:
    """A table of figures with its mark."""

    mark: str
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Chapter:
    """What one reader asks for: the excerpts of the rule that were read, and the answers."""

    id: str
    heading: str
    reader: str
    excerpts: Sequence[Excerpt]
    parts: Sequence[Statement | Table]


@dataclass(frozen=True)
class DossierFile:
    """A file of the dossier: its name, what it is, and its sha256."""

    name: str
    what: str
    sha256: str


@dataclass(frozen=True)
class Proof:
    """A certificate that the checker confirmed for the files of the dossier, and what its data say.

    The output does not depend on the features `independent_of`. The claim is about the features `about`. `delta` is how
    far scores may differ by a claim about scores.
    """

    check: CheckDocument
    independent_of: Sequence[str]
    about: Sequence[str]
    delta: float | None

    def __post_init__(self) -> None:
        """Refuse a certificate that does not hold."""
        if not self.check.valid:
            raise ValueError("only a certificate that holds is a proof")


@dataclass(frozen=True)
class Evidence:
    """What lies in the folder beside the pages: the files, a proof about these very files, and how to repeat it."""

    files: Sequence[DossierFile]
    proof: Proof | None
    commands: Sequence[str]


def chapters(document: PagedDocument, evidence: Evidence) -> list[Chapter]:
    """Return the chapters of the dossier."""
    proof = evidence.proof
    return [
        Chapter("proof", "What is proven", "For every reader", (), list(_proof(document, proof))),
        Chapter(
            "credit",
            "Credit: independence from each prohibited basis",
            "For an examiner of a bank in the United States (Equal Credit Opportunity Act, Regulation B)",
            CREDIT,
            list(_credit(document, proof)),
        ),
        Chapter(
            "hiring",
            "Hiring: selection rates and impact ratios",
            "For an auditor under New York City’s Local Law 144",
            HIRING,
            list(_hiring(document)),
        ),
        Chapter(
            "insurance",
            "Insurance: prices that do not depend on sex",
            "For an insurer (European Union; no rule of a state of the United States was read)",
            INSURANCE,
            list(_insurance(document, proof)),
        ),
        Chapter(
            "ai-act",
            "EU AI Act: parts of the technical documentation",
            "For a provider of a high-risk AI system (Annex IV); the points that are not listed are not touched",
            AI_ACT,
            list(_ai_act(document, proof)),
        ),
    ]


# The proof


_NO_PROOF = (
    "There is no certificate with its model in the folder of this result, so nothing is proven. fairmend repair "
    "writes one, and so do fairmend quantify and fairmend certify with --certificate."
)


def _proof(document: PagedDocument, proof: Proof | None) -> Iterator[Statement | Table]:
    if proof is None:
        yield Statement(NOT_CLAIMED, _NO_PROOF)
    else:
        check = proof.check
        yield Statement(PROVEN, check.claim)
        if check.condition:
            yield Statement(NOT_CLAIMED, f"The proof has a condition, which the files do not show: {check.condition}")
        if not check.covers_inference:
            yield Statement(NOT_CLAIMED, "That the claim holds in inference, with the rounding errors of a program.")
        for run in check.runs:
            yield Statement(
                RECOMPUTABLE,
                f"{run.program} ran the model on {count(run.people)} people when the dossier was written, and "
                "contradicted nothing.",
            )
        if not check.runs:
            yield Statement(NOT_CLAIMED, f"That a program computes what was proven: {check.not_run}.")
    yield Statement(NOT_CLAIMED, "That the data are complete, correct or representative, and that the labels are fair.")
    yield Statement(NOT_CLAIMED, "That the spec names every feature that it should. It is in spec.toml; read it.")
    yield Statement(
        NOT_CLAIMED,
        "That any law is complied with. This dossier is a collection of evidence and no legal advice.",
    )
    if document.warnings:
        yield from (Statement(NOT_CLAIMED, f"Warning in result.json: {warning}") for warning in document.warnings[:20])


# Credit


def _words(name: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))


def _matching(names: Iterable[str], basis: str) -> list[str]:
    return [name for name in names if _words(name) & set(BASES[basis])]


def _credit(document: PagedDocument, proof: Proof | None) -> Iterator[Statement | Table]:
    similar, grouped = document.similar, _grouped(document)
    missing = []
    for basis in BASES:
        found = [
            *(_of_protected(name, basis, proof) for name in _matching(similar.protected, basis)),
            *(_of_linked(name, basis) for name in _matching(similar.linked, basis)),
        ]
        if not found:
            found = [_of_compared(name, basis) for name in _matching(grouped, basis)]
        missing += [] if found else [basis]
        yield from found
    if similar.links:
        yield Statement(RECOMPUTABLE, f"The links of the spec: {' '.join(similar.links)}")
    if missing:
        yield Statement(
            NOT_CLAIMED,
            f"Independence from {listed(missing, 'or', most=None)}: no protected feature, linked feature or compared "
            "column has a name with such a word. If the model reads such a feature under another name that is not "
            "listed here, protect it in the spec (protected = true below its [[feature]]), or link it to a protected "
            "one (marital status to sex, for example), and repair again. If the data have such a "
            "column that the model does not read, pass it with --group.",
        )
    others = [name for name in similar.protected if not any(_matching([name], basis) for basis in BASES)]
    proven = [name for name in others if proof is not None and name in proof.independent_of]
    if proven:
        text = "Under names that say no basis: the output does not depend on"
        yield Statement(PROVEN, f"{text} {listed(proven, most=None)}, as the claim above says.")
    others = [name for name in others if name not in proven]
    if others:
        yield Statement(RECOMPUTABLE, f"Protected in the spec too: {listed(others, most=None)}.")
    yield from _proxies(document)
    yield Statement(
        NOT_CLAIMED,
        "That groups of applicants are approved equally often. Equal treatment of a person does not imply it; the "
        "rates are in report.html.",
    )
    few = "" if isinstance(document, QuantifyDocument) else below_four_fifths(document)
    if few:
        yield Statement(RECOMPUTABLE, f"{'After the repair: ' if isinstance(document, RepairDocument) else ''}{few}")
    yield Statement(NOT_CLAIMED, "That the features that the model uses are predictive, or needed for the business.")


def _of_protected(name: str, basis: str, proof: Proof | None) -> Statement:
    if proof is not None and name in proof.independent_of:
        return Statement(
            PROVEN, f"{capitalized(basis)}: the output does not depend on “{name}”, as the claim above says."
        )
    if proof is not None and name in proof.about:
        text = f"{capitalized(basis)}: the claim above is about “{name}” too, for the people whom it names."
        return Statement(PROVEN, text)
    return Statement(NOT_CLAIMED, f"{capitalized(basis)}: “{name}” is protected in the spec, and no proof is about it.")


def _of_linked(name: str, basis: str) -> Statement:
    changes = "changes along with protected features when similar people are compared, by the links of the spec"
    return Statement(RECOMPUTABLE, f"{capitalized(basis)}: “{name}” {changes}.")


def _of_compared(name: str, basis: str) -> Statement:
    text = f"the model does not read “{name}”. Its groups are compared, and nothing is proven about them"
    return Statement(RECOMPUTABLE, f"{capitalized(basis)}: {text}.")


def _grouped(document: PagedDocument) -> list[str]:
    if isinstance(document, QuantifyDocument) or document.outcomes is None:
        return []
    return list(dict.fromkeys(name for table in document.outcomes.tables for name in table.features))


def _proxies(document: PagedDocument) -> Iterator[Statement]:
    if isinstance(document, QuantifyDocument) or not document.proxies:
        yield Statement(
            NOT_CLAIMED,
            "That other features do not stand for a protected column that the model does not read. Pass the column "
            "with --group to see how well they predict it.",
        )
        return
    yield from (Statement(RECOMPUTABLE, describe_proxy(each)) for each in document.proxies)


# Hiring


def _hiring(document: PagedDocument) -> Iterator[Statement | Table]:
    outcomes = None if isinstance(document, QuantifyDocument) else document.outcomes
    if outcomes is None or document.favourable is None:
        why = "The result has no selection rates"
        if isinstance(document, QuantifyDocument):
            way = "it is about all people that the spec allows. Run fairmend audit --data --report on the people"
        elif document.claim.on == "output":
            way = "the model is a regression network. Audit a model that selects"
        elif document.favourable is None:
            way = "no class is favourable. Name it as favourable in [label] of the spec"
        else:
            way = "it is about random samples. Run fairmend audit with --data"
        yield Statement(NOT_CLAIMED, f"{why}: {way}.")
    else:
        after = " after the repair" if isinstance(document, RepairDocument) else ""
        yield Statement(
            RECOMPUTABLE,
            f"The tables count {count(outcomes.rows)} people of the data{after}. A person is selected if the "
            f"prediction is “{document.favourable}”. The selection rate is the share of a category that is selected, "
            "with its 95 % interval (Wilson). The impact ratio is this rate divided by the highest rate of a category "
            "in the table.",
        )
        sex, race = (_first(outcomes.tables, basis) for basis in ("sex", "race"))
        both = next((t for t in outcomes.tables if _has(t, "sex") and _has(t, "race") and len(t.features) == 2), None)
        for what, found in (
            ("Sex categories", sex),
            ("Race/ethnicity categories", race),
            ("Intersectional categories of sex and race/ethnicity", both),
        ):
            if found is not None:
                yield _rates(what, found)
            else:
                yield Statement(
                    NOT_CLAIMED,
                    f"{what}: the result has no such table. It compares the protected features and the columns of "
                    "--group. Pass the columns that are missing with --group to fairmend audit or repair.",
                )
        small = any(group.small for table in (sex, race, both) if table is not None for group in table.groups)
        if small:
            yield Statement(
                RECOMPUTABLE,
                f"A category with less than {percent(outcomes.small, 0)} of the people has no impact ratio; its "
                "number of people and its selection rate are in the table. The justification is up to the auditor.",
            )
        left = sum(table.groups_left_out for table in (sex, race, both) if table is not None)
        if left:
            yield Statement(
                NOT_CLAIMED, f"The rates of {count(left)} smaller categories, which result.json leaves out."
            )
    yield Statement(
        NOT_CLAIMED,
        "The number of people whose category is unknown, a scoring rate (the share of a category above the median "
        "score), and that the data are historical data of the use of the tool.",
    )
    yield Statement(NOT_CLAIMED, "That whoever ran fairmend is an independent auditor, and the date of the bias audit.")


def _has(table: OutcomeTable, basis: str) -> bool:
    return bool(_matching(table.features, basis))


def _first(tables: Sequence[OutcomeTable], basis: str) -> OutcomeTable | None:
    return next((table for table in tables if len(table.features) == 1 and _has(table, basis)), None)


def _rates(what: str, table: OutcomeTable) -> Table:
    heads = (*table.features, "People", "Selected", "Selection rate", "Impact ratio")
    return Table(RECOMPUTABLE, f"{what}: {' × '.join(table.features)}", heads, [_row(group) for group in table.groups])


def _row(group: SelectionRates) -> tuple[str, ...]:
    selection: Selection = group.before if group.after is None else group.after
    flag = " (below 4/5)" if selection.flagged else ""
    interval = f"{percent(selection.low)} to {percent(selection.high)}"
    shown = "none, under 2 %" if group.small else f"{ratio(selection.ratio)}{flag}"
    return (*group.values, count(group.rows), count(selection.count), f"{percent(selection.rate)} ({interval})", shown)


# Insurance


def _insurance(document: PagedDocument, proof: Proof | None) -> Iterator[Statement | Table]:
    sexes = _matching((*document.similar.protected, *document.similar.linked), "sex")
    if not sexes:
        yield Statement(
            NOT_CLAIMED,
            "That the price does not depend on sex: no protected feature has such a name. If the model reads one, "
            "protect it in the spec and repair again. If it does not read one, pass the column with --group to see "
            "which features stand for it.",
        )
    for name in sexes:
        if proof is not None and name in proof.independent_of:
            yield Statement(
                PROVEN,
                f"The output of the model does not depend on “{name}”, as the claim above says. A claim that scores "
                "differ by at most 0 would say the same.",
            )
        elif proof is not None and proof.delta is not None and name in proof.about:
            yield Statement(
                PROVEN,
                "For the people that the claim above is about, the scores of similar people, who may differ in "
                f"“{name}”, differ by at most {exact_number(proof.delta)}.",
            )
        else:
            yield Statement(
                NOT_CLAIMED,
                f"That the score does not depend on “{name}”: the claim is about decisions, or nothing is proven. For "
                "a "
                'price, set kind = "score" and on = "output" in [claim] of the spec, which bounds the difference, or '
                "repair with --method blind, which makes it 0.",
            )
    if document.claim.on != "output":
        yield Statement(
            NOT_CLAIMED,
            "That the output is a price: the model decides between classes. A tariff that is computed from its output "
            "depends on nothing else only if it reads nothing else.",
        )
    yield from _proxies(document)
    yield Statement(
        NOT_CLAIMED, "That the average price of men and women is the same. They may differ in other features."
    )


# The AI Act


def _ai_act(document: PagedDocument, proof: Proof | None) -> Iterator[Statement | Table]:
    about = document.about
    stated = [
        f"{name} {value}"
        for name, value in (
            ("name", about.name),
            ("version", about.version),
            ("provider", about.owner),
            ("purpose", about.purpose),
            ("approved by", about.approved_by),
        )
        if value
    ]
    yield Statement(
        NOT_CLAIMED,
        f"Point 1(a), stated by the owner and not checked: {'; '.join(stated)}."
        if stated
        else "Point 1(a), intended purpose, provider and version: not given. Write them into a file for --about.",
    )
    what = {"repair": "repair", "audit": "audit", "quantify": "count of shares"}[document.kind]
    yield Statement(
        RECOMPUTABLE,
        f"Point 2(g), procedure: {what} of {document.title} on {document.origin.created} with fairmend "
        f"{document.fairmend}{f', by the command: {document.origin.command}' if document.origin.command else ''}.",
    )
    if proof is not None:
        yield Statement(PROVEN, f"Point 2(g), potentially discriminatory impacts: {proof.check.claim}")
    yield from _impacts(document)
    yield from _accuracy(document)
    if isinstance(document, RepairDocument):
        changed = (
            ""
            if document.changed_predictions is None
            else f", and {percent(document.changed_predictions)} of the predictions"
        )
        yield Statement(
            RECOMPUTABLE,
            f"Point 6, a change to the system: the repair with the method {document.method} changed "
            f"{count(document.changed_weights)} of {count(document.total_weights)} weights{changed}.",
        )
    yield Statement(
        NOT_CLAIMED,
        "Point 3, accuracy for specific groups, foreseeable risks, human oversight and input data; and all other "
        "points of Annex IV: training data, architecture, cybersecurity, risk management, standards, monitoring.",
    )
    yield Statement(NOT_CLAIMED, "That a responsible person signed it. Sign the attestation, or the printed page.")


def _impacts(document: PagedDocument) -> Iterator[Statement]:
    if isinstance(document, QuantifyDocument):
        return
    if isinstance(document, AuditDocument):
        least = "" if document.exact else "at least "
        people = "samples" if document.sampled else "people of the data"
        yield Statement(
            RECOMPUTABLE,
            f"Point 2(g), potentially discriminatory impacts: of {count(document.total)} {people}, {least}"
            f"{count(document.count)} ({percent(document.idi_rate, 2)}) are treated unequally.",
        )
        return
    before, after = document.before.data, document.after.data
    yield Statement(
        RECOMPUTABLE,
        f"Point 2(g), potentially discriminatory impacts: of {count(before.total)} people of the data, "
        f"{'' if before.exact else 'at least '}{count(before.count)} ({percent(before.idi_rate, 2)}) are treated "
        f"unequally before the repair, and {'' if after.exact else 'at least '}{count(after.count)} "
        f"({percent(after.idi_rate, 2)}) after it.",
    )


def _accuracy(document: PagedDocument) -> Iterator[Statement]:
    if isinstance(document, QuantifyDocument):
        return
    utility = document.utility if isinstance(document, AuditDocument) else document.after.utility
    known = {} if utility is None else {key: getattr(utility, key) for key in UTILITY_NAMES}
    shares = [
        f"{name} {percent(known[key])}"
        for name, key in (("accuracy", "accuracy"), ("balanced accuracy", "balanced_accuracy"))
        if known.get(key) is not None
    ]
    shares += [f"AUC {known['auc']:.3f}"] if known.get("auc") is not None else []
    shares += [f"{name} {number(known[key])}" for name, key in REGRESSION_ERRORS if known.get(key) is not None]
    if not shares:
        yield Statement(NOT_CLAIMED, "Point 2(g), metrics of accuracy: the data have no labels. Name them in [label].")
        return
    rows = (
        f"{count(document.labelled_rows)} labelled rows" if isinstance(document, AuditDocument) else document.scored_on
    )
    yield Statement(RECOMPUTABLE, f"Point 2(g), metrics of accuracy: {', '.join(shares)}, on {rows}.")
