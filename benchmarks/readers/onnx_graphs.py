"""Attack the readers of ONNX files: random graphs from a grammar, in several versions of ONNX Runtime.

    python benchmarks/readers/onnx_graphs.py [--count 50000] [--seed 0] [--onnxruntime FOLDER ...] [--workers 1]
                                       [--state graphs.json]
    python benchmarks/readers/onnx_graphs.py --reproduce 1234 [--keep FOLDER]

Each graph (`onnx_grammar`) that the checker reads is run by each ONNX Runtime, optimised and not, in batches of
several sizes. Every output must lie within what the checker encloses: the network that it read, at this point, give or
take its bound of the inference error, and the same sigmoid, softmax or label. Where fairmend's loader reads the graph
too, both must have read the same weights and the same values; what it alone reads is compared with the runs as well.
FOLDER holds a version of ONNX Runtime:
`pip install --target FOLDER onnxruntime==1.18.0 "numpy<2"`; without one, the installed version is run.

Prints how many graphs were read, run and refused, and why; the largest error as a share of its bound; and what is
outside a bound, with the number to reproduce it. Exits with 1 if anything is. With --state a run can be resumed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

import fairmend
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.model import Model, weights_digest
from fairmend_check.readers.read_onnx import read_onnx

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import chunks
from benchmarks.readers.onnx_grammar import Case, draw_case, draw_rows
from benchmarks.readers.onnx_worker import Runtime

BATCHES = (1, 2, 9)
GRAPHS_IN_CHUNK = 500
LIMITS_S = {0: 120.0}
PARTS = ("benchmarks/readers/onnx_grammar.py", "benchmarks/readers/onnx_graphs.py")
CODE = ("src/fairmend_check", "src/fairmend/network", *PARTS)
_RUNTIMES: dict[tuple[str, ...], list[Runtime]] = {}


@dataclass
class Tally:
    """What was tried, and what was found."""

    counts: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def saw(self, runtime: str, share: float) -> None:
        self.worst[runtime] = max(self.worst.get(runtime, 0.0), share)


@dataclass(frozen=True)
class Enclosure:
    """What a model can give at rows (rows, outputs), before its closing function; not finite where it may overflow."""

    low: np.ndarray
    high: np.ndarray
    error: np.ndarray

    def part(self, rows: slice) -> Enclosure:
        return Enclosure(self.low[rows], self.high[rows], self.error[rows])


def enclose(model: Model, rows: np.ndarray) -> Enclosure:
    """Return the outputs of a model at rows, and the smaller of its bounds of their error."""
    wide = rows.astype(np.float64)
    intervals = interval_layers(model, wide, wide)
    forms = np.broadcast_to(np.eye(model.outputs), (len(wide), model.outputs, model.outputs))
    errors = [output_errors(model, wide, wide, intervals, forms, thorough=thorough) for thorough in (False, True)]
    return Enclosure(*intervals[-1], np.minimum(*errors))


def share_of(outputs: np.ndarray, known: Enclosure) -> float:
    """Return how far outputs are outside the exact ones, as a share of the bound; nan where an output is none."""
    beyond = np.maximum(np.maximum(known.low - outputs, outputs - known.high), 0)
    finite = np.isfinite(known.error) & np.isfinite(known.low) & np.isfinite(known.high)
    if np.isnan(outputs[finite]).any():
        return np.inf
    return float((beyond[finite] / np.maximum(known.error[finite], 1e-320)).max(initial=0.0))


def probabilities_fit(case: Case, outputs: np.ndarray, known: Enclosure) -> bool:
    """Return whether closed outputs lie between those of the ends of the logits, give or take rounding."""
    low, high = known.low - known.error, known.high + known.error
    sure = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    low, high, outputs = low[sure], high[sure], outputs[sure]
    if case.closing == "sigmoid":
        least, most = _sigmoid(low), _sigmoid(high)
    else:
        least, most = _log_softmax(low, high), _log_softmax(high, low)
        if "log" not in case.closing:
            least, most = np.exp(least), np.exp(most)
        if "second" in case.closing:
            least, most = least[:, 1:], most[:, 1:]
    off = 64 * float(np.finfo(case.dtype).eps) * (np.maximum(np.abs(least), np.abs(most)) + 1)
    least = np.where(least - off < -np.finfo(case.dtype).max, -np.inf, least - off)  # a logarithm may overflow
    return outputs.shape == least.shape and bool(((least <= outputs) & (outputs <= most + off)).all())


def _sigmoid(x: np.ndarray) -> Any:
    return 0.5 + 0.5 * np.tanh(x / 2)


def _log_softmax(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the log-probability of each class, with its own logit at one end and the others at the other."""
    found = np.empty_like(own)
    for column in range(own.shape[1]):
        rest = np.delete(others, column, axis=1) - own[:, [column]]
        found[:, column] = -np.logaddexp.reduce(np.hstack([np.zeros((len(own), 1)), rest]), axis=1)
    return found


def labels_fit(case: Case, labels: Any, known: Enclosure) -> bool:
    """Return whether each label is that of the class that is surely the largest."""
    low, high = known.low - known.error, known.high + known.error
    room = 64 * float(np.finfo(case.dtype).eps)
    for row, label in enumerate(labels):
        if low.shape[1] == 1:
            chosen = int(low[row, 0] > 0)
            sure = (low[row, 0] if chosen else -high[row, 0]) > 8 * room
        else:
            chosen = int(np.argmax(low[row]))
            ends = np.exp(_log_softmax(low[[row]], high[[row]])[0]), np.exp(_log_softmax(high[[row]], low[[row]])[0])
            sure = ends[0][chosen] - np.delete(ends[1], chosen).max() > room
        if sure and label != case.labels[chosen]:
            return False
    return True


class Attack:
    """Runs graphs everywhere and counts."""

    def __init__(self, runtimes: list[Runtime], folder: Path, tally: Tally) -> None:
        self.runtimes, self.path, self.tally = runtimes, folder / "graph.onnx", tally

    def graph(self, seed: int, number: int) -> None:
        """Try one graph."""
        case, counts = draw_case(seed, number), self.tally.counts
        content = case.model.SerializeToString()
        counts["graphs"] += 1
        try:
            model = read_onnx(content, self.path.parent)
        except CheckError as error:
            counts[f"refused by the checker: {_reason(error)}"] += 1
            loaded = self._loaded(content)
            if loaded is None:
                return
            counts["read by the loader only"] += 1
            model = kernel_model(loaded)  # what certify proves, whatever check says
            alone = True
        else:
            counts["read by the checker"] += 1
            alone = False
        if model.closed and case.closing == "none":  # its last function is a sigmoid
            case = replace(case, closing="sigmoid")
        rng = np.random.default_rng([seed, number, 31])
        batches = [case.rows] if case.rows else BATCHES
        rows = [draw_rows(case, rng, size) for size in batches]
        feeds = [case.feed(batch) for batch in rows]
        for runtime in self.runtimes:
            runtime.ask(content, feeds)
        whole = enclose(model, np.vstack(rows))
        ends = np.cumsum([0, *map(len, rows)])
        known = [whole.part(slice(*pair)) for pair in pairwise(ends)]
        if not np.isfinite(whole.error).any():
            counts["read, without a bound"] += 1
        where = f"--seed {seed} --reproduce {number}"
        for runtime in self.runtimes:
            for level, runs in runtime.answer().items():
                name = f"ONNX Runtime {runtime.version}, {'optimised' if 'ENABLE' in level else 'not optimised'}"
                if isinstance(runs, str):
                    counts[f"{name}: refused: {_reason(runs)}"] += 1
                    continue
                counts[f"{name}: graphs run"] += 1
                for outputs, each in zip(runs, known, strict=True):
                    wrong = self._compare(case, outputs, each, name)
                    if wrong:
                        self.tally.findings.append(f"{where}: {name}: {wrong}: {_kinds(case)}")
                        break
        if not alone:
            self._compare_loader(content, model, rows, known, where)

    def _compare(self, case: Case, outputs: list[Any], known: Enclosure, name: str) -> str:
        """Say what is wrong about the outputs of a batch; nothing if they are within the enclosure."""
        self.tally.counts[f"{name}: rows"] += len(known.low)
        scores = outputs[-1]
        if isinstance(scores, list):  # of maps
            scores = np.array([[row[label] for label in case.labels] for row in scores])
        scores = np.asarray(scores, np.float64)
        scores = scores[:, None] if scores.ndim == 1 else scores
        if case.labels and not labels_fit(case, outputs[0].tolist(), known):
            return "another label"
        if case.closing != "none":
            if case.closing == "sigmoid" and case.labels:
                sums = scores.sum(axis=1)[np.isfinite(known.error).all(axis=1)]
                if not np.allclose(sums, 1):
                    return "probabilities that do not add up"
                scores = scores[:, 1:]
            return "" if probabilities_fit(case, scores, known) else "other probabilities"
        if scores.shape != known.low.shape:
            return f"outputs of shape {scores.shape}"
        share = share_of(scores, known)
        self.tally.saw(name, share)
        return "" if share <= 1 else f"{share:.3g} times the bound"

    def _loaded(self, content: bytes) -> fairmend.Network | None:
        """Return what fairmend's loader reads; None if it refuses the graph."""
        self.path.write_bytes(content)
        try:
            return fairmend.load_network(self.path)
        except fairmend.FairmendError:
            return None

    def _compare_loader(
        self, content: bytes, model: Model, rows: list[np.ndarray], known: list[Enclosure], where: str
    ) -> None:
        """Compare what the loader reads with what the checker reads: the weights, and the values in float64."""
        self.path.write_bytes(content)
        counts = self.tally.counts
        try:
            network = fairmend.load_network(self.path)
        except fairmend.FairmendError as error:
            counts[f"read by the checker only: {_reason(error)}"] += 1
            return
        counts["read by both"] += 1
        same = len(model.nodes) == len(network.nodes)  # the loader leaves out columns and layers that are not needed
        counts["read by both, in a simpler form by the loader"] += not same
        if same and digest_of_network(network) != weights_digest(model):
            self.tally.findings.append(f"{where}: the two readers have other weights")
        for batch, each in zip(rows, known, strict=True):
            try:
                logits = np.asarray(network.logits(batch), np.float64).reshape(each.low.shape)
            except fairmend.FairmendError as error:
                counts[f"refused by the loader's network: {_reason(error)}"] += 1
                continue
            share = share_of(logits, each)
            self.tally.saw("fairmend", share)
            if not share <= 1:
                self.tally.findings.append(f"{where}: fairmend: {share:.3g} times the bound")
                return


def _reason(error: object) -> str:
    """Return the kind of an error: its text without names and numbers."""
    text = str(error).splitlines()[0] if str(error) else ""
    text = re.sub(r"^.*?graph\.onnx: ", "", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "…", text)
    return re.sub(r"[-+]?\d[\w.+-]*", "N", text)[:110]


def _kinds(case: Case) -> str:
    imports = {each.domain: each.version for each in case.model.opset_import}
    return f"{case.dtype.name}, opset {imports['']}, " + " ".join(node.op_type for node in case.model.graph.node)


def runtimes_in(folders: tuple[str, ...]) -> list[Runtime]:
    """Return a process for each folder, or one with the installed version; they live as long as this process."""
    if folders not in _RUNTIMES:
        _RUNTIMES[folders] = [Runtime(Path(folder)) for folder in folders] or [Runtime(None)]
    return _RUNTIMES[folders]


def run_chunk(chunk: chunks.Chunk, tell: chunks.Tell) -> chunks.Result:
    """Try the graphs of one chunk."""
    seed, start, stop, folders = chunk.arguments
    tally = Tally()
    tally.findings += [f"--reproduce {number}: the attack ended: {why}" for number, (_, why) in chunk.stopped.items()]
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        attack = Attack(runtimes_in(folders), Path(folder), tally)
        for number in range(start, stop):
            tell(number, 0)
            if number not in chunk.stopped:
                attack.graph(seed, number)
    return {"counts": dict(tally.counts), "worst": tally.worst, "findings": tally.findings}


def show(results: list[chunks.Result], console: Console) -> int:
    """Print the counts, the largest shares and the findings; return how many findings there are."""
    counts, worst, findings = Counter[str](), dict[str, float](), list[str]()
    for result in results:
        counts.update(result["counts"])
        findings += result["findings"]
        for name, share in result["worst"].items():
            worst[name] = max(worst.get(name, 0.0), share)
    rare = [what for what, count in counts.items() if ("refused" in what or "only:" in what) and count < 5]
    for what, count in sorted(counts.items()):
        if what not in rare:
            console.print(f"{count:11,d}  {what}", highlight=False, markup=False, soft_wrap=True)
    if rare:
        console.print(f"{sum(counts[what] for what in rare):11,d}  refused for {len(rare)} rarer reasons")
    for name, share in sorted(worst.items()):
        console.print(f"{share:11.3f}  largest share of a bound: {name}", highlight=False, soft_wrap=True)
    for text in findings:
        console.print(f"[bold red]OUTSIDE[/] {escape(text)}", soft_wrap=True)
    console.print(f"{len(findings)} graphs outside a bound")
    return len(findings)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50_000, help="graphs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--onnxruntime", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--state", type=Path, help="file that holds the results so far, to resume a run")
    parser.add_argument("--reproduce", type=int, metavar="NUMBER", help="try this one graph")
    parser.add_argument("--keep", type=Path, help="folder for the graph that is reproduced")
    options = parser.parse_args()
    console, folders = Console(), tuple(map(str, options.onnxruntime))
    if options.reproduce is not None:
        one = chunks.Chunk("one", (options.seed, options.reproduce, options.reproduce + 1, folders))
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            content = draw_case(options.seed, options.reproduce).model.SerializeToString()
            (options.keep / f"graph-{options.seed}-{options.reproduce}.onnx").write_bytes(content)
        return 1 if show([run_chunk(one, lambda item, phase: None)], console) else 0
    todo = []
    for start in range(0, options.count, GRAPHS_IN_CHUNK):
        stop = min(start + GRAPHS_IN_CHUNK, options.count)
        name = f"{options.seed} {start} {stop} {' '.join(folders)}"
        todo.append(chunks.Chunk(name, (options.seed, start, stop, folders)))
    return chunks.run_and_show(run_chunk, todo, show, options, CODE, LIMITS_S, console)


if __name__ == "__main__":
    sys.exit(main())
