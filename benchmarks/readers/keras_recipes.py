"""Attack the Keras readers: models of random training recipes, loaded by Keras with several backends.

    python benchmarks/readers/keras_recipes.py [--count 1000] [--seed 0] [--start 0] [--keep FOLDER]
        [--maker torch=PYTHON] [--backend torch=PYTHON] [--backend jax=PYTHON[,FOLDER]] ...

Each model is made by Keras (`keras_models`: nested, frozen in parts, adapted, fine-tuned, transplanted,
renamed, saved and loaded again) and saved as .h5 and as .keras. Each file is loaded by Keras with every backend, in
processes of their own: the interpreter is PYTHON, and Keras that in FOLDER, if it is given. What Keras computes for
random and corner rows must be within the bounds that the checker computes for float32 inference of the model that it
reads, and within those of fairmend's loader, which may both refuse the file. Prints how many files were read or refused
and why, and the largest error as a share of the bound. Exits with 1 if a row is outside; --start repeats a model,
--keep keeps its files.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import fairmend
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend_check.errors import CheckError
from fairmend_check.kernel.bounds import interval_layers
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.readers.read_model import read_model
from support.fuzzing.keras_runtime import KerasRuntime

TORCH = f"torch={sys.executable}"
MAKER = Path(__file__).with_name("keras_models.py")
ROWS, COMPILED_EVERY = 12, 10  # compiled functions take seconds with some backends
CODES = 4  # of an input of one column, which an Embedding looks up
CLOSING = 16 * 2.0**-24  # what a sigmoid or softmax of exact numbers may be off
OLD = (3, 6)  # earlier versions of Keras 3 ignore the weights of a Normalization in .h5 files, as its condition says
Enclosure = tuple[np.ndarray, np.ndarray]  # the least and the largest value of each output at each row


class Campaign:
    """The models that were tried so far, and what was found."""

    def __init__(self, maker: KerasRuntime, backends: dict[str, KerasRuntime], keep: Path | None) -> None:
        self.maker, self.backends, self.keep = maker, backends, keep
        self.made: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str, str]] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.runs: Counter[tuple[str, str, str]] = Counter()
        self.worst: dict[tuple[str, str, str], float] = {}
        self.violations: list[str] = []

    def attack(self, seed: int, number: int, folder: Path) -> None:
        """Make a model, and compare what every backend computes with what the readers say."""
        made = self.maker.ask({"seed": seed, "number": number, "folder": str(folder)})
        if "refused" in made:
            self.made[f"not made: {_short(made['refused'])}"] += 1
            return
        self.made["models"] += 1
        self.made.update(f"not saved: {_short(refusal)}" for refusal in made["refusals"])
        rng = np.random.default_rng([seed, number])
        X = draw_rows(made["inputs"], rng)
        np.save(folder / "rows.npy", X)
        for suffix in made["saved"]:
            path = folder / f"model{suffix}"
            enclosures = self.read(path, X)
            if not enclosures:
                continue
            for name, backend in self.backends.items():
                answer = backend.outputs(path, folder / "rows.npy", compiled=number % COMPILED_EVERY == 0)
                if "refused" in answer:
                    self.outcomes[suffix, name, f"refused by Keras: {_short(answer['refused'])}"] += 1
                    continue
                for reader, (condition, enclosure) in enclosures.items():
                    if "3.6 or later" in condition and OLD > version_of(backend) >= (3,):
                        self.outcomes[suffix, name, "excluded by the condition"] += 1
                        continue
                    self.compare(name, reader, suffix, np.array(answer["outputs"]), enclosure, (seed, number, folder))

    def read(self, path: Path, X: np.ndarray) -> dict[str, tuple[str, Enclosure]]:
        """Return the condition under which each reader says what the outputs are, and their enclosures."""
        found = {reader: self.enclosed(reader, enclose, path, X) for reader, enclose in READERS.items()}
        return {reader: enclosure for reader, enclosure in found.items() if enclosure is not None}

    def enclosed(
        self, reader: str, enclose: Callable[[Path, np.ndarray], tuple[str, Enclosure]], path: Path, X: np.ndarray
    ) -> tuple[str, Enclosure] | None:
        try:
            found = enclose(path, X)
        except (CheckError, fairmend.FairmendError) as error:
            self.outcomes[path.suffix, reader, "refused"] += 1
            self.refusals[f"{path.suffix}, {reader}", _short(str(error).split(": ", 1)[-1])] += 1
            return None
        self.outcomes[path.suffix, reader, "read"] += 1
        return found

    def compare(
        self,
        backend: str,
        reader: str,
        suffix: str,
        outputs: np.ndarray,
        enclosure: Enclosure,
        where: tuple[int, int, Path],
    ) -> None:
        low, high = enclosure
        key = backend, reader, suffix
        self.runs[key] += 1
        if outputs.ndim > low.ndim:  # what Keras 3.11 makes of some nested models of earlier versions
            self.outcomes[suffix, backend, "with more axes"] += 1
            outputs = outputs.reshape(outputs.shape[-2:]) if outputs.size == low.size else outputs
        if outputs.shape == low.shape:
            share = np.abs(outputs - (low + high) / 2) / np.maximum((high - low) / 2, 1e-300)
            worst = float(share[np.isfinite(high - low)].max(initial=0.0))
        else:
            worst = np.inf
        self.worst[key] = max(self.worst.get(key, 0.0), worst)
        if not worst <= 1:
            seed, number, folder = where
            self.violations.append(
                f"--seed {seed} --start {number} ({suffix}): {backend}, {worst:.3g} times {reader}'s"
            )
            if self.keep is not None:
                shutil.copytree(folder, self.keep / f"{seed}-{number}", dirs_exist_ok=True)

    def print(self, console: Console) -> None:
        """Print what was found."""
        console.print(", ".join(f"{count:,} {what}" for what, count in self.made.most_common()))
        table = Table("Keras", "reader", "format", "files compared", "largest share of the bound")
        for key, count in sorted(self.runs.items()):
            table.add_row(*key, f"{count:,}", f"{self.worst[key]:.3f}")
        console.print(table)
        for (suffix, who, what), count in sorted(self.outcomes.items()):
            console.print(escape(f"{suffix}, {who}: {count:,} {what}"))
        console.print("reasons of refusals:")
        for (who, why), count in self.refusals.most_common():
            console.print(escape(f"  {count:6,}  {who}: {why}"))
        for violation in self.violations:
            console.print(escape(f"OUTSIDE {violation} bound"), style="red")
        console.print(f"{len(self.violations)} files with rows outside the bound")


def draw_rows(inputs: list[int], rng: np.random.Generator) -> np.ndarray:
    """Return random rows and corners: zeros, equal values, large and small ones; codes for the second input."""
    width = inputs[0]
    corners = [np.zeros(width), np.ones(width), -np.ones(width), 1e3 * np.ones(width), 1e-6 * np.ones(width)]
    X = np.concatenate([rng.normal(scale=2, size=(ROWS, width)), np.eye(width), corners])
    if len(inputs) > 1:
        X = np.concatenate([X, rng.integers(CODES, size=(len(X), 1))], axis=1)
    return X.astype(np.float32)


def checked(path: Path, X: np.ndarray) -> tuple[str, Enclosure]:
    """Return what the checker says the outputs are, and under which condition."""
    model, wide = read_model(path)[0], X.astype(np.float64)
    forms = np.broadcast_to(np.eye(model.outputs), (len(X), model.outputs, model.outputs))
    intervals = interval_layers(model, wide, wide)
    error = output_errors(model, wide, wide, intervals, forms)
    low, high = intervals[-1]
    return model.condition, closed(low - error, high + error) if model.closed else (low - error, high + error)


def loaded(path: Path, X: np.ndarray) -> tuple[str, Enclosure]:
    """Return what fairmend's loader says; its logits are off by as much as those of Keras."""
    network = fairmend.load_network(path)
    logits = network.logits(X).astype(np.float64).reshape(len(X), -1)
    error = 2 * KernelBounds(network).output_error(X, X).reshape(logits.shape)
    condition = read_condition(path)
    ends = logits - error, logits + error
    return condition, closed(*ends) if network.closing != "none" else ends


def read_condition(path: Path) -> str:
    """Return the checker's condition for a file, if it reads it; the loader has none."""
    try:
        return read_model(path)[0].condition
    except CheckError:
        return ""


def closed(low: np.ndarray, high: np.ndarray) -> Enclosure:
    """Return the enclosures of the sigmoid of one output, or of the softmax of several."""
    with np.errstate(over="ignore"):
        if low.shape[1] == 1:
            return 1 / (1 + np.exp(-low)) - CLOSING, 1 / (1 + np.exp(-high)) + CLOSING
        others = ~np.eye(low.shape[1], dtype=bool)
        least = 1 / (1 + np.where(others, np.exp(high[:, None] - low[:, :, None]), 0).sum(axis=2))
        most = 1 / (1 + np.where(others, np.exp(low[:, None] - high[:, :, None]), 0).sum(axis=2))
    return least - CLOSING, most + CLOSING


READERS = {"checker": checked, "loader": loaded}


def version_of(runtime: KerasRuntime) -> tuple[int, ...]:
    return tuple(int(part) for part in runtime.version.split(".")[:2])


def _short(text: str) -> str:
    """Return the first words of a reason, without the names in it."""
    return re.sub(r"\d+", "N", re.sub(r"\"[^\"]*\"|'[^']*'", "…", text.splitlines()[0]))[:110]


def runtime(option: str, program: Path | None = None) -> KerasRuntime:
    """Return the runtime that an option names: BACKEND=PYTHON or BACKEND=PYTHON,FOLDER."""
    backend, _, where = option.partition("=")
    python, _, folder = where.partition(",")
    return KerasRuntime(python, backend, folder, **({} if program is None else {"program": program}))


def run(
    count: int, seed: int = 0, start: int = 0, maker: str = TORCH, backends: tuple[str, ...] = (TORCH,),
    keep: Path | None = None, console: Console | None = None,
) -> Campaign:  # fmt: skip
    """Attack the readers with some models, and return what was found."""
    runtimes = {option: runtime(option) for option in backends}
    campaign = Campaign(runtime(maker, MAKER), {}, keep)
    try:
        for backend in runtimes.values():
            backend.start()
        campaign.backends = {f"{name.partition('=')[0]} {each.version}": each for name, each in runtimes.items()}
        with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
            number = start
            while campaign.made["models"] < count:
                place = Path(folder, str(number))
                place.mkdir()
                campaign.attack(seed, number, place)
                shutil.rmtree(place)
                number += 1
                if console is not None and number % 100 == 0:
                    console.print(f"{campaign.made['models']:,} models, {len(campaign.violations)} outside")
    finally:
        for process in (campaign.maker, *runtimes.values()):
            process.close()
    return campaign


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--maker", default=TORCH)
    parser.add_argument("--backend", action="append", default=[])
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    console = Console()
    backends = tuple(options.backend) or (TORCH,)
    campaign = run(options.count, options.seed, options.start, options.maker, backends, options.keep, console)
    campaign.print(console)
    return 1 if campaign.violations else 0


if __name__ == "__main__":
    sys.exit(main())
