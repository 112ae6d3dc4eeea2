"""What is proven about a network, in sentences: the one place that writes them.

The terminal and the report call the methods of `Guarantee`. The sentence of a certificate is that of the checker, which
words it from the data of the certificate (`fairmend_check.kernel.statement`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairmend.base.text import at_least_percent, at_most_percent, capitalized, exact_number, listed
from fairmend.network import DEFAULT_THRESHOLD
from fairmend.spec import Spec
from fairmend.spec.claim import Claim, ClaimWords
from fairmend.spec.classes import similarity_classes


@dataclass(frozen=True)
class UnequalCount:
    """How many of ``total`` inputs are treated unequally; a lower bound unless ``exact``."""

    count: int
    total: int
    exact: bool = True

    def __str__(self) -> str:
        """Return "12", or "at least 12" for a lower bound."""
        return f"{self.count:,}" if self.exact else f"at least {self.count:,}"

    def still_unequal(self, share: str = "") -> str:
        """Return how many "are still treated unequally", with their share; a lower bound of 0 says nothing."""
        if not self.exact and not self.count:
            return "none was found to be treated unequally, but not every similar person was tried"
        return f"{self}{f' ({share})' if share else ''} {_be(self.count)} still treated unequally"


@dataclass(frozen=True)
class Guarantee:
    """What is proven about a network, and for whom.

    Attributes
    ----------
    ignored : the features on which the output does not depend, for every input: all protected ones and possibly others
        in which similar people may differ, or none
    protected : names of the protected features
    tolerances : how much a counterfactual may differ in other features, by name; empty without tolerances
    proven : how many of the inputs are proven to be treated equally, tolerances and links included
    inputs : how many inputs were to be proven: the repair inputs, or the inputs of a certificate
    arithmetic : "real", or the precision of inference that the proof covers as well, such as "float32"
    linked : the features that change together with protected ones
    bands : the features of which similar people may have any value of the same band
    claim : what is claimed of similar people: one class, or scores that differ by at most delta
    threshold : the probability from which a prediction is positive
    by_classes : whether the output depends on a person only through their class of similar people, for every input
    classes : what else makes people one class, in sentences: bands, and categories that links connect
    """

    ignored: tuple[str, ...]
    protected: tuple[str, ...]
    tolerances: Mapping[str, float]
    proven: int
    inputs: int
    arithmetic: str
    linked: tuple[str, ...] = ()
    claim: Claim = field(default_factory=Claim)
    threshold: float = DEFAULT_THRESHOLD
    bands: tuple[str, ...] = ()
    by_classes: bool = False
    classes: tuple[str, ...] = ()

    @classmethod
    def for_spec(
        cls,
        spec: Spec,
        *,
        ignored: Sequence[str],
        proven: int,
        inputs: int,
        arithmetic: str,
        by_classes: bool = False,
    ) -> Guarantee:
        """Return the guarantee with the names, tolerances and values of a spec."""
        return cls(
            tuple(ignored),
            tuple(f.name for f in spec.protected),
            {f.name: f.reach for f in spec.features if f.reach and f.varies and not f.protected},
            proven,
            inputs,
            arithmetic,
            tuple(f.name for f in spec.linked),
            spec.claim,
            spec.threshold,
            tuple(f.name for f in spec.banded),
            by_classes,
            tuple(similarity_classes(spec).kept_words()) if by_classes else (),
        )

    @property
    def everyone(self) -> bool:
        """Whether the output does not depend on the protected features, for every input."""
        return bool(self.ignored)

    @property
    def covers_everyone(self) -> bool:
        """Whether every input is proven to be treated equally, tolerances and links included."""
        return self.by_classes or (
            self.everyone and all(name in self.ignored for name in (*self.tolerances, *self.bands, *self.linked))
        )

    @property
    def complete(self) -> bool:
        """Whether all that was to be proven is proven."""
        return self.covers_everyone or self.proven == self.inputs

    @property
    def real_only(self) -> bool:
        """Whether the claim about inputs holds in exact arithmetic, but not in inference."""
        return self.arithmetic == "real" and self.proven > 0

    # The terminal, and "guarantee" in result.json

    def summary(self, method: str, unequal: UnequalCount) -> str:
        """Return "Proven: …" or "Not proven: …" in one sentence or two.

        ``method`` is the repair method, ``unequal`` how many repair inputs are still treated unequally.
        """
        names = self._changed()
        if self.everyone:
            claim = self._claim_for_everyone("the network")
            return f"Proven: {claim[0].lower()}{claim[1:]}"
        if self.complete:
            return (
                f"Proven: {self._each_input()} keeps its {self._kept}{self._limit()} whatever its {names}"
                f"{self._even_if('it also differs in')}."
            )
        its, differs = ("its", "it also differs in") if self.proven == 1 else ("their", "they also differ in")
        return (
            f"Not proven: {method} gives no guarantee. {self.proven:,} of the {self.inputs:,} repair inputs "
            f"{_be(self.proven)} proven to keep {its} {self._kept}{self._limit()} whatever the {names}"
            f"{self._even_if(differs)}; {unequal.still_unequal()}."
        )

    def beyond(self, data: UnequalCount, share: str) -> str:
        """Return what is known about people whom `summary` does not cover; empty if it covers everyone.

        ``data`` counts the rows of the data that are treated unequally, ``share`` is the same as a percentage.
        """
        if self.covers_everyone:
            return ""
        rows = f"of the {data.total:,} rows of the data, {data.still_unequal(share)}."
        if self.everyone:
            return f"{self._kept_with_differences()}. {capitalized(rows)}"
        return f"The proof does not cover other people: {rows}" if self.complete else capitalized(rows)

    def real_only_note(self) -> str:
        """Return what a proof in exact arithmetic alone leaves open, and how to check it; empty for other proofs."""
        if not self.real_only:
            return ""
        return f"{self._words.rounding} fairmend check accepts the certificate only with --real."

    def partial_coverage(self) -> str:
        """Return whom the certificate covers if that is not everyone it should; empty if `complete`."""
        if self.complete:
            return ""
        some = f"{self.proven:,} of the {self.inputs:,} repair inputs"
        return (
            f"everyone's {self._ignored_alone('')}, and {some} with their {self._extension()}"
            if self.everyone
            else some
        )

    # The report

    def tag(self) -> str:
        """Return the label above the headline of a report."""
        inputs = f"{self.inputs:,} repair inputs"
        if self.covers_everyone:
            return "Proven for everyone"
        if self.everyone:
            some = inputs if self.complete else f"{self.proven:,} of {inputs}"
            return f"Proven for everyone; with {self._extension()}, for {some}"
        return f"Proven for {inputs}" if self.complete else "Not proven"

    def headline(self, method: str, unequal: UnequalCount) -> str:
        """Return the headline of a report: what is proven, or that it is not, to be read aloud.

        ``method`` is the repair method, ``unequal`` how many repair inputs are still treated unequally.
        """
        names, inputs = self._changed(), f"{self.inputs:,} repair inputs"
        if self.everyone:
            claim = self._claim_for_everyone("this model")
            if self.covers_everyone:
                return claim
            return f"{claim} {self._kept_with_differences()}."
        if self.complete:
            each = capitalized(self._each_input())
            even_if = self._even_if("it also differs in")
            return f"{each} keeps its {self._kept}{self._limit()} whatever its {names}{even_if}."
        if not unequal.count:
            return f"The method {method} gives no guarantee, but no repair input was found to be treated unequally."
        get, differs = ("gets", "it differs") if unequal.count == 1 else ("get", "they differ")
        still = f"{unequal} of the {inputs} still {get} {self._words.another} with a different"
        return capitalized(f"{still} {names}{self._or(f'if {differs} in')}.")

    def explanation(self) -> tuple[str, ...]:
        """Return what is proven, in sentences for the report."""
        names = self._changed()
        sentences = []
        if self.everyone:
            sentences.append(f"Change {listed(self.ignored, 'or')} in any way: the score stays the same, bit for bit.")
        if self.everyone and not self.covers_everyone:
            sentences.append(f"{self._kept_with_differences()}.")
        elif not self.everyone and self.proven:
            some = f"{self.proven:,} of the {self.inputs:,} repair inputs"
            keeps = f"{some} keep their" if self.proven > 1 else f"{some} keeps its"
            if self.complete:
                keeps = f"{capitalized(self._each_input())} keeps its"
            sentences.append(f"{keeps} {self._kept} whatever the {names}{self._even_if('you also change')}.")
        if self.everyone or self.proven:
            holds = f"holds for the saved weights, in {self._arithmetic('exact')}."
            if self.by_classes:
                holds = (
                    "holds for the saved file in every program that runs it: it reads the same numbers, bit for bit."
                )
            if self.real_only and not self.covers_everyone:
                this = "The second claim" if self.everyone else "This"
                sentences.append(f"{this} {holds} It does not cover rounding in inference. {self.real_only_note()}")
            else:
                sentences.append(f"This {holds}")
        return tuple(sentences) or (f"Nothing is proven about how the {self._words.answer}s depend on {names}.",)

    def coverage(self) -> tuple[str, ...]:
        """Return for whom it is proven, in sentences for the report."""
        if self.covers_everyone:
            return ("Everyone: every input within the ranges of the spec, not only the people in the data.",)
        only = f"{self._changed()}{self._or('in')}"
        some = f"The {self.inputs:,} repair inputs" if self.complete else f"{self.proven:,} repair inputs"
        covered = f"{some}, and everyone who differs from one of them only in {only}."
        if self.proven == 1:
            covered = f"One repair input, and everyone who differs from it only in {only}."
        if not self.proven:
            covered = "No repair input."
        if self.everyone:
            return (
                f"For {self._ignored_alone()} alone: every input within the ranges of the spec.",
                f"With {self._extension()}: {covered[0].lower()}{covered[1:]}",
            )
        return (covered,)

    @property
    def _words(self) -> ClaimWords:
        at = "" if self.threshold == DEFAULT_THRESHOLD else f" at the threshold {exact_number(self.threshold)}"
        return self.claim.words(at)

    @property
    def _kept(self) -> str:
        return self._words.keeps

    def _each_input(self) -> str:
        return "the repair input" if self.inputs == 1 else f"each of the {self.inputs:,} repair inputs"

    def _ignored_alone(self, article: str = "the ") -> str:
        return f"{article}protected features" if set(self.ignored) == set(self.protected) else listed(self.ignored)

    def _claim_for_everyone(self, model: str) -> str:
        ignored = listed(self.ignored, "or")
        claim = f"For every input within the ranges of the spec, the output of {model} does not depend on {ignored}"
        if not self.classes:
            return f"{claim}."
        return f"{claim}, and people of one class get the same output: {'; '.join(self.classes)}."

    def _arithmetic(self, exact: str) -> str:
        inference = "" if self.arithmetic == "real" else f" and in {self.arithmetic} inference"
        return f"{exact} arithmetic{inference}"

    def _limit(self) -> str:
        """Return where a proof that does not cover inference holds: rounding could still change a prediction."""
        return " in exact arithmetic" if self.real_only else ""

    def _amounts(self) -> list[str]:
        """Return "income by up to 10,000", "age within its band"."""
        amounts = [f"{name} by up to {exact_number(amount, grouped=True)}" for name, amount in self.tolerances.items()]
        return amounts + [f"{name} within its band" for name in self.bands]

    def _changed(self) -> str:
        """Return the features that similar people have other values of: the protected ones, and those linked to them.

        With links, nothing is proven about people with other protected values whose linked features stay.
        """
        changed = listed(self.protected, "or")
        if not self.linked:
            return changed
        return f"{changed}, with {self._as_linked()}"

    def _as_linked(self) -> str:
        return f"{listed(self.linked)} as the spec links {'it' if len(self.linked) == 1 else 'them'}"

    def _extension(self) -> str:
        """Return what similar people may differ in beside protected features, in one word or two."""
        named = (("tolerance", self.tolerances), ("bands", self.bands), ("links", self.linked))
        return listed([word for word, features in named if features])

    def _even_if(self, condition: str) -> str:
        return f", even if {condition} {listed(self._amounts())}" if self._amounts() else ""

    def _kept_with_differences(self) -> str:
        of = f"of the {self.inputs:,} repair inputs"
        if self.complete:
            kept = f"{capitalized(self._each_input())} also keeps its {self._kept}"
        elif self.proven > 1:
            kept = f"Only {self.proven:,} {of} provably keep their {self._kept}"
        elif self.proven == 1:
            kept = f"Only 1 {of} provably keeps its {self._kept}"
        else:
            kept = f"None {of} provably keeps its {self._kept}"
        changes = [f"any change of {listed(self._amounts())}"] if self._amounts() else []
        return f"{kept}{self._limit()} with {' and with '.join(changes + [self._as_linked()] * bool(self.linked))}"

    def _or(self, condition: str) -> str:
        return f", or {condition} {listed(self._amounts(), 'or')}" if self._amounts() else ""


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


@dataclass(frozen=True)
class ProvenShares:
    """What is proven about everyone that a spec allows: shares that are treated equally, unequally, and undecided.

    ``own`` are the protected features that links depend on.
    """

    fair: float
    unfair: float
    undecided: float
    protected: tuple[str, ...]
    tolerances: bool
    own: tuple[str, ...] = ()
    claim: Claim = field(default_factory=Claim)

    def tag(self) -> str:
        """Return a label of a few words."""
        if self.undecided == 0:
            return "Everyone decided"
        return f"{at_least_percent(1 - self.undecided)} of all people decided"

    def headline(self) -> str:
        """Return the sentence at the top."""
        least = at_least_percent(self.unfair)
        most = at_most_percent(min(1.0, 1 - self.fair))
        if self.unfair == 0 and self.undecided == 0:
            return "It is proven that all people whom the spec allows are treated equally."
        if self.unfair == 0:
            return f"At most {most} of all people whom the spec allows are treated unequally; this is proven."
        if self.undecided == 0:
            return f"{least} of all people whom the spec allows are treated unequally; this is proven."
        return (
            f"At least {least} and at most {most} of all people whom the spec allows are treated unequally; "
            "this is proven."
        )

    def explanation(self, precision: str) -> str:
        """Return what is proven."""
        more = ", and others within their tolerance," if self.tolerances else ""
        if self.own:
            more += " with the values that links set," if more else ", with the values that links set,"
        words = self.claim.words()
        fair, unfair = (at_least_percent(share) for share in (self.fair, self.unfair))
        return (
            f"For {fair} of all people, no other values of {listed(self.protected, 'and')}{more} change the "
            f"{words.changes}; for {unfair}, some do. This holds for the {words.answer}s that the model "
            f"makes in {precision} arithmetic, rounding included."
        )

    def coverage(self) -> str:
        """Return who all people are."""
        own = f" except for own values of {listed(self.own, 'and')}, on which links depend" if self.own else ""
        return (
            f"All combinations of values that the spec allows, protected features aside{own}. Each whole number and "
            "category has the same weight, and each part of a continuous range counts by its length."
        )
