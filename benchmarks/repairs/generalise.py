"""Repair networks that nobody tuned for with `auto`, and judge the results on rows used for nothing else.

    python benchmarks/repairs/generalise.py [--data real|synthetic] [--kind strict|multiple|tolerance]
        [--settings TEXT ...] [--limit N] [--draws N] [--cache FOLDER] [--state FILE] [--workers N] [--retrained]
        [--paper-rows] [--labels always|never]

20 networks of 1 to 10 hidden layers and 4 to 200 units are trained, from a seed, on the four data sets
(FAIRMEND_SHARED) or on synthetic ones, with raw and with scaled inputs. Each is repaired in four or five settings: one
protected feature, several, and with tolerances. The rows are split into training rows, 100 repair inputs, 500 labelled
calibration rows (a fifth of a small data set), a pool without labels, and held-out rows, which give all figures. Where
these are few, the rows are drawn and the network is trained several times, until 3,000 held-out rows judge each setting
(10 times for german, which has 1,000 rows; --draws 1 for once); a figure is the mean over the draws, and a network
that lost a class in one of them has collapsed:

- accuracy and balanced accuracy (before, and the change), agreement with the original network, IDI-D by enumeration (by
  sampling if a neighbourhood is infinite or huge),
- the guarantee of the network that `auto` chose, and whether `fairmend check` finds its certificate valid,
- the regret: how many points of balanced accuracy the best recipe that `auto` proved is ahead of the chosen candidate.
  With several draws, the best recipe is the one that is ahead in the mean of the draws; the best of each draw would
  mostly be luck, and is printed beside.

With a tolerance, "listed at least" is what a proof for the repair inputs alone, the weakest guarantee, costs with
hindsight (listed.py), and "listed without hindsight" what it costs with what a repair knows. Settings in which the
former is more than the limit of the mean loss do not count for that limit: no proven network that decides like the
original elsewhere can be within it. All other limits are for all settings. The limit of the mean loss also holds for
the settings with the paper's tolerances alone.

With --retrained, a network of the same shape is trained for each setting without the features that vary, on all
training rows with their labels, and its losses stand beside (retrained.py): where it loses as much, that is the
price of the guarantee for everyone.

With --paper-rows, `auto` gets the repair inputs and the calibration rows and nothing else, as the paper's method does.
With --labels, distillation for everyone learns labels always, or never, instead of where `auto` decides so: this is how
that decision is judged.

Exits with 1 if a limit is exceeded. --limit runs that many settings, drawn with a seed. Trained networks are kept in
--cache (default: a folder of the system's temporary files); with --state a run can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table as Grid

from fairmend import FairmendError, Network, Spec
from fairmend.auditing.neighbours import can_enumerate, find_unequal, sample_unequal

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import chunks
from benchmarks.common.tabular import Table, load_table
from benchmarks.common.trained import trained_network
from benchmarks.repairs.figures import (
    LABELS,
    Figures,
    Limit,
    common_limits,
    labels_used,
    mean,
    over_runs,
    run_auto,
    within,
)
from benchmarks.repairs.generalise_settings import KINDS, REAL, Setting, draws_of, real_settings, synthetic_settings
from benchmarks.repairs.listed import listed_figures
from benchmarks.repairs.retrained import beside, describe_retrained, retrained_figures

MOST_LOSS, MOST_LOSS_WITH_TOLERANCE = 0.3, 0.6
MOST_FALL, MOST_REGRET = 3.0, 0.3
IDI_ROWS = 2000  # of the held-out rows
LIMITS_S = {0: 3600.0}
CODE = ["src/fairmend_check", *(f"src/fairmend/{part}" for part in
        ("auditing", "bounds", "milp", "network", "prove", "repairing", "spec"))]  # fmt: skip
CODE += [f"benchmarks/{name}.py" for name in
         ("repairs/generalise", "repairs/generalise_settings", "repairs/figures", "repairs/listed",
          "repairs/retrained", "common/tabular", "common/trained")]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """A setting with its network, its spec and its rows."""

    network: Network
    spec: Spec
    X: dict[str, np.ndarray]
    y: dict[str, np.ndarray]


@cache
def encoded(data: str, scaled: bool) -> tuple[Table, np.ndarray]:
    """Return the table, and all its rows as a network reads them."""
    table = load_table(data)
    spec = table.spec([table.features[0].name], {}, scaled=scaled)  # who is protected does not change the encoding
    return table, spec.encode(table.frame)


def case_of(setting: Setting, folder: Path) -> Case:
    table, X = encoded(setting.data, setting.inputs == "scaled")
    parts = table.split(setting.draw)
    rows = {part: X[numbers] for part, numbers in parts.items()}
    y = {part: table.y[numbers] for part, numbers in parts.items()}
    network = trained_network(setting.network_file, setting.shape, rows["training"], y["training"], folder)
    spec = table.spec(setting.protected, dict(setting.tolerance), scaled=setting.inputs == "scaled")
    return Case(network, spec, rows, y)


def work(chunk: chunks.Chunk, tell: chunks.Tell) -> chunks.Result:
    """Repair one setting and return its figures."""
    setting, folder, retrained, paper_rows, labels = chunk.arguments
    if chunk.stopped:
        return {"error": f"stopped: {chunk.stopped[0][1]}"}
    tell(0, 0)
    case = case_of(setting, folder)
    try:
        with labels_used(labels):
            found = figures(case, paper_rows)
    except FairmendError as error:
        return {"error": str(error)}
    training, judging = ((case.X[part], case.y[part]) for part in ("training", "held out"))
    if setting.tolerance:
        found |= listed_figures(case.network, case.spec, case.X, case.y["calibration"], *judging)
    if retrained:
        name = setting.network_file
        found |= retrained_figures(name, case.network, setting.shape, case.spec, training, judging, folder)
    return found


def figures(case: Case, paper_rows: bool) -> Figures:
    pool = None if paper_rows else case.X["pool"]
    run = run_auto(case.network, case.spec, case.X["repair"], case.X["calibration"], case.y["calibration"], pool)
    X, y = case.X["held out"], case.y["held out"]
    return {
        **run.figures(X, y),
        "IDI-D before": idi(case.network, case.spec, X),
        "IDI-D": idi(run.result.network, case.spec, X),
    }


def idi(network: Network, spec: Spec, X: np.ndarray) -> float:
    """Return the percentage of these rows that are treated unequally."""
    compare = find_unequal if can_enumerate(spec) else sample_unequal
    return 100 * compare(network, spec, X[:IDI_ROWS]).rate


def over_draws(setting: Setting, draws: int, results: dict[str, chunks.Result]) -> chunks.Result:
    """Return the figures of a setting over its draws."""
    drawn = [results[replace(setting, draw=draw).name] for draw in range(draws)]
    failed = [r for r in drawn if "error" in r]
    return failed[0] if failed else over_runs(drawn)


def show(results: dict[Setting, chunks.Result], console: Console) -> None:
    grid = Grid(title="auto on held-out rows (points of percent; losses and regret: less is better)")
    for heading in ("setting", "accuracy", "lost", "balanced", "fall", "agrees", "IDI-D", "proven for", "check",
                    "regret", "recipe / best", "CPU s"):  # fmt: skip
        grid.add_column(heading, justify="left" if heading in ("setting", "recipe / best") else "right")
    for setting, r in results.items():
        if "error" in r:
            grid.add_row(setting.name, f"[red]{r['error']}")
            continue
        grid.add_row(
            setting.name,
            f"{r['accuracy']:.1f}",
            beside(r, "accuracy lost", "retrained lost"),
            f"{r['balanced']:.1f}",
            f"{beside(r, 'fall', 'retrained fall')}{' COLLAPSED' if r['collapsed'] else ''}",
            f"{r['agreement']:.1f}",
            f"{r['IDI-D before']:.2f} → {r['IDI-D']:.2f}",
            r["guarantee"],
            r["certificate"],
            f"{r['regret']:.2f}",
            r["recipe"] if r["recipe"] == r["best"] else f"{r['recipe']} / {r['best']}",
            f"{r['seconds']:.0f}",
        )
    console.print(grid)


def describe(kind: str, group: list[Figures], console: Console) -> None:
    counts = sum((r["levels"] for r in group), Counter[str]()).most_common()
    levels = ", ".join(f"{name}: {count}" for name, count in counts)
    lost, fall, agreement = (mean(group, key) for key in ("accuracy lost", "fall", "agreement"))
    console.print(
        f"{kind}, {len(group)} settings, means: accuracy lost {lost:.2f}, balanced accuracy lost {fall:.2f}, agreement "
        f"{agreement:.2f} %, IDI-D {mean(group, 'IDI-D before'):.2f} → {mean(group, 'IDI-D'):.2f} %, "
        f"{mean(group, 'seconds'):.1f} CPU s; proven, all draws, for {levels}"
    )


def describe_data_sets(good: dict[Setting, Figures], console: Console) -> None:
    """Print the losses of each data set, and beside them what the guarantees cost."""
    for tolerant in (False, True):
        for data in REAL:
            group = [r for setting, r in good.items() if setting.data == data and bool(setting.tolerance) == tolerant]
            if not group:
                continue
            means = ", ".join(
                f"{what} {mean(group, key):.2f}"
                for what, key in (
                    ("accuracy lost", "accuracy lost"),
                    ("balanced", "fall"),
                    ("trained anew", "retrained lost"),
                    ("listed at least", "listed lost"),
                    ("balanced", "listed fall"),
                    ("listed without hindsight", "listed known"),
                    ("rows that are not free", "listed rows"),
                )
                if all(key in r for r in group)
            )
            which = f"{data} {'with' if tolerant else 'without'} tolerances"
            console.print(f"{which}, {len(group)} settings, means: {means}")


def judge(results: dict[Setting, chunks.Result], console: Console) -> bool:
    """Print means and worst cases with their limits; return whether all are within them."""
    good = {setting: r for setting, r in results.items() if "error" not in r}
    lines: list[Limit] = [("settings without a result", len(results) - len(good), 0)]
    for kind in KINDS:
        group = [r for setting, r in good.items() if setting.kind == kind]
        if group:
            describe(kind, group, console)
    describe_data_sets(good, console)
    judged = {setting: r for setting, r in good.items() if r.get("listed lost", 0.0) <= MOST_LOSS_WITH_TOLERANCE}
    tolerant = [r for setting, r in good.items() if setting.tolerance]
    if len(judged) < len(good):
        console.print(
            f"mean accuracy lost with tolerance, all {len(tolerant)} settings: {mean(tolerant, 'accuracy lost'):.3f}. "
            f"A proof for the repair inputs alone costs at least {mean(tolerant, 'listed lost'):.3f} in the mean, and "
            f"more than {MOST_LOSS_WITH_TOLERANCE:g} in {len(good) - len(judged)} settings, which the limit leaves out"
        )
    strict = {setting: r for setting, r in judged.items() if not setting.tolerance}
    for which, limit, group in (
        ("with one protected feature", MOST_LOSS, [r for setting, r in strict.items() if setting.kind == "strict"]),
        ("with one or several, COMPAS's age excepted", MOST_LOSS, [r for s, r in strict.items() if not s.excepted]),
        ("with one or several", None, list(strict.values())),
        (
            "with the paper's tolerances",
            MOST_LOSS_WITH_TOLERANCE,
            [r for setting, r in good.items() if setting.has_tolerance_of_paper],
        ),
        ("with tolerance", MOST_LOSS_WITH_TOLERANCE, [r for setting, r in judged.items() if setting.tolerance]),
    ):
        if group:
            describe_retrained(which, group, console)
            what, lost = f"mean accuracy lost {which}, {len(group)} settings", mean(group, "accuracy lost")
            if limit is None:
                console.print(f"{what}: {lost:.3f}, without a limit")
            else:
                lines.append((what, lost, limit))
    if good:
        falls = {setting: r for setting, r in good.items() if not setting.excepted}
        worst = max(falls, key=lambda setting: falls[setting]["fall"])
        console.print(f"the largest fall is that of {worst.name}; in one draw {falls[worst]['largest fall']:.2f}")
        lines.append(("largest fall of balanced accuracy (COMPAS's age excepted)", falls[worst]["fall"], MOST_FALL))
        each = mean(list(good.values()), "regret of each run")
        console.print(f"mean regret against the best candidate of each draw: {each:.3f}")
        least = min(r["least balanced agreement"] for r in good.values())
        console.print(f"least agreement in one draw, balanced over the original's classes: {least:.1f} %")
        lines += common_limits(list(good.values()), MOST_REGRET, console)
    return within(lines, console)


def chosen_settings(options: argparse.Namespace) -> list[Setting]:
    every = real_settings() if options.data == "real" else synthetic_settings()
    wanted = [
        setting
        for setting in every
        if options.kind in (None, setting.kind) and all(part in setting.name for part in options.settings)
    ]
    if not wanted:
        sys.exit("no setting has this kind and these words in its name")
    order = np.random.default_rng(0).permutation(len(wanted))[: options.limit]
    return [wanted[place] for place in sorted(order)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("real", "synthetic"), default="real")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--settings", nargs="*", default=[], help="texts that a setting's name contains")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--draws", type=int, help="how often to draw the rows (default: until 3,000 judge a setting)")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "fairmend-generalise")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--retrained", action="store_true", help="also train networks without the features that vary")
    parser.add_argument("--paper-rows", action="store_true", help="give auto no rows without labels")
    parser.add_argument("--labels", choices=LABELS, help="learn labels in distillation always, or never")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    console = Console(width=max(Console().width, 200))
    draws = {setting: options.draws or draws_of(setting.data) for setting in chosen_settings(options)}
    wanted = [replace(setting, draw=draw) for setting, number in draws.items() for draw in range(number)]
    how = (options.retrained, options.paper_rows, options.labels)
    state = chunks.State(options.state, f"{chunks.digest_of(*CODE)} {how}")
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("settings", total=len(wanted))
        bar.advance(task, sum(setting.name in state.results for setting in wanted))
        chunks.run_chunks(
            work,
            [chunks.Chunk(setting.name, (setting, options.cache, *how)) for setting in wanted],
            state,
            workers=options.workers,
            limits=LIMITS_S,
            done=lambda _: bar.advance(task),
        )
    results = {setting: over_draws(setting, number, state.results) for setting, number in draws.items()}
    show(results, console)
    return 0 if judge(results, console) else 1


if __name__ == "__main__":
    sys.exit(main())
