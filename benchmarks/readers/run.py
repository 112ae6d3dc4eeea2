"""Fuzz the checker's readers against the runtimes of their formats.

    python benchmarks/readers/run.py [--format onnx --format pth | --format all] [--count 100000] [--seed 0]
        [--workers 2] [--state readers.json] [--keep findings]
    python benchmarks/readers/run.py --format onnx --reproduce 1234 --keep findings

Files of each format are changed, one to four times, in ways that know the format and in ways that know only bytes. The
checker reads each; it may refuse it. What it reads is loaded by the runtime of the format too (ONNX Runtime, PyTorch,
Keras, h5py, safetensors), which may refuse it, but must not read another network; in the formats "…-loader", fairmend's
own loader is in the place of the runtime, and in "pt2-program" in that of the checker, which reads no programs.
Findings are: another network, an exception that is not a refusal, a reader that takes more than 10 s or ends the
process. Exits with 1 if there is one.

With --state the run can be stopped and resumed. Results of an older version of the code do not count and are run again.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from benchmarks.common import chunks
from support.fuzzing import fuzz

FILES_IN_CHUNK = 500
LIMITS_S = {fuzz.READING: 10.0, fuzz.COMPARING: 120.0, fuzz.MAKING: 60.0}
MOST_MEMORY = 8 * 2**30
HEADINGS = ("tried", "refused", "read", "runtime refuses", "runtime fails", "same", "DIFFERENT", "other findings")
CODE = ("src/fairmend_check", "src/fairmend/network", "tests/support/fuzzing")


def fuzz_chunk(chunk: chunks.Chunk, tell: chunks.Tell) -> chunks.Result:
    """Try the files of one chunk, in a worker."""
    name, seed, start, stop, keep = chunk.arguments
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    reading = {"hang": fuzz.HANG, "crash": fuzz.CRASH}
    elsewhere = {fuzz.COMPARING: fuzz.RUNTIME_FAILED, fuzz.MAKING: fuzz.NOT_MADE}
    known = {number: elsewhere.get(phase, reading[reason]) for number, (phase, reason) in chunk.stopped.items()}
    tell(start, fuzz.COMPARING)  # the first file takes longer: libraries are imported
    form = fuzz.find_format(name)
    with tempfile.TemporaryDirectory() as folder:
        tally = fuzz.fuzz(form, seed, range(start, stop), Path(folder), known=known, keep=keep, tell=tell)
    return {"counts": dict(tally.counts), "findings": tally.findings}


def chunks_of(name: str, options: argparse.Namespace) -> list[chunks.Chunk]:
    return [
        chunks.Chunk(
            f"{name} {options.seed} {start} {min(start + FILES_IN_CHUNK, options.count)}",
            (name, options.seed, start, min(start + FILES_IN_CHUNK, options.count), options.keep),
        )
        for start in range(0, options.count, FILES_IN_CHUNK)
    ]


def show(names: list[str], options: argparse.Namespace, state: chunks.State, console: Console) -> int:
    """Print the table and the findings; return how many there are."""
    table = Table(title=f"mutated files, seed {options.seed}")
    table.add_column("format")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    findings = []
    for name in names:
        counts: Counter[str] = Counter()
        for chunk in chunks_of(name, options):
            result = state.results.get(chunk.name, {"counts": {}, "findings": []})
            counts.update(result["counts"])
            findings += [(name, *finding) for finding in result["findings"]]
        read = sum(counts[outcome] for outcome in (*fuzz.OUTCOMES[1:], fuzz.DIFFERENT, fuzz.NOT_COMPARED))
        others = sum(counts[kind] for kind in fuzz.FINDINGS if kind != fuzz.DIFFERENT)
        shown = (*fuzz.OUTCOMES[1:], fuzz.DIFFERENT)
        tried = counts.total() - counts[fuzz.NOT_MADE]
        numbers = (tried, counts[fuzz.REFUSED], read, *(counts[outcome] for outcome in shown), others)
        table.add_row(name, *(f"{number:,d}" for number in numbers))
    console.print(table)
    for name, number, kind, text in findings:
        console.print(f"[bold red]{kind}[/]: {name}, file {number}: {escape(ascii(text[:400]))}", soft_wrap=True)
    return len(findings)


def reproduce(name: str, options: argparse.Namespace, console: Console) -> int:
    """Make one file again, say what happens to it, and keep it."""
    form = fuzz.find_format(name)
    content = fuzz.make_file(form, form.seeds(), options.seed, options.reproduce)
    folder = options.keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{options.seed}-{options.reproduce}{form.suffix}"
    path.write_bytes(content)
    console.print(f"{path}: {len(content)} bytes")
    outcome, text = fuzz.try_file(form, content, path)
    console.print(f"{outcome}: {escape(ascii(text))}")
    return 1 if outcome in fuzz.FINDINGS else 0


def parse(available: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", action="append", choices=[*available, "all"], help="default: all")
    parser.add_argument("--count", type=int, default=100_000, help="files of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--state", type=Path, help="file that holds the results so far, to resume a run")
    parser.add_argument("--keep", type=Path, help="folder for files that are findings")
    parser.add_argument(
        "--reproduce", type=int, metavar="NUMBER", help="make this one file again, and say what happens"
    )
    return parser.parse_args()


def main() -> int:
    available = fuzz.available_formats()
    options = parse(available)
    names = available if options.format is None or "all" in options.format else options.format
    console = Console(width=max(Console().width, 120))
    if options.reproduce is not None:
        return max(reproduce(name, options, console) for name in names)
    state = chunks.State(options.state, chunks.digest_of(*CODE))
    stopped = False
    with Progress(*Progress.get_default_columns()[:-1], MofNCompleteColumn(), TimeRemainingColumn(),
                  console=Console(stderr=True)) as bars:  # fmt: skip
        todo = [chunk for name in names for chunk in chunks_of(name, options)]
        before = sum(chunk.name in state.results for chunk in todo)
        bar = bars.add_task(f"chunks of {FILES_IN_CHUNK} files", total=len(todo), completed=before)
        try:
            chunks.run_chunks(fuzz_chunk, todo, state, workers=options.workers, limits=LIMITS_S,
                              done=lambda _: bars.advance(bar))  # fmt: skip
        except KeyboardInterrupt:
            stopped = True
    found = show(names, options, state, console)
    console.print(f"{found} findings")
    return chunks.exit_code(found, stopped=stopped, resumable=options.state is not None, console=console)


if __name__ == "__main__":
    sys.exit(main())
