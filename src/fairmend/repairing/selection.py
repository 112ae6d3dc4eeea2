"""The method `auto`: run several recipes, and select the strongest guarantee that keeps the model.

Recipes run in stages, from the strongest guarantee to the weakest, and a stage that cannot win does not run. A recipe
whose network loses the model even on the rows that it learnt from is not run on folds, if another candidate is better.

1. Models behind the canonical map of the spec (`by_classes`), where links or bands leave something of a feature, and
   for models that are only run. Networks that ignore every feature that varies. Nothing else is to be proven, and the
   claim is about everyone.
2. If the spec has tolerances or links: networks that ignore the protected features, and for which certified training
   (of scores: the paper's two steps) proves the rest for the repair inputs. They run if no network of stage 1 surely
   keeps the model; the one that takes longest only if no other network keeps it.
3. The paper's method, which proves its claim for the repair inputs only. It runs if all others collapsed, or if you
   asked for it: with ``guarantee="listed"``, or with a ``keep`` that no other meets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.base.text import listed
from fairmend.models import RunModel
from fairmend.models.module import ModuleRunner
from fairmend.network.input_columns import fix_columns
from fairmend.repairing.blind import columns_of, mean_reference
from fairmend.repairing.by_classes import AVERAGE, DISTILLED, REPRESENTATIVE
from fairmend.repairing.candidates import Candidate, JudgedCandidate, Jury
from fairmend.repairing.certified import STEPS as CERTIFIED_STEPS
from fairmend.repairing.choice import NOISE, Choice, Judgement, choose
from fairmend.repairing.distil import STEPS
from fairmend.repairing.options import Policy
from fairmend.repairing.recipe import Recipe, RepairAttempt
from fairmend.repairing.task import RepairTask, TimeLimitError
from fairmend.spec.classes import similarity_classes
from fairmend.spec.features import Feature

__all__ = ["Candidate", "Selection", "select_repair"]

_logger = logging.getLogger(__name__)

_BLIND = Recipe("blind", "mean", 0.0, 0.0, steps=0, blind_to="varying", match_rate=True)
EVERYONE = (replace(_BLIND, name="blind, distilled", distil_steps=STEPS, expected=True), _BLIND)
"""Recipes that ignore every feature that varies, the preferred one first, unless rows are few. Both predict each of
two classes as often as the original does. On synthetic data two are enough: of six, with and without labels and this
rate, the best is not better on rows that nobody saw, because the calibration rows cannot tell which one it is. Where
these two cannot be told apart, the distilled one is better on average: by much if the features that vary decide much,
else by nothing."""

LABEL_WEIGHT = 0.5
MANY_UNLABELLED = 4
"""Labels count in distillation, with this weight, if there are so many times as many rows without them: they are then a
tenth of what is learnt, at most, and cannot be learnt by heart with what is chance in them. They also count if there
are fewer than `FEW_ROWS` rows in all, as a model with so few was mostly trained on few, and says less than labels do.
Otherwise the network learns what the original gives, and nothing else. (`--labels` of benchmarks/repairs/generalise.py
judges the difference.)"""

BY_CLASSES = (
    Recipe("classes, distilled", steps=0, distil_steps=STEPS, label_weight=0.0, by_classes=DISTILLED),
    Recipe("classes, averaged", steps=0, by_classes=AVERAGE),
    Recipe("classes, representative", steps=0, by_classes=REPRESENTATIVE),
)
"""Recipes that let a model read classes of similar people, the preferred one first. Networks and modules are distilled.
Where nothing but protected features and tolerances is left open, a network that ignores them, distilled towards the
same averages, is as good, keeps the form of its file and runs once for each person: these recipes are not run then."""

FEW_ROWS = 500
"""With fewer rows, labelled or not, distillation learns their noise too. Where the two cannot be told apart, the
network that is only blind is then preferred. On synthetic data with 80 to 400 rows this gains 0.3 points of balanced
accuracy and 0.2 of accuracy, on average over tables."""

MOST_MIXTURES = 2
LISTED_STEPS, LISTED_BATCH = 100, 512
GENTLE, FIRM = (0.1, 1, 0.001), (1.0, 2, 0.003)
"""For claims about scores, two ways to run step 1 before the proof for the repair inputs: the fairness weight, how many
times LISTED_STEPS, and the learning rate in standardised inputs. On synthetic data the gentle one keeps the most where
few decisions depend on a tolerance, and the firm one where many do. Both tighten intervals. Linear bounds take three
times as long with three layers and ten times with ten, and on synthetic data they keep no more of the model, except
where everything else loses it: so the firm way runs again with linear bounds if nothing else keeps the model."""

PROF = Recipe("prof")

MOST_SOLVES = 1000
"""Solver runs of step 2 in one attempt; some dozens are usual. With several classes and many neighbourhoods without a
proof, the smallest change can take hours to find. A candidate need not be the smallest, and is judged as it is."""

_ANOTHER_KEEPS = "a network with the same guarantee or a stronger one keeps the model"


@dataclass(frozen=True)
class Selection:
    """The selected repair, all candidates with their figures, and what to warn of.

    ``collapsed`` tells whether the selected network collapsed: then all proven candidates did, unless the user chose
    it. ``others`` are the repairs of the other proven candidates, each with the number of the candidate, from 1.
    """

    attempt: RepairAttempt
    candidates: tuple[Candidate, ...]
    collapsed: bool
    warnings: tuple[str, ...]
    others: tuple[tuple[int, RepairAttempt], ...] = ()


def select_repair(
    task: RepairTask, policy: Policy | None = None, progress: Progress | None = None, candidate: int | None = None
) -> Selection:
    """Run the recipes that can win, and select one by the policy, or the `candidate` with this number, from 1.

    Once the task's deadline has passed, the recipe that is being trained stops and those that are left do not run:
    their candidates have a problem that begins with "time limit". The recipes of a stage that train least come first,
    so that there is a proven candidate soon. Raise FairmendError if none is proven, or if the policy demands what none
    has.
    """
    policy = policy or Policy()
    task = replace(task, most_solves=MOST_SOLVES)
    contest = _Contest(task, Judgement(policy, task))
    stages = _stages(task)
    total = sum(len(stage.recipes) for stage in stages)
    for stage in stages:
        reason_to_skip = stage.reason_to_skip(contest)
        for recipe in sorted(stage.recipes, key=lambda recipe: recipe.distil_steps):
            contest.enter(recipe, reason_to_skip)
            if progress is not None:
                progress("try", len(contest.candidates), total)
    contest.sort([recipe for stage in stages for recipe in stage.recipes])
    if not contest.judged:
        raise FairmendError(_nothing_proven(contest.candidates, task))
    choice = choose(contest.judged, contest.judgement)
    if candidate is not None:
        choice = _chosen_by_user(contest, choice, candidate)
    chosen = contest.judged[choice.winner]
    _logger.info("auto selects %s", chosen.candidate.recipe.name)
    return Selection(
        chosen.attempt,
        _with_reasons(contest, choice),
        chosen.candidate.collapsed,
        (*_not_tried(contest), *(() if choice.keeps else (_not_kept(chosen, contest),))),
        tuple((contest.number(judged), judged.attempt) for judged in contest.judged if judged is not chosen),
    )


def _chosen_by_user(contest: _Contest, choice: Choice, number: int) -> Choice:
    """Return the choice of a candidate by its number; refuse one that has no proven network."""
    known = {contest.number(judged): place for place, judged in enumerate(contest.judged)}
    if number not in known:
        of = "1" if len(contest.candidates) == 1 else f"1 to {len(contest.candidates)}"
        why = f"there are candidates {of}"
        if number <= len(contest.candidates):
            other = contest.candidates[number - 1]
            why = f"{other.recipe.name} has no proven network ({other.problem.removeprefix('not run: ')})"
        raise FairmendError(f"candidate {number}: {why}; choose {listed([str(each) for each in sorted(known)], 'or')}")
    place = known[number]
    if place == choice.winner:
        return choice
    reasons = list(choice.reasons)
    reasons[choice.winner] = "auto would select it, but another candidate was asked for"
    reasons[place] = f"asked for as candidate {number}"
    return Choice(place, tuple(reasons), contest.judgement.keeps(contest.judged[place]))


class _Contest:
    """The candidates so far: all of them, the proven ones with their predictions, and the names of those not tried.

    A recipe was not tried if the time limit ended before or while it was run.
    """

    def __init__(self, task: RepairTask, judgement: Judgement) -> None:
        self.task, self.judgement, self.jury = task, judgement, Jury(task)
        self.candidates: list[Candidate] = []
        self.judged: list[JudgedCandidate] = []
        self.untried: list[str] = []

    def enter(self, recipe: Recipe, reason_to_skip: str) -> None:
        """Run and judge a recipe, unless there is a reason not to."""
        problem = f"not run: {reason_to_skip}" if reason_to_skip else ""
        if not problem:
            try:
                self.task.deadline.check("before this recipe was run")
                judged = self.jury.judge(recipe, self._is_hopeless)
                self.judged.append(judged)
                self.candidates.append(judged.candidate)
            except FairmendError as error:
                problem = str(error)
                self.untried += [recipe.name] if isinstance(error, TimeLimitError) else []
        if problem:
            self.candidates.append(Candidate(recipe, problem=problem, reason=problem))
        _log(self.candidates[-1])

    def _is_hopeless(self, own: JudgedCandidate) -> bool:
        """Return whether a network cannot win, judged by the rows that it was made from.

        It does not keep the model even there, and another candidate loses less, and is clearly better, on rows that it
        did not see.
        """
        others = [judged for judged in self.judged if not judged.candidate.collapsed]
        if not others or self.judgement.keeps(own):
            return False
        best = min(others, key=lambda judged: self.judgement.fall(judged).value)
        loses_more = self.judgement.fall(own).value > self.judgement.fall(best).value
        return own.candidate.collapsed or (loses_more and self.judgement.lead(best, own) > NOISE)

    def number(self, judged: JudgedCandidate) -> int:
        """Return the number of a proven candidate among all of them, from 1."""
        return 1 + [each.recipe for each in self.candidates].index(judged.candidate.recipe)

    def sort(self, recipes: list[Recipe]) -> None:
        """Bring the candidates into the order of these recipes, the preferred ones first."""
        self.candidates.sort(key=lambda candidate: recipes.index(candidate.recipe))
        self.judged.sort(key=lambda judged: recipes.index(judged.candidate.recipe))

    @property
    def kept(self) -> bool:
        """Whether a proven candidate keeps the model."""
        return any(self.judgement.keeps(judged) for judged in self.judged)

    @property
    def surely_kept(self) -> bool:
        """Whether a proven candidate surely keeps the model."""
        return any(self.judgement.surely_keeps(judged) for judged in self.judged)

    @property
    def all_collapsed(self) -> bool:
        """Whether no proven candidate is worth having."""
        return all(judged.candidate.collapsed for judged in self.judged)


@dataclass(frozen=True)
class _Stage:
    """Recipes with one guarantee, and when they cannot win."""

    recipes: tuple[Recipe, ...]
    reason_to_skip: Callable[[_Contest], str]


def _stages(task: RepairTask) -> tuple[_Stage, ...]:
    if isinstance(task.model, RunModel):
        return (_Stage(class_recipes(task), lambda contest: ""),)
    if not _can_be_cut(task):  # weights cannot make the network ignore a feature, but an entry before it can
        return (_Stage(() if task.keep_form else BY_CLASSES, lambda contest: ""), _Stage((PROF,), _why_not_slow))
    for_repair_inputs = () if task.strict else listed_recipes(task)
    return (
        _Stage((*class_recipes(task), *everyone_recipes(task)), lambda contest: ""),
        _Stage(tuple(recipe for recipe in for_repair_inputs if not _is_slow(recipe)), _why_not_listed),
        _Stage(tuple(recipe for recipe in for_repair_inputs if _is_slow(recipe)), _why_not_slow),
        _Stage((PROF,), _why_not_prof),
    )


def _can_be_cut(task: RepairTask) -> bool:
    """Return whether weights of 0 can make the network ignore every feature that varies."""
    columns = columns_of(task.spec, list(task.spec.varying))
    try:
        fix_columns(task.network, columns, mean_reference(columns, task.X_cal))
    except FairmendError:
        return False
    return True


def class_recipes(task: RepairTask) -> tuple[Recipe, ...]:
    """Return the recipes by classes: those of a model that is only run, or of a network where they can keep more."""
    if isinstance(task.model, RunModel):
        return BY_CLASSES if isinstance(task.model.runner, ModuleRunner) else BY_CLASSES[1:]
    classes = similarity_classes(task.spec)
    return BY_CLASSES if (classes.banded or classes.linked) and not task.keep_form else ()


def everyone_recipes(task: RepairTask) -> tuple[Recipe, ...]:
    """Return the recipes that ignore every feature that varies, the preferred one first."""
    labelled, unlabelled = len(task.X_cal), len(task.X_unlabelled)
    few = labelled + unlabelled < FEW_ROWS
    weight = LABEL_WEIGHT if few or unlabelled >= MANY_UNLABELLED * labelled else 0.0
    recipes = tuple(replace(each, label_weight=weight) if each.distil_steps else each for each in EVERYONE)
    return recipes[::-1] if few else recipes


def _is_slow(recipe: Recipe) -> bool:
    """Return whether a recipe takes much longer than the others on deep networks."""
    return recipe.bounds == "linear"


def listed_recipes(task: RepairTask) -> tuple[Recipe, ...]:
    """Return recipes that ignore the protected features, and need a proof for the repair inputs beyond that.

    Mixtures ignore all that varies but for one feature, and come first: they ignore more. With many features, only
    those run whose feature matters most to the original network. A claim about classes is proven by certified training,
    one about scores by step 1; there, the last recipe is by far the slowest on deep networks.
    """
    others = [feature for feature in task.spec.varying if not feature.protected]
    base = Recipe(
        "blind to protected",
        "mean",
        label_weight=0.5,
        steps=CERTIFIED_STEPS,
        bounds="interval",
        batch_size=LISTED_BATCH,
        blind_to="protected",
        distil_steps=STEPS,
        expected=True,
        certified=task.spec.claim.certified_training,
    )
    mixtures = [
        replace(
            base,
            name=f"blind but for {kept.name}",
            blind_to=tuple(feature.name for feature in others if feature is not kept),
        )
        for kept in _most_important(others, task)[:MOST_MIXTURES]
        if len(others) > 1
    ]
    if base.certified:
        return (*mixtures, base)
    blind = [_with_step_1(replace(base, name=f"{base.name}, fairness {way[0]:g}"), way) for way in (GENTLE, FIRM)]
    return (
        *(_with_step_1(mixture, GENTLE) for mixture in mixtures),
        *blind,
        replace(blind[-1], name=f"{blind[-1].name}, linear bounds", bounds="linear"),
    )


def _with_step_1(recipe: Recipe, way: tuple[float, int, float]) -> Recipe:
    weight, factor, rate = way
    return replace(recipe, fairness_weight=weight, steps=factor * LISTED_STEPS, learning_rate=rate)


def _most_important(features: list[Feature], task: RepairTask) -> list[Feature]:
    """Return features by how much of the original network's predictions is kept without them, the least first."""
    before = task.original_predictions[: len(task.X_cal)]

    def kept_without(feature: Feature) -> float:
        columns = columns_of(task.spec, [feature])
        without = fix_columns(task.network, columns, mean_reference(columns, task.X_cal))
        return float(task.measure.shares(before, task.measure.predict(without, task.X_cal)).mean())

    return sorted(features, key=kept_without)


def _why_not_listed(contest: _Contest) -> str:
    """Return why the recipes of stage 2 cannot win; empty if they can."""
    policy = contest.judgement.policy
    if policy.guarantee == "everyone":
        return 'it would not be proven for everyone, which guarantee="everyone" demands'
    if policy.guarantee != "listed" and contest.surely_kept:
        return _ANOTHER_KEEPS
    return ""


def _why_not_slow(contest: _Contest) -> str:
    """Return why the slow recipe of stage 2 need not run; empty if it must."""
    return _why_not_listed(contest) or (_ANOTHER_KEEPS if contest.kept else "")


def _why_not_prof(contest: _Contest) -> str:
    """Return why the paper's method cannot win; empty if it can."""
    policy = contest.judgement.policy
    reason = _why_not_listed(contest)
    if _protects_everything(contest.task) and contest.judged:
        return "every feature is protected, so only a constant network is fair"
    if reason or policy.guarantee == "listed":
        return reason
    if contest.kept:
        return _ANOTHER_KEEPS
    if policy.keep_required or contest.all_collapsed:
        return ""
    return "a network that ignores the protected features is proven for everyone, and this one would not be"


def _protects_everything(task: RepairTask) -> bool:
    return all(feature.protected for feature in task.spec.features) and not task.spec.claim.limit


def _with_reasons(contest: _Contest, choice: Choice) -> tuple[Candidate, ...]:
    """Return all candidates, the proven ones with their reason and their place on the frontier."""
    proven = [judged.candidate for judged in contest.judged]
    kept = contest.judgement.kept
    falls = [contest.judgement.fall(judged) for judged in contest.judged]
    marked = iter(
        replace(
            candidate,
            fall=falls[number].value,
            fall_of=falls[number].measure,
            chosen=number == choice.winner,
            reason=choice.reasons[number],
            on_frontier=not candidate.collapsed and not any(_dominates(other, candidate, kept) for other in proven),
        )
        for number, candidate in enumerate(proven)
    )
    return tuple(next(marked) if candidate.proven else candidate for candidate in contest.candidates)


def _dominates(first: Candidate, second: Candidate, kept: Callable[[Candidate], float]) -> bool:
    """Return whether the first is at least as good in guarantee, unfairness and what is kept, and better in one."""
    one, other = ((each.level, -each.unfair_rate, kept(each)) for each in (first, second))
    return all(a >= b for a, b in zip(one, other, strict=True)) and one != other


def _not_tried(contest: _Contest) -> list[str]:
    """Return a warning that names the recipes which had no time, if there are such."""
    if not contest.untried:
        return []
    return [
        f"the time limit of {contest.task.deadline.limit:g} s ended before auto had evaluated "
        f"{listed(contest.untried)}; with more time it might select another network"
    ]


def _not_kept(chosen: JudgedCandidate, contest: _Contest) -> str:
    judgement = contest.judgement
    fall = judgement.fall(chosen)
    if fall.within(judgement.policy.keep, 0.0):
        return (
            f"every proven candidate collapsed: {chosen.candidate.recipe.name}, the best, keeps {fall.measure}, but "
            f"lost a class or agrees with the original network hardly more than chance would. {_what_may_help(contest)}"
        )
    measures, how = fall.measure, ""
    if judgement.estimated:
        measures = "accuracy and balanced accuracy"
        how = f" in {fall.measure}, as estimated from rows with and without labels"
    return (
        f"no proven candidate keeps {measures} within {judgement.distance(judgement.policy.keep)} of "
        f"{judgement.compared_with}: {chosen.candidate.recipe.name}, the best, is about "
        f"{judgement.distance(fall.value)} below{how}. {_what_may_help(contest)}"
    )


def _what_may_help(contest: _Contest) -> str:
    if _protects_everything(contest.task):
        return "Every feature is protected, so only a constant network is fair: protect fewer"
    more = "More calibration rows, unlabelled rows"
    for candidate in contest.candidates:
        if candidate.recipe == PROF and candidate.problem.startswith("not run") and _accepts_listed(contest):
            return (
                f'{more}, a spec in which fewer features vary, or guarantee="listed" (--guarantee listed), which '
                "accepts a proof for the repair inputs alone, may help"
            )
    return f"{more}, or a spec in which fewer features vary may help"


def _accepts_listed(contest: _Contest) -> bool:
    return contest.judgement.policy.guarantee != "everyone"


def _nothing_proven(candidates: list[Candidate], task: RepairTask) -> str:
    first = f"first failure: {candidates[0].problem}"
    if not task.deadline.passed:
        return f"no recipe gave a proven repair; {first}"
    return (
        f"no recipe gave a proven repair within the time limit of {task.deadline.limit:g} s; allow more time "
        f"(time_limit), or use method blind or prof, which run one recipe; {first}"
    )


def _log(candidate: Candidate) -> None:
    if not candidate.proven:
        _logger.info("candidate %s: %s", candidate.recipe.name, candidate.problem)
        return
    _logger.info(
        "candidate %s: proven for %s, balanced accuracy %.4f, agreement %.4f, unfair %.4f%s",
        candidate.recipe.name,
        candidate.guarantee,
        candidate.balanced_accuracy,
        candidate.agreement,
        candidate.unfair_rate,
        ", collapsed" if candidate.collapsed else "",
    )
