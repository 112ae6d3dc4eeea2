"""Attack what fairmend claims, with random networks, specs and inputs: everything that should agree is compared.

    python benchmarks/soundness/run.py [--count 10000] [--engines enumerate,branch,milp] [--workers 2]
        [--state sound.json] [--mutations 1000] [--marabou 200] [--scip 50] [--seed 0]
    python benchmarks/soundness/run.py --graphs [--count 20000] [--state graphs.json]
    python benchmarks/soundness/run.py --products [--count 20000] [--mutations 1600] [--state products.json]
    python benchmarks/soundness/run.py [--graphs] --chunk 17

A region is the neighbourhood of one input. For each, the verdict of every engine is compared with the classes of all
neighbours (or of many, and of all kinks on lines, if a feature is continuous), in exact arithmetic where rounding could
matter; a witness must be a neighbour of another class; no neighbour may lie outside the rigorous bounds; the audit and
the checker's neighbourhoods must agree. Engine milp runs on a tenth of the regions. Each network's certificate is
checked, and forged ones must be refused. Then come Marabou on boxes of ReLU networks, and heads that SCIP repairs too.
The oracle shares no code with the engines.

With --graphs the networks are graphs with every operation and every elementwise function, read from PyTorch modules,
Keras models, ONNX files and state dicts; specs have thresholds and links, too. What a certificate says of inference is
compared with NumPy, PyTorch, ONNX Runtime or Keras on the saved file, and a program with one accumulator for all sums.
Forged certificates are about another graph: a skip is gone, branches are swapped, rows of a table are moved, a function
is another one, the claim for everyone names a column that is read. One that is VALID must be true. With --products,
these graphs multiply, too: elementwise products, gates, attention, softmax, normalisation, powers, exp, log and waves.

Prints what was tried and every disagreement with its chunk; exits with 1 if there is one. With --state a run can be
stopped and resumed; results of other code or other engines do not count. --chunk repeats one chunk.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape

import fairmend
from fairmend import Verdict
from fairmend.auditing.neighbours import ExhaustiveScan, find_unequal
from fairmend.network import DEFAULT_THRESHOLD, Activation
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.kernel.bounds import form_bounds
from fairmend_check.kernel.neighbourhood import batches, neighbourhood
from fairmend_check.kernel.spec import read_spec

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import chunks
from benchmarks.soundness.arithmetic import classify, evaluate, exact_classes, has_curves, offset_of
from benchmarks.soundness.attacks import Certificates, compare_heads_with_scip, compare_with_marabou
from benchmarks.soundness.cases import Case, random_case
from benchmarks.soundness.forgeries import GraphCertificates
from benchmarks.soundness.frameworks import as_users_have_it
from benchmarks.soundness.graphs import LARGE_SKIP, random_graph_case
from benchmarks.soundness.oracle import Oracle
from benchmarks.soundness.orders import compare_orders
from benchmarks.soundness.tally import Tally

ENGINES = ("enumerate", "branch", "milp")
REGIONS_IN_CASE = 200
CASES_IN_CHUNK = 5
REGIONS_IN_CHUNK = REGIONS_IN_CASE * CASES_IN_CHUNK
MILP_SHARE = 10  # one region in ten
CASES_PER_REPAIR = 10
ITEMS_IN_CHUNK = 25  # of Marabou and SCIP
REGIONS_IN_GRAPH, GRAPHS_IN_CHUNK = 25, 10  # more graphs with fewer regions: there are many kinds
LEAST_OUTPUT = 1e-4
ORIGINS = [".onnx", ".pth", ".safetensors", "module", "module", "module", "module", "keras"]
TIME_LIMIT_S = {"branch": 5.0, "milp": 5.0}  # for the regions of one case
LIMITS_S = {0: 900.0}
CODE = ["src/fairmend_check", *(f"src/fairmend/{part}" for part in
        ("auditing", "bounds", "milp", "network", "prove", "repairing", "spec"))]  # fmt: skip
PARTS = ("run", "arithmetic", "attacks", "cases", "forgeries", "frameworks", "functions", "graphs", "links",
         "oracle", "orders", "tally")  # fmt: skip
CODE += [f"benchmarks/soundness/{part}.py" for part in PARTS]


def compare_verdicts(case: Case, oracle: Oracle, engines: list[str], rng: np.random.Generator, tally: Tally) -> None:
    answers = oracle.own_classes  # within rounding of a tie, inference depends on the batch
    decided: dict[str, tuple[Verdict, ...]] = {}
    for engine in engines:
        if (engine == "enumerate" and not oracle.finite) or (engine == "milp" and has_curves(case.network)):
            continue
        X = case.X[: len(case.X) // MILP_SHARE] if engine == "milp" else case.X
        result = fairmend.certify(case.network, case.spec, X, engine=engine, time_limit=TIME_LIMIT_S.get(engine))
        decided[engine] = tuple(result.verdicts)
        fair = np.array([row for row, verdict in enumerate(result.verdicts) if verdict is Verdict.FAIR], dtype=np.int64)
        tally.add("neighbours too close to a tie, not evaluated exactly", oracle.resolve(fair, rng))
        for row in fair:
            point = oracle.contradiction(row, int(answers[row]))
            if point is not None:
                tally.fail(f"{engine} says fair for input {row}, but neighbour {point.tolist()} has another class")
        if not oracle.finite and len(fair):
            for row, point in oracle.search(fair, answers, rng):
                tally.fail(f"{engine} says fair for input {row}, but neighbour {point.tolist()} has another class")
        for row, verdict in enumerate(result.verdicts):
            tally.add(f"{engine}: {verdict.value}")
            if verdict is Verdict.UNFAIR:
                check_witness(case, oracle, row, result.witnesses[row].other, engine, tally)
    compare_engines(decided, tally)


def compare_engines(decided: dict[str, tuple[Verdict, ...]], tally: Tally) -> None:
    """No two engines may say the opposite of each other."""
    for (one, of_one), (other, of_other) in combinations(decided.items(), 2):
        pairs = list(zip(of_one, of_other, strict=False))  # milp has fewer
        tally.add(f"verdicts of {one} and {other} compared", len(pairs))
        for row in (row for row, pair in enumerate(pairs) if set(pair) == {Verdict.FAIR, Verdict.UNFAIR}):
            tally.fail(f"input {row} is {pairs[row][0].value} for {one}, {pairs[row][1].value} for {other}")


def check_witness(case: Case, oracle: Oracle, row: int, other: np.ndarray, engine: str, tally: Tally) -> None:
    if not oracle.is_neighbour(row, other):
        tally.fail(f"{engine}: the witness of input {row}, {other.tolist()}, is not a neighbour")
    pair = np.stack([case.X[row], other]).astype(np.float64)
    classes, sure, _ = classify(*evaluate(case.network, pair))
    if not sure.all():
        classes = np.array(exact_classes(case.network, pair))
    if classes[0] == classes[1]:
        tally.fail(f"{engine} says unfair for input {row}, but the witness {other.tolist()} has the same class")


def compare_bounds(case: Case, oracle: Oracle, tally: Tally) -> None:
    regions = case.spec.regions(case.X, case.network.dtype)
    low, high = regions.lower.astype(np.float64), regions.upper.astype(np.float64)
    each = np.eye(case.network.outputs)
    forms = np.broadcast_to(np.concatenate([each, -each]), (len(low), 2 * len(each), len(each)))
    bounds, _ = form_bounds(kernel_model(case.network), forms, low, high)
    lower, upper = bounds[:, : len(each)], -bounds[:, len(each) :]
    starts = np.searchsorted(regions.owner, np.arange(regions.count))
    lower, upper = np.minimum.reduceat(lower, starts), np.maximum.reduceat(upper, starts)
    offset = offset_of(case.network.threshold)
    lower[:, -1], upper[:, -1] = lower[:, -1] - offset, upper[:, -1] - offset
    shape = (*oracle.points.shape[:2], -1)
    logits, error = oracle.logits.reshape(shape), oracle.error.reshape(shape)
    tally.add("neighbours compared with the bounds", logits.shape[0] * logits.shape[1])
    if ((logits + error < lower[:, None]) | (logits - error > upper[:, None])).any():
        tally.fail("a neighbour lies outside the bounds")


def compare_audit(case: Case, oracle: Oracle, tally: Tally) -> None:
    """Where inference cannot round to another class, the audit must find what the oracle knows."""
    clear = np.flatnonzero(oracle.by_inference.all(axis=1))
    truth = (oracle.classes != oracle.own_classes[:, None]).any(axis=1)
    found = {
        "find_unequal": find_unequal(case.network, case.spec, case.X).rows,
        "the exhaustive scan": ExhaustiveScan(case.network, case.spec).scan(case.X).unequal,
    }
    tally.add("regions audited", len(clear))
    for name, unequal in found.items():
        for row in clear[unequal[clear] != truth[clear]]:
            tally.fail(f"{name} says {bool(unequal[row])} for input {row}, all its neighbours say {bool(truth[row])}")


def compare_neighbourhoods(case: Case, oracle: Oracle, tally: Tally) -> None:
    spec = read_spec(case.spec.to_dict(), "spec")
    for row in range(0, len(case.X), len(case.X) // 4):
        around = neighbourhood(spec, case.X[row].astype(np.float64), case.network.dtype.name)
        theirs = np.unique(np.concatenate([points for _, points, _ in batches([(0, around, True)], 2**16)]), axis=0)
        tally.add("neighbourhoods of the checker")
        if not np.array_equal(theirs, np.unique(oracle.points[row], axis=0)):
            tally.fail(f"the checker has another neighbourhood of input {row}")


def attack_case(place: tuple[int, int, int], engines: list[str], folder: Path, tally: Tally) -> Certificates | None:
    """Attack one network: (seed, chunk, case) determines it. Return its certificate, to forge others from it."""
    rng = np.random.default_rng(place)
    case = random_case(rng, REGIONS_IN_CASE)
    oracle = compare_case(case, engines, rng, tally)
    certificates = Certificates(case, oracle, folder, rng, tally)
    repair = (place[1] * CASES_IN_CHUNK + place[2]) % CASES_PER_REPAIR == 0
    return certificates if certificates.write(repair=repair) else None


def compare_case(case: Case, engines: list[str], rng: np.random.Generator, tally: Tally) -> Oracle:
    """Compare everything that is said about the regions of a network with the oracle, which is returned."""
    oracle = Oracle(case, rng)
    tally.add("networks")
    tally.add("regions", len(case.X))
    compare_bounds(case, oracle, tally)
    if oracle.finite:
        compare_audit(case, oracle, tally)
        compare_neighbourhoods(case, oracle, tally)
    compare_verdicts(case, oracle, engines, rng, tally)
    return oracle


def attack_graph(
    place: tuple[int, int, int], engines: list[str], folder: Path, tally: Tally, *, products: bool = False
) -> Certificates | None:
    """Do the same with a graph, as its users have it."""
    rng = np.random.default_rng([*place, 28 if products else 12])
    drawn = random_graph_case(rng, REGIONS_IN_GRAPH, products=products)
    origin = str(rng.choice(ORIGINS))
    own = folder / str(place[2])
    own.mkdir()
    if np.abs(drawn.network.logits(drawn.X)).max() < LEAST_OUTPUT:
        origin = ".pth"  # load_network cannot tell whether a module gives such outputs
    if origin == "module" and any(np.abs(each.bias).max() >= LARGE_SKIP for each in drawn.network.affines):
        origin = ".pth"  # nor whether it does, where what it adds up in another order is rounded to other outputs
    read = as_users_have_it(drawn.network, origin, own)
    if read is None:
        tally.add(f"graphs that {origin} cannot hold, taken from .pth")
        read = as_users_have_it(drawn.network, ".pth", own)
    assert read is not None
    network, run = read
    tally.add(f"graphs from {origin}")
    kinds = {node.operation.kind for node in network.nodes if not isinstance(node.operation, Activation)}
    for kind in kinds:
        tally.add(f"graphs with {kind}")
    for name in {activation.name for activation in network.activations}:
        tally.add(f"graphs with the function {name}")
    tally.add("graphs with links", bool(drawn.spec.links))
    tally.add("graphs with a threshold", network.threshold != DEFAULT_THRESHOLD)
    case = Case(network, drawn.spec, drawn.X)
    oracle = compare_case(case, engines, rng, tally)
    compare_orders(case, tally)
    certificates = GraphCertificates(case, oracle, own, rng, tally, run)
    repair = (place[1] * GRAPHS_IN_CHUNK + place[2]) % CASES_PER_REPAIR == 0
    return certificates if certificates.write(repair=repair) else None


def run_chunk(chunk: chunks.Chunk, tell: chunks.Tell) -> chunks.Result:
    """Run one chunk, in a worker."""
    warnings.filterwarnings("ignore", message="Tensorflow parser")
    kind, seed, number, size, engines, forged = chunk.arguments
    tally = Tally()
    forge = 0  # certificates that are still to be forged
    last: Certificates | None = None
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for item in range(size):
            tally.place = f"{kind}, seed {seed}, chunk {number}, item {item}"
            if item in chunk.stopped:
                tally.fail(f"did not end ({chunk.stopped[item][1]})")
                continue
            tell(item, 0)
            try:
                if kind in ATTACKS:
                    last = ATTACKS[kind]((seed, number, item), engines, Path(folder), tally) or last
                    forge += forged * (item + 1) // size - forged * item // size
                    while forge and last is not None:
                        forge -= last.forge()
                else:
                    run: Callable[..., None] = {"marabou": compare_with_marabou, "scip": compare_heads_with_scip}[kind]
                    run(Path(folder), np.random.default_rng([seed, number, item, len(kind)]), tally)
            except Exception as error:  # nothing may escape from fairmend on valid input
                where = traceback.extract_tb(error.__traceback__)[-1]
                text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
                tally.fail(f"raised {text}")
    return {"tried": dict(tally.tried), "disagreements": tally.disagreements, "seconds": time.perf_counter() - started}


ATTACKS: dict[str, Callable[..., Certificates | None]] = {
    "regions": attack_case,
    "graphs": attack_graph,
    "products": partial(attack_graph, products=True),
}


def all_chunks(options: argparse.Namespace) -> list[chunks.Chunk]:
    """Return the chunks of a run; those of a longer run with the same seed begin with them."""
    engines = options.engines.split(",")
    kind, size, regions = "regions", CASES_IN_CHUNK, REGIONS_IN_CHUNK
    if options.graphs:
        kind = "products" if options.products else "graphs"
        size, regions = GRAPHS_IN_CHUNK, GRAPHS_IN_CHUNK * REGIONS_IN_GRAPH
    count = -(-options.count // regions)
    each = -(-options.mutations // count) if count else 0
    found = [
        chunks.Chunk(
            f"{kind} {options.seed} {number} {options.engines} {each}",
            (kind, options.seed, number, size, engines, each),
        )
        for number in range(count)
    ]
    for kind, total in () if options.graphs else (("marabou", options.marabou), ("scip", options.scip)):
        for number in range(-(-total // ITEMS_IN_CHUNK)):
            size = min(ITEMS_IN_CHUNK, total - number * ITEMS_IN_CHUNK)
            arguments = (kind, options.seed, number, size, [], 0)
            found.append(chunks.Chunk(f"{kind} {options.seed} {number} {size}", arguments))
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", action="store_true", help="networks that are graphs")
    parser.add_argument("--products", action="store_true", help="graphs that multiply: gates, attention, LayerNorm")
    parser.add_argument("--count", "--regions", type=int, help="regions, in chunks; default: 10,000, of graphs 20,000")
    parser.add_argument("--engines", default=",".join(ENGINES), help="of enumerate, branch and milp")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--state", type=Path, help="file that holds the results so far, to resume a run")
    parser.add_argument("--mutations", type=int, help="forged certificates; default: 1,000, or 1 per 200 regions")
    parser.add_argument("--marabou", type=int, default=200)
    parser.add_argument("--scip", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk", type=int, help="run only this chunk of regions, in this process")
    options = parser.parse_args()
    options.graphs = options.graphs or options.products
    if not set(options.engines.split(",")) <= set(ENGINES):
        parser.error(f"--engines: choose from {', '.join(ENGINES)}")
    if options.count is None:
        options.count = 20_000 if options.graphs else 10_000
    if options.mutations is None:
        options.mutations = max(1000, options.count // 200)
    return options


def show(results: list[chunks.Result], console: Console) -> int:
    """Print the counts and the disagreements; return how many there are."""
    tried: Counter[str] = Counter()
    for result in results:
        tried.update(result["tried"])
    disagreements = [text for result in results for text in result["disagreements"]]
    for what, number in sorted(tried.items()):
        console.print(f"{number:13,d}  {what}", highlight=False)
    for text in disagreements:
        console.print(f"[bold red]DISAGREEMENT[/]: {escape(text)}", soft_wrap=True)
    seconds = sum(result["seconds"] for result in results)
    console.print(f"{len(disagreements)} disagreements; {seconds / 3600:.2f} hours of one core")
    return len(disagreements)


def main() -> int:
    options = parse()
    console = Console()
    todo = all_chunks(options)
    if options.chunk is not None:
        return 1 if show([run_chunk(todo[options.chunk], lambda item, phase: None)], console) else 0
    return chunks.run_and_show(run_chunk, todo, show, options, CODE, LIMITS_S, console)


if __name__ == "__main__":
    sys.exit(main())
